"""Clients come back to channels after a minute, an hour and a day, each wanting a share of them.

The log holds one day: 10 million messages unless scaled down. Devices of a real service come back at once, while others
are told an object: time, what was read of the log, CPU, and the object's latency before and meanwhile.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from statistics import median

from coldnotify_load.open_loop import PublisherHandle, PublishPlan
from coldnotify_load.population import Population
from coldnotify_load.processes import Meter
from coldnotify_load.swarm import Swarm
from coldnotify_schemas.interests import pattern_name
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, Row, identity, settle
from coldnotify_loadtest.channel_devices import ReturningDevices, returning_devices
from coldnotify_loadtest.drawn_log import DrawnLog
from coldnotify_loadtest.servers import HOST, ColdNotify
from coldnotify_loadtest.tables import Shape

TOPICS = TopicNames()

FULL_MESSAGES = 10_000_000
DAY_MIN = 24 * 60
DOMAIN, GROUP = "animal.observer", "region-1"
HOME = partition_of(DOMAIN, GROUP, 8)
_PAYLOAD = b"x" * 100
_FULL_BYTES = 72 * 1024 * 1024
"""A log that no other one competes with has 8 MiB of these for its latest messages."""
_KEPT_BYTES_MIN = 3 * 1024 * 1024
"""The settings take no less."""
_OF_PATTERN = 1.0
"""The share, in percent, that clients also want by a pattern."""
_PLAN_S = 1.0
"""The object is published for so long, and again, until all clients are told."""


def _wanted(bench: BenchRun, percent: float) -> int:
    return int(max(1, round(bench["channels"] * percent / 100)))


def _pattern(number: int) -> str:
    """Returns the name of a pattern that fits one channel in a hundred, by its last digits."""
    digits = number % 100
    return pattern_name(f"^c-([0-9]+{digits:02}|{digits})$")


def _fitting(channels: int, number: int) -> list[int]:
    """Returns the channels that this one fits."""
    return list(range(number % 100, channels, 100))


def _lag(messages: int, minutes: int) -> int:
    """Returns how many messages of a day's log come in that time."""
    return max(1, round(messages * minutes / DAY_MIN))


def _kept_bytes(messages: int) -> int:
    """Returns the limit on memory, scaled down as far as the log: else nearly all of it would be in memory."""
    return max(_FULL_BYTES * messages // FULL_MESSAGES, _KEPT_BYTES_MIN)


def _told(bench: BenchRun) -> None:
    messages = bench["messages"]
    drawn = DrawnLog(messages, bench["channels"])
    with ExitStack() as stack:
        settings = {"matcher-channels-bytes-max": _kept_bytes(messages)}
        server = ColdNotify(bench.new_directory(), settings=settings)
        stack.enter_context(server)
        server.warm_up(bench["warm_up_s"])
        groups = []
        for percent in bench["shares_percent"]:
            wanted = _wanted(bench, percent)
            wants = [drawn.draw_channels(wanted) for _ in range(_clients(bench, wanted, min(bench["behind_min"])))]
            bench.progress.step(f"{len(wants)} clients register for {wanted} channels")
            names = [(f"client-{wanted}-{n}", [f"c-{one}" for one in some]) for n, some in enumerate(wants)]
            devices = returning_devices(HOST, server.port, f"{DOMAIN}/{GROUP}", names, READY_S)
            groups.append((f"{percent:g}", wants, stack.enter_context(devices)))
            if percent == _OF_PATTERN:
                bench.progress.step(f"{len(wants)} clients register for a pattern of as many")
                wants = [_fitting(bench["channels"], n) for n in range(len(wants))]
                names = [(f"pattern-{n}", [_pattern(n)]) for n in range(len(wants))]
                devices = returning_devices(HOST, server.port, f"{DOMAIN}/{GROUP}", names, READY_S)
                groups.append((f"{percent:g} by pattern", wants, stack.enter_context(devices)))
        bench.progress.step(f"{messages} messages")
        _fill(server, drawn)
        beside = _Beside(
            bench, *stack.enter_context(bench.load(server, Population(fan_out=bench["beside"]), bench["beside"]))
        )
        beside.publish(_past(bench["warm_up_s"]))
        for minutes in bench["behind_min"]:
            # Each group comes back to the same places of the log: how many blocks are read depends on them.
            lags = [drawn.draw_behind(_lag(messages, minutes)) for _ in range(bench["clients"])]
            for percent, wants, group in groups:
                some = wants[: _clients(bench, len(wants[0]), minutes)]
                bench.progress.step(f"{len(some)} clients come back to {len(some[0])} channels after {minutes} min")
                row = {"behind_min": minutes, **_come_back(server, drawn, some, lags[: len(some)], group, beside)}
                bench.rows.append({**identity(server), "percent": percent, **row})


def _clients(bench: BenchRun, wanted: int, minutes: int) -> int:
    """Returns the number of clients whose registrations and messages stay below `told_max`; at least one."""
    told = round(_lag(bench["messages"], minutes) * wanted / bench["channels"])
    return int(max(1, min(bench["clients"], bench["told_max"] // max(wanted, told))))


def _fill(server: ColdNotify, drawn: DrawnLog) -> None:
    producer = Producer({"bootstrap.servers": server.kafka, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for channel in drawn.channel_at:
        while True:
            try:
                producer.produce(TOPICS.channels_1d, _PAYLOAD, f"{DOMAIN}/{GROUP}/c-{channel}", HOME)
                producer.poll(0)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(READY_S)
    wait_for(lambda: _followed(server) >= len(drawn), "the matcher has read all", READY_S)


def _followed(server: ColdNotify) -> float:
    return server.metric("matcher-1", "coldnotify_matcher_messages_total", outcome="followed")


def _count(server: ColdNotify, what: str) -> float:
    return server.metric("matcher-1", "coldnotify_matcher_events_total", event=what)


class _Beside:
    """Clients of the same group that are told an object."""

    def __init__(self, bench: BenchRun, swarm: Swarm, publisher: PublisherHandle) -> None:
        self._swarm, self._publisher = swarm, publisher
        self._per_s, self._clients = bench["beside_per_s"], bench["beside"]
        self.without_s: float = bench["beside_s"]
        """So long it is measured before clients come back."""

    def publish(self, ended: Callable[[], bool]) -> Row:
        """Its latencies, while it is published until `ended`."""
        self._swarm.record()
        sent = 0
        while not sent or not ended():
            sent += self._publisher.publish(PublishPlan(self._per_s, _PLAN_S, poisson=False)).sent
        settle(self._swarm, sent * self._clients)
        return self._swarm.take()[0].summary()


def _past(seconds: float) -> Callable[[], bool]:
    until_s = time.monotonic() + seconds
    return lambda: time.monotonic() >= until_s


def _come_back(
    server: ColdNotify,
    drawn: DrawnLog,
    wants: Sequence[Sequence[int]],
    lags: Sequence[int],
    devices: ReturningDevices,
    beside: _Beside,
) -> Row:
    without = beside.publish(_past(beside.without_s))
    cursors = [len(drawn) - 1 - lag for lag in lags]
    read_bytes, blocks = _count(server, "block_bytes"), _count(server, "blocks_read")
    meter = Meter(server.roles())
    devices.come_back(cursors)
    meanwhile = beside.publish(devices.are_back)
    back, used = devices.back(READY_S), meter.read()
    seconds = sorted(back.seconds)
    return {
        "clients": len(wants),
        "wanted": len(wants[0]),
        "told": back.messages,
        "expected": sum(drawn.above(some, cursor) for some, cursor in zip(wants, cursors, strict=True)),
        "gaps": back.gaps,
        "seconds": round(seconds[-1], 3),
        "median_s": round(median(seconds), 3),
        "blocks": round(_count(server, "blocks_read") - blocks),
        "read_mib": round((_count(server, "block_bytes") - read_bytes) / 2**20, 2),
        "one_each_mib": round(sum(lags) * len(_PAYLOAD) / 2**20, 2),
        "received_mib": round(back.bytes / 2**20, 2),
        "matcher_cpu_s": used["matcher"]["cpu_s"],
        "matcher_mib": used["matcher"]["memory_mib"],
        "p99_ms_without": without.get("p99_ms"),
        "p99_ms": meanwhile.get("p99_ms"),
    }


def _told_seconds(parameters: Parameters) -> float:
    """Estimates the time. Clients that are spread over the log have a block read several times."""
    shares = _groups(parameters)
    of_row = [parameters["messages"] * minutes / DAY_MIN / 1_500 + 5 for minutes in parameters["behind_min"]]
    return float(shares * (sum(of_row) + 1) + parameters["messages"] / 20_000 + 2 * parameters["warm_up_s"] + 20)


def _told_steps(parameters: Parameters) -> int:
    return _groups(parameters) * (len(parameters["behind_min"]) + 1) + 1


def _groups(parameters: Parameters) -> int:
    return len(parameters["shares_percent"]) + (_OF_PATTERN in parameters["shares_percent"])


_KEYS = {"behind by min": "behind_min", "% of the channels": "percent", "clients": "clients"}
CATCH_UP = Experiment(
    "catch-up",
    "clients that were away for a minute, an hour, a day come back to channels",
    {
        "channels": 10_000, "behind_min": (1, 60, DAY_MIN), "shares_percent": (0.01, 1.0, 50.0),
        "messages": 200_000, "clients": 200, "told_max": 100_000, "beside": 100, "beside_per_s": 20,
        "beside_s": 3, "warm_up_s": 5, "processes": 1,
    },
    {
        "messages": 8_000, "clients": 4, "told_max": 4_000, "channels": 200, "beside": 5, "beside_s": 1, "warm_up_s": 1,
    },
    _told_seconds,
    _told_steps,
    _told,
    (
        Shape(
            "Clients come back to a real service",
            _KEYS,
            {
                "told": "told",
                "of": "expected",
                "gaps": "gaps",
                "all after s": "seconds",
                "half of them": "median_s",
                "blocks read": "blocks",
                "payloads read from Kafka, MiB": "read_mib",
                "with one reader a client it would be": "one_each_mib",
                "matcher's CPU s": "matcher_cpu_s",
                "matcher MiB": "matcher_mib",
                "an object's p99 ms before": "p99_ms_without",
                "meanwhile": "p99_ms",
            },
        ),
    ),
)  # fmt: skip
