"""A campaign whose installation moves to another prefix, with more partitions, while it runs: `coldnotify topics copy`.

The copy is killed at drawn moments, while it follows and while it switches. Clients, back-ends and faults go on. What
clients are told afterwards is judged by the new topics: all that was acknowledged under the old prefix is in there.
"""

import random
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

from coldnotify_checker.histories import Published, Record, Send, read_histories
from coldnotify_kafka import topic_plan, topics
from coldnotify_kafka.broker.process import spawn
from coldnotify_schemas.channels import EXPIRES_HEADER, ID_HEADER, TO_HEADER
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.proxy import Network

from coldnotify_fault.brokers import Brokers
from coldnotify_fault.campaign import Campaign, SeedOutcome, logged
from coldnotify_fault.logs_of_channels import RetentionFault, domains_of
from coldnotify_fault.publishers import Backends
from coldnotify_fault.schedule import CampaignSchedule, FaultKind, ScheduledStep, schedule
from coldnotify_fault.senders import Senders
from coldnotify_fault.services import PARTITIONS

OLD, NEW = TopicNames("moves-a."), TopicNames("moves-b.")
OLD_PARTITIONS = PARTITIONS - 1
KINDS = (FaultKind.DEVICE_KILLED, FaultKind.CLIENTS_CUT, FaultKind.GATEWAY_KILLED, FaultKind.MATCHER_KILLED)
_SWITCH_S = 90.0
_SECOND_HALF = 1_000_000
_CALLS = ("publish", "describe", "send")
_LEFT_OUT = ("lose_log", "trim", "film")
"""Steps that take messages away, or know the partitions."""


def plan(seed: int, seconds: float) -> CampaignSchedule:
    """Returns a schedule without faults of Kafka's, and without raw senders, who know the number of partitions."""
    drawn = schedule(seed, seconds, kinds=KINDS)
    steps = [one for one in drawn.steps if one.what not in _LEFT_OUT and one.target != "raw-1"]
    return replace(drawn, steps=tuple(steps))


def run(plan: CampaignSchedule, directory: Path, stop: threading.Event) -> tuple[SeedOutcome, float]:
    """Runs it, with all files in `directory`; returns its outcome, and the longest pause of publishes in seconds.

    Raises NotStarted, OSError, AssertionError for an acknowledged message that was not copied.
    """
    directory.mkdir(parents=True)
    with ExitStack() as stack:
        stack.enter_context(logged(directory / "publishers.log"))
        network = stack.enter_context(Network())
        brokers = Brokers(directory / "kafka", 1, network)
        stack.callback(brokers.stop)
        campaign = MovingCampaign(plan, directory, stack, stop, network, brokers, OLD, own_brokers=False)
        campaign.start()
        campaign.do_steps()
        campaign.heal_all()
        outcome = campaign.finish(120.0)
        return outcome, assert_copied(directory, campaign.moved)


class MovingCampaign(Campaign):
    """See the module."""

    moved = (0.0, 0.0)
    """When the old topics were shut, and when all services were ready again, Unix time in s."""

    def start(self) -> None:
        """See Campaign."""
        brokers = self._services.brokers
        for broker in brokers.parts.values():
            broker.start()
        for name, broker in brokers.parts.items():
            self._wait(broker.ready, name)
        topic_plan.apply(self._services.admin(), topics.load(OLD_PARTITIONS, names=OLD))
        super().start()

    def do_steps(self) -> None:
        """See Campaign. In the middle all moves."""
        plan, half_s = self._schedule, self._schedule.seconds / 2
        first = [one for one in plan.steps if one.at_s < half_s]
        last = [_later(one, half_s, number) for number, one in enumerate(plan.steps) if one.at_s >= half_s]
        follower = _Follower(self._argv("--follow"), self._directory / "follow.log")
        self._schedule = replace(plan, steps=tuple(first))
        super().do_steps()
        follower.stop()
        self._move()
        self._schedule = replace(plan, steps=tuple(last))
        super().do_steps()
        self._schedule = plan

    def _argv(self, what: str) -> list[str]:
        argv = [sys.executable, "-m", "coldnotify_cli.main", "topics", "copy", f"--kafka={self._services.kafka}"]
        prefixes = [f"--topics-prefix={OLD.prefix}", f"--to-prefix={NEW.prefix}"]
        return [*argv, *prefixes, f"--partitions={PARTITIONS}", what]

    def _move(self) -> None:
        services, history = self._services, self._history
        begun_s = time.time()
        for _ in range(2):
            switching = spawn(self._argv("--switch"), self._directory / "switch.log")
            time.sleep(random.uniform(0.3, 3))
            switching.kill()
            switching.wait()
        done = subprocess.run(self._argv("--switch"), capture_output=True, text=True, timeout=_SWITCH_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        self._down.update(services.names())
        for closed in (self._backends, self._senders):
            self._wait(closed.idle, "the publishers")
            closed.close()
        self._retention.close()
        services.move_to(NEW)
        self._topics = NEW
        self._backends = Backends(services.kafka, NEW, services.http_url, history)
        self._senders = Senders(services.kafka, NEW, services.http_url, history)
        self._retention = RetentionFault(services.admin, NEW, history)
        for begun in (self._backends, self._senders, self._retention):
            self._on_end.callback(begun.close)
        for topic in filter(partial(domains_of, NEW), NEW.channels):
            # Whoever sends again has it in the new log: clients do, of what they sent while nothing was taken.
            history.write("topic_lost", topic=topic, begun=round(begun_s * 1e6), domains=domains_of(NEW, topic))
        self._note_copies()
        for name in services.names():
            services.parts[name].start()
        for name in services.names():
            self._wait(services.parts[name].ready, name)
        self._down.clear()
        self.moved = begun_s, time.time()

    def _note_copies(self) -> None:
        """Write that the new logs were sent what is in them: clients are owed all of it."""
        records = (one for one in self._read() if isinstance(one, Record) and one.topic in NEW.channels)
        for number, one in enumerate(sorted(records, key=lambda record: (record.partition, record.offset))):
            said = one.headers
            self._history.write(
                "send",
                publisher="copy",
                id=number,
                channel=one.key,
                message=said.get(ID_HEADER),
                payload=one.value,
                to=said[TO_HEADER].split(",") if said.get(TO_HEADER) else [],
                expires_at=int(said[EXPIRES_HEADER]) if said.get(EXPIRES_HEADER) else None,
            )
            self._history.write("published", publisher="copy", id=number, outcome="acknowledged", offset=one.offset)


def _later(step: ScheduledStep, half_s: float, number: int) -> ScheduledStep:
    """The same step, so long after the move: back-ends begin to count their calls again."""
    own = {"id": _SECOND_HALF + number} if step.what in _CALLS else {}
    return replace(step, at_s=step.at_s - half_s, arguments={**step.arguments, **own})


class _Follower:
    """A copy that follows, killed and begun again at drawn moments."""

    def __init__(self, argv: list[str], log: Path) -> None:
        self._argv, self._log = argv, log
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            process = spawn(self._argv, self._log)
            self._stopping.wait(random.uniform(1, 6))
            process.kill()
            process.wait()


def assert_copied(directory: Path, moved: tuple[float, float]) -> float:
    """Asserts that each acknowledged message is in the new topics; returns the longest pause.

    The pause is the longest time around the move without an acknowledged publish, in seconds.
    """
    events = list(read_histories(directory.glob("*.jsonl")))
    sent = {(one.publisher, one.id): one.message for one in events if isinstance(one, Send) and one.publisher != "copy"}
    acknowledged = set()
    times = [moved[0]]
    for one in events:
        if isinstance(one, Published) and one.outcome == "acknowledged" and one.publisher != "copy":
            times.append(one.t / 1e6)
            if message := sent.get((one.publisher, one.id)):
                acknowledged.add(message)
    channels = (one for one in events if isinstance(one, Record) and one.topic in NEW.channels)
    stored = {one.headers.get(ID_HEADER) for one in channels}
    lost = [message for message in acknowledged if message not in stored]
    assert not lost, f"acknowledged, and not in the new topics: {lost[:5]}"
    within = sorted(at for at in times if moved[0] <= at <= moved[1] + 30)
    return max((after - before for before, after in pairwise(within)), default=0.0)
