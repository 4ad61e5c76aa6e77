"""Panels of Grafana about the part `usage`."""

from coldnotify_parts.panels import PartPanel

OVERVIEW = (
    PartPanel(
        "Usage job: lag",
        "s",
        {"{{instance}}": "max by (instance) (coldnotify_usage_lag_seconds) or vector(0)"},
        place=190,
    ),
)
