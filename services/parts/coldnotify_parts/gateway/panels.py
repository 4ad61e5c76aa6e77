"""Panels of Grafana about the part `gateway`."""

from coldnotify_parts.panels import RANGE, PartPanel, quantile, rate

OVERVIEW = (
    PartPanel("Devices connected", "short", {"": "sum(coldnotify_gateway_sessions)"}, stat=True, place=10),
    PartPanel("Gateways ready", "short", {"": 'sum(coldnotify_ready{job="gateway"})'}, stat=True, place=20),
    PartPanel(
        "From publish to the device's socket",
        "s",
        {f"p{int(100 * q)}": quantile(q, "coldnotify_gateway_delivery_seconds") for q in (0.5, 0.9, 0.99)},
        place=70,
    ),
    PartPanel("Sessions by state", "short", {"{{state}}": "sum by (state) (coldnotify_gateway_sessions)"}, place=80),
)
DASHBOARD = (
    PartPanel("Sessions", "short", {"{{instance}}": "sum by (instance) (coldnotify_gateway_sessions)"}),
    PartPanel(
        "Connections",
        "short",
        {
            "{{instance}}": "coldnotify_gateway_connections_open",
            "{{instance}}, no Hello yet": "coldnotify_gateway_connections_unidentified",
        },
    ),
    PartPanel("Clients connecting", "ops", {"{{client}}": rate("coldnotify_gateway_hellos_total", "by (client) ")}),
    PartPanel("Sessions ended", "ops", {"{{code}}": rate("coldnotify_gateway_closes_total", "by (code) ")}),
    PartPanel(
        "Bytes",
        "Bps",
        {
            "to devices": rate("coldnotify_gateway_sent_bytes_total"),
            "from devices": rate("coldnotify_gateway_received_bytes_total"),
        },
    ),
    PartPanel(
        "Waiting to be written",
        "bytes",
        {"{{instance}}": "coldnotify_gateway_buffered_bytes"},
    ),
    PartPanel(
        "Slow clients",
        "ops",
        {
            "connections full": rate("coldnotify_gateway_slow_phases_total"),
            "cut off": rate("coldnotify_gateway_connections_cut_off_total"),
            "refused": rate("coldnotify_gateway_connections_refused_total"),
        },
    ),
    PartPanel("Requests", "ops", {"{{kind}}": rate("coldnotify_gateway_requests_total", "by (kind) ")}),
    PartPanel(
        "Published on sessions", "ops", {"{{outcome}}": rate("coldnotify_gateway_publishes_total", "by (outcome) ")}
    ),
    PartPanel(
        "Between gateway and matcher",
        "ops",
        {
            "gaps": rate("coldnotify_gateway_gaps_total"),
            "announced again": rate("coldnotify_gateway_announcements_total"),
            "asked again": rate("coldnotify_gateway_asked_again_total"),
            "stale answers": rate("coldnotify_gateway_stale_answers_total"),
            "requests not taken": rate("coldnotify_gateway_requests_failed_total"),
        },
    ),
    PartPanel("Partitions without an answer", "short", {"{{instance}}": "coldnotify_gateway_matchers_away"}),
    PartPanel("Stale sessions", "short", {"{{instance}}": "coldnotify_gateway_sessions_stale"}),
    PartPanel(
        "Open files",
        "percentunit",
        {"{{instance}}": 'process_open_fds{job="gateway"} / process_max_fds{job="gateway"}'},
    ),
    PartPanel("CPU, cores", "short", {"{{instance}}": f'rate(process_cpu_seconds_total{{job="gateway"}}[{RANGE}])'}),
)
