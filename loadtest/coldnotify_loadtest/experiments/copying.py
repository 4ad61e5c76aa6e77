"""copy: all topics are copied under another prefix, and the installation moves over, while all is in use.

The last of the copies (`--switch`) shuts the old topics. Then the services are stopped, and started with the new prefix
at the same ports. Publishers try each publish again until the HTTP service takes it.
"""

import itertools
import time
from collections import Counter
from dataclasses import dataclass, field
from threading import Event, Thread
from urllib.request import Request, urlopen

from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_load.population import Population
from coldnotify_load.swarm import Swarm
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.stack import Up

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, Row
from coldnotify_loadtest.devices import KINDS
from coldnotify_loadtest.tables import Shape

_OLD, _NEW = "copy-old.", "copy-new."
_AGAIN_S = 0.1
_REQUEST_S = 10.0
_BEFORE_S = 5.0


@dataclass
class _PatientPublisher:
    """A thread that publishes at a rate, and each publish again until it is taken."""

    base: str
    objects: list[str]
    per_s: float
    taken: int = 0
    newest: int = 0
    """The stamp of the last publish that was taken."""
    longest_pause_s: float = 0.0
    """The longest time between two publishes that were taken."""
    _ended: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stops it."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        last_s = time.monotonic()
        for name in itertools.cycle(self.objects):
            while not self._ended.is_set() and not self._publish(name):
                self._ended.wait(_AGAIN_S)
            now_s = time.monotonic()
            if self._ended.is_set():
                return
            self.taken += 1
            self.longest_pause_s = max(self.longest_pause_s, now_s - last_s)
            last_s = now_s
            self._ended.wait(1 / self.per_s)

    def _publish(self, name: str) -> bool:
        stamp = time.monotonic_ns()
        body = b'{"version":%d,"payload":%d}' % (stamp, stamp)
        try:
            with urlopen(Request(f"{self.base}/{name}?outcome=no", body), timeout=_REQUEST_S):
                self.newest = stamp
                return True
        except OSError:
            return False


def run(bench: BenchRun) -> None:
    """One move."""
    directory, groups = bench.new_directory(), bench["groups"]
    population = Population(-(-bench["clients"] // groups), bench["registrations"], groups)
    for name in ("old", "new"):
        (directory / name).mkdir(parents=True)
    broker = EmbeddedBroker(directory / "kafka")
    broker.start()
    try:
        broker.wait_ready(READY_S)
        old = Up(directory / "old", f"--partitions={bench['partitions']}", kafka=broker.bootstrap, topics_prefix=_OLD)
        new = old.beside(directory / "new", _NEW)
        old.start()
        try:
            with Swarm(
                KINDS["coldnotify"], population, bench["clients"], [old.gateway], processes=bench["processes"]
            ) as swarm:
                bench.rows.append({"clients": bench["clients"], **_moved(bench, old, new, swarm, population)})
        finally:
            for up in (old, new):
                if up.running:
                    up.stop()
    finally:
        broker.stop()


def _moved(bench: BenchRun, old: Up, new: Up, swarm: Swarm, population: Population) -> Row:
    swarm.add(swarm.devices)
    swarm.wait_ready(READY_S)
    swarm.come_back()
    url = f"{old.http_url}/v1/domains/{population.domain}/groups"
    blocks = range(bench["groups"])
    publishers = [
        _PatientPublisher(
            f"{url}/{population.group(block)}/objects",
            [population.object(block, number) for number in range(bench["registrations"])],
            bench["per_s"] / bench["groups"],
        )
        for block in blocks
    ]
    try:
        time.sleep(_BEFORE_S)
        bench.progress.step("copy, all is in use")
        copy_s = _copy(bench, old)
        bench.progress.step("switch")
        begun_s = time.monotonic()
        swarm.record()
        switch_s = _copy(bench, old, "--switch")
        old.stop()
        new.start()
        served_s = time.monotonic() - begun_s
        swarm.record()
        bench.progress.step("all clients are told again")
        counts = swarm.wait(
            lambda counts: counts.reached >= swarm.devices, READY_S, "a publish of after the switch at all"
        )
        reached_s = counts.last_reached_ns / 1e9 - begun_s
    finally:
        for one in publishers:
            one.end()
    return {
        "publishes": sum(one.taken for one in publishers),
        "copy_s": round(copy_s, 1),
        "switch_s": round(switch_s, 1),
        "services_ready_s": round(served_s, 1),
        "publishers_paused_s": round(max(one.longest_pause_s for one in publishers), 1),
        "all_reached_since_switch_s": round(reached_s, 1),
        "behind": _behind_at_last(swarm, [one.newest for one in publishers]),
    }


def _copy(bench: BenchRun, old: Up, *flags: str) -> float:
    """Returns how long it took, in seconds. Raises RuntimeError."""
    begun_s = time.monotonic()
    partitions = f"--partitions={bench['to_partitions']}"
    done = coldnotify(
        "topics", "copy", f"--to-prefix={_NEW}", f"--topics-prefix={_OLD}", partitions, *flags, kafka=old.kafka
    )
    if done.returncode:
        raise RuntimeError(f"topics copy: {done.stderr}")
    return time.monotonic() - begun_s


def _behind_at_last(swarm: Swarm, newest: list[int]) -> int:
    """Returns how many clients have not been told their block's newest publish within READY_S of it."""
    until_s = time.monotonic() + READY_S
    while True:
        known = swarm.newest()
        told = sum(known.get(block, Counter())[stamp] for block, stamp in enumerate(newest))
        if told == swarm.devices or time.monotonic() > until_s:
            return swarm.devices - told
        time.sleep(_AGAIN_S)


def seconds(parameters: Parameters) -> float:
    """About."""
    return 60.0 + int(parameters["clients"]) / 50


COPY = Experiment(
    "copy",
    "an installation moves to topics with more partitions",
    {
        "clients": 1000,
        "registrations": 50,
        "groups": 4,
        "per_s": 200.0,
        "partitions": 8,
        "to_partitions": 16,
        "processes": 2,
    },
    {"clients": 8, "registrations": 2, "per_s": 20.0, "partitions": 2, "to_partitions": 3, "processes": 1},
    seconds,
    lambda _parameters: 3,
    run,
    (
        Shape(
            "Topics copied, and moved over to, seconds since the switch began",
            {"clients": "clients"},
            {
                "the switch itself": "switch_s",
                "services ready": "services_ready_s",
                "publishers paused": "publishers_paused_s",
                "all told again": "all_reached_since_switch_s",
                "clients without the newest": "behind",
            },
        ),
    ),
)
