"""Every metric there is, read off the services' own code, and docs/metrics.md made from it.

python -m coldnotify_cli.metrics_doc > docs/metrics.md
"""

import importlib
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import coldnotify_matcher.channel_metrics as channel_metrics
import coldnotify_matcher.metrics as matcher_metrics
import coldnotify_usage.metrics as usage_metrics
from coldnotify_common.admin import CommonMetrics
from coldnotify_common.tenancy.tenancy_metrics import TenancyCollector
from coldnotify_gateway.core import Gateway, Limits
from coldnotify_gateway.latency import Latency
from coldnotify_gateway.metrics import GatewayCollector
from coldnotify_http.metrics import Metrics as HttpMetrics
from coldnotify_streams.jobs.registry import JOBS
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.metrics import MetricWrapperBase

_HEAD = """# Metrics

<!-- Generated: python -m coldnotify_cli.metrics_doc > docs/metrics.md -->

Each service exports its metrics at `GET /metrics` of its HTTP port, in Prometheus' text format. A histogram is exported
as `_bucket`, `_sum` and `_count`. All services also export `process_` (memory, CPU, open files) and `python_` metrics.

The label `kafka_client` says what the service uses a Kafka client for (`requests-reader`, `writer` ...); `broker` is a
Kafka node's id. No label names a client, a group or an object, because their number is unlimited. Labels name the
domains that a setting names, at most 50 others, and at most 50 tenants.
"""


EVERY = "every"
"""In the place of a service's name."""
OF_TENANTS = "matcher, gateway, http"
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
        "matcher": [
            *_of_wrappers(_wrappers(vars(matcher_metrics).values())),
            *_of_wrappers(_wrappers(vars(channel_metrics).values())),
        ],
        "gateway": list(_of_gateway()),
        "http": list(_of_wrappers(_wrappers(vars(HttpMetrics(CollectorRegistry())).values()))),
        OF_TENANTS: list(_of_tenancy()),
        "usage": list(_of_wrappers(_wrappers(vars(usage_metrics).values()))),
        **{
            f"job {row.name}": list(_of_wrappers(_wrappers(vars(importlib.import_module(row.metrics)).values())))
            for row in JOBS
        },
    }


def generate() -> str:
    """The text of docs/metrics.md."""
    parts = [_HEAD]
    for service, metrics in all_metrics().items():
        rows = [f"| `{m.name}` | {m.kind} | {', '.join(m.labels)} | {m.meaning} |\n" for m in metrics]
        title = "Every service" if service == EVERY else f"coldnotify {service}"
        parts.append(f"## {title}\n\n| metric | kind | labels | meaning |\n|---|---|---|---|\n{''.join(rows)}")
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


def _of_gateway() -> Iterator[MetricInfo]:
    """The gateway's are read off a core: a new one, to which nothing has happened."""
    core: Any = SimpleNamespace(
        gateway=Gateway(1, 0, 1, Limits()),
        reader=None,
        now_s=lambda: 0.0,
        buffered_bytes=0,
        cut_off=0,
        latency=Latency(),
    )
    for metric in GatewayCollector(SimpleNamespace(service=core)).collect():
        yield _info(metric, tuple(getattr(metric, "_labelnames", ())))


def _of_tenancy() -> Iterator[MetricInfo]:
    """Of the services that know tenants."""
    for metric in TenancyCollector(None).collect():
        yield _info(metric, tuple(getattr(metric, "_labelnames", ())))


def _info(metric: Metric, labels: tuple[str, ...]) -> MetricInfo:
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    return MetricInfo(name, metric.type, labels, metric.documentation.rstrip("."))


if __name__ == "__main__":
    print(generate(), end="")
