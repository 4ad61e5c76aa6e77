"""channels: every message, to many; to a client that was away for long; and the rate of sending.

The parts:

    live     steps of `step` subscribers and 10 channels each, every channel one message of 140 bytes a second, each
             subscriber of one channel: MigratoryData's vertical table, smaller (theirs: 100,000 and 10 topics a step)
    behind   a client that was away for `behind` messages over 50 channels, among `others` of other channels; while it
             is told them, and before, `beside` clients of the group are told an object `beside_per_s` times a second
    burst    `burst` messages without subscribers come at once, while those clients are told that object
    many     `many` messages to 1, 1,000 and 100,000 channels of one log: what following them takes
    partitions  the embedded broker without and with the topics of channels: start, memory
    sending  acknowledged messages a second by Kafka, by HTTP one by one and 1,000 a request, on a session, by an outbox
"""

import os
import threading
import time
from collections.abc import Callable

from coldnotify import Connection, Message, Missed, Notify, State
from coldnotify_kafka import topic_plan, topics
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_load.open_loop import PublishPlan
from coldnotify_load.population import Population
from coldnotify_load.processes import Meter, usage
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, identity, measure
from coldnotify_loadtest.channel_devices import channel_devices
from coldnotify_loadtest.experiments.channel_sending import send_by_all_ways
from coldnotify_loadtest.servers import HOST, ColdNotify
from coldnotify_loadtest.tables import Shape

TOPICS = TopicNames()

PARTS = ("live", "behind", "burst", "many", "partitions", "sending")
DOMAIN, GROUP = "animal.observer", "region-1"
HOME = partition_of(DOMAIN, GROUP, 8)
CHANNELS_A_STEP = 10
CHANNELS_BEHIND = 50
_PAYLOAD_BYTES = 140
_OTHER_PAYLOAD = b"x" * 100
_OTHER_CHANNELS = 1000
_EVENTS = "coldnotify_matcher_events_total"
MANY = (1, 1_000, 100_000)


def run(bench: BenchRun) -> None:
    """Each part has its own service."""
    if unknown := set(bench["parts"]) - set(PARTS):
        raise ValueError(f"parts: unknown value {min(unknown)!r}, expected one of {', '.join(PARTS)}")
    parts: dict[str, Callable[[BenchRun, ColdNotify], None]] = {
        "live": _live, "behind": _behind, "burst": _burst, "many": _many, "sending": send_by_all_ways,
    }  # fmt: skip
    for part in bench["parts"]:
        if part == "partitions":
            _partitions(bench)
            continue
        with ColdNotify(bench.new_directory(), as_up=True) as server:
            server.warm_up(bench["warm_up_s"])
            parts[part](bench, server)


# --- live


def _live(bench: BenchRun, server: ColdNotify) -> None:
    for step in range(1, bench["steps"] + 1):
        subscribers, channels = step * bench["step"], step * CHANNELS_A_STEP
        bench.progress.step(f"{subscribers} subscribers")
        names = [(f"client-{step}-{n}", f"topic-{n % channels}") for n in range(subscribers)]
        with channel_devices(HOST, server.port, f"{DOMAIN}/{GROUP}", names, READY_S) as devices:
            _send_for(server, channels, bench["warm_up_s"])
            devices.begin()
            meter, begun_s = Meter(server.roles()), time.monotonic()
            _send_for(server, channels, bench["live_s"])
            passed_s = time.monotonic() - begun_s
            used, told = meter.read(), devices.told()
            cpu_s = sum(one["cpu_s"] for one in used.values())
            bench.rows.append(
                {
                    **identity(server),
                    "part": "live",
                    "subscribers": subscribers,
                    "channels": channels,
                    "messages": told.messages,
                    "per_s": round(told.messages / passed_s),
                    "gaps": told.gaps,
                    **told.latencies.summary(),
                    "p90_ms": round(told.latencies.percentile_ms(90), 3) if told.messages else None,
                    "mbit_s": round(told.bytes * 8 / passed_s / 1e6, 2),
                    "cpu_share": round(cpu_s / passed_s, 3),
                    "per_busy_core_s": round(told.messages / cpu_s) if cpu_s else None,
                    "used": used,
                }
            )


def _send_for(server: ColdNotify, channels: int, seconds: float) -> None:
    """Sends one message a second to each channel, spread evenly, until all of them are told."""
    producer = Producer({"bootstrap.servers": server.kafka, "linger.ms": 0, "acks": "all"})
    begun_s = time.monotonic()
    for number in range(round(seconds * channels)):
        due_s = begun_s + number / channels
        while (wait_s := due_s - time.monotonic()) > 0:
            producer.poll(wait_s)  # returns sooner once something is acknowledged
        value = time.monotonic_ns().to_bytes(8, "big") + os.urandom(_PAYLOAD_BYTES - 8)
        key = f"{DOMAIN}/{GROUP}/topic-{number % channels}"
        producer.produce(TOPICS.channels_1d, value, key, HOME)
    producer.flush(READY_S)
    time.sleep(1)  # the last ones are on their way


# --- behind


def _behind(bench: BenchRun, server: ColdNotify) -> None:
    names = [f"sensor-{number}" for number in range(CHANNELS_BEHIND)]
    unit = _Unit(bench, server, names)
    with unit.connected():
        pass
    beside, plan = bench["beside"], PublishPlan(bench["beside_per_s"], bench["beside_s"])
    with bench.load(server, Population(fan_out=beside), beside) as (swarm, publisher):
        publisher.publish(PublishPlan(bench["beside_per_s"], bench["warm_up_s"]))
        without = measure(server, swarm, publisher, plan, beside)
        sent = _send_among_others(bench, server, names)
        bench.progress.step("the client comes back")
        before = server.metric("matcher-1", _EVENTS, event="block_bytes")
        meter, begun_s = Meter(server.roles()), time.monotonic()
        with unit.connected(waits=False):
            meanwhile = measure(server, swarm, publisher, plan, beside)
            is_meanwhile = len(unit.told) + len(unit.missed) < sent
            wait_for(lambda: len(unit.told) + len(unit.missed) >= sent, "all are told", READY_S)
            passed_s = time.monotonic() - begun_s
    order = all(
        [int(one.data) for one in unit.told if one.channel == name] == list(range(place, sent, len(names)))
        for place, name in enumerate(names)
    )
    used = meter.read()
    bench.rows.append(
        {
            **identity(server),
            "part": "behind",
            "others": bench["others"],
            "messages": len(unit.told),
            "missed": len(unit.missed),
            "in_order": "yes" if order else "no",
            "seconds": round(passed_s, 2),
            "read_mib": round((server.metric("matcher-1", _EVENTS, event="block_bytes") - before) / 2**20, 1),
            "matcher_cpu_s": used["matcher"]["cpu_s"],
            "matcher_mib": used["matcher"]["memory_mib"],
            "p99_ms_without": without["p99_ms"],
            "p99_ms": meanwhile["p99_ms"],
            "is_meanwhile": "yes" if is_meanwhile else "no",
        }
    )


def _send_among_others(bench: BenchRun, server: ColdNotify, names: list[str]) -> int:
    """Returns how many messages of these channels were sent; the matcher has read all."""
    bench.progress.step(f"{bench['others']} messages of others")
    every = max(bench["others"] // bench["behind"], 1)
    producer = Producer({"bootstrap.servers": server.kafka, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    sent = 0
    for number in range(bench["others"]):
        _produce(producer, f"other-{number % _OTHER_CHANNELS}", _OTHER_PAYLOAD)
        if number % every == 0 and sent < bench["behind"]:
            _produce(producer, names[sent % len(names)], b"%d" % sent)
            sent += 1
    producer.flush(READY_S)
    _wait_followed(server, bench["others"] + sent)
    return sent


def _produce(producer: Producer, channel: str, value: bytes) -> None:
    while True:
        try:
            producer.produce(TOPICS.channels_1d, value, f"{DOMAIN}/{GROUP}/{channel}", HOME)
            producer.poll(0)
        except BufferError:
            producer.poll(0.1)
        else:
            return


# --- burst


def _burst(bench: BenchRun, server: ColdNotify) -> None:
    beside, plan = bench["beside"], PublishPlan(bench["beside_per_s"], bench["beside_s"])
    with bench.load(server, Population(fan_out=beside), beside) as (swarm, publisher):
        publisher.publish(PublishPlan(bench["beside_per_s"], bench["warm_up_s"]))
        without = measure(server, swarm, publisher, plan, beside)
        bench.progress.step(f"{bench['burst']} messages at once")
        took: list[tuple[float, float]] = []
        sender = threading.Thread(target=lambda: took.append(_send_at_once(server, bench["burst"])))
        sender.start()
        meanwhile = measure(server, swarm, publisher, plan, beside)
        sender.join()
    sent_s, followed_s = took[0]
    bench.rows.append(
        {
            **identity(server),
            "part": "burst",
            "messages": bench["burst"],
            "sent_s": round(sent_s, 2),
            "followed_s": round(followed_s, 2),
            "p50_ms_without": without["p50_ms"],
            "p99_ms_without": without["p99_ms"],
            "p50_ms": meanwhile["p50_ms"],
            "p99_ms": meanwhile["p99_ms"],
            "max_ms": meanwhile["max_ms"],
        }
    )


def _send_at_once(server: ColdNotify, messages: int) -> tuple[float, float]:
    """After how many seconds all were sent, and the matcher had followed them."""
    begun_s, before = time.monotonic(), _followed(server)
    producer = Producer({"bootstrap.servers": server.kafka, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for number in range(messages):
        _produce(producer, f"other-{number % _OTHER_CHANNELS}", _OTHER_PAYLOAD)
    producer.flush(READY_S)
    sent_s = time.monotonic() - begun_s
    _wait_followed(server, before + messages)
    return sent_s, time.monotonic() - begun_s


# --- many


def _many(bench: BenchRun, server: ColdNotify) -> None:
    for channels in MANY:
        bench.progress.step(f"{bench['many']} messages to {channels} channels")
        before, meter, begun_s = _followed(server), Meter(server.roles()), time.monotonic()
        producer = Producer({"bootstrap.servers": server.kafka, "linger.ms": 20})
        for number in range(bench["many"]):
            _produce(producer, f"many-{channels}-{number % channels}", _OTHER_PAYLOAD)
        producer.flush(READY_S)
        _wait_followed(server, before + bench["many"])
        passed_s, matcher = time.monotonic() - begun_s, meter.read()["matcher"]
        bench.rows.append(
            {
                **identity(server),
                "part": "many",
                "channels": channels,
                "messages": bench["many"],
                "per_s": round(bench["many"] / passed_s),
                "matcher_us": round(matcher["cpu_s"] / bench["many"] * 1e6, 1),
                "matcher_mib": matcher["memory_mib"],
            }
        )


# --- partitions


def _partitions(bench: BenchRun) -> None:
    specs = topics.load(topics.EMBEDDED_PARTITIONS)
    for with_channels in (False, True):
        bench.progress.step(f"the broker {'with' if with_channels else 'without'} the topics of channels")
        wanted = [spec for spec in specs if with_channels or spec.name not in (*TOPICS.channels, TOPICS.channels_state)]
        data = bench.new_directory() / "data"
        with EmbeddedBroker(data) as broker:
            topic_plan.apply(AdminClient({"bootstrap.servers": broker.bootstrap}), wanted)
        begun_s = time.monotonic()
        with EmbeddedBroker(data) as broker:
            passed_s = time.monotonic() - begun_s
            used = usage([broker.pid])
        bench.rows.append(
            {
                "server": ColdNotify.name,
                "part": "partitions",
                "with_channels": "yes" if with_channels else "no",
                "partitions": sum(spec.partitions for spec in wanted),
                "start_s": round(passed_s, 2),
                "start_cpu_s": round(used.cpu_s, 2),
                "broker_mib": round(used.resident_bytes / 2**20),
            }
        )


def _wait_followed(server: ColdNotify, messages: float) -> None:
    wait_for(lambda: _followed(server) >= messages, "all is followed", READY_S)


def _followed(server: ColdNotify) -> float:
    """Returns the number of messages that the matcher has followed."""
    return server.metric("matcher-1", "coldnotify_matcher_messages_total", outcome="followed")


class _Unit:
    """A client that subscribes to channels, and comes and goes."""

    def __init__(self, bench: BenchRun, server: ColdNotify, channels: list[str]) -> None:
        self.told: list[Message] = []
        self.missed: list[Missed] = []
        self._state = bench.directory / f"unit-{len(bench.rows)}.state"
        self._server = server
        self._channels = channels

    def connected(self, *, waits: bool = True) -> "_Connected":
        """For a block; `waits`: until it is caught up."""
        notify = Notify(DOMAIN, GROUP, "unit", State(self._state), Connection(HOST, self._server.port))
        for name in self._channels:
            notify.channel(name, since="now").subscribe(self.told.append, on_missed=self.missed.append)
        return _Connected(notify, waits)


class _Connected:
    def __init__(self, notify: Notify, waits: bool) -> None:
        self._notify, self._waits = notify, waits

    def __enter__(self) -> None:
        self._notify.connect()
        if self._waits and not self._notify.wait_caught_up(timeout_s=READY_S):
            raise TimeoutError("the client is not caught up")

    def __exit__(self, *_: object) -> None:
        self._notify.disconnect()


def seconds(parameters: Parameters) -> float:
    """About."""
    live = parameters["steps"] * (parameters["live_s"] + parameters["warm_up_s"] + 15)
    sending = 5 * len(parameters["payloads_bytes"]) * parameters["sending_s"]
    behind = parameters["others"] / 20_000 + 2 * parameters["beside_s"] + 60
    many = len(MANY) * parameters["many"] / 25_000 + 30
    burst = parameters["burst"] / 50_000 + 2 * parameters["beside_s"] + 30
    return float(live + behind + burst + many + sending)


_TABLES = (
    Shape(
        "Messages of 140 bytes, one a second to each channel (MigratoryData at a million subscribers: mean 92 ms, "
        "p99 691 ms, 90,000 deliveries a busy core)",
        {"subscribers": "subscribers", "channels": "channels"},
        {
            "told": "messages",
            "a second": "per_s",
            "gaps": "gaps",
            "median ms": "p50_ms",
            "mean": "mean_ms",
            "sd": "std_ms",
            "p90": "p90_ms",
            "p95": "p95_ms",
            "p99": "p99_ms",
            "Mbit/s": "mbit_s",
            "busy cores": "cpu_share",
            "a busy core and second": "per_busy_core_s",
        },
        lambda row: row["part"] == "live",
    ),
    Shape(
        "A client comes back to 50 channels",
        {"messages of others": "others", "in order": "in_order", "all the time": "is_meanwhile"},
        {
            "told": "messages",
            "missed": "missed",
            "seconds": "seconds",
            "payloads read from Kafka, MiB": "read_mib",
            "matcher's CPU s": "matcher_cpu_s",
            "matcher MiB": "matcher_mib",
            "an object's p99 ms before": "p99_ms_without",
            "meanwhile": "p99_ms",
        },
        lambda row: row["part"] == "behind",
    ),
    Shape(
        "Messages that come at once, and an object that is told meanwhile",
        {"messages": "messages"},
        {
            "sent within s": "sent_s",
            "followed within s": "followed_s",
            "an object's median ms before": "p50_ms_without",
            "p99 before": "p99_ms_without",
            "median meanwhile": "p50_ms",
            "p99 meanwhile": "p99_ms",
            "longest": "max_ms",
        },
        lambda row: row["part"] == "burst",
    ),
    Shape(
        "Messages to so many channels of one log: until the matcher has followed them",
        {"channels": "channels", "messages": "messages"},
        {"a second": "per_s", "matcher's CPU us a message": "matcher_us", "matcher MiB": "matcher_mib"},
        lambda row: row["part"] == "many",
    ),
    Shape(
        "The embedded broker",
        {"topics of channels": "with_channels", "partitions": "partitions"},
        {"start s": "start_s", "its CPU s": "start_cpu_s", "MiB": "broker_mib"},
        lambda row: row["part"] == "partitions",
    ),
    Shape(
        "Messages sent and acknowledged (RocketSpeed's Pilot: 140,000 to 160,000 a second at 150 ms)",
        {"way": "way", "payload bytes": "payload_bytes"},
        {
            "a second": "per_s",
            "p50 ms of a request": "p50_ms",
            "p99": "p99_ms",
            "in Kafka, a second": "published_per_s",
        },
        lambda row: row["part"] == "sending",
    ),
)
CHANNELS = Experiment(
    "channels",
    "every message: to many, to one far behind, and how fast they are sent",
    {
        "parts": PARTS, "steps": 4, "step": 500, "live_s": 20, "warm_up_s": 5, "behind": 100_000, "others": 1_000_000,
        "burst": 1_000_000, "many": 200_000, "beside": 100, "beside_per_s": 20, "beside_s": 20,
        "payloads_bytes": (0, 1024, 65_536), "sending_s": 5, "processes": 1,
    },
    {
        "steps": 1, "step": 50, "live_s": 3, "warm_up_s": 1, "behind": 500, "others": 5_000, "burst": 5_000,
        "many": 2_000, "beside": 5, "beside_s": 1, "sending_s": 1,
    },
    seconds,
    lambda parameters: int(parameters["steps"]) + 9 + 5 * len(parameters["payloads_bytes"]),
    run,
    _TABLES,
)  # fmt: skip
"""Experiments by name."""
