"""Simulates a unit that publishes by a wrong clock: what its outbox numbers, gateways refuse, and it sends again.

The outbox's queue and log, the client's publications and the gateways' cores are the product's own. The disk, the
connection, Kafka and all clocks are simulated: the unit's clock is ahead, was never set, is put right, or steps; the
gateways' clocks are minutes apart. Answers are lost, connections break, the unit crashes. `Numbering(seed).play()`
raises AssertionError if a publish has two versions in the log, if a version is impossible, or if a later one does not
exceed an earlier one.
"""

import json
from collections.abc import Callable
from functools import partial
from random import Random

from coldnotify._core.publishing.outbox_log import KeptEntry
from coldnotify._core.publishing.outbox_queue import OutboxQueue
from coldnotify._core.publishing.outgoing import version_of
from coldnotify._core.publishing.publications import Publications, PublishAnswer
from coldnotify_schemas.frames import encode
from coldnotify_schemas.protocol import CLOCK_AHEAD_S_MAX, CLOCK_SET_S
from coldnotify_schemas.wire_pb2 import ClientFrame

from coldnotify_testkit.gateway_bench import GatewayBench, WireDouble

BEGIN_S = 1_800_000_000
_YEARS_S = 10 * 365 * 86_400
_STEPS = 120
_DOMAIN, _GROUP = "animal.observer", "region-1"
_OBJECTS = ("a", "b", "c")
_QUEUE = 1_000, 1_000_000


class Numbering:
    """One unit, and whoever it connects to."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._now_s = float(BEGIN_S)
        self._ahead_s = 0.0
        """The unit's clock minus the time."""
        self._queue = OutboxQueue(*_QUEUE)
        self._disk = bytearray()
        self._publications = Publications()
        self._gateway: GatewayBench | None = None
        self._wire: WireDouble | None = None
        self._batch: list[KeptEntry] = []
        self._answers: dict[int, PublishAnswer] = {}
        self._published = 0
        self._under_way = 0
        """Publications of the gateway that Kafka has answered."""
        self.log: list[tuple[str, int, int]] = []
        """Object, the publish's number, version."""
        self.renumbered = 0

    def play(self) -> None:
        """Plays until everything is published, and then one more publish of each object by a correct clock."""
        for _ in range(_STEPS):
            self._now_s += self.random.expovariate(1 / 30)
            draws: list[Callable[[], object]] = [
                self._publish,
                self._step_clock,
                self._go_on,
                self._cut,
                self._crash,
                self._connect,
            ]
            self.random.choices(draws, [5, 1, 8, 1, 1, 3])[0]()
        self._settle()
        self._ahead_s = 0.0
        last = {name: self._publish(name) for name in _OBJECTS}
        self._settle()
        self._check(last)

    def _settle(self) -> None:
        for _ in range(10_000):
            if not len(self._queue):
                return
            self._now_s += 1
            if self._gateway is None:
                self._connect()
            self._go_on(loses=0.0)
        raise AssertionError(f"{len(self._queue)} publishes are never through")

    # ---- the unit

    @property
    def _clock_ms(self) -> int:
        return max(1, round((self._now_s + self._ahead_s) * 1000))

    def _step_clock(self) -> None:
        minutes = self.random.uniform(-40, 40) * 60
        self._ahead_s = self.random.choice([0.0, minutes, _YEARS_S, 7200.0, -self._now_s])

    def _publish(self, name: str | None = None) -> int:
        self._published += 1
        said = version_of(_DOMAIN, _GROUP, name or self.random.choice(_OBJECTS), payload=self._published)
        made = self._queue.accept([said], self._clock_ms)
        for _, entry in made:
            self._disk += entry
        self._queue.commit([record for record, _ in made])
        return self._published

    def _crash(self) -> None:
        """Its log is all that is left."""
        self._gateway = None
        self._queue, self._publications, self._batch, self._answers = OutboxQueue(*_QUEUE), Publications(), [], {}
        self._queue.load(bytes(self._disk))
        self._disk = bytearray(self._queue.compacted())

    def _go_on(self, *, loses: float = 0.1) -> None:
        """The outbox's thread, the session and the gateway have a turn each."""
        if not self._batch:
            self._batch, self._answers = self._queue.take(10, 100_000), {}
            said = [(one.outgoing, partial(self._answers.__setitem__, one.number)) for one in self._batch]
            self._publications.say(said)
        self._speak(loses)
        if len(self._answers) == len(self._batch):
            self._take_in()

    def _take_in(self) -> None:
        clocks = {number: one.clock_ms for number, one in self._answers.items() if one.clock_ms is not None}
        for _, entry in self._queue.renumber(clocks, self._clock_ms):
            self._disk += entry
        self.renumbered += len(clocks)
        self._disk += self._queue.settle([one.number for one in self._batch if one.number not in clocks])
        self._queue.put_back(sorted(clocks))
        self._batch = []

    # ---- the session, the gateway and Kafka

    def _connect(self) -> None:
        if self._gateway is None:
            self._gateway, self._under_way = GatewayBench(), 0
            self._wire = self._gateway.live()
            self._skew_s = self.random.uniform(-600, 600)
            self._publications.begin_session()

    def _cut(self) -> None:
        """Cuts the connection: answers on their way are lost, but what the gateway has handed over is in Kafka."""
        if self._gateway is not None:
            self._write()
            self._gateway = None

    def _speak(self, loses: float) -> None:
        if self._gateway is None or self._wire is None:
            return
        self._gateway.gateway.on_wall_clock(self._now_s + self._skew_s, self._gateway.now_s)
        while (publish := self._publications.next(self._now_s)) is not None:
            self._gateway.say(self._wire, encode(ClientFrame(publish=publish)))
        self._write()
        if self.random.random() < loses:
            self._gateway = None
            return
        for frame in self._wire.take():
            if frame.HasField("published"):
                self._publications.published(frame.published.request, frame.published.offset)
            elif frame.HasField("not_published"):
                said = frame.not_published
                clock_ms = said.clock_ms or None
                self._publications.not_published(said.request, said.reason, said.retry_after_ms, self._now_s, clock_ms)

    def _write(self) -> None:
        """Kafka takes what the gateway hands over, one after the other."""
        assert self._gateway is not None
        while self._under_way < len(self._gateway.publications):
            handed_over = self._gateway.publications[self._under_way]
            self._under_way += 1
            said = json.loads(handed_over.value)
            self._judge(said["version"])
            self.log.append((handed_over.key.decode().rpartition("/")[2], said["payload"], said["version"]))
            outputs = self._gateway.gateway.on_published(handed_over, len(self.log), "", self._gateway.now_s)
            self._gateway.do(outputs)

    # ---- what must hold

    def _judge(self, version: int) -> None:
        latest_ms = (self._now_s + self._skew_s + CLOCK_AHEAD_S_MAX) * 1000 + 1
        assert CLOCK_SET_S * 1000 <= version <= latest_ms, f"version {version} is in the log at {self._now_s:.0f} s"

    def _check(self, last: dict[str, int]) -> None:
        versions: dict[int, set[int]] = {}
        for _, number, version in self.log:
            versions.setdefault(number, set()).add(version)
        twice = {number: several for number, several in versions.items() if len(several) > 1}
        assert not twice, f"publishes with several versions: {twice}"
        for name, number in last.items():
            newest = max((version, publish) for other, publish, version in self.log if other == name)
            assert newest[1] == number, f"of {name} publish {newest[1]} outdoes {number}: {sorted(self.log)}"
