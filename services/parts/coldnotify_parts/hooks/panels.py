"""Panels of Grafana about the part `hooks`."""

from coldnotify_parts.panels import PartPanel, rate

OVERVIEW = (
    PartPanel(
        "Webhooks: calls", "ops", {"{{outcome}}": rate("coldnotify_hooks_calls_total", "by (outcome) ")}, place=220
    ),
    PartPanel(
        "Webhooks: items that wait for another try",
        "short",
        {
            "{{instance}}": "coldnotify_hooks_failing",
            "hooks served {{instance}}": "coldnotify_hooks_served",
            "hooks suspended {{instance}}": "coldnotify_hooks_suspended",
            "given up, by second": rate("coldnotify_hooks_given_up_total"),
        },
        place=230,
    ),
)
