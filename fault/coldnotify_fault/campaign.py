"""One seed's campaign: starts everything, follows the schedule, heals, waits for the newest, has it judged."""

import logging
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from coldnotify_checker import JudgeVerdict, judge, read_histories
from coldnotify_checker.histories import Event, HistoryError, HistoryWriter, now_us
from coldnotify_checker.queries import read_query
from coldnotify_checker.topic_contents import DumpedTopics, merge
from coldnotify_cli import topics_dump
from coldnotify_kafka.errors import TopicsError
from coldnotify_schemas.topics import DEFAULT_PREFIX, TopicNames
from coldnotify_testkit.proxy import Network
from confluent_kafka import KafkaException

from coldnotify_fault import mqtt_rest, usage_faults
from coldnotify_fault.brokers import Brokers
from coldnotify_fault.counting_writers import CountingWriters, lost_updates
from coldnotify_fault.devices import Devices
from coldnotify_fault.flooding import FLOODS, TENANTS, Flood, agree
from coldnotify_fault.history import HistoryFile
from coldnotify_fault.hostile_faults import Hostiles
from coldnotify_fault.ledger_looks import LedgerLooker
from coldnotify_fault.linked_steps import CLIENT, SHELVES
from coldnotify_fault.logs_of_channels import LostLog, RetentionFault, domains_of, lacking
from coldnotify_fault.matcher_counts import MatcherCounts
from coldnotify_fault.mqtt_hosts import MqttHosts
from coldnotify_fault.publishers import Backends
from coldnotify_fault.schedule import (
    BROKER_FAULTS,
    COUNTED,
    DOMAINS,
    GROUPS,
    LAMPS,
    NEED_KAFKA,
    TAKE_KAFKA,
    CampaignSchedule,
    FaultKind,
    ScheduledStep,
    version_arguments,
)
from coldnotify_fault.schedule import OBJECTS as OBJECT_NAMES
from coldnotify_fault.senders import Senders, topic_of
from coldnotify_fault.services import Services
from coldnotify_fault.told import ToldFiles
from coldnotify_fault.wire import ConnectionTraffic
from coldnotify_fault.worker_hosts import WorkerHosts, undone

_READY_S = 120.0
"""For a start on a machine that others keep busy."""
CALM_S = 120.0
"""Limit until all know the newest versions, without faults; seconds are usual."""
_LOOK_S = 0.05
_LOOK_FOR_THE_END_S = 1.0
_LOOK_FOR_BROKER_S = 1.0
_READ_S = 60.0
_KAFKA_ERRORS = (KafkaException, TopicsError, topics_dump.DumpError, TimeoutError, FutureTimeoutError)


class NotStarted(Exception):
    """Before the first fault something did not get ready: the campaign cannot be run here."""


@dataclass(slots=True)
class SeedOutcome:
    """The result of one seed."""

    seed: int
    brokers: int
    faults: dict[str, int]
    verdict: JudgeVerdict
    calm_s: float | None
    """Seconds from the last healing until everybody knew everything; None: not in time."""
    missing: list[str] = field(default_factory=list)
    """Whatever was still missing then."""
    trouble: list[str] = field(default_factory=list)
    """Processes that ended although nobody killed them."""
    counts: Counter[str] = field(default_factory=Counter)
    """Counts of the matchers, by the names in matcher_counts.COUNTED."""
    hostile: str = ""
    """The result of hostile batches, in words."""
    prefix: str = DEFAULT_PREFIX
    """The prefix of the installation's topics."""

    @property
    def clean(self) -> bool:
        """True if nothing is wrong."""
        return self.verdict.clean and self.calm_s is not None and not self.trouble


def run(schedule: CampaignSchedule, directory: Path, stop: threading.Event, *, calm_s: float = CALM_S) -> SeedOutcome:
    """Runs a schedule, with all files in `directory`, which must not exist yet. `stop` ends it early.

    Raises NotStarted, OSError, and InterruptedError if it was stopped.
    """
    directory.mkdir(parents=True)
    with ExitStack() as stack:
        stack.enter_context(logged(directory / "publishers.log"))
        network = stack.enter_context(Network())
        brokers = Brokers(directory / "kafka", schedule.brokers, network)
        campaign = Campaign(schedule, directory, stack, stop, network, brokers)
        campaign.start()
        campaign.do_steps()
        campaign.heal_all()
        return campaign.finish(calm_s)


@contextmanager
def logged(path: Path) -> Iterator[None]:
    """Writes publishers' log lines of this process, about a Kafka that is away, to a file."""
    logger = logging.getLogger("coldnotify")
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s"))
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


class Campaign:
    """One installation under a schedule. Of several in one Kafka, the first owns the brokers and all their faults."""

    def __init__(
        self,
        schedule: CampaignSchedule,
        directory: Path,
        stack: ExitStack,
        stop: threading.Event,
        network: Network,
        brokers: Brokers,
        names: TopicNames | None = None,
        *,
        own_brokers: bool = True,
    ) -> None:
        """Nothing is started yet. `stack` ends everything. Raises OSError."""
        self._schedule = schedule
        self._topics = names = names or TopicNames()
        self._directory = directory
        self._stop = stop
        self._history = HistoryFile(directory / "run.jsonl")
        wire_history = HistoryFile(directory / "wire.jsonl")
        stack.callback(self._history.close)
        stack.callback(wire_history.close)

        def wire() -> ConnectionTraffic:
            def seen(client: str, name: str, version: int | None, incarnation: int) -> None:
                wire_history.write("wire", client=client, object=name, version=version, incarnation=incarnation)

            return ConnectionTraffic((*OBJECT_NAMES, *COUNTED, *LAMPS, *SHELVES), seen)

        self._services = Services(directory, network, wire, brokers, names, own_brokers=own_brokers)
        stack.callback(self._services.stop)
        self._devices = Devices(directory, schedule, self._services.gateway_addresses, self._history)
        stack.callback(self._devices.stop)
        self._mqtt = MqttHosts(directory, schedule.mqtt_devices, self._services.mqtt_addresses)
        stack.callback(self._mqtt.stop)
        self._workers = WorkerHosts(directory, schedule.workers, network, self._services.gateway_addresses)
        stack.callback(self._workers.stop)
        self._backends = Backends(self._services.kafka, names, self._services.http_url, self._history)
        stack.callback(self._backends.close)
        self._senders = Senders(self._services.kafka, names, self._services.http_url, self._history)
        stack.callback(self._senders.close)
        named = [f"{domain}/{group}/{name}" for domain in DOMAINS for group in GROUPS for name in OBJECT_NAMES]
        self._ledger = LedgerLooker(self._services.http_url, named, self._history, schedule.seed)
        stack.callback(self._ledger.stop)
        self._retention = RetentionFault(self._services.admin, names, self._history)
        stack.callback(self._retention.close)
        self._counts = MatcherCounts(self._services.matcher_ports)
        stack.callback(self._counts.close)
        self._done: Counter[str] = Counter()
        self._down: set[str] = set()
        """Parts that a fault holds down: they are not watched."""
        self._waiting: dict[str, str] = {}
        """Parts that were started again and are not ready yet, with the fault's kind."""
        self._broker_look_s = 0.0
        self._topics_missing = False
        sent = Counter(step.arguments["message"] for step in schedule.steps if step.what in ("send", "send_by_client"))
        self._repeated = {message for message, times in sent.items() if times > 1}
        self._logs_to_lose: list[str] = []
        """Topics of channels to recreate once Kafka is whole."""
        self._cut_off: dict[str, int] = {}
        """Since when nodes of Kafka are, of several, whose partitions others may lead meanwhile."""
        self._lost_logs: list[LostLog] = []
        """Those that are not recreated yet."""
        self._published: dict[str, tuple[int, int]] = {}
        """The newest version that a back-end was told to publish, by object."""
        self._trouble: list[str] = []
        self._flood: Flood | None = None
        self._writers: CountingWriters | None = None
        self._hostiles: Hostiles | None = None
        self._on_end = stack

    # -- the run -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Everything. Raises NotStarted."""
        services = self._services
        for broker in services.brokers.parts.values() if services.own_brokers else ():
            broker.start()
        for name, broker in services.brokers.parts.items():
            self._wait(broker.ready, name)
        services.apply_topics()
        agree(services.kafka, self._topics.prefix, self._history)
        for name in services.names():
            if name not in services.brokers.parts:
                services.parts[name].start()
        for name in services.names():
            self._wait(services.parts[name].ready, name)
        self._devices.start_all()
        self._mqtt.start_all()
        self._workers.start_all()
        if services.own_brokers:
            # A copy to other topics leaves out what has a condition: an id begins there from nothing.
            self._writers = CountingWriters(services.http_url, self._history, self._schedule.seed)
            self._on_end.callback(self._writers.stop)
        self._flood = Flood(services.http_url, self._history)
        self._on_end.callback(self._flood.stop)
        self._hostiles = Hostiles(
            services.kafka,
            self._topics,
            self._schedule.seed,
            partitions=services.partitions(),
            requests_topic_id=services.topic_id(self._topics.requests) or "",
            spared_domains=(*DOMAINS, FLOODS),
            spared_tenants=tuple(TENANTS),
        )
        self._on_end.callback(self._hostiles.close)

    def do_steps(self) -> None:
        """Does the schedule's steps, at their times."""
        self._play(self._schedule.steps)

    def _play(self, steps: Iterable[ScheduledStep], is_over: Callable[[], bool] = lambda: False) -> None:
        """Does the steps, each so long after now; those that are left when it is over are not done."""
        begin_s = time.monotonic()
        for step in steps:
            while (left_s := begin_s + step.at_s - time.monotonic()) > 0:
                if is_over():
                    return
                self._look_after()
                self._pause(min(left_s, _LOOK_S))
            begin_s += self._hold(step)
            self._do(step)

    def heal_all(self) -> None:
        """Ends all remaining faults; from then on there is calm."""
        services = self._services
        if services.own_brokers:
            for proxy in services.brokers.proxies.values():
                proxy.heal()
        for name in services.gateway_proxies:
            for proxy in services.proxies_of(name):
                proxy.heal()
        for name in services.names():
            services.parts[name].thaw()
            if services.parts[name].ended() is not None:
                services.parts[name].start()
        self._devices.start_all()
        self._mqtt.start_all()
        self._workers.start_all()
        for name in services.names():
            # Nobody waits for the usage job: without it, nodes go on with even parts of each agreement.
            if name not in usage_faults.WORKERS:
                self._wait(services.parts[name].ready, name)
            self._look_after()
        if services.own_brokers:
            services.brokers.hit.clear()
        if self._hostiles is not None:
            self._wait(self._hostiles.idle, "who writes hostile records")
        self._wait(self._logs_are_whole, "the topics of channels")
        self._wait(self._backends.idle, "the publishers")
        self._wait(self._senders.idle, "those who send messages")
        self._wait(self._retention.idle, "retention")
        if self._writers is not None:
            self._writers.stop()
        if self._flood is not None:
            self._flood.stop()
        self._down.clear()
        self._history.write("calm")

    def finish(self, calm_s: float) -> SeedOutcome:
        """Wait until all know the newest, at most `calm_s`; then dump and judge."""
        begin_s = time.monotonic()
        told = ToldFiles(self._devices.histories())
        missing = ["nothing was looked at yet"]
        while missing and time.monotonic() < begin_s + calm_s:
            self._look_after()
            self._pause(_LOOK_FOR_THE_END_S)
            told.read_on()
            try:
                events = self._read()
                topics = merge(events, self._topics)
                missing = [*self._missing(topics, told), *self._lacking(topics, events, told)]
                missing += mqtt_rest.lacking(self._topics, self._mqtt_histories(), events, self._mqtt.wanted())
                missing += undone(self._topics, events) if self._schedule.workers else ()
            except HistoryError as error:
                missing = [f"history: {error}"]
            except _KAFKA_ERRORS as error:
                missing = [f"Kafka: {error}"]
        took_s = None if missing else time.monotonic() - begin_s
        self._ledger.stop()
        self._history.write("end", connected=sorted([*self._devices.owed(), *self._mqtt.wanted()]))
        ended = (*self._devices.ended(), *self._mqtt.ended(), *self._workers.ended())
        for name in (*ended, *(name for name in self._ended() if name not in usage_faults.WORKERS)):
            self._trouble.append(f"{name} ended by itself")
        counts = self._counts.close()
        dump = self._directory / "topics.jsonl"
        self._devices.stop()
        self._workers.stop()
        with HistoryWriter(dump) as writer:
            for event in self._read():
                writer.write(event)
        # Behind the dump: clean sessions' sets are forgotten soon after these have ended.
        self._mqtt.stop()
        files = [*self._devices.histories(), *self._mqtt_histories(), *self._workers.histories()]
        files += [self._directory / f"{name}.jsonl" for name in ("wire", "topics")]
        history = read_histories(files)
        self._trouble += lost_updates(history, merge(history, self._topics))
        verdict = judge(history, topics_prefix=self._topics.prefix)
        plan = self._schedule
        hostile = "" if self._hostiles is None else self._hostiles.words
        return SeedOutcome(
            plan.seed,
            plan.brokers,
            dict(self._done),
            verdict,
            took_s,
            missing,
            self._trouble,
            counts,
            hostile,
            self._topics.prefix,
        )

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _do(self, step: ScheduledStep) -> None:
        if step.what == "fault":
            self._fault(FaultKind(step.arguments["kind"]), step)
        elif step.what == "heal":
            self._heal(FaultKind(step.arguments["kind"]), step.target)
            self._services.brokers.hit.discard(step.target)
        elif step.what == "publish":
            one = step.arguments
            key = (one["incarnation"] or 0, one["version"])
            self._published[one["object"]] = max(key, self._published.get(one["object"], key))
            self._backends.publish(step.target, one)
        elif step.what == "describe":
            self._backends.describe(step.target, step.arguments)
        elif step.what == "send":
            self._senders.send(step.target, step.arguments)
        elif step.what == "film":
            self._senders.send_film(step.target)
        elif step.what == "lose_log":
            self._logs_to_lose.append(topic_of(self._topics, step.target))
        elif step.what == "trim":
            self._retention.trim(step.target, all_=step.arguments["all"])
        elif step.what.startswith("mqtt_"):
            self._mqtt.do(step.what.removeprefix("mqtt_"), step.target, step.arguments)
        else:
            self._devices.do(step.what, step.target, step.arguments)

    def _hold(self, step: ScheduledStep) -> float:
        """Waits, before Kafka is hit again, until it is back: else nothing happens in between. Returns the seconds.

        Of three brokers, none is hit before all are in sync, because two missing ones stop every write.
        """
        if step.what != "fault" or FaultKind(step.arguments["kind"]) not in NEED_KAFKA | TAKE_KAFKA:
            return 0.0
        begin_s = time.monotonic()
        while away := [name for name in self._services.brokers.parts if name in self._waiting]:
            if time.monotonic() > begin_s + _READY_S:
                names = ", ".join(away)
                raise NotStarted(f"{names}: not back after {_READY_S:g} s (see the log in {self._directory})")
            self._look_after()
            self._pause(_LOOK_S)
        return time.monotonic() - begin_s

    def _fault(self, kind: FaultKind, step: ScheduledStep) -> None:
        target, services = step.target, self._services
        self._done[kind.value] += 1
        self._history.write("fault", kind=kind.value, target=target)
        if kind in TAKE_KAFKA:
            self._services.brokers.hit.add(target)
            self._cut_off[target] = now_us()
        if kind in (
            FaultKind.GATEWAY_KILLED,
            FaultKind.MATCHER_KILLED,
            FaultKind.BROKER_KILLED,
            FaultKind.USAGE_KILLED,
        ):
            self._down.add(target)
            services.parts[target].kill()
        elif kind in (
            FaultKind.GATEWAY_PAUSED,
            FaultKind.MATCHER_PAUSED,
            FaultKind.BROKER_PAUSED,
            FaultKind.USAGE_PAUSED,
        ):
            services.parts[target].freeze()
        elif kind is FaultKind.ALL_KILLED:
            self._down.update(services.names())
            for part in reversed(services.parts.values()):
                part.kill()
        elif kind in (FaultKind.DEVICE_KILLED, FaultKind.LINKED_KILLED):
            self._devices.kill(target, step.arguments["wiped"])
        elif kind is FaultKind.MQTT_DEVICE_KILLED:
            self._mqtt.kill(target, step.arguments["wiped"])
        elif kind is FaultKind.WORKER_KILLED:
            worker = self._workers.workers[target]
            (worker.leave if step.arguments["in_order"] else worker.kill)()
        elif kind is FaultKind.WORKER_PAUSED:
            self._workers.workers[target].freeze()
        elif kind is FaultKind.WORKER_CUT:
            self._workers.workers[target].cut(silent=step.arguments["silent"])
        elif kind is FaultKind.CLIENTS_CUT:
            for proxy in services.proxies_of(target):
                proxy.cut()
            self._history.write("healed", kind=kind.value, target=target)
        elif kind is FaultKind.CLIENTS_SILENT:
            for proxy in services.proxies_of(target):
                proxy.swallow()
        elif kind is FaultKind.KAFKA_CUT:
            services.brokers.proxies[target].refuse()
        elif kind is FaultKind.KAFKA_SILENT:
            services.brokers.proxies[target].hold()
        elif kind in (FaultKind.MATCHER_ADDED, FaultKind.USAGE_DOUBLED):
            services.parts[target].start()
        elif kind is FaultKind.HOSTILE_RECORDS:
            if self._hostiles is not None:
                self._hostiles.attack(step.arguments["batches"])
            self._history.write("healed", kind=kind.value, target=target)
        else:
            self._recreate(kind, f"{self._topics.prefix}{target}")

    def _heal(self, kind: FaultKind, target: str) -> None:
        services = self._services
        if kind in (
            FaultKind.GATEWAY_KILLED,
            FaultKind.MATCHER_KILLED,
            FaultKind.BROKER_KILLED,
            FaultKind.USAGE_KILLED,
        ):
            self._start_again(target, kind)
            return
        if kind is FaultKind.ALL_KILLED:
            for name in services.names():
                self._start_again(name, kind)
            return
        if kind in (
            FaultKind.GATEWAY_PAUSED,
            FaultKind.MATCHER_PAUSED,
            FaultKind.BROKER_PAUSED,
            FaultKind.USAGE_PAUSED,
        ):
            services.parts[target].thaw()
        elif kind in (FaultKind.DEVICE_KILLED, FaultKind.LINKED_KILLED):
            self._devices.start(target)
        elif kind is FaultKind.MQTT_DEVICE_KILLED:
            self._mqtt.start(target)
        elif kind is FaultKind.WORKER_KILLED:
            self._workers.workers[target].start()
        elif kind is FaultKind.WORKER_PAUSED:
            self._workers.workers[target].thaw()
        elif kind is FaultKind.WORKER_CUT:
            self._workers.workers[target].heal()
        elif kind is FaultKind.CLIENTS_SILENT:
            for proxy in services.proxies_of(target):
                proxy.heal()
        elif kind in (FaultKind.KAFKA_CUT, FaultKind.KAFKA_SILENT):
            services.brokers.proxies[target].heal()
        elif kind in (FaultKind.MATCHER_ADDED, FaultKind.USAGE_DOUBLED):
            part = services.parts[target]
            # In order, which hands its partitions on; that may take seconds.
            threading.Thread(target=part.stop, daemon=True).start()
        if kind in BROKER_FAULTS and services.brokers.count > 1:
            self._history.write("deposed", begun=self._cut_off[target])
            # Others may have gone on without it: it is whole again once it is in sync.
            self._wait_for(target, kind)
            return
        self._history.write("healed", kind=kind.value, target=target)

    def _start_again(self, name: str, kind: FaultKind) -> None:
        self._services.parts[name].start()
        self._down.discard(name)
        self._wait_for(name, kind)

    def _wait_for(self, name: str, kind: FaultKind) -> None:
        self._waiting[name] = kind.value
        if name in self._services.brokers.parts:
            self._services.brokers.returning.add(name)

    def _recreate(self, kind: FaultKind, topic: str) -> None:
        begun = now_us()
        self._topics_missing = not self._services.recreate_topic(topic)
        # Not before it is done: what is acknowledged until now may have been in the old one.
        self._history.write("topic_lost", topic=topic, begun=begun)
        self._history.write("healed", kind=kind.value, target=topic)
        if topic == self._topics.objects:
            for name, (incarnation, version) in self._published.items():
                one = {"object": name, **version_arguments(name, incarnation, version)}
                self._backends.publish("library-1", one)

    # -- looking after -------------------------------------------------------------------------------------------------

    def _look_after(self) -> None:
        """Records who is ready again, restarts processes that ended by themselves, as a supervisor would, and creates
        missing topics.
        """
        services = self._services
        look_at_brokers = time.monotonic() >= self._broker_look_s
        for name, kind in list(self._waiting.items()):
            if name in services.brokers.parts:
                # A broker is asked by connecting to it, which takes a while: not at every look.
                if not look_at_brokers:
                    continue
                self._broker_look_s = time.monotonic() + _LOOK_FOR_BROKER_S
            if services.parts[name].ready():
                del self._waiting[name]
                services.brokers.returning.discard(name)
                self._history.write("healed", kind=kind, target=name)
        for name in self._ended():
            self._history.write("ended", part=name)
            # The usage job ends when it loses Kafka, or its partitions are not divided for long: so it is built.
            if name not in usage_faults.WORKERS:
                self._trouble.append(f"{name} ended by itself, and was started again")
            services.parts[name].start()
        if self._topics_missing:
            try:
                services.apply_topics()
                self._topics_missing = False
            except _KAFKA_ERRORS:
                pass

        self._lose_logs()

    def _logs_are_whole(self) -> bool:
        self._look_after()
        return not (self._logs_to_lose or self._lost_logs)

    def _lose_logs(self) -> None:
        """Recreates topics of channels, if Kafka is there: a topic that still exists must not be recorded as lost,
        because its clients are owed all of it.
        """
        services = self._services
        if services.brokers.hit or services.brokers.returning:
            return
        if self._logs_to_lose:
            topic = self._logs_to_lose[0]
            id_, begun = services.topic_id(topic), now_us()
            if id_ is not None:
                self._logs_to_lose.pop(0)
                self._topics_missing |= not services.recreate_topic(topic)
                self._lost_logs.append(LostLog(topic, id_, begun))
        for lost in list(self._lost_logs):
            now = services.topic_id(lost.topic)
            if now is not None:
                self._lost_logs.remove(lost)
                if now == lost.id:
                    self._logs_to_lose.append(lost.topic)
                else:
                    self._history.write(
                        "topic_lost", topic=lost.topic, begun=lost.begun, domains=domains_of(self._topics, lost.topic)
                    )

    def _ended(self) -> list[str]:
        services = self._services
        return [n for n in services.names() if n not in self._down and services.parts[n].ended() is not None]

    def _missing(self, topics: DumpedTopics, told: ToldFiles) -> list[str]:
        """Returns what connected clients do not know yet, and registrations that are wrong."""
        # What retention has removed stands in no topic: that it is missed is told before a client has caught up.
        missing = [f"{client} is not caught up" for client in self._devices.owed() if client not in told.caught_up]
        missing += [f"{client} is not fresh" for client in self._devices.owed() if told.stale.get(client)]
        for client, wanted in self._devices.owed().items():
            if topics.registered.get(client, set()) != wanted:
                missing.append(f"{client} is registered for {sorted(topics.registered.get(client, set()) ^ wanted)}")
            for name in wanted:
                newest = topics.newest.get(name)
                if newest is not None and told.newest.get((client, name), (-2, -2)) < newest.key:
                    missing.append(f"{client} lacks {name} {newest.key}")
        for client, queries in self._devices.queries().items():
            if topics.queries.get(client, set()) != queries:
                missing.append(f"{client} is registered for {sorted(topics.queries.get(client, set()) ^ queries)}")
            group = client.rpartition("/")[0]
            for query in queries:
                matches = read_query(query)
                members = {name for name, described in topics.group(group).items() if matches(name, described)}
                wrong = members ^ told.members.get((client, query), set())
                missing += [f"{client} is told wrongly of {name} in {query!r}" for name in sorted(wrong)]
                # It is not told what it publishes itself.
                own = SHELVES if client.endswith(f"/{CLIENT}") else ()
                for name in members - wrong - set(own):
                    newest = topics.newest.get(f"{group}/{name}")
                    if newest is not None and told.newest.get((client, f"{group}/{name}"), (-2, -2)) < newest.key:
                        missing.append(f"{client} lacks {name} {newest.key}, a member of {query!r}")
        return missing

    def _lacking(self, topics: DumpedTopics, events: list[Event], told: ToldFiles) -> list[str]:
        """Messages that the connected clients do not know yet, and channels that are not registered as they should."""
        channels = self._devices.channels()
        wrong = [
            f"{client} is registered for the channels {sorted(topics.channels.get(client, set()))}, not {sorted(names)}"
            for client, names in channels.items()
            if topics.channels.get(client, set()) != names
        ]
        following = {key: one for key, one in told.following.items() if key[0] in channels}
        return [*wrong, *lacking(self._topics, events, following, self._repeated)]

    def _mqtt_histories(self) -> list[Path]:
        """Returns the files that say what devices did, and what was done to everybody."""
        return [self._directory / "run.jsonl", *self._mqtt.histories()]

    def _read(self) -> list[Event]:
        return list(topics_dump.read(self._services.kafka, _READ_S, topics=self._topics))

    def _pause(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise InterruptedError("stopped")

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + _READY_S
        while not condition():
            if time.monotonic() > deadline_s:
                raise NotStarted(f"{what}: not ready within {_READY_S:g} s (see its log in {self._directory})")
            self._pause(_LOOK_S)


def remove(directory: Path) -> None:
    """Remove a run's files."""
    shutil.rmtree(directory, ignore_errors=True)
