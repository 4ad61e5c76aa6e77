"""Every metric there is, read off the services' own code, and docs/metrics.md made from it.

python -m coldnotify_tools.metrics_doc > docs/metrics.md
"""

from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

from coldnotify_common.http.admin import CommonMetrics
from coldnotify_common.imported import imported
from coldnotify_common.tenancy.tenancy_metrics import TenancyCollector
from coldnotify_matcher.metrics import OTHER_EVENTS
from coldnotify_parts.registry import PARTS
from prometheus_client import Metric
from prometheus_client.metrics import MetricWrapperBase

_HEAD = """# Metrics

<!-- Generated: python -m coldnotify_tools.metrics_doc > docs/metrics.md -->

Each service exports its metrics at `GET /metrics` of its HTTP port, in Prometheus' text format. A histogram is exported
as `_bucket`, `_sum` and `_count`. All services also export `process_` (memory, CPU, open files) and `python_` metrics.

The label `kafka_client` says what the service uses a Kafka client for (`requests-reader`, `writer` ...); `broker` is a
Kafka node's id. No label names a client, a group or an object, because their number is unlimited. Labels name the
domains that a setting names, at most 50 others, and at most 50 tenants.
"""


EVERY = "every"
"""In the place of a service's name."""
OF_TENANTS = ", ".join(row.name for row in PARTS if row.tenants)
"""Those who know tenants: what they say of that is called the same."""


class MetricInfo(NamedTuple):
    """One metric, by the name under which it is scraped."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


def all_metrics() -> dict[str, list[MetricInfo]]:
    """By service: its metrics, in the order in which its code names them."""
    common = CommonMetrics(lambda: None).collect()
    return {
        EVERY: [_info(metric, tuple(getattr(metric, "_labelnames", ()))) for metric in common],
        **{row.name: [one for name in row.metrics for one in _named(name)] for row in PARTS},
        "auto": list(_named("coldnotify_auto.metrics")),
        OF_TENANTS: list(_of_tenancy()),
    }


def generate() -> str:
    """The text of docs/metrics.md."""
    parts = [_HEAD]
    for service, metrics in all_metrics().items():
        rows = [f"| `{m.name}` | {m.kind} | {', '.join(m.labels)} | {m.meaning} |\n" for m in metrics]
        title = "Every service" if service == EVERY else f"coldnotify {service}"
        parts.append(f"## {title}\n\n| metric | kind | labels | meaning |\n|---|---|---|---|\n{''.join(rows)}")
    events = "".join(f"| `{name}` | {words} |\n" for name, words in OTHER_EVENTS.items())
    parts.append(f"## Events of coldnotify_matcher_events_total\n\n| event | meaning |\n|---|---|\n{events}")
    return "\n".join(parts)


def _wrappers(values: Iterable[Any]) -> Iterator[MetricWrapperBase]:
    """The metrics among the values of a namespace, also those in a dict."""
    for value in values:
        if isinstance(value, MetricWrapperBase):
            yield value
        elif isinstance(value, dict):
            yield from _wrappers(value.values())


def _of_wrappers(wrappers: Iterable[MetricWrapperBase]) -> Iterator[MetricInfo]:
    for wrapper in wrappers:
        (metric,) = wrapper.describe()
        yield _info(metric, tuple(wrapper._labelnames))


def _named(name: str) -> Iterator[MetricInfo]:
    """The metrics that a row names."""
    found = imported(name)
    holder = found if isinstance(found, ModuleType) else found()
    if hasattr(holder, "collect"):
        for metric in holder.collect():
            yield _info(metric, tuple(getattr(metric, "_labelnames", ())))
        return
    yield from _of_wrappers(_wrappers(vars(holder).values()))


def _of_tenancy() -> Iterator[MetricInfo]:
    """Of the services that know tenants."""
    for metric in TenancyCollector(None).collect():
        yield _info(metric, tuple(getattr(metric, "_labelnames", ())))


def _info(metric: Metric, labels: tuple[str, ...]) -> MetricInfo:
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    return MetricInfo(name, metric.type, labels, metric.documentation.rstrip("."))


if __name__ == "__main__":
    print(generate(), end="")
