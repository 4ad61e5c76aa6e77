"""queries: registering by queries beside registering by name, as other systems for it were measured; part by part.

broker       few subscribers of ten objects, by ten names and by one query
distinct     E1's clients, by name and by 1, 10, 1,000 different queries
churn        objects appear and change, the partition's matcher is killed: how long until devices know
registering  queries, or names, are added and removed by the thousand: what values of others take
changes      descriptions change by the thousand: what values of others take
system       three gateways and matchers, values all the time, with and without changes of descriptions
behind       a matcher is killed behind a long log of descriptions, and the other one has followed it, or not
wire         bytes of an unchanged wake
"""

from collections.abc import Callable

from coldnotify_loadtest.bench import Bench, Experiment, Parameters
from coldnotify_loadtest.experiments.query_changes import (
    CHANGES_TABLE,
    CHURN_TABLE,
    GAP_MS,
    REGISTERING_TABLE,
    run_changes,
    run_churn,
    run_registering,
)
from coldnotify_loadtest.experiments.query_system import BEHIND_TABLE, SYSTEM_TABLE, run_behind, run_system
from coldnotify_loadtest.experiments.query_values import (
    BROKER_TABLE,
    DISTINCT_TABLE,
    WIRE_TABLE,
    run_broker,
    run_distinct,
    run_wire,
)

_START_S = 8.0
_PARTS: dict[str, Callable[[Bench], None]] = {
    "broker": run_broker,
    "distinct": run_distinct,
    "churn": run_churn,
    "registering": run_registering,
    "changes": run_changes,
    "system": run_system,
    "behind": run_behind,
    "wire": run_wire,
}


def run(bench: Bench) -> None:
    """Each part starts its own servers; where one fails, the others are run all the same. Raises ExceptionGroup."""
    if unknown := set(bench["parts"]) - set(_PARTS):
        raise ValueError(f"parts: {min(unknown)!r} is none of {', '.join(_PARTS)}")
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
        "broker": turns * 2 * len(parameters["broker_subscribers"]),
        "distinct": turns * (1 + len(parameters["distinct_queries"])) * len(parameters["distinct_rates"]),
        "churn": 3 * len(parameters["churn_nodes"]),
        "registering": 7,
        "changes": 4 * len(parameters["changes_conditions"]),
        "system": 1 + len(parameters["system_changed_every_s"]),
        "behind": 4,
        "wire": 3 * len(parameters["wire_queries"]),
    }[part]


def _seconds_of(parameters: Parameters, part: str) -> float:
    steps = _steps_of(parameters, part)
    joining_s = parameters["churn_objects"] * sum(GAP_MS) / 2000
    queries = parameters["registering_clients"] * parameters["registering_queries_each"]
    seconds = {
        "broker": steps * (parameters["broker_seconds"] + 0.3),
        "distinct": steps * (parameters["distinct_seconds"] + 0.3),
        "churn": len(parameters["churn_nodes"]) * (joining_s + 2 * parameters["churn_seconds"] + 15),
        "registering": 5 * parameters["registering_seconds"] + queries / 1000,
        "changes": len(parameters["changes_conditions"]) * (4 * parameters["changes_seconds"] + 25),
        "system": 15 + steps * (parameters["system_seconds"] + 4),
        "behind": 2 * (parameters["behind_changes"] / 15_000 + parameters["behind_seconds"] + 30),
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
        "broker_subscribers": (1, 10, 100),
        "broker_objects": 10,
        "broker_per_s": 5.0,
        "broker_seconds": 5.0,
        "distinct_clients": 1000,
        "distinct_queries": (1, 10, 1000),
        "distinct_rates": (25.0, 100.0),
        "distinct_seconds": 4.0,
        "churn_nodes": (1,),
        "churn_subscribers": 500,
        "churn_objects": 1000,
        "churn_fit": 0.1,
        "churn_seconds": 15.0,
        "session_timeout_ms": 6000,
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
        "system_subscribers": 30,
        "system_groups": 6,
        "system_objects": 360,
        "system_fit": 0.1,
        "system_values_per_s": 1.0,
        "system_changed_every_s": (45.0,),
        "system_seconds": 20.0,
        "behind_changes": 2_000_000,
        "behind_per_s": 50_000.0,
        "behind_objects": 10_000,
        "behind_subscribers": 10,
        "behind_seconds": 60.0,
        "wire_queries": (0, 1, 50),
        "processes": 2,
    },
    {
        "warm_up_s": 0,
        "turns": 1,
        "broker_subscribers": (1, 3),
        "broker_seconds": 1.0,
        "distinct_clients": 20,
        "distinct_queries": (1, 20),
        "distinct_rates": (20.0,),
        "distinct_seconds": 1.0,
        "churn_subscribers": 20,
        "churn_objects": 40,
        "churn_seconds": 10.0,
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
        "system_subscribers": 6,
        "system_objects": 60,
        "system_fit": 0.5,
        "system_changed_every_s": (5.0,),
        "system_seconds": 2.0,
        "behind_changes": 400,
        "behind_objects": 100,
        "behind_seconds": 12.0,
    },
    lambda parameters: sum(_seconds_of(parameters, part) for part in parameters["parts"]),
    lambda parameters: sum(_steps_of(parameters, part) for part in parameters["parts"]),
    run,
    (
        BROKER_TABLE,
        DISTINCT_TABLE,
        CHURN_TABLE,
        REGISTERING_TABLE,
        CHANGES_TABLE,
        SYSTEM_TABLE,
        BEHIND_TABLE,
        WIRE_TABLE,
    ),
)
