"""A gateway: the real core, its connections to clients, its reading of the inbox and its writing of requests."""

from collections import deque
from collections.abc import Iterable
from random import Random

from coldnotify_gateway.core import (
    Finish,
    Limits,
    Output,
    Overtake,
    Produce,
    PublishBatch,
    PublishRecord,
    Send,
    SendAll,
    SendUrgent,
)
from coldnotify_gateway.core import Gateway as Core
from coldnotify_gateway.inbox_records import UnreadableInbox, parse_inbox
from coldnotify_schemas.topics import TopicNames

from coldnotify_simulation.clock import Clock, SimulatedProcess
from coldnotify_simulation.kafka import INBOXES, PARTITIONS, Kafka
from coldnotify_simulation.link import SimulatedLink
from coldnotify_simulation.trace import Trace

TOPICS = TopicNames()

_TICK_S = 0.5
_REQUEST_TIMEOUT_S = 5.0
"""A request that Kafka has not taken by then is given up."""
_PUBLISH_TIMEOUT_S = 10.0
"""Likewise for a client's publish."""
_RESTART_S = 0.5


class SimulatedGateway(SimulatedProcess):
    """One process; each boot has its own id and inbox."""

    def __init__(self, name: str, clock: Clock, random: Random, kafka: Kafka, trace: Trace) -> None:
        super().__init__(clock, name)
        self.random = random
        self.kafka = kafka
        self.trace = trace
        self.inbox: int | None = None
        """Set: the same inbox at each boot."""
        self.core: Core
        self.ahead_ms = 0
        """How far its clock is ahead of the true time; its requests have its timestamps."""
        self.requests_held = False
        """Kafka takes no requests of this gateway: they wait, and expire."""
        self.requests_fail = 0.0
        """The probability that a request is reported as not stored (although it may be)."""
        self.inbox_held = False
        """It reads nothing of its inbox, as when its reader is behind; all else goes on."""
        self.late = 0.02
        """The longest that a request or an inbox record is under way, in s."""
        self._links: dict[SimulatedLink, None] = {}
        self._queues: dict[int, deque[tuple[float, Produce]]] = {}
        self._read = 0
        self._inbox_id = ""
        self._requests_id = ""
        self._reading = False
        self._writing: set[int] = set()
        self._batches: deque[tuple[float, PublishBatch]] = deque()
        self._publishing = False
        self.publishes = False
        """It writes what its clients publish just now."""

    # ---- its life

    def start(self) -> None:
        """A boot: a new id, an inbox that is read from its end."""
        self._born()
        inbox = self.random.randrange(INBOXES) if self.inbox is None else self.inbox
        self.core = Core(self.random.getrandbits(64) | 1, inbox, PARTITIONS, Limits())
        self.trace(self.name, f"starts as {self.core.id:016x}, inbox {inbox}")
        self._links.clear()
        self._queues = {partition: deque() for partition in range(PARTITIONS)}
        self._writing.clear()
        self._batches.clear()
        self._publishing = self._reading = False
        self._read = self.kafka.log(TOPICS.notifications, inbox).end
        self._inbox_id = self.kafka.topics[TOPICS.notifications].id
        self._requests_id = self.kafka.topics[TOPICS.requests].id
        self.later(_TICK_S, self._tick)

    def kill(self) -> None:
        """SIGKILL: its connections break, requests that Kafka has not taken are lost."""
        if not self.alive:
            return
        self.trace(self.name, "killed")
        self._died()
        for link in list(self._links):
            link.cut("the gateway was killed")

    def _begin_anew(self, reason: str) -> None:
        """Starts over with a new identity, as after finding topics recreated: it sends its clients away first."""
        self.trace(self.name, "begins anew:", reason)
        self.do(self.core.go_away(len(self._links), self.clock.now_s))
        self._died()
        for link in list(self._links):
            link.cut("the gateway begins anew")
        self._born()
        self.later(_RESTART_S, self.start)

    def _tick(self) -> None:
        self.later(_TICK_S, self._tick)
        self.do(self.core.on_tick(self.clock.now_s))
        topics_now = self.kafka.topics
        changed = topics_now[TOPICS.notifications].id != self._inbox_id
        changed |= topics_now[TOPICS.requests].id != self._requests_id
        if changed and self.random.random() < 0.2:  # it looks every few seconds
            self._begin_anew("a topic was recreated")
            return
        self.read_soon()
        for partition in self._queues:
            self._write_soon(partition)
        self._publish_soon()

    # ---- connections

    def accept(self, link: SimulatedLink) -> None:
        """A client connects."""
        self._links[link] = None
        self.do(self.core.on_connect(link, "127.0.0.1", self.clock.now_s, dialect=link.dialect))

    def on_bytes(self, link: SimulatedLink, data: bytes) -> None:
        """Bytes came."""
        self.do(self.core.on_client_bytes(link, data, self.clock.now_s))

    def on_broken(self, link: SimulatedLink) -> None:
        """The end of a connection is noticed."""
        self._links.pop(link, None)
        self.do(self.core.on_disconnected(link, self.clock.now_s))

    def on_blocked(self, link: SimulatedLink) -> None:
        """The client does not read."""
        self.core.on_blocked(link, self.clock.now_s)

    def on_drained(self, link: SimulatedLink) -> None:
        """It does again."""
        self.do(self.core.on_drained(link, self.clock.now_s))

    # ---- what the core says

    def do(self, outputs: Iterable[Output]) -> None:
        """Each output, in order."""
        for output in outputs:
            match output:
                case Send():
                    output.peer.send(output.frames)
                case SendAll():
                    for peer in output.peers:
                        peer.send([output.frame])
                case SendUrgent():
                    for peer in output.peers:
                        peer.send_urgent(output.urgent)
                case Overtake():
                    for peer in output.peers:
                        peer.overtake(output.channels, output.repeats)
                case Produce():
                    self._queues[output.partition].append((self.clock.now_s, output))
                    self._write_soon(output.partition)
                case PublishBatch():
                    self._batches.append((self.clock.now_s, output))
                    self._publish_soon()
                case Finish():
                    output.peer.finish()

    def _write_soon(self, partition: int) -> None:
        if self._queues[partition] and partition not in self._writing and not self.requests_held:
            self._writing.add(partition)
            self.later(self.random.uniform(0.0005, self.late), lambda: self._write_requests(partition))
        elif self.requests_held:
            self._expire(partition)

    def _expire(self, partition: int) -> None:
        queue = self._queues[partition]
        while queue and queue[0][0] + _REQUEST_TIMEOUT_S < self.clock.now_s:
            _, produce = queue.popleft()
            self.trace(self.name, "a request expires:", produce.request.WhichOneof("body"))
            self.core.on_delivery_failed(produce, self.clock.now_s)

    def _write_requests(self, partition: int) -> None:
        self._writing.discard(partition)
        self._expire(partition)
        queue = self._queues[partition]
        if self.requests_held:
            return
        while queue:
            _, produce = queue.popleft()
            fails = self.requests_fail and self.random.random() < self.requests_fail
            if not fails or self.random.random() < 0.5:
                value = produce.request.SerializeToString()
                self.kafka.append(TOPICS.requests, partition, self.clock.now_ms + self.ahead_ms, produce.key, value)
            if fails:
                self.trace(self.name, "a request fails:", produce.request.WhichOneof("body"))
                self.core.on_delivery_failed(produce, self.clock.now_s)

    # ---- what its clients publish

    def _publish_soon(self) -> None:
        if self._batches and not self._publishing:
            self._publishing = True
            self.later(self.random.uniform(0.0005, self.late), self._publish)

    def _publish(self) -> None:
        """Writes batches in order. Nothing behind a record that is not written is written."""
        self._publishing = False
        while self._batches and not self.requests_held:
            _, batch = self._batches.popleft()
            offsets: list[int | None] = []
            for record in batch.records:
                if None in offsets or (self.requests_fail and self.random.random() < self.requests_fail):
                    offsets.append(None)
                else:
                    offsets.append(self._store(record))
            self._report(batch, offsets)
        while self._batches and self._batches[0][0] + _PUBLISH_TIMEOUT_S < self.clock.now_s:
            _, batch = self._batches.popleft()
            self._report(batch, [None] * len(batch.records))

    def _store(self, record: PublishRecord) -> int:
        self.publishes = True
        at_ms = self.clock.now_ms + self.ahead_ms
        offset = self.kafka.append(record.topic, record.partition, at_ms, record.key, record.value, record.headers)
        self.publishes = False
        return offset

    def _report(self, batch: PublishBatch, offsets: list[int | None]) -> None:
        """Tells the core after a moment: a process that dies until then has stored what nobody hears of."""

        def tell() -> None:
            for record, offset in zip(batch.records, offsets, strict=True):
                why = "" if offset is not None else "Kafka has not taken it"
                self.do(self.core.on_published(record, offset, why, self.clock.now_s))

        self.later(self.random.uniform(0.0005, self.late), tell)

    # ---- the inbox

    def hold_inbox(self, *, on: bool) -> None:
        """It reads nothing of its inbox from here on, or goes on."""
        self.inbox_held = on
        if not on and self.alive:
            self.read_soon()

    def read_soon(self) -> None:
        """There may be records."""
        if (
            not self._reading
            and not self.inbox_held
            and self._read != self.kafka.log(TOPICS.notifications, self.core.inbox).end
        ):
            self._reading = True
            self.later(self.random.uniform(0.0005, self.late), self._read_inbox)

    def _read_inbox(self) -> None:
        self._reading = False
        if self.inbox_held:
            return
        log = self.kafka.log(TOPICS.notifications, self.core.inbox)
        if not log.start <= self._read <= log.end:
            self.trace(self.name, "reads its inbox from the end again")
            self._read = log.end
            self.do(self.core.on_inbox_lost(self.clock.now_s))
            return
        for entry in log.read(self._read, 200):
            self._read = entry.offset + 1
            try:
                inbox = parse_inbox(entry.value or b"", self.clock.now_ms)
            except UnreadableInbox:
                self.core.on_malformed_inbox()
                continue
            intake = self.core.on_inbox(inbox, self.clock.now_s)
            self.do(intake.outputs)
            for item in intake.items:
                self.do(self.core.on_item(inbox.partition, item, self.clock.now_s))
        self._read = log.end
