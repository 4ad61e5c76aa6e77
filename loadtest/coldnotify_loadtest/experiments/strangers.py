"""strangers: the effect on a device of expensive requests by strangers in another domain and partition.

like          clients that register expressions which RE2 has to follow step by step, over many objects with long names
changes       an object changes a long text that such expressions of one client look at
explanations  GET .../explanation, again and again, of a client that is away and has 64 of them
find          one-time queries of this kind
channels      a client with thousands of channels comes back to a log of which it lacks all

All of it is at the matcher that serves the device, too. Of the device's publishes it counts how long each took, before
the strangers come, while they ask, and after; and how long /readyz took meanwhile.
"""

import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from coldnotify_load.open_loop import PublisherHandle, PublishPlan
from coldnotify_load.population import Population
from coldnotify_load.swarm import Swarm
from coldnotify_schemas.digest import MODULUS
from coldnotify_schemas.frames import encode
from coldnotify_schemas.interests import query_hash
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.protocol import PROTOCOL_VERSION, QUERIES_MAX
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.wire_pb2 import (
    CAPABILITY_NAMES,
    CAPABILITY_QUERIES,
    INTEREST_QUERY,
    Bye,
    ClientFrame,
    Hello,
    Interest,
)
from coldnotify_testkit.raw_client import RawClient
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, Row, identity, settle
from coldnotify_loadtest.channel_devices import returning_devices
from coldnotify_loadtest.devices import KINDS
from coldnotify_loadtest.servers import HOST, ColdNotify
from coldnotify_loadtest.tables import Shape

TOPICS = TopicNames()

PARTS = ("like", "changes", "explanations", "find", "channels")
_CALM = Population(1, 1, 1, domain="calm")
_DOMAIN = "stranger"
_NAME_CHARS = 250
_TEXT_CHARS = 256
_QUERIES_EACH = 4

_READY_EVERY_S = 0.2
_PROBE_S = 60.0
_START_S = 15.0
_PAYLOAD = b"x" * 100


def run(bench: BenchRun) -> None:
    """Raises ValueError for an unknown part."""
    if unknown := set(bench["parts"]) - set(PARTS):
        raise ValueError(f"parts: unknown value {min(unknown)!r}, expected one of {', '.join(PARTS)}")
    with ColdNotify(bench.new_directory()) as server:
        server.warm_up(bench["warm_up_s"])
        strangers = _Strangers(bench, server)
        strangers.publish_objects()
        with (
            Swarm(KINDS[server.kind], _CALM, 1, server.addresses(), processes=1) as swarm,
            PublisherHandle(server.target(_CALM)) as publisher,
        ):
            swarm.add(1)
            swarm.wait_ready(READY_S)
            _latency(bench, swarm, publisher, bench["seconds"] / 4)
            for part in bench["parts"]:
                bench.progress.step(part)
                with getattr(strangers, part)() as ask:
                    before = _latency(bench, swarm, publisher, bench["seconds"])
                    during = _beside(bench, server, ask, lambda: _latency(bench, swarm, publisher, bench["seconds"]))
                after = _latency(bench, swarm, publisher, bench["seconds"])
                bench.rows.append({**identity(server), "part": part, "before": before, **during, "after": after})


def _latency(bench: BenchRun, swarm: Swarm, publisher: PublisherHandle, seconds: float) -> Row:
    """The device's, from publish to callback."""
    swarm.record()
    published = publisher.publish(PublishPlan(bench["per_s"], seconds))
    settle(swarm, published.sent)
    delivered, _ = swarm.take()
    return {**delivered.summary(), "not_told": published.sent - delivered.count}


def _beside(bench: BenchRun, server: ColdNotify, ask: Callable[[], bool], measured: Callable[[], Row]) -> Row:
    """Measures while strangers ask, each as soon as it is answered; and while /readyz is asked."""
    end, asked, slowest = threading.Event(), [0] * bench["at_once"], [0.0]

    def go_on(number: int) -> None:
        until_s = time.monotonic() + 3 * bench["seconds"]
        while not end.is_set() and time.monotonic() < until_s and asked[number] < bench["asked_max"]:
            if not ask():
                end.wait(0.05)
            asked[number] += 1

    def look() -> None:
        while not end.wait(_READY_EVERY_S):
            begun_s = time.monotonic()
            status = _get(server.http_port("matcher-1"), "/readyz", _PROBE_S)
            slowest[0] = max(slowest[0], time.monotonic() - begun_s if status == 200 else _PROBE_S)

    threads = [threading.Thread(target=go_on, args=(number,), daemon=True) for number in range(len(asked))]
    threads.append(threading.Thread(target=look, daemon=True))
    for thread in threads:
        thread.start()
    try:
        during = measured()
    finally:
        end.set()
        for thread in threads:
            thread.join(_PROBE_S)
    return {"during": during, "asked": sum(asked), "readyz_max_ms": round(slowest[0] * 1000, 1)}


def _get(port: int, path: str, timeout_s: float) -> int:
    """The status; 0: no answer."""
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}{path}", timeout=timeout_s) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


class _Strangers:
    """They share one group."""

    def __init__(self, bench: BenchRun, server: ColdNotify) -> None:
        self._bench, self._server = bench, server
        self._random = random.Random(1)
        self._producer = Producer({"bootstrap.servers": server.kafka, "linger.ms": 5})
        partitions = server.target(_CALM).partitions
        calm = partition_of(_CALM.domain, _CALM.group(0), partitions)
        self.group = next(g for n in range(1000) if partition_of(_DOMAIN, g := f"g{n}", partitions) != calm)
        self._partition = partition_of(_DOMAIN, self.group, partitions)
        self._lock = threading.Lock()
        self._number = 0

    def publish_objects(self) -> None:
        """Many, with long names."""
        for number in range(self._bench["objects"]):
            name = self._text(_NAME_CHARS - 8) + f"{number:08}"
            self._produce(f"{_DOMAIN}/{self.group}/{name}", b'{"version":1}')
        self._producer.flush(READY_S)

    def _produce(self, key: str, value: bytes, topic: str = TOPICS.objects) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, self._partition)
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(0.1)

    def _text(self, chars: int) -> str:
        return "".join(self._random.choices("ab", k=chars))

    def _texts(self, count: int, condition: str = "NAME LIKE") -> list[str]:
        """Returns texts of queries that nobody had before."""
        with self._lock:
            numbers = range(self._number, self._number + count)
            self._number += count
        return [f'{condition} "((a|b|ab|aa){{0,30}}){{8}}c{number}"' for number in numbers]

    def _visit(self, client: str, texts: Sequence[str]) -> RawClient:
        """A client that registers for these, and has been answered."""
        device = RawClient(self._server.port)
        hello = Hello(
            protocol=PROTOCOL_VERSION,
            capabilities=CAPABILITY_NAMES | CAPABILITY_QUERIES,
            domain=_DOMAIN,
            group=self.group,
            client=client,
            digest=sum(map(query_hash, texts)) % MODULUS,
            interests=[Interest(kind=INTEREST_QUERY, text=text) for text in texts],
            keepalive_s=60,
        )
        device.send(encode(ClientFrame(hello=hello)))
        while (frame := device.frame()) is not None and frame.WhichOneof("frame") != "caught_up":
            if frame.WhichOneof("frame") == "page_end":
                device.say(ack={"page": frame.page_end.page})
        return device

    @contextmanager
    def like(self) -> Iterator[Callable[[], bool]]:
        """Each asking is a client that comes with four, and goes."""

        def ask() -> bool:
            texts = self._texts(_QUERIES_EACH)
            try:
                with self._visit(f"like-{query_hash(texts[0]):x}", texts) as device:
                    device.send(encode(ClientFrame(bye=Bye())))
            except OSError:
                return False
            return True

        yield ask

    @contextmanager
    def changes(self) -> Iterator[Callable[[], bool]]:
        """Each asking is a change."""
        with self._visit("changes", self._texts(QUERIES_MAX, "text LIKE")):

            def ask() -> bool:
                value = b'{"description":{"text":"%s"}}' % self._text(_TEXT_CHARS).encode()
                self._produce(f"describe:{_DOMAIN}/{self.group}/changing", value)
                time.sleep(1 / self._bench["changes_per_s"])
                return True

            yield ask

    @contextmanager
    def explanations(self) -> Iterator[Callable[[], bool]]:
        """Yields requests for explanations of a client that is away."""
        with self._visit("explained", self._texts(QUERIES_MAX, "text LIKE")) as device:
            device.send(encode(ClientFrame(bye=Bye())))
        name = "explained"
        self._produce(f"{_DOMAIN}/{self.group}/{name}", b'{"version":1}')
        value = b'{"description":{"text":"%s"}}' % self._text(_TEXT_CHARS).encode()
        self._produce(f"describe:{_DOMAIN}/{self.group}/{name}", value)
        self._producer.flush(READY_S)
        path = f"/v1/domains/{_DOMAIN}/groups/{self.group}/clients/explained/explanation?object={name}"
        port = self._server.http_port("matcher-1")
        wait_for(lambda: _get(port, path, _PROBE_S) == 200, "the client can be explained", READY_S)
        yield lambda: _get(port, path, _PROBE_S) == 200

    @contextmanager
    def find(self) -> Iterator[Callable[[], bool]]:
        """Over all objects."""
        port = self._server.http_port("matcher-1")

        def ask() -> bool:
            (text,) = self._texts(1)
            path = f"/v1/domains/{_DOMAIN}/groups/{self.group}/objects?query={urllib.parse.quote(text)}"
            return _get(port, path, _PROBE_S) == 200

        yield ask

    @contextmanager
    def channels(self) -> Iterator[Callable[[], bool]]:
        """Each request is a wake of the same client without any knowledge of what was sent."""
        names = [f"c-{number}" for number in range(self._bench["channels"])]
        wants, group = [("channels", names)], f"{_DOMAIN}/{self.group}"
        with returning_devices(HOST, self._server.port, group, wants, READY_S) as devices:
            for number in range(self._bench["messages"]):
                self._produce(f"{group}/{names[number % len(names)]}", _PAYLOAD, TOPICS.channels_1d)
            self._producer.flush(READY_S)
            turn = threading.Lock()

            def ask() -> bool:
                if not turn.acquire(timeout=READY_S):
                    return False
                try:
                    devices.come_back([0])
                    devices.back(READY_S)
                except (ConnectionError, TimeoutError):
                    return False
                finally:
                    turn.release()
                return True

            yield ask


def steps(parameters: Parameters) -> int:
    """Parts."""
    return len(parameters["parts"])


def seconds_of(parameters: Parameters) -> float:
    """About."""
    return float(_START_S + steps(parameters) * (3 * parameters["seconds"] + 6))


_TABLES = (
    Shape(
        "A device, and strangers in another domain and another partition",
        {"strangers": "part"},
        {
            "p50 ms, before": "before.p50_ms",
            "p99 ms, before": "before.p99_ms",
            "p50 ms, beside them": "during.p50_ms",
            "p99 ms, beside them": "during.p99_ms",
            "p99 ms, after": "after.p99_ms",
            "slowest, ms": "during.max_ms",
            "not told": "during.not_told",
            "they asked": "asked",
            "slowest /readyz, ms": "readyz_max_ms",
        },
    ),
)
STRANGERS = Experiment(
    "strangers",
    "a device beside strangers who ask for dear things",
    {
        "parts": PARTS,
        "seconds": 30.0,
        "per_s": 10.0,
        "objects": 1_000,
        "changes_per_s": 20.0,
        "channels": 9_000,
        "messages": 60_000,
        "at_once": 4,
        "asked_max": 10_000,
        "warm_up_s": 5.0,
    },
    {"seconds": 2.0, "objects": 50, "channels": 100, "messages": 300, "warm_up_s": 0.5, "at_once": 2},
    seconds_of,
    steps,
    run,
    _TABLES,
)
