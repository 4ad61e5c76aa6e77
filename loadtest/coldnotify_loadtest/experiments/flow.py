"""flow: how many publishes may be in flight, and what moves that number; part by part.

virtual  stores in virtual time: the knee of each, and all controllers, with one producer and with two
kafka    two producers in a closed loop that write to Kafka, each with a subscriber of its own messages
http     the same by the HTTP service, whose own limit is out of the way

Each part first has fixed limits, by which its knee is found: the lowest that has 95 % of the highest throughput. It is
measured once more before and behind each group of controllers, which are compared to the mean of the two; that several
times (`turns`), and tables have the medians. Windows are shorter than in service by the factor of the part
(`shortened`); of two rows of the default one has a drain in it.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from statistics import fmean
from typing import Any, NamedTuple

from coldnotify.flow.beginnings import HTTP, KAFKA, STORE, Beginnings
from coldnotify.flow.controllers import FIXED, NAMES
from coldnotify.flow.flow_limit import FlowLimit
from coldnotify.flow.windows import Window

from coldnotify_loadtest.bench import READY_S, Bench, Experiment, Parameters, Row
from coldnotify_loadtest.closed_loop import DISTRIBUTIONS, Loop, Place, Producers, Task
from coldnotify_loadtest.latency import Latencies
from coldnotify_loadtest.population import Population
from coldnotify_loadtest.servers import ColdNotify
from coldnotify_loadtest.swarm import Swarm
from coldnotify_loadtest.tables import Shape, medians
from coldnotify_loadtest.virtual_store import IN_MEMORY, STORES, Store, simulate

KNEE_SHARE = 0.95
REFERENCE = "the knee"
"""The knee's limit once more, before and behind the controllers of a group: a machine is never the same for minutes."""
PRODUCERS = 2
_HIGHEST = 10_000
_CONNECTIONS = 500
"""Of an HTTP producer: its highest limit. One connection carries one request at a time."""
_OWN = ("last-three-points", "adaptive", "bottleneck")
"""Those that are run with each number and each distribution of objects."""
_FIXED = (100, 1_000, 10_000)
_SHARE_LEAST, _TIMES_MOST = 0.9, 2.0
"""What is required: so much of the knee's throughput, at no more than so many times its W."""
_FARTHER = 3
"""Times as long before they count have those that begin far below."""
_LINE = ("server", "first", "objects", "distribution", "producers")
"""What the lines of a part's tables differ in, beside the controller."""
_WINDOWS_SHOWN = 200
_VIRTUAL_SHORTENED = 10


class Case(NamedTuple):
    """What is beside the knee."""

    controller: str
    """By name; "fixed 100": that limit."""
    objects: int
    distribution: str = "uniform"
    first: int = 0
    """The limit that it begins with; 0: as the part does."""

    def group(self) -> tuple[int, str]:
        """Those of one group follow the same reference."""
        return self.first, self.distribution


def knee_of(rows: Sequence[Row]) -> Row:
    """A row of the lowest limit that has 95 % of the highest throughput, by the means of rows with the same limit."""
    limits = dict.fromkeys(row["limit_fixed"] for row in rows)
    per_s = {limit: fmean(row["per_s"] for row in rows if row["limit_fixed"] == limit) for limit in limits}
    knee = min(limit for limit, mean in per_s.items() if mean >= KNEE_SHARE * max(per_s.values()))
    return next(row for row in rows if row["limit_fixed"] == knee)


def shortened(begin: Beginnings, factor: float) -> Beginnings:
    """Windows with fewer completions, and of less time."""
    return begin._replace(completions=round(begin.completions / factor), seconds=begin.seconds / factor)


def run(bench: Bench) -> None:
    """Raises ValueError for a part that there is not."""
    if unknown := set(bench["parts"]) - set(_PARTS):
        raise ValueError(f"parts: {min(unknown)!r} is none of {', '.join(_PARTS)}")
    for part in bench["parts"]:
        _PARTS[part](bench)
    bench.rows += as_required(bench.rows)


def as_required(rows: Sequence[Row]) -> list[Row]:
    """By controller and part: how many lines of the tables are as required, by the medians of their turns."""
    compared = [row for row in rows if "share" in row]
    lines = medians(compared, ("controller", "part", *_LINE), ("share", "times"))
    kept = Counter(
        (name, part, "yes" if share >= _SHARE_LEAST and times <= _TIMES_MOST else "no")
        for name, part, *_, share, times in lines
    )
    return [
        {"part": "counted", "controller": name, "where": part, "as_required": said, "rows": count}
        for (name, part, said), count in sorted(kept.items())
    ]


def run_virtual(bench: Bench) -> None:
    """All controllers against stores in virtual time."""
    seconds, settle_s = bench["virtual_seconds"], bench["virtual_settle_s"]
    for store in STORES.values():
        bench.progress.step(f"virtual: {store.name}")
        about: Row = {"part": "virtual", "way": f"virtual, {store.name}", "server": store.name, "durability": "virtual"}
        sweep: list[Row] = []
        for limit in bench["virtual_limits"]:
            outcome = simulate(store, [FlowLimit.named(FIXED, limit)], bench["virtual_knee_s"], settle_s=0.2)
            wait_ms = outcome.wait_s * 1000
            sweep.append({**about, "limit_fixed": limit, "per_s": outcome.per_s, "mean_ms": wait_ms})
        knee = _with_knee(bench, sweep)
        for producers in (1, 2):
            for controller in bench["controllers"]:
                limits = [_virtual_limit(store, controller) for _ in range(producers)]
                outcome = simulate(store, limits, seconds, settle_s=settle_s)
                row = {**about, "controller": controller, "producers": producers, "objects": 1, "distribution": "-"}
                row |= {"per_s": outcome.per_s, "mean_ms": outcome.wait_s * 1000}
                row |= _beside(row, knee) | {"limit_end": sum(one.limit for one in limits)}
                bench.rows.append(row | {"windows": _shown(outcome.windows[0])})


def _virtual_limit(store: Store, controller: str) -> FlowLimit:
    begin = STORE if store is IN_MEMORY else KAFKA
    return FlowLimit.named(controller, _HIGHEST, shortened(begin, _VIRTUAL_SHORTENED))


def run_kafka(bench: Bench) -> None:
    """Producers that write to Kafka."""
    begin = shortened(KAFKA, bench["kafka_shortened"])
    controllers, objects = bench["controllers"], bench["objects"]
    middle, most = sorted(objects)[len(objects) // 2], max(objects)
    cases = [Case(one, number) for number in objects for one in (REFERENCE, *_OWN)]
    others = [one for one in controllers if one not in _OWN]
    cases += [Case(one, middle) for one in (*others, *(f"{FIXED} {limit}" for limit in _FIXED))]
    cases += [Case(one, most, kind) for kind in DISTRIBUTIONS[1:] for one in (REFERENCE, *_OWN)]
    low = bench["kafka_first_low"]
    cases += [Case(one, most, first=low) for one in (REFERENCE, *controllers)]
    _measure(bench, "kafka", _framed(cases), begin, _HIGHEST)


def run_http(bench: Bench) -> None:
    """Producers that ask the HTTP service."""
    begin = shortened(HTTP, bench["http_shortened"])
    controllers, objects = bench["controllers"], bench["objects"]
    middle, most = sorted(objects)[len(objects) // 2], max(objects)
    cases = [Case(one, number) for number in objects for one in (REFERENCE, *_OWN)]
    cases += [Case(one, middle) for one in controllers if one not in _OWN]
    cases += [Case(one, most, kind) for kind in DISTRIBUTIONS[1:] for one in (REFERENCE, *_OWN)]
    _measure(bench, "http", _framed(cases), begin, _CONNECTIONS)


def _framed(cases: Sequence[Case]) -> list[Case]:
    """Each group with its reference once more at its end."""
    return [*cases, *(case for case in cases if case.controller == REFERENCE)]


def _measure(bench: Bench, way: str, cases: Sequence[Case], begin: Beginnings, highest: int) -> None:
    """The knee and the cases of one way. Each number of objects has a service of its own: the matcher of one that took
    tens of millions of publishes reads for minutes before its clients are complete."""
    knee: Row = {}
    for objects in sorted({case.objects for case in cases}):
        population = Population(1, objects, PRODUCERS, domain=f"flow-{objects}")
        directory = bench.new_directory()
        with ColdNotify(directory, as_up=way == "http", settings={"http-flow": FIXED}) as server:
            server.warm_up(bench["warm_up_s"])
            port = server.web_port() if way == "http" else server.target(population).port
            places = [Place(way, port, population, block) for block in range(PRODUCERS)]
            with (
                Swarm(server.kind, population, PRODUCERS, server.addresses(), processes=1) as swarm,
                Producers(places) as producers,
            ):
                swarm.add(PRODUCERS)
                swarm.wait_ready(READY_S)
                if not knee:
                    knee = _sweep(bench, way, swarm, producers, begin)
                here = sorted((case for case in cases if case.objects == objects), key=Case.group)
                for _, group in groupby(here, Case.group):
                    _take_turns(bench, way, swarm, producers, begin, list(group), highest, knee)
        shutil.rmtree(directory, ignore_errors=True)  # millions of records a row


def _sweep(bench: Bench, way: str, swarm: Swarm, producers: Producers, begin: Beginnings) -> Row:
    """Fixed limits, all of them several times; returns a row of the knee."""
    sweep: list[Row] = []
    for turn in range(bench["turns"]):
        for limit in bench[f"{way}_limits"]:
            bench.progress.step(f"{way}: {limit} in flight")
            task = Task(FIXED, bench[f"{way}_knee_s"], limit, begin, settle_s=0.5)
            row = {**_about(way), "limit_fixed": limit, "turn": turn}
            sweep.append({**row, **_measured(swarm, producers, task)})
    return _with_knee(bench, sweep)


def _take_turns(
    bench: Bench,
    way: str,
    swarm: Swarm,
    producers: Producers,
    begin: Beginnings,
    group: Sequence[Case],
    highest: int,
    knee: Row,
) -> None:
    """The cases of a group, one after the other, several times."""
    for turn in range(bench["turns"]):
        rows: list[Row] = []
        for case in group:
            bench.progress.step(f"{way}: {case.controller}, {case.objects} objects, {case.distribution}")
            name, _, fixed = case.controller.partition(" ")
            if case.controller == REFERENCE:
                name, fixed = FIXED, str(knee["limit_fixed"])
            first = begin._replace(first=case.first or begin.first)
            most = min(int(fixed or highest), highest)
            settle_s = bench[f"{way}_settle_s"] * (_FARTHER if case.first else 1)
            row = {**_about(way), "producers": PRODUCERS, **case._asdict(), "first": first.first, "turn": turn}
            task = Task(name, bench[f"{way}_seconds"], most, first, case.distribution, settle_s)
            rows.append({**row, **_measured(swarm, producers, task)})
        bench.rows += _compared(rows, f"{FIXED} {knee['limit_fixed']}, the knee")


def _about(way: str) -> Row:
    return {"part": way, "way": way, "server": way, "durability": "survives a process crash"}


def _measured(swarm: Swarm, producers: Producers, task: Task) -> Row:
    swarm.record()
    row = _together(producers.run(task))
    delivered, _ = swarm.take()
    return row | {"delivered": delivered.count, "delivery_p99_ms": delivered.summary().get("p99_ms")}


def _compared(group: Sequence[Row], reference: str) -> list[Row]:
    """The rows of a group beside the mean of its references, which are shown as `reference`."""
    references = [row for row in group if row["controller"] == REFERENCE]
    mean = {name: fmean(row[name] for row in references) for name in ("per_s", "mean_ms")}
    return [{**row, "controller": reference} if row in references else {**row, **_beside(row, mean)} for row in group]


def _with_knee(bench: Bench, sweep: list[Row]) -> Row:
    """Notes the rows, the knee marked; returns that one."""
    knee = knee_of(sweep)
    bench.rows += [{**row, "knee": "knee" if row["limit_fixed"] == knee["limit_fixed"] else ""} for row in sweep]
    return knee


def _together(loops: Sequence[Loop]) -> Row:
    """What the producers did, as one."""
    waits = Latencies()
    for loop in loops:
        waits.merge(loop.waits)
    arrivals = sum(loop.arrivals_per_s for loop in loops)
    done = sum(loop.acknowledged for loop in loops)
    wait_s = sum(loop.wait_s * loop.acknowledged for loop in loops) / max(done, 1)
    sampled = sum(loop.sampled for loop in loops)
    ends = [loop.windows[-1].limit for loop in loops if loop.windows]
    return {
        "per_s": sum(loop.acknowledged / loop.seconds for loop in loops),
        **waits.summary(),
        "mean_ms": wait_s * 1000,
        "in_flight": arrivals * wait_s,
        "sampled": sampled,
        "little": arrivals * wait_s / sampled if sampled else None,
        "failed": sum(loop.failed for loop in loops),
        "limit_end": sum(ends),
        "windows": _shown(loops[0].windows),
    }


def _beside(row: Row, knee: Row) -> Row:
    """Beside the knee's: the share of its throughput, and how many times its time."""
    return {"share": row["per_s"] / knee["per_s"], "times": row["mean_ms"] / knee["mean_ms"]}


def _shown(windows: Sequence[Window]) -> list[tuple[float, int, float, float]]:
    """For the plots: seconds, limit, time to acknowledgement in ms, throughput."""
    if not windows:
        return []
    begin_s = windows[0].ended_s
    return [
        (one.ended_s - begin_s, one.limit, one.wait_s * 1000, one.completions_per_s)
        for one in windows[:: max(1, len(windows) // _WINDOWS_SHOWN)]
    ]


_PARTS: dict[str, Callable[[Bench], None]] = {"virtual": run_virtual, "kafka": run_kafka, "http": run_http}


def _steps_of(parameters: Parameters, part: str) -> int:
    controllers, objects = len(parameters["controllers"]), len(parameters["objects"])
    groups = (objects + len(DISTRIBUTIONS) - 1) * (2 + len(_OWN))
    others = sum(one not in _OWN for one in parameters["controllers"])
    turns = int(parameters["turns"])
    return {
        "virtual": len(STORES),
        "kafka": turns * (len(parameters["kafka_limits"]) + groups + others + len(_FIXED) + 2 + controllers),
        "http": turns * (len(parameters["http_limits"]) + groups + others),
    }[part]


def seconds(parameters: Parameters) -> float:
    """About."""
    total = 0.0
    for part in parameters["parts"]:
        if part == "virtual":
            total += len(STORES) * (2 * len(parameters["controllers"]) * 2.5 + 10)
            continue
        knees = int(parameters["turns"]) * len(parameters[f"{part}_limits"])
        loops = _steps_of(parameters, part) - knees
        total += knees * (parameters[f"{part}_knee_s"] + 0.7) + parameters["warm_up_s"] + 15
        total += loops * (parameters[f"{part}_seconds"] + parameters[f"{part}_settle_s"] + 0.2)
    return total


def _loops(part: str) -> Callable[[Mapping[str, Any]], bool]:
    """A part's rows with controllers."""
    return lambda row: row["part"] == part and "controller" in row


_TABLES = (
    Shape(
        "Knee: fixed limits",
        {"way": "way", "in flight at most": "limit_fixed", "": "knee"},
        {
            "published/s": "per_s",
            "W: mean ms": "mean_ms",
            "p50": "p50_ms",
            "p99": "p99_ms",
            "L = lambda x W": "in_flight",
            "L sampled": "sampled",
            "lambda x W / sampled": "little",
        },
        lambda row: "limit_fixed" in row,
    ),
    *(
        Shape(
            title,
            {**keys, "controller": "controller", "objects": "objects", "drawn": "distribution"},
            {
                "published/s": "per_s",
                "W: mean ms": "mean_ms",
                "p99": "p99_ms",
                "limits at the end": "limit_end",
                "L sampled": "sampled",
                "lambda x W / sampled": "little",
                "throughput to the knee's": "share",
                "W to the knee's": "times",
                "delivery's p99 ms": "delivery_p99_ms",
            },
            only,
        )
        for title, keys, only in (
            ("Two producers, Kafka", {"begins with": "first"}, _loops("kafka")),
            ("Two producers, HTTP", {"begins with": "first"}, _loops("http")),
        )
    ),
    Shape(
        "Stores in virtual time",
        {"store": "server", "producers": "producers", "controller": "controller"},
        {
            "published/s": "per_s",
            "W: mean ms": "mean_ms",
            "limits at the end": "limit_end",
            "throughput to the knee's": "share",
            "W to the knee's": "times",
        },
        _loops("virtual"),
    ),
    Shape(
        "At least 90 % of the knee's throughput, at most twice its W: rows of all",
        {"controller": "controller", "where": "where", "as required": "as_required"},
        {"rows": "rows"},
        lambda row: row["part"] == "counted",
    ),
)
FLOW = Experiment(
    "flow",
    "how many publishes may be in flight",
    {
        "parts": tuple(_PARTS),
        "warm_up_s": 10,
        "turns": 3,
        "controllers": tuple(name for name in NAMES if name != FIXED),
        "objects": (1, 16, 256),
        "virtual_limits": (1, 2, 5, 10, 20, 50, 64, 100, 200, 500, 1000, 2000, 5000, 10_000),
        "virtual_knee_s": 3.0,
        "virtual_seconds": 4.0,
        "virtual_settle_s": 4.0,
        "kafka_limits": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000),
        "kafka_knee_s": 1.2,
        "kafka_seconds": 6.0,
        "kafka_settle_s": 1.5,
        "kafka_shortened": 10,
        "kafka_first_low": 100,
        "http_limits": (1, 2, 5, 10, 20, 50, 100, 200, 500),
        "http_knee_s": 2.0,
        "http_seconds": 6.0,
        "http_settle_s": 2.5,
        "http_shortened": 10,
    },
    {
        "warm_up_s": 0,
        "turns": 1,
        "controllers": ("bottleneck",),
        "objects": (1, 4),
        "virtual_limits": (1, 50, 200),
        "virtual_knee_s": 0.05,
        "virtual_seconds": 0.1,
        "virtual_settle_s": 0.1,
        "kafka_limits": (1, 50),
        "kafka_knee_s": 0.2,
        "kafka_seconds": 0.3,
        "kafka_settle_s": 0.1,
        "http_limits": (1, 10),
        "http_knee_s": 0.3,
        "http_seconds": 0.3,
        "http_settle_s": 0.1,
    },
    seconds,
    lambda parameters: sum(_steps_of(parameters, part) for part in parameters["parts"]),
    run,
    _TABLES,
)
