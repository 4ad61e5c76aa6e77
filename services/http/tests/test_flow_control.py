"""Flow control of a node: who is let in, who is refused and how, what the metrics say."""

import json
import time
from typing import Any

import pytest
from coldnotify.publisher import Published, PublishError
from coldnotify_http.flow_control import FLOW_MIN, FlowControl, refused
from coldnotify_http.metrics import Metrics
from coldnotify_http.settings import HttpSettings
from prometheus_client import CollectorRegistry

DONE = Published(1, 0, 0)


class Node:
    def __init__(self, **settings: Any) -> None:
        self.registry = CollectorRegistry()
        self.flow = FlowControl(HttpSettings(**settings), Metrics(self.registry))

    def metric(self, name: str) -> float | None:
        return self.registry.get_sample_value(f"coldnotify_http_{name}")


def test_without_a_permit_objects_are_refused_at_once_and_counted() -> None:
    node = Node()
    taken_s = [node.flow.take(6), node.flow.take(FLOW_MIN - 4)]
    assert node.flow.take(5) is None
    node.flow.refused(5)
    assert (node.metric("publishes_under_way"), node.metric("flow_refused_total")) == (FLOW_MIN + 2, 5)
    assert taken_s[0] is not None
    node.flow.give_back(taken_s[0], 6, [DONE, PublishError("no", indeterminate=False)] * 3)
    assert node.metric("publishes_under_way") == FLOW_MIN - 4
    assert node.flow.take(5) is not None


def test_a_caller_that_left_without_an_outcome_keeps_no_permit() -> None:
    node = Node()
    taken_s = node.flow.take(3)
    assert taken_s is not None
    node.flow.give_back(taken_s, 3, ())
    assert node.metric("publishes_under_way") == 0


def test_more_than_the_highest_is_refused_also_where_permits_are_free() -> None:
    node = Node(http_flow="fixed", http_publishes_max=1000)
    assert node.metric("flow_limit") == 1000
    assert node.flow.take(2) is not None
    assert node.flow.take(999) is None
    assert node.flow.take(998) is not None


def test_the_limit_begins_with_its_least_and_moves_by_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    node = Node(http_flow="last-three-points")
    assert node.metric("flow_limit") == FLOW_MIN
    for _ in range(8):
        taken_s = node.flow.take(FLOW_MIN)
        assert taken_s is not None
        now_s[0] += 1.0
        node.flow.give_back(taken_s, FLOW_MIN, [DONE] * FLOW_MIN)
    assert node.metric("flow_limit") == FLOW_MIN + 60  # then 200 in flight are too few to say more


def test_the_refusal_says_when_to_come_back_and_that_nothing_was_published() -> None:
    response = refused()
    assert (response.status, response.headers["Retry-After"]) == (503, "1")
    assert json.loads(response.text or "") == {
        "error": "too many objects are on their way to Kafka",
        "outcome": "not published",
    }
