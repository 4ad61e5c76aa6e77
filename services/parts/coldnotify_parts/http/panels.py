"""Panels of Grafana about the part `http`."""

from coldnotify_parts.panels import PartPanel, quantile, rate

OVERVIEW = (
    PartPanel(
        "Published by HTTP", "ops", {"{{outcome}}": rate("coldnotify_http_publishes_total", "by (outcome) ")}, place=130
    ),
    PartPanel(
        "HTTP: from body to acknowledgement",
        "s",
        {f"p{int(100 * q)}": quantile(q, "coldnotify_http_publish_seconds") for q in (0.5, 0.99)},
        place=140,
    ),
    PartPanel(
        "HTTP: in flight to Kafka, and how many may be",
        "short",
        {
            "in flight {{instance}}": "coldnotify_http_publishes_under_way",
            "limit {{instance}}": "coldnotify_http_flow_limit",
        },
        place=150,
    ),
    PartPanel(
        "HTTP: refused because too many were in flight",
        "ops",
        {"{{instance}}": rate("coldnotify_http_flow_refused_total", "by (instance) ")},
        place=160,
    ),
    PartPanel(
        "HTTP: what they changed",
        "ops",
        {"{{outcome}}": rate("coldnotify_http_outcome_seconds_count", "by (outcome) ")},
        place=200,
    ),
    PartPanel(
        "HTTP: from acknowledgement to what was changed",
        "s",
        {f"p{int(100 * q)}": quantile(q, "coldnotify_http_outcome_seconds") for q in (0.5, 0.99)},
        place=210,
    ),
)
