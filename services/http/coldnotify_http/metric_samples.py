"""Figures out of the services' /metrics: what they count, how fast that grows, and quantiles of a histogram. Pure."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

COUNTERS = {
    "publishes": "coldnotify_matcher_publishes_total",
    "deliveries": "coldnotify_gateway_deliveries_total",
    "sent_bytes": "coldnotify_gateway_sent_bytes_total",
}
GAUGES = {
    "lag_objects": "coldnotify_matcher_lag_objects",
    "lag_requests": "coldnotify_matcher_lag_requests",
    "connections": "coldnotify_gateway_connections_open",
    "stale": "coldnotify_gateway_sessions_stale",
}
BUCKETS = "coldnotify_gateway_delivery_seconds_bucket"


@dataclass
class Figures:
    """Figures of one process at one time, or the growth of several between two times."""

    counters: dict[str, float] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0.0))
    gauges: dict[str, float] = field(default_factory=lambda: dict.fromkeys(GAUGES, 0.0))
    buckets: dict[float, float] = field(default_factory=dict)
    """Cumulated, by upper bound in seconds."""


def read(text: str) -> Figures:
    """Parses a /metrics page; what is missing counts as 0. Raises ValueError if it is not one."""
    figures = Figures()
    counters = {name: key for key, name in COUNTERS.items()}
    gauges = {name: key for key, name in GAUGES.items()}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if (key := counters.get(sample.name)) is not None:
                figures.counters[key] += sample.value
            elif (key := gauges.get(sample.name)) is not None:
                figures.gauges[key] += sample.value
            elif sample.name == BUCKETS:
                bound = float(sample.labels["le"])
                figures.buckets[bound] = figures.buckets.get(bound, 0.0) + sample.value
    return figures


def growth(before: Mapping[str, Figures], now: Mapping[str, Figures]) -> Figures:
    """Returns the growth of counters between two times, by process (address); gauges have their present values.

    A process that counts less than before has restarted. A new one counts nothing yet.
    """
    total = Figures()
    for address, figures in now.items():
        for key, value in figures.gauges.items():
            total.gauges[key] += value
        was = before.get(address)
        if was is None:
            continue
        anew = any(figures.counters[key] < was.counters[key] for key in COUNTERS)
        for key, value in figures.counters.items():
            total.counters[key] += value - (0 if anew else was.counters[key])
        for bound, count in figures.buckets.items():
            grown = count - (0 if anew else was.buckets.get(bound, 0.0))
            total.buckets[bound] = total.buckets.get(bound, 0.0) + grown
    return total


def quantile(buckets: Mapping[float, float], q: float) -> float | None:
    """The value below which the fraction `q` lies, interpolated within its bucket; None: nothing was counted."""
    bounds = sorted(buckets)
    total = buckets[bounds[-1]] if bounds else 0
    if total <= 0:
        return None
    low, below = 0.0, 0.0
    for bound in bounds:
        if buckets[bound] >= q * total:
            if math.isinf(bound):
                return low
            inside = buckets[bound] - below
            return low + (bound - low) * ((q * total - below) / inside if inside else 1.0)
        low, below = bound, buckets[bound]
    return low


def largest(
    rows: Iterable[dict[str, object]], key: str, count: int, *, smallest: bool = False
) -> list[dict[str, object]]:
    """The first so many rows by a number."""

    def number(row: dict[str, object]) -> float:
        value = row[key]
        assert isinstance(value, int | float)
        return value

    return sorted(rows, key=number, reverse=not smallest)[:count]
