"""The judge of what an offline client costs: a request that is served twice because nothing says so is no cost."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from coldnotify_simulation.clock import Clock
from coldnotify_simulation.kafka import Kafka
from coldnotify_simulation.promises import OFFLINE_RECORDS_MAX, SimulatedPromises
from coldnotify_simulation.truth import TrueObjects

CLIENT = "animal.observer/region-2/c"
KEY = f"{CLIENT}/0".encode()
REQUESTS = 5
TIMES = 2 * OFFLINE_RECORDS_MAX


def judge_of_one_that_asked() -> SimulatedPromises:
    """A judge to whom a client is offline that has made REQUESTS requests before."""
    kafka = cast("Any", SimpleNamespace(log=lambda *_: SimpleNamespace(end=REQUESTS, entries=())))
    judge = SimulatedPromises(Clock(), cast("Kafka", kafka), TrueObjects())
    judge.on_offline(CLIENT)
    return judge


def serve_all(judge: SimulatedPromises) -> None:
    for applied in range(REQUESTS):
        judge.on_state_record(CLIENT, KEY, b'{"generation":1,"applied":%d}' % applied, forgotten=True)


@pytest.mark.parametrize("null", [True, False])
def test_requests_are_served_again_after_a_null(*, null: bool) -> None:
    judge = judge_of_one_that_asked()
    for _ in range(TIMES):
        serve_all(judge)
        if null:
            judge.on_state_record(CLIENT, KEY, None, forgotten=True)
    assert [words.partition(":")[0] for words in judge.at_rest([])] == ([] if null else ["P6"])


def test_nulls_of_one_that_no_operator_forgets_count() -> None:
    judge = judge_of_one_that_asked()
    for _ in range(TIMES):
        judge.on_state_record(CLIENT, KEY, None, forgotten=False)
    assert [words.partition(":")[0] for words in judge.at_rest([])] == ["P6"]
