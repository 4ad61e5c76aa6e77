"""Grafana's dashboards, made from the tables below.

python -m coldnotify_tools.dashboards monitoring/grafana/dashboards
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from coldnotify_parts.registry import PARTS
from coldnotify_parts.row import PartRow

from coldnotify_tools.metrics_doc import all_metrics

_WIDTH, _HEIGHT, _STAT_HEIGHT, _COLUMNS = 12, 8, 4, 24
_DATASOURCE = {"type": "prometheus", "uid": "prometheus"}
RANGE = "$__rate_interval"
"""Grafana's own: long enough for a rate, whatever the interval of scrapes."""

_BY_OUTCOME = "by (outcome) "


class Panel(NamedTuple):
    """One diagram, or with `stat` one number."""

    title: str
    unit: str
    """As Grafana names it: short, ops (per second), s, bytes, Bps, percentunit."""
    queries: dict[str, str]
    """By legend, in PromQL."""
    stat: bool = False


def _rate(metric: str, by: str = "") -> str:
    return f"sum {by}(rate({metric}[{RANGE}]))".replace("sum (", "sum(")


def _quantile(quantile: float, histogram: str) -> str:
    return f"histogram_quantile({quantile}, sum by (le) (rate({histogram}_bucket[{RANGE}])))"


DASHBOARDS: dict[str, tuple[str, list[Panel]]] = {
    "overview": (
        "ColdNotify",
        [
            Panel("Devices connected", "short", {"": "sum(coldnotify_gateway_sessions)"}, stat=True),
            Panel("Gateways ready", "short", {"": 'sum(coldnotify_ready{job="gateway"})'}, stat=True),
            Panel(
                "Partitions without a matcher",
                "short",
                {"": "max(coldnotify_matcher_partitions) - sum(coldnotify_matcher_partitions_owned)"},
                stat=True,
            ),
            Panel("Alerts that fire", "short", {"": 'count(ALERTS{alertstate="firing"}) or vector(0)'}, stat=True),
            Panel(
                "Publishes",
                "ops",
                {
                    "newer versions": _rate("coldnotify_matcher_publishes_total"),
                    "conflated": _rate("coldnotify_matcher_publishes_conflated_total"),
                    "repeated": _rate("coldnotify_matcher_publishes_repeated_total"),
                    "altered": _rate("coldnotify_matcher_publishes_altered_total"),
                    "stale": _rate("coldnotify_matcher_publishes_stale_total"),
                },
            ),
            Panel(
                "Deliveries",
                "ops",
                {
                    "live": _rate("coldnotify_gateway_deliveries_total"),
                    "in pages": _rate("coldnotify_matcher_paged_total"),
                    "left to a page": _rate("coldnotify_gateway_live_dropped_total"),
                },
            ),
            Panel(
                "From publish to the device's socket",
                "s",
                {f"p{int(100 * q)}": _quantile(q, "coldnotify_gateway_delivery_seconds") for q in (0.5, 0.9, 0.99)},
            ),
            Panel("Sessions by state", "short", {"{{state}}": "sum by (state) (coldnotify_gateway_sessions)"}),
            Panel(
                "Lag of matchers",
                "short",
                {
                    "objects {{partition}}": "max by (partition) (coldnotify_matcher_lag_objects)",
                    "requests {{partition}}": "max by (partition) (coldnotify_matcher_lag_requests)",
                },
            ),
            Panel(
                "Publishes by domain",
                "ops",
                {
                    "{{domain}}": f"sum by (domain) (rate(coldnotify_matcher_domain_publishes_total[{RANGE}]))"
                    " or vector(0)"
                },
            ),
            Panel(
                "Stale publishes",
                "ops",
                {
                    "{{domain}}": "sum by (domain) (rate(coldnotify_matcher_domain_publishes_total"
                    f'{{outcome="stale"}}[{RANGE}])) or vector(0)'
                },
            ),
            Panel("Rejected", "ops", {"{{field}}": _rate("coldnotify_matcher_records_rejected_total", "by (field) ")}),
            Panel(
                "Published by HTTP",
                "ops",
                {"{{outcome}}": _rate("coldnotify_http_publishes_total", _BY_OUTCOME)},
            ),
            Panel(
                "HTTP: from body to acknowledgement",
                "s",
                {f"p{int(100 * q)}": _quantile(q, "coldnotify_http_publish_seconds") for q in (0.5, 0.99)},
            ),
            Panel(
                "HTTP: in flight to Kafka, and how many may be",
                "short",
                {
                    "in flight {{instance}}": "coldnotify_http_publishes_under_way",
                    "limit {{instance}}": "coldnotify_http_flow_limit",
                },
            ),
            Panel(
                "HTTP: refused because too many were in flight",
                "ops",
                {"{{instance}}": _rate("coldnotify_http_flow_refused_total", "by (instance) ")},
            ),
            Panel(
                "Tenants: refused, and deliveries spared",
                "ops",
                {
                    "refused {{tenant}} {{limit}}": _rate("coldnotify_tenants_refused_total", "by (tenant, limit) ")
                    + " or vector(0)",
                    "spared {{tenant}}": _rate("coldnotify_tenants_thinned_total", "by (tenant) ") + " or vector(0)",
                },
            ),
            Panel(
                "Tenants: part of the agreement that is used",
                "percentunit",
                {"{{tenant}} {{limit}}": "max by (tenant, limit) (coldnotify_tenants_used_ratio) or vector(0)"},
            ),
            Panel(
                "Usage job: how far it lags",
                "s",
                {"{{instance}}": "max by (instance) (coldnotify_usage_lag_seconds) or vector(0)"},
            ),
            Panel(
                "HTTP: what they changed", "ops", {"{{outcome}}": _rate("coldnotify_http_outcomes_total", _BY_OUTCOME)}
            ),
            Panel(
                "HTTP: from acknowledgement to what was changed",
                "s",
                {f"p{int(100 * q)}": _quantile(q, "coldnotify_http_outcome_seconds") for q in (0.5, 0.99)},
            ),
        ],
    ),
    "matcher": (
        "ColdNotify: matchers",
        [
            Panel("Partitions served", "short", {"{{instance}}": "coldnotify_matcher_partitions_owned"}),
            Panel("Partitions ready as standby", "short", {"{{instance}}": "coldnotify_matcher_partitions_standby"}),
            Panel(
                "One step",
                "s",
                {f"p{int(100 * q)}": _quantile(q, "coldnotify_matcher_step_seconds") for q in (0.5, 0.99)},
            ),
            Panel(
                "Takeovers, mean time",
                "s",
                {
                    "{{state}}": "sum by (state) (coldnotify_matcher_takeover_seconds_sum)"
                    " / sum by (state) (coldnotify_matcher_takeover_seconds_count)"
                },
            ),
            Panel(
                "Sessions opened",
                "ops",
                {
                    "in sync": _rate("coldnotify_matcher_opens_total"),
                    "not in sync": _rate("coldnotify_matcher_opens_not_in_sync_total"),
                    "outdone at once": _rate("coldnotify_matcher_opens_superseded_total"),
                    "closed": _rate("coldnotify_matcher_closed_total"),
                },
            ),
            Panel(
                "Registrations",
                "ops",
                {
                    "added": _rate("coldnotify_matcher_registered_total"),
                    "removed": _rate("coldnotify_matcher_unregistered_total"),
                    "whole sets": _rate("coldnotify_matcher_syncs_total"),
                    "clients forgotten": _rate("coldnotify_matcher_clients_forgotten_total"),
                },
            ),
            Panel(
                "Written again",
                "ops",
                {
                    "objects": _rate("coldnotify_matcher_objects_repaired_total"),
                    "state": _rate("coldnotify_matcher_state_repaired_total"),
                    "moved to the right partition": _rate("coldnotify_matcher_records_moved_total"),
                },
            ),
            Panel(
                "Faults",
                "ops",
                {
                    "reloads": _rate("coldnotify_matcher_reloads_total"),
                    "gateways silent": _rate("coldnotify_matcher_gateways_silent_total"),
                },
            ),
            Panel(
                "Messages of channels",
                "ops",
                {
                    "followed": _rate("coldnotify_matcher_messages_total"),
                    "told as they came": _rate("coldnotify_matcher_messages_told_total"),
                    "told in pages": _rate("coldnotify_matcher_messages_paged_total"),
                    "repeats told to nobody": _rate("coldnotify_matcher_messages_repeated_total"),
                    "rejected": _rate("coldnotify_matcher_messages_rejected_total"),
                },
            ),
            Panel(
                "Messages that clients may have missed",
                "ops",
                {"{{reason}}": _rate("coldnotify_matcher_missed_total", "by (reason) ")},
            ),
            Panel(
                "Channels not read yet",
                "short",
                {"{{topic}}": "sum by (topic) (coldnotify_matcher_lag_channels)"},
            ),
            Panel(
                "Blocks of channels for clients that are behind",
                "ops",
                {
                    "read": _rate("coldnotify_matcher_blocks_read_total"),
                    "unreadable": _rate("coldnotify_matcher_blocks_unreadable_total"),
                    "clients served": _rate("coldnotify_matcher_blocks_served_total"),
                },
            ),
            Panel("Memory", "bytes", {"{{instance}}": 'process_resident_memory_bytes{job="matcher"}'}),
            Panel(
                "CPU, cores", "short", {"{{instance}}": f'rate(process_cpu_seconds_total{{job="matcher"}}[{RANGE}])'}
            ),
        ],
    ),
    "gateway": (
        "ColdNotify: gateways",
        [
            Panel("Sessions", "short", {"{{instance}}": "sum by (instance) (coldnotify_gateway_sessions)"}),
            Panel(
                "Connections",
                "short",
                {
                    "{{instance}}": "coldnotify_gateway_connections_open",
                    "{{instance}}, no Hello yet": "coldnotify_gateway_connections_unidentified",
                },
            ),
            Panel("Clients that come", "ops", {"{{client}}": _rate("coldnotify_gateway_hellos_total", "by (client) ")}),
            Panel("Sessions ended", "ops", {"{{code}}": _rate("coldnotify_gateway_closes_total", "by (code) ")}),
            Panel(
                "Bytes",
                "Bps",
                {
                    "to devices": _rate("coldnotify_gateway_sent_bytes_total"),
                    "from devices": _rate("coldnotify_gateway_received_bytes_total"),
                },
            ),
            Panel(
                "Waiting to be written",
                "bytes",
                {"{{instance}}": "coldnotify_gateway_buffered_bytes"},
            ),
            Panel(
                "Slow clients",
                "ops",
                {
                    "connections full": _rate("coldnotify_gateway_slow_phases_total"),
                    "cut off": _rate("coldnotify_gateway_connections_cut_off_total"),
                    "refused": _rate("coldnotify_gateway_connections_refused_total"),
                },
            ),
            Panel("Requests", "ops", {"{{kind}}": _rate("coldnotify_gateway_requests_total", "by (kind) ")}),
            Panel(
                "Between gateway and matcher",
                "ops",
                {
                    "gaps": _rate("coldnotify_gateway_gaps_total"),
                    "announced anew": _rate("coldnotify_gateway_announcements_total"),
                    "asked again": _rate("coldnotify_gateway_asked_again_total"),
                    "stale answers": _rate("coldnotify_gateway_stale_answers_total"),
                    "requests not taken": _rate("coldnotify_gateway_requests_failed_total"),
                },
            ),
            Panel("Partitions without an answer", "short", {"{{instance}}": "coldnotify_gateway_matchers_away"}),
            Panel(
                "Open files",
                "percentunit",
                {"{{instance}}": 'process_open_fds{job="gateway"} / process_max_fds{job="gateway"}'},
            ),
            Panel(
                "CPU, cores", "short", {"{{instance}}": f'rate(process_cpu_seconds_total{{job="gateway"}}[{RANGE}])'}
            ),
        ],
    ),
    "kafka": (
        "ColdNotify: Kafka clients",
        [
            Panel(
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
                ("Waiting to be written", "short", "", "coldnotify_kafka_waiting_records"),
                ("Fetched, not taken", "short", "", "coldnotify_kafka_fetched_records"),
                ("Not read yet", "short", "{{topic}}", "coldnotify_kafka_lag_records"),
                ("Bytes to Kafka", "Bps", "", f"rate(coldnotify_kafka_sent_bytes_total[{RANGE}])"),
                (
                    "Requests not answered",
                    "ops",
                    "{{broker}}",
                    f"rate(coldnotify_kafka_broker_request_timeouts_total[{RANGE}])",
                ),
                ("Disconnects", "ops", "{{broker}}", f"rate(coldnotify_kafka_broker_disconnects_total[{RANGE}])"),
            )
        ],
    ),
}
"""By file name: the title, and the panels in order."""


class Variable(NamedTuple):
    """A selector above the panels: it offers the values of one label, and all of them."""

    label: str
    series: str
    """The series whose values of the label are offered."""


VARIABLES = {
    "overview": Variable("domain", "coldnotify_matcher_domain_publishes_total"),
    "matcher": Variable("instance", 'coldnotify_ready{job="matcher"}'),
    "gateway": Variable("instance", 'coldnotify_ready{job="gateway"}'),
    "kafka": Variable("instance", "coldnotify_kafka_connected"),
}
"""By file name. Each of its queries that has the label asks for what was chosen."""
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


def _description(panel: Panel) -> str:
    """Returns the meaning of each metric of the panel, under its name."""
    metrics = dict.fromkeys(_name(found) for query in panel.queries.values() for found, _ in _METRIC.findall(query))
    lines = [f"`{name}`: {_known()[name][1]}" for name in metrics if name in _known()]
    return "\n\n".join(lines) or panel.title + ", as Prometheus says it."


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
    title, panels = DASHBOARDS[name]
    if name == "overview":
        panels = [*panels, *_of_parts(PARTS)]
    return {
        "uid": f"coldnotify-{name}",
        "title": title,
        "tags": ["coldnotify"],
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [{"type": "dashboards", "tags": ["coldnotify"], "title": "ColdNotify", "asDropdown": True}],
        "templating": _templating(VARIABLES[name]),
        "panels": list(_placed(panels, VARIABLES[name].label)),
    }


def _of_parts(rows: Iterable[PartRow]) -> list[Panel]:
    return [Panel(one.title, one.unit, dict(one.queries)) for row in rows for one in row.panels]


def text_of(name: str) -> str:
    """The file."""
    return json.dumps(dashboard(name), indent=1) + "\n"


def _placed(panels: list[Panel], label: str) -> Iterator[dict[str, Any]]:
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
