"""Panels of Grafana about the part `http`."""

from coldnotify_parts.panels import PartPanel, quantile, rate

OVERVIEW = (
    PartPanel(
        "Published by HTTP", "ops", {"{{outcome}}": rate("coldnotify_http_publishes_total", "by (outcome) ")}, place=130
    ),
    PartPanel(
        "HTTP: from request to acknowledgement",
        "s",
        {f"p{int(100 * q)}": quantile(q, "coldnotify_http_publish_seconds") for q in (0.5, 0.99)},
        place=140,
    ),
    PartPanel(
        "HTTP: objects on their way to Kafka, and the limit",
        "short",
        {
            "in flight {{instance}}": "coldnotify_http_publishes_under_way",
            "limit {{instance}}": "coldnotify_http_flow_limit",
        },
        place=150,
    ),
    PartPanel(
        "HTTP: objects refused at the limit",
        "ops",
        {"{{instance}}": rate("coldnotify_http_flow_refused_total", "by (instance) ")},
        place=160,
    ),
    PartPanel(
        "HTTP: outcomes of publishes",
        "ops",
        {"{{outcome}}": rate("coldnotify_http_outcome_seconds_count", "by (outcome) ")},
        place=200,
    ),
    PartPanel(
        "HTTP: from acknowledgement to outcome",
        "s",
        {f"p{int(100 * q)}": quantile(q, "coldnotify_http_outcome_seconds") for q in (0.5, 0.99)},
        place=210,
    ),
)
