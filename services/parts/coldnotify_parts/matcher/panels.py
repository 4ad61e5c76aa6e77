"""Panels of Grafana about the part `matcher`."""

from coldnotify_parts.panels import RANGE, PartPanel, quantile, rate

OVERVIEW = (
    PartPanel(
        "Partitions without a matcher",
        "short",
        {"": "max(coldnotify_matcher_partitions) - sum(coldnotify_matcher_partitions_owned)"},
        stat=True,
        place=30,
    ),
    PartPanel(
        "Publishes",
        "ops",
        {
            "newer versions": rate("coldnotify_matcher_publishes_total"),
            "conflated": rate("coldnotify_matcher_publishes_conflated_total"),
            "repeated": rate("coldnotify_matcher_publishes_repeated_total"),
            "altered": rate('coldnotify_matcher_events_total{event="altered"}'),
            "stale": rate("coldnotify_matcher_publishes_stale_total"),
        },
        place=50,
    ),
    PartPanel(
        "Lag of matchers",
        "short",
        {
            "objects {{partition}}": "max by (partition) (coldnotify_matcher_lag_objects)",
            "requests {{partition}}": "max by (partition) (coldnotify_matcher_lag_requests)",
        },
        place=90,
    ),
    PartPanel(
        "Publishes by domain",
        "ops",
        {"{{domain}}": f"sum by (domain) (rate(coldnotify_matcher_domain_publishes_total[{RANGE}])) or vector(0)"},
        place=100,
    ),
    PartPanel(
        "Stale publishes",
        "ops",
        {
            "{{domain}}": "sum by (domain) (rate(coldnotify_matcher_domain_publishes_total"
            f'{{outcome="stale"}}[{RANGE}])) or vector(0)'
        },
        place=110,
    ),
    PartPanel(
        "Rejected", "ops", {"{{field}}": rate("coldnotify_matcher_records_rejected_total", "by (field) ")}, place=120
    ),
)
DASHBOARD = (
    PartPanel("Partitions served", "short", {"{{instance}}": "coldnotify_matcher_partitions_owned"}),
    PartPanel("Partitions ready as standby", "short", {"{{instance}}": "coldnotify_matcher_partitions_standby"}),
    PartPanel(
        "One step",
        "s",
        {f"p{int(100 * q)}": quantile(q, "coldnotify_matcher_step_seconds") for q in (0.5, 0.99)},
    ),
    PartPanel(
        "Takeovers, mean time",
        "s",
        {
            "{{state}}": "sum by (state) (coldnotify_matcher_takeover_seconds_sum)"
            " / sum by (state) (coldnotify_matcher_takeover_seconds_count)"
        },
    ),
    PartPanel(
        "Sessions opened",
        "ops",
        {
            "in sync": rate("coldnotify_matcher_opens_total"),
            "not in sync": rate("coldnotify_matcher_opens_not_in_sync_total"),
            "superseded at once": rate("coldnotify_matcher_opens_superseded_total"),
            "closed": rate("coldnotify_matcher_closed_total"),
        },
    ),
    PartPanel(
        "Registrations",
        "ops",
        {
            "added": rate("coldnotify_matcher_registered_total"),
            "removed": rate("coldnotify_matcher_unregistered_total"),
            "whole sets": rate("coldnotify_matcher_syncs_total"),
            "clients forgotten": rate("coldnotify_matcher_clients_forgotten_total"),
        },
    ),
    PartPanel(
        "Written again",
        "ops",
        {
            "objects": rate("coldnotify_matcher_objects_repaired_total"),
            "state": rate("coldnotify_matcher_state_repaired_total"),
            "moved to the right partition": rate("coldnotify_matcher_records_moved_total"),
        },
    ),
    PartPanel(
        "Faults",
        "ops",
        {
            "reloads": rate("coldnotify_matcher_reloads_total"),
            "reloads of a partition": rate('coldnotify_matcher_events_total{event="partition_reloads"}'),
            "gateways silent": rate("coldnotify_matcher_gateways_silent_total"),
        },
    ),
    PartPanel(
        "Messages of channels",
        "ops",
        {
            "{{outcome}}": rate("coldnotify_matcher_messages_total", "by (outcome) "),
            "told, {{way}}": rate("coldnotify_matcher_messages_told_total", "by (way) "),
        },
    ),
    PartPanel(
        "Messages that clients may have missed",
        "ops",
        {"{{reason}}": rate("coldnotify_matcher_missed_total", "by (reason) ")},
    ),
    PartPanel(
        "Channels not read yet",
        "short",
        {"{{topic}}": "sum by (topic) (coldnotify_matcher_lag_channels)"},
    ),
    PartPanel(
        "Blocks of channels for clients that are behind",
        "ops",
        {
            "read": rate('coldnotify_matcher_events_total{event="blocks_read"}'),
            "unreadable": rate('coldnotify_matcher_events_total{event="blocks_unreadable"}'),
            "clients served": rate('coldnotify_matcher_events_total{event="blocks_served"}'),
        },
    ),
    PartPanel(
        "Shares: messages that are not settled, and what becomes of them a second",
        "short",
        {
            "{{state}}": "sum by (state) (coldnotify_matcher_share_messages)",
            "handed out": rate('coldnotify_matcher_events_total{event="handed_out"}'),
            "dead letters": rate('coldnotify_matcher_events_total{event="dead_letters"}'),
            "leases lost": rate('coldnotify_matcher_events_total{event="leases_lost"}'),
        },
    ),
    PartPanel("Shares: age of the oldest message", "s", {"{{instance}}": "coldnotify_matcher_share_oldest_seconds"}),
    PartPanel("Memory", "bytes", {"{{instance}}": 'process_resident_memory_bytes{job="matcher"}'}),
    PartPanel("CPU, cores", "short", {"{{instance}}": f'rate(process_cpu_seconds_total{{job="matcher"}}[{RANGE}])'}),
)
