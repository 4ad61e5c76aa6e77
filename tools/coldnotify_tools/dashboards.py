"""Grafana's dashboards, made from the panels of parts' rows, and from those below, which are about several parts.

python -m coldnotify_tools.dashboards monitoring/grafana/dashboards
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from coldnotify_parts.panels import RANGE, PartPanel, rate
from coldnotify_parts.registry import PARTS

from coldnotify_tools.metrics_doc import all_metrics

_WIDTH, _HEIGHT, _STAT_HEIGHT, _COLUMNS = 12, 8, 4, 24
_DATASOURCE = {"type": "prometheus", "uid": "prometheus"}
OVERVIEW = (
    PartPanel("Alerts firing", "short", {"": 'count(ALERTS{alertstate="firing"}) or vector(0)'}, stat=True, place=40),
    PartPanel(
        "Deliveries",
        "ops",
        {
            "live": rate("coldnotify_gateway_deliveries_total"),
            "in pages": rate("coldnotify_matcher_paged_total"),
            "sent in a page instead": rate("coldnotify_gateway_live_dropped_total"),
        },
        place=60,
    ),
    PartPanel(
        "Tenants: refusals, and deliveries left out",
        "ops",
        {
            "refused {{tenant}} {{limit}}": rate("coldnotify_tenants_refused_total", "by (tenant, limit) ")
            + " or vector(0)",
            "left out {{tenant}}": rate("coldnotify_tenants_thinned_total", "by (tenant) ") + " or vector(0)",
        },
        place=170,
    ),
    PartPanel(
        "Tenants: share of the agreement in use",
        "percentunit",
        {"{{tenant}} {{limit}}": "max by (tenant, limit) (coldnotify_tenants_used_ratio) or vector(0)"},
        place=180,
    ),
)
"""Panels of the overview that are about several parts, or about none."""

KAFKA = tuple(
    PartPanel(
        title,
        unit,
        {"{{job}} {{instance}} {{kafka_client}} " + label: query},
    )
    for title, unit, label, query in (
        ("Round trip, mean", "s", "{{broker}}", "coldnotify_kafka_broker_round_trip_seconds"),
        ("Round trip, p99", "s", "{{broker}}", "coldnotify_kafka_broker_round_trip_p99_seconds"),
        ("Connected", "short", "", "coldnotify_kafka_connected"),
        ("Throttled", "s", "{{broker}}", "coldnotify_kafka_broker_throttle_seconds"),
        ("Records written", "ops", "", f"rate(coldnotify_kafka_sent_records_total[{RANGE}])"),
        ("Records read", "ops", "", f"rate(coldnotify_kafka_received_records_total[{RANGE}])"),
        ("Records waiting to be written", "short", "", "coldnotify_kafka_waiting_records"),
        ("Records fetched, not handled yet", "short", "", "coldnotify_kafka_fetched_records"),
        ("Records not read yet (lag)", "short", "{{topic}}", "coldnotify_kafka_lag_records"),
        ("Bytes to Kafka", "Bps", "", f"rate(coldnotify_kafka_sent_bytes_total[{RANGE}])"),
        (
            "Requests not answered",
            "ops",
            "{{broker}}",
            f"rate(coldnotify_kafka_broker_request_timeouts_total[{RANGE}])",
        ),
        ("Disconnects", "ops", "{{broker}}", f"rate(coldnotify_kafka_broker_disconnects_total[{RANGE}])"),
    )
)
"""Panels about the clients of Kafka that all parts have."""


class Variable(NamedTuple):
    """A selector above the panels: it offers the values of one label, and all of them."""

    label: str
    series: str
    """The series whose values of the label are offered."""


class Dashboard(NamedTuple):
    """The content of one file."""

    title: str
    panels: tuple[PartPanel, ...]
    variable: Variable
    """Each query that has its label asks for what was chosen."""


_PANELS = sorted((*OVERVIEW, *(panel for row in PARTS for panel in row.panels)), key=lambda panel: panel.place)
DASHBOARDS = {
    "overview": Dashboard(
        "ColdNotify", tuple(_PANELS), Variable("domain", "coldnotify_matcher_domain_publishes_total")
    ),
    **{
        row.name: Dashboard(
            f"ColdNotify: {row.title}s", row.dashboard, Variable("instance", f'coldnotify_ready{{job="{row.name}"}}')
        )
        for row in PARTS
        if row.dashboard
    },
    "kafka": Dashboard("ColdNotify: Kafka clients", KAFKA, Variable("instance", "coldnotify_kafka_connected")),
}
"""By file name."""
_METRIC = re.compile(r"\b(coldnotify_\w+|process_\w+)(?:\{([^}]*)\})?")
_OF_PROMETHEUS = {
    "process_resident_memory_bytes": ("instance",),
    "process_cpu_seconds_total": ("instance",),
    "process_open_fds": ("instance",),
    "process_max_fds": ("instance",),
}
"""Metrics that are not ours, and the labels that they have."""


@cache
def _known() -> dict[str, tuple[tuple[str, ...], str]]:
    """By name: the labels and the meaning of all our metrics. Each has an instance from Prometheus."""
    infos = (info for of_service in all_metrics().values() for info in of_service)
    return {info.name: ((*info.labels, "instance"), info.meaning) for info in infos}


def _name(metric: str) -> str:
    """As it is documented: of a histogram without what its series end in."""
    return metric if metric in _known() else re.sub("_(bucket|sum|count)$", "", metric)


def _chosen(query: str, label: str) -> str:
    """The query, of those values of the label that were chosen."""

    def choose(match: re.Match[str]) -> str:
        metric, given = match.groups()
        labels = _OF_PROMETHEUS.get(metric) or _known()[_name(metric)][0]
        if label not in labels:
            return match.group()
        selectors = [*([given] if given else []), f'{label}=~"${label}"']
        return f"{metric}{{{', '.join(selectors)}}}"

    return _METRIC.sub(choose, query)


def _description(panel: PartPanel) -> str:
    """Returns the meaning of each metric of the panel, under its name."""
    metrics = dict.fromkeys(_name(found) for query in panel.queries.values() for found, _ in _METRIC.findall(query))
    lines = [f"`{name}`: {_known()[name][1]}" for name in metrics if name in _known()]
    return "\n\n".join(lines) or panel.title + ", as Prometheus reports it."


def _templating(variable: Variable) -> dict[str, Any]:
    query = f"label_values({variable.series}, {variable.label})"
    return {
        "list": [
            {
                "name": variable.label,
                "type": "query",
                "datasource": _DATASOURCE,
                "query": {"query": query, "refId": "A"},
                "definition": query,
                "refresh": 2,
                "sort": 1,
                "multi": True,
                "includeAll": True,
                "allValue": ".*",
                "current": {"text": ["All"], "value": ["$__all"]},
            }
        ]
    }


def dashboard(name: str) -> dict[str, Any]:
    """As Grafana imports it."""
    title, panels, variable = DASHBOARDS[name]
    return {
        "uid": f"coldnotify-{name}",
        "title": title,
        "tags": ["coldnotify"],
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [{"type": "dashboards", "tags": ["coldnotify"], "title": "ColdNotify", "asDropdown": True}],
        "templating": _templating(variable),
        "panels": list(_placed(panels, variable.label)),
    }


def text_of(name: str) -> str:
    """The file."""
    return json.dumps(dashboard(name), indent=1) + "\n"


def _placed(panels: Iterable[PartPanel], label: str) -> Iterator[dict[str, Any]]:
    x = y = 0
    for number, panel in enumerate(panels, 1):
        width, height = (_WIDTH // 2, _STAT_HEIGHT) if panel.stat else (_WIDTH, _HEIGHT)
        yield {
            "id": number,
            "type": "stat" if panel.stat else "timeseries",
            "title": panel.title,
            "description": _description(panel),
            "datasource": _DATASOURCE,
            "gridPos": {"x": x, "y": y, "w": width, "h": height},
            "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
            "targets": [
                {
                    "refId": chr(ord("A") + place),
                    "datasource": _DATASOURCE,
                    "expr": _chosen(query, label),
                    "legendFormat": legend,
                }
                for place, (legend, query) in enumerate(panel.queries.items())
            ],
        }
        x += width
        if x >= _COLUMNS:
            x, y = 0, y + height


def main(directory: Path) -> None:
    """Writes all of them."""
    for name in DASHBOARDS:
        (directory / f"{name}.json").write_text(text_of(name), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
