"""Producers in a closed loop, each in a process of its own: the next publish as soon as the limit has a permit.

The limit is the library's own. What its windows say is compared with what was in flight every millisecond, counted
apart from them: that tests the apparatus (Little's law).
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection as Pipe
from typing import Any, Protocol

from coldnotify.flow.beginnings import Beginnings
from coldnotify.flow.flow_limit import FlowLimit
from coldnotify.flow.windows import Window
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import OBJECTS
from confluent_kafka import Producer

from coldnotify_loadtest.latency import Latencies
from coldnotify_loadtest.loaders import Loaders
from coldnotify_loadtest.population import Population

_SAMPLE_S = 0.001
"""A row takes some seconds only: every 10 ms would be too few samples of what swings by a half."""
_ANSWER_S = 60.0
_QUEUE_MAX = 200_000
"""Of librdkafka: above the largest limit that is tried."""
_IDLE_POLL_S = 0.001
_BURST = 64
"""Publishes between two looks for acknowledgements."""
_DRAWN = 1 << 14
"""Objects that are drawn beforehand: drawing must cost nothing meanwhile."""

DISTRIBUTIONS = ("uniform", "normal", "poisson")


class ClosedLoopError(Exception):
    """A producer's process could not do what it was told."""


@dataclass(frozen=True)
class Place:
    """Where and what a producer publishes."""

    way: str
    """ "kafka" or "http"."""
    port: int
    population: Population
    block: int
    """Whose objects it publishes."""
    partitions: int = 8


@dataclass(frozen=True)
class Task:
    """One run of a closed loop."""

    controller: str
    seconds: float
    highest: int
    begin: Beginnings
    distribution: str = "uniform"
    """Of the objects that are published."""
    settle_s: float = 0.0
    """What is before does not count: the limit still moves to where it stays."""


@dataclass(frozen=True)
class Loop:
    """What came of a task, in the time that counts."""

    acknowledged: int
    failed: int
    seconds: float
    wait_s: float
    """W."""
    arrivals_per_s: float
    """Lambda."""
    sampled: float
    """L, sampled."""
    waits: bytes
    """All times to acknowledgement, as Latencies.encoded()."""
    windows: tuple[Window, ...] = field(default=())
    """All of the task's."""


class Tally:
    """Counts what a loop did, from a moment on."""

    def __init__(self, limit: FlowLimit, task: Task) -> None:
        self.limit = limit
        self.windows: list[Window] = []
        self.failed = 0
        self._from_s = self._sample_s = time.monotonic() + task.settle_s
        self.until_s = self._from_s + task.seconds
        """What is acknowledged later does not count: then nothing is taken any more."""
        self._taken = self._acknowledged = 0
        self._waits_ns: list[int] = []
        self._samples: list[int] = []

    def take(self) -> float | None:
        """When a permit was taken; None: there is none."""
        now_s = self._now_s()
        if not self.limit.take():
            return None
        self._taken += self._from_s <= now_s < self.until_s
        return now_s

    def acknowledged(self, taken_s: float) -> None:
        """One is acknowledged."""
        now_s = self._now_s()
        if (window := self.limit.acknowledged(now_s, taken_s)) is not None:
            self.windows.append(window)
        if self._from_s <= now_s < self.until_s:
            self._acknowledged += 1
            self._waits_ns.append(int((now_s - taken_s) * 1e9))

    def not_taken(self) -> None:
        """One has failed."""
        self._now_s()
        self.limit.failed()
        self.failed += 1

    def end(self) -> Loop:
        """What there is to say."""
        seconds = self.until_s - self._from_s
        waits = Latencies()
        waits.add_ns(self._waits_ns)
        return Loop(
            self._acknowledged,
            self.failed,
            seconds,
            sum(self._waits_ns) / max(len(self._waits_ns), 1) / 1e9,
            self._taken / seconds,
            sum(self._samples) / max(len(self._samples), 1),
            waits.encoded(),
            tuple(self.windows),
        )

    def _now_s(self) -> float:
        """The time; what is in flight is noted for each moment that was due since the last call.

        It has not changed since then. A thread that looked would see it most often where this one waits.
        """
        now_s = time.monotonic()
        while self._sample_s <= min(now_s, self.until_s):
            self._samples.append(self.limit.in_flight)
            self._sample_s += _SAMPLE_S
        return now_s


def drawn(distribution: str, count: int, seed: int) -> Iterator[int]:
    """Numbers of objects, 0 to `count` - 1, again and again in the order in which they were drawn. Raises ValueError.

    normal: around the middle, its standard deviation a sixth of all. poisson: of the middle's mean.
    """
    chance = random.Random(seed)
    draw: dict[str, Callable[[], int]] = {
        "uniform": lambda: chance.randrange(count),
        "normal": lambda: round(chance.gauss((count - 1) / 2, count / 6)),
        "poisson": lambda: _poisson(chance, (count - 1) / 2),
    }
    if distribution not in draw:
        raise ValueError(f"distribution: {distribution!r} is none of {', '.join(draw)}")
    numbers = [min(max(draw[distribution](), 0), count - 1) for _ in range(_DRAWN)]
    while True:
        yield from numbers


def _poisson(chance: random.Random, mean: float) -> int:
    """Knuth's, by sums of exponential gaps."""
    number, sum_ = -1, 0.0
    while sum_ < 1 and mean > 0:
        number += 1
        sum_ += chance.expovariate(mean)
    return max(number, 0)


class _Way(Protocol):
    def run(self, task: Task) -> Loop:
        """A closed loop."""

    def close(self) -> None:
        """The end."""


class _Kafka:
    def __init__(self, place: Place) -> None:
        self._place = place
        self._producer = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{place.port}",
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "log_level": 0,
                "queue.buffering.max.messages": _QUEUE_MAX,
            }
        )
        self._producer.list_topics(OBJECTS, timeout=_ANSWER_S)
        population = place.population
        group = population.group(place.block)
        self._partition = partition_of(population.domain, group, place.partitions)
        self._keys = [f"{population.domain}/{group}/{name}".encode() for name in population.objects(place.block)]

    def run(self, task: Task) -> Loop:
        """See _Way."""
        produce, poll = self._producer.produce, self._producer.poll
        keys, partition = self._keys, self._partition
        numbers = drawn(task.distribution, len(keys), self._place.block)
        tally = Tally(FlowLimit.named(task.controller, task.highest, task.begin), task)

        def on_delivery(taken_s: float, error: Any, _message: Any) -> None:
            if error is None:
                tally.acknowledged(taken_s)
            else:
                tally.not_taken()

        while time.monotonic() < tally.until_s:
            for _ in range(_BURST):
                if (taken_s := tally.take()) is None:
                    poll(_IDLE_POLL_S)
                    break
                stamp = time.monotonic_ns()
                value = b'{"version":%d,"payload":%d}' % (stamp, stamp)
                produce(OBJECTS, value, keys[next(numbers)], partition, on_delivery=partial(on_delivery, taken_s))
            poll(0)
        # The next task begins with nothing in flight.
        while tally.limit.in_flight and poll(_ANSWER_S):
            pass
        return tally.end()

    def close(self) -> None:
        """See _Way."""
        self._producer.flush(_ANSWER_S)


class _Request(asyncio.Protocol):
    """A connection with one request at a time."""

    def __init__(self, on_answer: Callable[["_Request", int], None]) -> None:
        self._on_answer = on_answer
        self._buffer = b""
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        if len(rest) >= length:
            self._buffer = rest[length:]
            self._on_answer(self, int(head[9:12]))


class _Http:
    def __init__(self, place: Place) -> None:
        self._place = place
        population = place.population
        base = f"/v1/domains/{population.domain}/groups/{population.group(place.block)}/objects/"
        self._paths = [f"{base}{name}?outcome=no".encode() for name in population.objects(place.block)]

    def run(self, task: Task) -> Loop:
        """See _Way."""
        return asyncio.run(self._run(task))

    async def _run(self, task: Task) -> Loop:
        loop = asyncio.get_running_loop()
        idle: deque[_Request] = deque()
        taken: dict[_Request, float] = {}
        wake = asyncio.Event()

        def on_answer(request: _Request, status: int) -> None:
            taken_s = taken.pop(request)
            if status == 200:
                tally.acknowledged(taken_s)
            else:
                tally.not_taken()
            idle.append(request)
            wake.set()

        for _ in range(task.highest):
            _, protocol = await loop.create_connection(lambda: _Request(on_answer), "127.0.0.1", self._place.port)
            idle.append(protocol)
        numbers = drawn(task.distribution, len(self._paths), self._place.block)
        tally = Tally(FlowLimit.named(task.controller, task.highest, task.begin), task)
        try:
            while time.monotonic() < tally.until_s:
                wake.clear()
                while idle and (taken_s := tally.take()) is not None:
                    request = idle.popleft()
                    if request.transport is None:
                        raise ClosedLoopError("the HTTP service has ended a connection")
                    taken[request] = taken_s
                    stamp = time.monotonic_ns()
                    body = b'{"version":%d,"payload":%d}' % (stamp, stamp)
                    path = self._paths[next(numbers)]
                    head = b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % (path, len(body))
                    request.transport.write(head + body)
                await wake.wait()
            async with asyncio.timeout(_ANSWER_S):
                while taken:
                    wake.clear()
                    await wake.wait()
            return tally.end()
        finally:
            for request in (*idle, *taken):
                if request.transport is not None:
                    request.transport.abort()

    def close(self) -> None:
        """See _Way."""


class Producers(Loaders):
    """A handle of several such processes."""

    def __init__(self, places: list[Place]) -> None:
        """Connects. Raises ClosedLoopError."""
        super().__init__(_run, places, "producer", ClosedLoopError)
        self.answers(_ANSWER_S)

    def run(self, task: Task) -> list[Loop]:
        """All at once; returns when each has all its answers. Raises ClosedLoopError."""
        self.tell(task)
        return [one for one in self.answers(task.settle_s + task.seconds + 2 * _ANSWER_S) if isinstance(one, Loop)]


def _run(place: Place, pipe: Pipe) -> None:
    way: _Way
    try:
        way = _Kafka(place) if place.way == "kafka" else _Http(place)
    except Exception as error:
        pipe.send(f"{place.way} at port {place.port}: {error}")
        return
    pipe.send(None)
    try:
        while (task := pipe.recv()) is not None:
            try:
                pipe.send(way.run(task))
            except ClosedLoopError as error:
                pipe.send(str(error))
    except EOFError:
        pass
    finally:
        way.close()
