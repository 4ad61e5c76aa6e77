"""Figures out of metrics: rates over a restart, quantiles within buckets."""

import math

import pytest
from coldnotify_http.metric_samples import Figures, growth, largest, quantile, read

METRICS = """# TYPE coldnotify_matcher_publishes_total counter
coldnotify_matcher_publishes_total 7.0
# TYPE coldnotify_matcher_lag_objects gauge
coldnotify_matcher_lag_objects{partition="0"} 2.0
coldnotify_matcher_lag_objects{partition="5"} 3.0
# TYPE coldnotify_gateway_delivery_seconds histogram
coldnotify_gateway_delivery_seconds_bucket{le="0.1"} 4.0
coldnotify_gateway_delivery_seconds_bucket{le="+Inf"} 5.0
coldnotify_gateway_delivery_seconds_count 5.0
coldnotify_gateway_delivery_seconds_sum 1.0
"""


def counted(**counters: float) -> Figures:
    return Figures(counters=Figures().counters | counters)


def test_missing_samples_read_as_0() -> None:
    figures = read(METRICS)
    assert figures.counters == {"publishes": 7, "deliveries": 0, "sent_bytes": 0}
    assert figures.gauges == {"lag_objects": 5, "lag_requests": 0, "connections": 0, "stale": 0}
    assert figures.buckets == {0.1: 4, math.inf: 5}
    with pytest.raises(ValueError):
        read("no metrics } at all")


def test_growth_is_added_up_over_processes_and_outlives_a_restart() -> None:
    before = {"a": counted(publishes=10), "b": counted(publishes=100, deliveries=5)}
    now = {"a": counted(publishes=13), "b": counted(publishes=2), "new": counted(publishes=1000)}
    assert growth(before, now).counters == {"publishes": 5, "deliveries": 0, "sent_bytes": 0}
    assert growth({}, now).counters["publishes"] == 0


@pytest.mark.parametrize(
    ("buckets", "q", "value"),
    [
        ({}, 0.5, None),
        ({0.1: 0, math.inf: 0}, 0.5, None),
        ({0.1: 10, math.inf: 10}, 0.5, 0.05),
        ({0.1: 5, 0.3: 10, math.inf: 10}, 0.75, 0.2),
        ({0.1: 5, 0.3: 9, math.inf: 10}, 0.99, 0.3),
    ],
)
def test_quantiles(buckets: dict[float, float], q: float, value: float | None) -> None:
    found = quantile(buckets, q)
    assert found == (None if value is None else pytest.approx(value))


def test_the_largest_and_the_smallest() -> None:
    rows: list[dict[str, object]] = [{"n": 1}, {"n": 3}, {"n": 2}]
    assert largest(rows, "n", 2) == [{"n": 3}, {"n": 2}]
    assert largest(rows, "n", 1, smallest=True) == [{"n": 1}]
