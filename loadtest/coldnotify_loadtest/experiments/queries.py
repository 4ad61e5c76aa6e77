"""queries: registering by queries beside registering by name; part by part.

distinct     E1's clients, by name and by 1, 10, 1,000 different queries
registering  queries, or names, are added and removed by the thousand: what values of others take
changes      descriptions change by the thousand: what values of others take
wire         bytes of an unchanged wake
"""

from collections.abc import Callable

from coldnotify_loadtest.bench import BenchRun, Experiment, Parameters
from coldnotify_loadtest.experiments.query_changes import (
    CHANGES_TABLE,
    REGISTERING_TABLE,
    run_changes,
    run_registering,
)
from coldnotify_loadtest.experiments.query_values import (
    DISTINCT_TABLE,
    WIRE_TABLE,
    run_distinct,
    run_wire,
)

_START_S = 8.0
_PARTS: dict[str, Callable[[BenchRun], None]] = {
    "distinct": run_distinct,
    "registering": run_registering,
    "changes": run_changes,
    "wire": run_wire,
}


def run(bench: BenchRun) -> None:
    """Each part starts its own servers; where one fails, the others are run all the same. Raises ExceptionGroup."""
    if unknown := set(bench["parts"]) - set(_PARTS):
        raise ValueError(f"parts: unknown value {min(unknown)!r}, expected one of {', '.join(_PARTS)}")
    failed = {}
    for part in bench["parts"]:
        try:
            _PARTS[part](bench)
        except Exception as error:
            failed[part] = error
    if failed:
        raise ExceptionGroup(f"in {', '.join(failed)}", list(failed.values()))


def _steps_of(parameters: Parameters, part: str) -> int:
    turns = int(parameters["turns"])
    return {
        "distinct": turns * (1 + len(parameters["distinct_queries"])) * len(parameters["distinct_rates"]),
        "registering": 7,
        "changes": 4 * len(parameters["changes_conditions"]),
        "wire": 3 * len(parameters["wire_queries"]),
    }[part]


def _seconds_of(parameters: Parameters, part: str) -> float:
    steps = _steps_of(parameters, part)
    queries = parameters["registering_clients"] * parameters["registering_queries_each"]
    seconds = {
        "distinct": steps * (parameters["distinct_seconds"] + 0.3),
        "registering": 5 * parameters["registering_seconds"] + queries / 1000,
        "changes": len(parameters["changes_conditions"]) * (4 * parameters["changes_seconds"] + 25),
        "wire": steps * 3.5,
    }[part]
    return float(seconds + _START_S + (0 if part == "wire" else parameters["warm_up_s"]))


QUERIES = Experiment(
    "queries",
    "registering by queries",
    {
        "parts": tuple(_PARTS),
        "warm_up_s": 15,
        "turns": 3,
        "distinct_clients": 1000,
        "distinct_queries": (1, 10, 1000),
        "distinct_rates": (25.0, 100.0),
        "distinct_seconds": 4.0,
        "registering_clients": 1000,
        "registering_queries_each": 60,
        "registering_objects": 100,
        "registering_per_s": 1000.0,
        "registering_values_per_s": 200.0,
        "registering_seconds": 15.0,
        "changes_conditions": ("value", "range"),
        "changes_queries": 1000,
        "changes_queries_each": 10,
        "changes_objects": 10_000,
        "changes_per_s": 1000.0,
        "changes_values_per_s": 50.0,
        "changes_seconds": 10.0,
        "wire_queries": (0, 1, 50),
        "processes": 2,
    },
    {
        "warm_up_s": 0,
        "turns": 1,
        "distinct_clients": 20,
        "distinct_queries": (1, 20),
        "distinct_rates": (20.0,),
        "distinct_seconds": 1.0,
        "registering_clients": 16,
        "registering_queries_each": 20,
        "registering_per_s": 100.0,
        "registering_values_per_s": 40.0,
        "registering_seconds": 2.0,
        "changes_queries": 40,
        "changes_objects": 200,
        "changes_per_s": 50.0,
        "changes_values_per_s": 20.0,
        "changes_seconds": 1.0,
    },
    lambda parameters: sum(_seconds_of(parameters, part) for part in parameters["parts"]),
    lambda parameters: sum(_steps_of(parameters, part) for part in parameters["parts"]),
    run,
    (
        DISTINCT_TABLE,
        REGISTERING_TABLE,
        CHANGES_TABLE,
        WIRE_TABLE,
    ),
)
