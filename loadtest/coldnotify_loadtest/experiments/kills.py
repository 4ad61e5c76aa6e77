"""kills: of two matchers one is killed again and again; seconds until all clients have what is published right after.

The cases:

    standby      the other one follows the partitions, and has them at once
    no standby   the other one loads them
    pauses       nobody is killed: Kafka stands still again and again while something else computes; nobody may be
                 removed from the group. Then one is killed all the same

After each kill the matcher is started again, and the next kill waits until both have a share: so a partition that stays
unassigned ends the experiment with an error.
"""

import json
import multiprocessing
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.broker.freezing import frozen
from coldnotify_kafka.topics import EMBEDDED_PARTITIONS
from coldnotify_load.open_loop import PublisherHandle
from coldnotify_load.population import Population
from coldnotify_load.swarm import Swarm

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, Row, identity
from coldnotify_loadtest.servers import ColdNotify
from coldnotify_loadtest.tables import Shape

CASES = ("standby", "no standby", "pauses")
_NAMES = ("matcher-1", "matcher-2")
_WATCHED = '"a member is watched: its death will be noticed at once"'
_NOT_KNOWN = '"a member\'s connection ended: it is not known if it died"'
_REMOVED = '"a member died: removed from its group"'
_LOOK_S = 0.1
_PAUSE_S = (0.5, 5.0)
_FAILURES_MAX = 20


def run(bench: BenchRun) -> None:
    """Each case has a server of its own."""
    if unknown := set(bench["cases"]) - set(CASES):
        raise ValueError(f"cases: unknown value {min(unknown)!r}, expected one of {', '.join(CASES)}")
    groups = bench["groups"]
    population = Population(-(-bench["clients"] // groups), bench["registrations"], groups)
    for case in bench["cases"]:
        settings = {
            "matcher-session-timeout-ms": bench["session_timeout_ms"],
            "matcher-standby": case != "no standby",
        }
        with (
            ColdNotify(bench.new_directory(), matchers=2, settings=settings) as server,
            bench.load(server, population, bench["clients"]) as (swarm, publisher),
        ):
            _publish(publisher, groups)
            swarm.wait(lambda counts: counts.reached >= swarm.devices, READY_S, "the first publish at all")
            about: Row = {**identity(server), "case": case, "clients": bench["clients"]}
            if case == "pauses":
                about |= _paused(bench, server)
            for kill in range(1 if case == "pauses" else bench["kills"]):
                bench.progress.step(f"{case}, kill {kill + 1}")
                victim = _NAMES[kill % 2]
                bench.rows.append({**about, "kill": kill, **_struck(server, swarm, publisher, victim, groups)})


def _struck(server: ColdNotify, swarm: Swarm, publisher: PublisherHandle, victim: str, groups: int) -> Row:
    _wait_shares(server, "both have a share, and watch each other")
    removed = _count(server, _REMOVED)
    swarm.record()
    killed_s, killed_wall_s = time.monotonic(), time.time()
    server.children[victim].kill()
    _publish(publisher, groups)
    counts = swarm.wait(lambda counts: counts.reached >= swarm.devices, READY_S, "the publish at all")
    row: Row = {
        "all_reached_since_kill_s": round(counts.last_reached_ns / 1e9 - killed_s, 3),
        "clients_lost": counts.lost,
        "removed": _count(server, _REMOVED) - removed,
        "not_known": _last(server, _NOT_KNOWN, killed_wall_s),
    }
    server.children[victim].start()
    return row


def _publish(publisher: PublisherHandle, groups: int) -> None:
    for _ in range(_FAILURES_MAX):
        if not publisher.once(groups).failed:
            return


def _paused(bench: BenchRun, server: ColdNotify) -> Row:
    """Has Kafka stand still now and then. Returns how often, and how many were removed from the group meanwhile."""
    assert isinstance(server.broker, EmbeddedBroker)
    draw = random.Random(bench["seed"])
    _wait_shares(server, "both have a share")
    until_s = time.monotonic() + bench["soak_s"]
    pauses = 0
    with _computing(bench["load"]):
        while (left_s := until_s - time.monotonic()) > 0:
            bench.progress.step(f"pause {pauses + 1}, {left_s:.0f} s left")
            with frozen(server.broker.pid):
                time.sleep(draw.uniform(*_PAUSE_S))
            pauses += 1
            time.sleep(draw.uniform(0.5, 2) * bench["pause_every_s"])
    return {"pauses": pauses, "soak_s": bench["soak_s"], "removed_by_mistake": _count(server, _REMOVED)}


@contextmanager
def _computing(share: float) -> Iterator[None]:
    """Keeps this share of every core busy, beside what runs."""
    burners = [multiprocessing.Process(target=_burn, args=(share,), daemon=True) for _ in range(_cores())]
    for one in burners:
        one.start()
    try:
        yield
    finally:
        for one in burners:
            one.kill()
            one.join()


def _cores() -> int:
    return multiprocessing.cpu_count()


def _burn(share: float) -> None:
    while True:
        until_s = time.monotonic() + 0.1 * share
        while time.monotonic() < until_s:
            pass
        time.sleep(0.1 * (1 - share))


def _wait_shares(server: ColdNotify, what: str) -> None:
    """Until each has some partitions, together they have all, and each would notice the other's death at once."""
    for name in _NAMES:
        server.children[name].wait_ready(READY_S)
    until_s = time.monotonic() + READY_S
    while True:
        owned = [server.metric(name, "coldnotify_matcher_partitions_owned") for name in _NAMES]
        if all(owned) and sum(owned) == EMBEDDED_PARTITIONS and all(_watches(server, name) for name in _NAMES):
            return
        if time.monotonic() > until_s:
            raise TimeoutError(f"{what}: not within {READY_S:g} s; partitions: {owned}")
        time.sleep(_LOOK_S)


def _watches(server: ColdNotify, name: str) -> bool:
    """Returns true if the matcher has watched the other one since that was last started."""
    (other,) = set(_NAMES) - {name}
    log = server.children[name].log.read_text(errors="replace")
    said = [line for line in log.splitlines() if _WATCHED in line or _REMOVED in line]
    began = log.rfind('"matcher started"')
    return bool(said) and _WATCHED in said[-1] and f'"{other}"' in said[-1] and log.rfind(_WATCHED) > began


def _count(server: ColdNotify, words: str) -> int:
    return sum(server.children[name].log.read_text(errors="replace").count(words) for name in _NAMES)


def _last(server: ColdNotify, words: str, since_s: float) -> str:
    """Returns the last such line of the logs since then; "" without one."""
    since = datetime.fromtimestamp(since_s, UTC).isoformat()
    lines = [line for name in _NAMES for line in server.children[name].log.read_text(errors="replace").splitlines()]
    found = [line for line in lines if words in line and json.loads(line)["timestamp"] >= since]
    return found[-1] if found else ""


def seconds(parameters: Parameters) -> float:
    """About."""
    cases = parameters["cases"]
    kills = sum(1 if case == "pauses" else parameters["kills"] for case in cases)
    return float(20 * len(cases) + 8 * kills + ("pauses" in cases) * parameters["soak_s"])


_TABLES = (
    Shape(
        "A publish right after the kill is at all clients, seconds since the kill",
        {"case": "case", "clients": "clients"},
        {
            "median, least and most": "all_reached_since_kill_s",
            "removed from the group": "removed",
            "pauses of Kafka": "pauses",
            "removed by mistake": "removed_by_mistake",
        },
    ),
)
KILLS = Experiment(
    "kills",
    "a matcher is killed again and again",
    {
        "clients": 1000,
        "registrations": 50,
        "groups": 24,
        "session_timeout_ms": 6000,
        "kills": 30,
        "cases": CASES,
        "soak_s": 600,
        "pause_every_s": 20,
        "load": 0.8,
        "seed": 1,
        "processes": 2,
    },
    {"clients": 48, "registrations": 5, "kills": 1, "cases": ("standby", "pauses"), "soak_s": 2, "pause_every_s": 1},
    seconds,
    lambda parameters: len(parameters["cases"]) * int(parameters["kills"]),
    run,
    _TABLES,
)
