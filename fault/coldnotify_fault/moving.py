"""A campaign whose installation moves to another prefix, with more partitions, while it runs: `coldnotify topics copy`.

The copy is killed at drawn moments, while it follows and while it switches. Clients and faults go on, and back-ends
call while the old topics are shut, too. What clients are told is judged by the new topics: all that was acknowledged
under the old prefix is in there.
"""

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from coldnotify_checker import read_histories
from coldnotify_checker.histories import Event, Killed, MissedTold, Published, Record, Send, Subscribe, Unsubscribe
from coldnotify_kafka import topic_plan, topics
from coldnotify_kafka.broker.process import spawn
from coldnotify_schemas.channels import EXPIRES_HEADER, ID_HEADER, TO_HEADER
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.proxy import Network
from coldnotify_testkit.waiting import wait_for

from coldnotify_fault.brokers import Brokers
from coldnotify_fault.campaign import CALM_S, Campaign, SeedOutcome, logged
from coldnotify_fault.logs_of_channels import RetentionFault, domains_of
from coldnotify_fault.publishers import Backends
from coldnotify_fault.schedule import RAW_DEVICES, CampaignSchedule, FaultKind, ScheduledStep, schedule
from coldnotify_fault.senders import Senders
from coldnotify_fault.services import PARTITIONS

OLD, NEW = TopicNames("moves-a."), TopicNames("moves-b.")
OLD_PARTITIONS = PARTITIONS - 1
KINDS = (
    FaultKind.DEVICE_KILLED,
    FaultKind.CLIENTS_CUT,
    FaultKind.CLIENTS_SILENT,
    FaultKind.GATEWAY_KILLED,
    FaultKind.GATEWAY_PAUSED,
    FaultKind.MATCHER_KILLED,
    FaultKind.MATCHER_PAUSED,
)
_SWITCH_S = 180.0
_SAID_S = 60.0
_KILLED_S = 2.0
_BESIDE_S = 60.0
"""Calls are drawn for so long a switch; what is left of them at its end is not made."""
_NUMBERED = ("publish", "describe", "send")
_CALLS = (*_NUMBERED, "send_by_client")
_LEFT_OUT = ("lose_log", "trim", "film")
"""Steps that take messages away, or know the partitions."""


def plan(
    seed: int,
    seconds: float,
    *,
    fault_every_s: float = 3.0,
    publishes_per_s: float = 12.0,
    raw_devices: int = RAW_DEVICES,
) -> CampaignSchedule:
    """Returns a schedule of `seconds`, without faults of Kafka's, and of a switch in their middle, beside which there
    are calls alone. The rates are `schedule`'s.
    """
    # MQTT devices and workers are told offsets: the checker would mix the old topics' with those behind the switch.
    left_out: dict[str, Any] = {"mqtt_devices": 0, "workers": False}
    drawn = schedule(seed, seconds, kinds=KINDS, fault_every_s=fault_every_s, raw_devices=raw_devices, **left_out)
    calls = schedule(seed, seconds + _BESIDE_S, kinds=(), publishes_per_s=publishes_per_s, workers=False)
    begin_s, end_s = seconds / 2, seconds / 2 + _BESIDE_S
    others = [one for one in drawn.steps if one.what not in (*_CALLS, *_LEFT_OUT)]
    steps = [one if one.at_s < begin_s else replace(one, at_s=one.at_s + _BESIDE_S) for one in others]
    for one in calls.steps:
        # Raw senders know the new number of partitions.
        too_early = one.at_s < end_s and one.what == "send" and one.target == "raw-1"
        if one.what in _CALLS and not too_early:
            steps.append(one)
    return replace(drawn, seconds=calls.seconds, steps=tuple(sorted(steps, key=lambda one: one.at_s)))


def run(plan: CampaignSchedule, directory: Path, stop: threading.Event) -> tuple[SeedOutcome, float]:
    """Runs it, with all files in `directory`; returns its outcome, and the longest pause of publishes in seconds.

    Raises NotStarted, OSError, AssertionError for an acknowledged message that was not copied, and a loss told twice.
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
        outcome = campaign.finish(CALM_S)
        events = list(read_histories(directory.glob("*.jsonl")))
        assert_told_once(events, campaign.moved[0])
        return outcome, assert_copied(events, campaign.moved)


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
        steps = [_numbered(one, number) for number, one in enumerate(self._schedule.steps)]
        begin_s = (self._schedule.seconds - _BESIDE_S) / 2
        end_s = begin_s + _BESIDE_S
        follower = _Follower(self._argv("--follow"), self._directory / "follow.log")
        self._play(one for one in steps if one.at_s < begin_s)
        follower.stop()
        begun_s = time.time()
        switch = _Switch(self._argv("--switch"), self._directory / "switch.log")
        self._play((_later(one, begin_s) for one in steps if begin_s <= one.at_s < end_s), switch.is_over)
        switch.wait()
        self._move(begun_s)
        self._play(_later(one, end_s) for one in steps if one.at_s >= end_s)

    def _argv(self, what: str) -> list[str]:
        argv = [sys.executable, "-m", "coldnotify_cli.main", "topics", "copy", f"--kafka={self._services.kafka}"]
        prefixes = [f"--topics-prefix={OLD.prefix}", f"--to-prefix={NEW.prefix}"]
        return [*argv, *prefixes, f"--partitions={PARTITIONS}", what]

    def _move(self, begun_s: float) -> None:
        services, history = self._services, self._history
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
        # Those of MQTT devices have no id, and are owed to nobody there.
        records = (
            one
            for one in self._read()
            if isinstance(one, Record) and one.topic in NEW.channels and one.headers.get(ID_HEADER)
        )
        for number, one in enumerate(sorted(records, key=lambda record: (record.partition, record.offset))):
            said = one.headers
            self._history.write(
                "send",
                publisher="copy",
                id=number,
                channel=one.key,
                message=said[ID_HEADER],
                payload=one.value,
                to=said[TO_HEADER].split(",") if said.get(TO_HEADER) else [],
                expires_at=int(said[EXPIRES_HEADER]) if said.get(EXPIRES_HEADER) else None,
            )
            self._history.write("published", publisher="copy", id=number, outcome="acknowledged", offset=one.offset)


def _numbered(step: ScheduledStep, number: int) -> ScheduledStep:
    """The same step with a number of its own: back-ends after the move count their calls from one."""
    return replace(step, arguments={**step.arguments, "id": number}) if step.what in _NUMBERED else step


def _later(step: ScheduledStep, begin_s: float) -> ScheduledStep:
    """The same step, timed from then on."""
    return replace(step, at_s=step.at_s - begin_s)


class _Switch:
    """The last of the copies, killed twice at drawn moments, in a thread."""

    def __init__(self, argv: list[str], log: Path) -> None:
        self._argv, self._log = argv, log
        self._status: int | None = None
        self._thread = threading.Thread(target=self._run, name="switch", daemon=True)
        self._thread.start()

    def is_over(self) -> bool:
        """Returns true once it has ended."""
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Returns once it has ended. Raises AssertionError if the old topics are not complete under the new prefix."""
        self._thread.join(_SWITCH_S)
        assert self._status == 0, f"the switch ended with {self._status}: {self._log.read_text()}"

    def _run(self) -> None:
        for words in ("", "take no records any more"):
            _kill_behind(self._argv, self._log, words)
        self._status = spawn(self._argv, self._log).wait(_SWITCH_S)


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
            _kill_behind(self._argv, self._log, "copied")


def _kill_behind(argv: list[str], log: Path, words: str) -> None:
    """Starts it, and kills it at a drawn moment: behind its start, or behind such words of its own, if they come."""
    process = spawn(argv, log)
    begun = log.stat().st_size

    def said() -> bool:
        return words in log.read_text()[begun:] or process.poll() is not None

    with suppress(AssertionError):
        wait_for(said, words, _SAID_S)
    with suppress(subprocess.TimeoutExpired):
        process.wait(random.uniform(0, _KILLED_S))
    process.kill()
    process.wait()


def assert_told_once(events: list[Event], moved_s: float) -> None:
    """Asserts that the move is one loss to each subscription, unless a power loss took what was told."""
    told: Counter[tuple[str, str]] = Counter()
    for event in events:
        if event.t < moved_s * 1e6:
            continue
        if isinstance(event, Killed):
            told = Counter({key: times for key, times in told.items() if key[0] != event.client})
        elif isinstance(event, Subscribe | Unsubscribe):
            del told[event.client, event.channel]
        elif isinstance(event, MissedTold) and event.reason == "lost":
            told[event.client, event.channel] += 1
            assert told[event.client, event.channel] == 1, f"told of one loss twice: {event}"


def assert_copied(events: list[Event], moved: tuple[float, float]) -> float:
    """Asserts that each acknowledged message is in the new topics; returns the longest pause.

    The pause is the longest time around the move without an acknowledged publish, in seconds.
    """
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
