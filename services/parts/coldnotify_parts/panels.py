"""Panels of Grafana, and the queries in PromQL that they share."""

from collections.abc import Mapping
from dataclasses import dataclass

RANGE = "$__rate_interval"
"""Grafana's own: long enough for a rate, whatever the interval of scrapes."""


@dataclass(frozen=True)
class PartPanel:
    """A diagram, or with `stat` one number."""

    title: str
    unit: str
    """Grafana's name of the unit: short, ops (per second), s, bytes, Bps, percentunit."""
    queries: Mapping[str, str]
    """Queries in PromQL, by legend."""
    stat: bool = False
    place: int = 1_000
    """The place in the overview: a panel with a lower number comes first."""


def rate(metric: str, by: str = "") -> str:
    """Returns the query of a counter's rate. `by`: `by (label, label) `."""
    return f"sum {by}(rate({metric}[{RANGE}]))".replace("sum (", "sum(")


def quantile(share: float, histogram: str) -> str:
    """Returns the query of a quantile of a histogram."""
    return f"histogram_quantile({share}, sum by (le) (rate({histogram}_bucket[{RANGE}])))"
