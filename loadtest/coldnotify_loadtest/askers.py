"""Publishers without restraint: processes that publish without any pause, or at a rate, whatever the answers.

By Kafka, by HTTP, or on sessions. The answers are counted separately: accepted, refused (explicitly, and nothing was
written), failed. Accepted ones are also counted by tenths of a second.
"""

import asyncio
import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from typing import Any

from coldnotify.flow.beginnings import KAFKA
from coldnotify.flow.controllers import DEFAULT, FIXED
from coldnotify.flow.flow_limit import FlowLimit
from coldnotify_load.loaders import Loaders
from coldnotify_load.population import Population
from coldnotify_schemas.frames import FrameBuffer, encode, parse_gateway_frame
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.protocol import GATEWAY_FRAME_BYTES_MAX
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.wire_pb2 import ClientFrame, GatewayFrame, Hello, Publish
from confluent_kafka import Producer

TOPICS = TopicNames()

BIN_S = 0.1
QUEUE_MAX = 100_000
"""Default queue of a Kafka producer without flow control, in publishes."""
_HIGHEST = 10_000
_ANSWER_S = 300.0
"""Limit for a process to begin, and for requests in progress to be answered: a machine may be busy
with other things.
"""
_HOST = "127.0.0.1"
_OK, _ABOVE, _BUSY = 200, 429, 503
_READ_BYTES = 1 << 16
_RECORD_BYTES = 10
"""Lengths, times and offsets of a record in a batch, most of them numbers of variable length."""


class AskersError(Exception):
    """A process could not do what it was told."""


@dataclass(frozen=True)
class Ask:
    """The work of one process."""

    way: str
    """kafka, http or session."""
    port: int
    population: Population
    block: int
    """The block whose objects it publishes."""
    seconds: float
    per_s: float = 0.0
    """0: without any pause."""
    at_once: int = 16
    """Connections of http and session, each with one publish under way."""
    flow: bool = False
    """For kafka: flow control as in the publishers' library."""
    partitions: int = 8
    user: str = ""
    """For kafka: the user that logs in, with its name as the password; empty: no login."""
    queue_max: int = QUEUE_MAX
    """For kafka: publishes in its queue; further ones are refused at once."""
    linger_ms: int = 0
    """For kafka: how long a batch waits for more. Kafka's quotas count the bytes of a batch itself, too."""
    nice: int = 0
    """Niceness of its process: real publishers are on other machines, so the measured parts must not wait for them."""


@dataclass
class AskerOutcome:
    """The outcome of an asker."""

    sent: int = 0
    accepted: int = 0
    refused: int = 0
    failed: int = 0
    """Publishes without a known outcome."""
    begun_s: float = 0.0
    """By the machine's monotonic clock."""
    bins: Counter[int] = field(default_factory=Counter)
    """Accepted, by the BIN_S in which they were."""

    def accept(self) -> None:
        """One was, now."""
        self.accepted += 1
        self.bins[int((time.monotonic() - self.begun_s) / BIN_S)] += 1


def accepted_per_s(asked: Sequence[AskerOutcome], from_s: float, to_s: float) -> float:
    """Returns the rate of all of them together, between these seconds of their time."""
    bins = range(round(from_s / BIN_S), round(to_s / BIN_S))
    return sum(one.bins[number] for one in asked for number in bins) / max(len(bins) * BIN_S, BIN_S)


class AskerPace:
    """Decides when the next publish is due."""

    def __init__(self, per_s: float, begun_s: float) -> None:
        self._per_s, self._begun_s, self._count = per_s, begun_s, 0

    def wait_s(self) -> float:
        """For how long the next one is to wait; it counts as made then."""
        if not self._per_s:
            return 0.0
        due_s = self._begun_s + self._count / self._per_s
        self._count += 1
        return max(0.0, due_s - time.monotonic())


class Askers(Loaders):
    """A handle of several such processes; they are connected once this is made."""

    def __init__(self, asks: Sequence[Ask]) -> None:
        """Raises AskersError."""
        super().__init__(_process, asks, "publisher", AskersError)
        self._seconds = max(ask.seconds for ask in asks)
        self.answers(_ANSWER_S + len(asks) * 2)

    def begin(self) -> None:
        """All begin now."""
        self.tell(True)

    def end(self) -> list[AskerOutcome]:
        """Waits for all. Raises AskersError."""
        return [one for one in self.answers(self._seconds + 2 * _ANSWER_S) if isinstance(one, AskerOutcome)]

    def run(self) -> list[AskerOutcome]:
        """Both."""
        self.begin()
        return self.end()


def _process(ask: Ask, pipe: Pipe) -> None:
    run: dict[str, Callable[[Ask], AskerOutcome]] = {"kafka": _by_kafka, "http": _by_http, "session": _by_session}
    os.nice(ask.nice)
    pipe.send(None)
    with contextlib.suppress(EOFError):
        while pipe.recv():
            try:
                pipe.send(run[ask.way](ask))
            except Exception as error:
                pipe.send(f"{ask.way} at port {ask.port}: {type(error).__name__}: {error}")


def record_bytes(population: Population, block: int) -> int:
    """Returns the size of a publish in a large batch: key, value, and Kafka's own bytes."""
    key = f"{population.domain}/{population.group(block)}/{population.objects(block)[0]}"
    return len(key) + len(_value(time.monotonic_ns())) + _RECORD_BYTES


def _value(stamp: int) -> bytes:
    return b'{"version":%d,"payload":%d}' % (stamp, stamp)


def _by_kafka(ask: Ask) -> AskerOutcome:
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    producer = Producer(
        {
            **({**login, "sasl.username": ask.user, "sasl.password": ask.user} if ask.user else {}),
            "bootstrap.servers": f"{_HOST}:{ask.port}",
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": ask.linger_ms,
            "log_level": 0,
            "queue.buffering.max.messages": ask.queue_max,
        }
    )
    producer.list_topics(TOPICS.objects, timeout=_ANSWER_S)
    population, group = ask.population, ask.population.group(ask.block)
    partition = partition_of(population.domain, group, ask.partitions)
    keys = [f"{population.domain}/{group}/{name}".encode() for name in population.objects(ask.block)]
    limit = FlowLimit.named(DEFAULT if ask.flow else FIXED, _HIGHEST if ask.flow else 2 * QUEUE_MAX, KAFKA)
    asked = AskerOutcome(begun_s=time.monotonic())
    pace, until_s = AskerPace(ask.per_s, asked.begun_s), asked.begun_s + ask.seconds

    def begin(taken_s: float) -> Callable[[Any, Any], None]:
        def on_delivery(error: Any, _message: Any) -> None:
            if error is None:
                limit.acknowledged(time.monotonic(), taken_s)
                asked.accept()
            else:
                limit.failed()
                asked.failed += 1

        return on_delivery

    while (now_s := time.monotonic()) < until_s:
        if wait_s := pace.wait_s():
            producer.poll(wait_s)
        while not limit.take():
            producer.poll(0.001)
        stamp = time.monotonic_ns()
        value = _value(stamp)
        asked.sent += 1
        try:
            producer.produce(TOPICS.objects, value, keys[asked.sent % len(keys)], partition, on_delivery=begin(now_s))
        except BufferError:
            limit.failed()
            asked.refused += 1
        producer.poll(0)
    producer.flush(_ANSWER_S)
    return asked


def _by_http(ask: Ask) -> AskerOutcome:
    return asyncio.run(_all_at_once(ask, _http_connection))


def _by_session(ask: Ask) -> AskerOutcome:
    return asyncio.run(_all_at_once(ask, _session))


async def _all_at_once(ask: Ask, one: Callable[[Ask, AskerOutcome, AskerPace, int], Any]) -> AskerOutcome:
    asked = AskerOutcome(begun_s=time.monotonic())
    pace = AskerPace(ask.per_s, asked.begun_s)
    await asyncio.gather(*(one(ask, asked, pace, number) for number in range(ask.at_once)))
    return asked


async def _http_connection(ask: Ask, asked: AskerOutcome, pace: AskerPace, number: int) -> None:
    population, group = ask.population, ask.population.group(ask.block)
    names = population.objects(ask.block)
    base = f"/v1/domains/{population.domain}/groups/{group}/objects/"
    until_s = asked.begun_s + ask.seconds
    reader, writer = await asyncio.open_connection(_HOST, ask.port)
    while time.monotonic() < until_s:
        await asyncio.sleep(pace.wait_s())
        stamp = time.monotonic_ns()
        body = _value(stamp)
        path = f"{base}{names[(number + asked.sent) % len(names)]}?outcome=no".encode()
        asked.sent += 1
        try:
            begin = b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % (path, len(body))
            writer.write(begin + body)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
            await reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError):
            asked.failed += 1
            reader, writer = await asyncio.open_connection(_HOST, ask.port)
            continue
        status = int(head[9:12])
        if status == _OK:
            asked.accept()
        elif status in (_ABOVE, _BUSY):
            asked.refused += 1
        else:
            asked.failed += 1
    writer.close()


async def _session(ask: Ask, asked: AskerOutcome, pace: AskerPace, number: int) -> None:
    population, group = ask.population, ask.population.group(ask.block)
    names = population.objects(ask.block)
    until_s = asked.begun_s + ask.seconds
    reader, writer = await asyncio.open_connection(_HOST, ask.port)
    client = f"asker-{ask.block}-{number}"
    hello = Hello(protocol=1, domain=population.domain, group=group, client=client)
    writer.write(encode(ClientFrame(hello=hello)))
    frames = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)

    async def until(*kinds: str) -> GatewayFrame:
        while data := await reader.read(_READ_BYTES):
            for body in frames.feed(data):
                frame = parse_gateway_frame(body)
                kind = frame.WhichOneof("frame")
                if kind in kinds:
                    return frame
                if kind == "close":
                    raise AskersError(f"the gateway says {frame.close.reason}")
        raise AskersError("the gateway has ended a session")

    await until("caught_up")
    request = 1
    while time.monotonic() < until_s:
        await asyncio.sleep(pace.wait_s())
        stamp = time.monotonic_ns()
        said = Publish(request=request, object=names[asked.sent % len(names)], version=stamp, payload=b"%d" % stamp)
        writer.write(encode(ClientFrame(publish=said)))
        asked.sent += 1
        if (await until("published", "not_published")).HasField("published"):
            asked.accept()
            request += 1
        else:
            asked.refused += 1  # the next one comes in its place
    writer.close()
