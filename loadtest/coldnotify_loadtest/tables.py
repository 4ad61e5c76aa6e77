"""From the rows of results to tables: medians over repeats, the thesis' figures beside. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Row = Mapping[str, Any]
_VERSION = re.compile(r"\d+(?:\.\d+)+")

THESIS = {
    "E1": "Thesis: 18.4 ms mean and 5.1 ms median at 13,000 notifications/s, 41.8 ms mean at 25,000/s (84 nodes).\n"
    "Its median at 13,000/s is better than ColdNotify's here, whose cores also carry the load.",
    "E2": "Thesis: 1,038 registrations/s while growing.",
    "E3": "Thesis: 1.81 s (registrations kept), 2.41 s (all registrations lost).",
    "E4": "Thesis: 1.81 s (its matcher begins empty), 2.01 s (it loads its file first). Neither is a standby.",
}


@dataclass(frozen=True)
class Table:
    """Ready to be printed."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        """As a table of Markdown, the note below."""
        lines = [f"**{self.title}**", "", "| " + " | ".join(self.columns) + " |", "|---" * len(self.columns) + "|"]
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        return "\n".join(lines + (["", self.note] if self.note else []))


def figure(value: Any) -> str:
    """A number with three digits that matter, thousands with commas; "-" for none."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def at(row: Row, path: str) -> Any:
    """A value by a path with dots; "*" adds up all that is there; None where it is not."""
    value: Any = row
    names = path.split(".")
    for index, name in enumerate(names):
        if name == "*":
            rest = ".".join(names[index + 1 :])
            values = [at(one, rest) if rest else one for one in value.values()]
            return sum(one for one in values if one is not None) if values else None
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value


def medians(rows: Sequence[Row], keys: Sequence[str], values: Sequence[str]) -> list[tuple[Any, ...]]:
    """A line for each combination of `keys`, in the order of appearance: the keys, then each value's median."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(at(row, key) for key in keys), []).append(row)
    lines = []
    for key, members in groups.items():
        found = [[value for row in members if (value := at(row, path)) is not None] for path in values]
        lines.append((*key, *(median(one) if one else None for one in found)))
    return lines


_LATENCY = {"mean ms": "mean_ms", "median": "p50_ms", "p95": "p95_ms", "p99": "p99_ms", "std": "std_ms"}
_CPU = {
    "CPU us a publish": "cpu_us_per_publish.*",
    "matcher": "cpu_us_per_publish.matcher",
    "gateway": "cpu_us_per_publish.gateway",
}
_SERVER = {"server": "server", "a publish survives": "durability"}
Columns = Mapping[str, str]


@dataclass(frozen=True)
class _Shape:
    title: str
    keys: Columns
    values: Columns
    only: Callable[[Row], bool] = lambda row: True


def _loops(part: str) -> Callable[[Row], bool]:
    """Of flow: a part's rows with controllers."""
    return lambda row: row["part"] == part and "controller" in row


_SHAPES: dict[str, tuple[_Shape, ...]] = {
    "E1": (
        _Shape(
            "E1: clients on one object, medians of the repeats",
            {**_SERVER, "publishes/s": "per_s"},
            {
                **_LATENCY,
                "delivered": "deliveries",
                "of": "expected",
                "CPU us a delivery": "cpu_us_per_delivery.*",
                "of it gateway": "cpu_us_per_delivery.gateway",
                "memory MiB": "used.*.memory_mib",
            },
        ),
    ),
    "E2": (
        _Shape(
            "E2: while growing",
            {"server": "server", "clients": "clients"},
            {
                "seconds": "seconds",
                "registrations/s": "registrations_per_s",
                "connect to complete, median ms": "to_ready.p50_ms",
                "p99": "to_ready.p99_ms",
            },
            lambda row: row["phase"] == "growing",
        ),
        _Shape(
            "E2: a fixed number, one publish a second",
            {"server": "server", "clients": "clients"},
            {**_LATENCY, "memory MiB": "used.*.memory_mib"},
            lambda row: row["phase"] == "fixed",
        ),
    ),
    "E3": (
        _Shape(
            "E3: from the gateway's start, seconds",
            {"case": "case", "clients": "clients"},
            {
                "process ready": "process_ready_s",
                "all complete": "all_back_s",
                "since the kill": "all_back_since_kill_s",
            },
        ),
    ),
    "E4": (
        _Shape(
            "E4: a publish right after the kill is at all clients, seconds",
            {"case": "case", "clients": "clients"},
            {
                "since the matcher's start": "all_back_s",
                "since the kill": "all_reached_since_kill_s",
                "of it the group's timeout": "session_timeout_s",
                "takeover": "takeover_s",
            },
        ),
    ),
    "takeover": (
        _Shape(
            "Killed, and stays away: seconds since the kill",
            {"killed": "case", "Kafka nodes": "kafka_nodes", "clients": "clients"},
            {
                "published": "published_s",
                "half of the clients have it": "half_reached_s",
                "all have it": "all_reached_s",
                "takeover": "takeover_s",
            },
        ),
    ),
    "slow-link": (
        _Shape(
            "A client behind a slow link",
            {"objects": "objects", "versions missed": "missed"},
            {
                "published meanwhile": "published_meanwhile",
                "caught up, s": "caught_up_s",
                "told": "told",
                "bytes sent": "sent_bytes",
                "the newest versions alone": "newest_versions_bytes",
                "all versions": "all_versions_bytes",
            },
        ),
    ),
    "priority": (
        _Shape(
            "Alarms while a backlog is told behind a slow link",
            {"backlog, bytes": "backlog_bytes", "alarms": "alarms"},
            {
                "told": "told",
                "within a page and a round trip": "within",
                "median, s": "median_s",
                "longest, s": "longest_s",
                "backlog left at the end, bytes": "left_bytes",
            },
        ),
    ),
    "stuck": (
        _Shape(
            "Clients that never read",
            {"when": "when"},
            {
                "gateway MiB": "gateway",
                "matcher MiB": "matcher",
                "buffered MiB": "buffered_mib",
                "slow sessions": "slow",
                "published/s": "published_per_s",
                "newest at a reader, s": "newest_at_reader_s",
            },
        ),
    ),
    "wire": (
        _Shape(
            "Bytes on the wire, both ways",
            {**_SERVER, "case": "case"},
            {"up": "up", "down": "down", "together": "bytes"},
        ),
    ),
    "conflation": (
        _Shape(
            "One object published thousands of times a second",
            {"interval (ms)": "setting"},
            {
                "longest interval": "interval_max_ms",
                "published/s": "published_per_s",
                "versions a client got": "versions_a_client",
                "newest at all, s": "newest_at_all_s",
                "p99 ms": "p99_ms",
                "gateway CPU s": "used.gateway.cpu_s",
                "matcher CPU s": "used.matcher.cpu_s",
            },
        ),
    ),
    "matcher": (
        _Shape(
            "One subscriber a publish",
            {"publishes/s": "per_s"},
            {
                "sustained/s": "published_per_s",
                "median ms": "p50_ms",
                "p99": "p99_ms",
                "matcher CPU us a publish": "cpu_us_per_publish.matcher",
                "gateway": "cpu_us_per_publish.gateway",
                "broker": "cpu_us_per_publish.broker",
                "delivered": "deliveries",
                "of": "expected",
            },
        ),
    ),
    "scale": (
        _Shape(
            "Idle connections, one publish to all",
            {"clients": "clients", "gateways": "gateways"},
            {
                "connected in s": "connected_s",
                "gateway bytes a connection": "gateway_bytes_a_connection",
                "a publish reaches all, s": "all_reached_s",
                "median ms": "p50_ms",
            },
        ),
    ),
    "peers": (
        _Shape(
            "Peers: publishes to all subscribers",
            {**_SERVER, "fan-out": "fan_out"},
            {
                "median ms": "p50_ms",
                "p99": "p99_ms",
                "CPU us a delivery": "cpu_us_per_delivery.*",
                "KiB a connection": "kib_a_connection.*",
                "delivered": "deliveries",
                "of": "expected",
            },
            lambda row: row["case"] == "fan-out",
        ),
        _Shape(
            "Peers: all connections are cut and come back at once",
            {**_SERVER, "fan-out": "fan_out"},
            {"all complete, s": "all_back_s", "median ms": "to_ready.p50_ms", "CPU s": "used.*.cpu_s"},
            lambda row: row["case"] == "storm",
        ),
    ),
    "wakes": (
        _Shape(
            "Wakes that have missed nothing: CPU us a wake, by process",
            {"server": "server", "gateways": "gateways", "registrations": "registrations", "wakes/s": "per_s"},
            {
                "gateway": "cpu_us_per_wake.gateway",
                "matcher": "cpu_us_per_wake.matcher",
                "broker": "cpu_us_per_wake.broker",
                "all": "cpu_us_per_wake.*",
                "all: cores": "cores.*",
                "connect to complete, median ms": "p50_ms",
                "p99": "p99_ms",
                "complete": "done",
                "of": "due",
            },
            lambda row: row["case"] == "wakes",
        ),
        _Shape(
            "Nothing to do: share of a core",
            {"server": "server", "gateways": "gateways"},
            {
                "gateway": "cores.gateway",
                "matcher": "cores.matcher",
                "HTTP": "cores.http",
                "broker": "cores.broker",
                "all": "cores.*",
            },
            lambda row: row["case"] == "idle",
        ),
    ),
    "crowd": (
        _Shape(
            "All devices at once",
            {"devices": "devices", "gateways": "gateways"},
            {
                "first connections, s": "first_s",
                "all complete, s": "all_s",
                "median ms": "p50_ms",
                "complete": "done",
                "gateways' CPU s": "used.gateway.cpu_s",
                "matcher": "used.matcher.cpu_s",
                "broker": "used.broker.cpu_s",
            },
        ),
    ),
    "flow": (
        _Shape(
            "Knee: fixed limits",
            {"way": "way", "in flight at most": "limit_fixed", "": "knee"},
            {
                "published/s": "per_s",
                "W: mean ms": "mean_ms",
                "p50": "p50_ms",
                "p99": "p99_ms",
                "L = lambda x W": "in_flight",
                "L sampled": "sampled",
                "lambda x W / sampled": "little",
            },
            lambda row: "limit_fixed" in row,
        ),
        *(
            _Shape(
                title,
                {**keys, "controller": "controller", "objects": "objects", "drawn": "distribution"},
                {
                    "published/s": "per_s",
                    "W: mean ms": "mean_ms",
                    "p99": "p99_ms",
                    "limits at the end": "limit_end",
                    "L sampled": "sampled",
                    "lambda x W / sampled": "little",
                    "throughput to the knee's": "share",
                    "W to the knee's": "times",
                    "delivery's p99 ms": "delivery_p99_ms",
                },
                only,
            )
            for title, keys, only in (
                ("Two producers, Kafka", {"begins with": "first"}, _loops("kafka")),
                ("Two producers, HTTP", {"begins with": "first"}, _loops("http")),
            )
        ),
        _Shape(
            "Stores in virtual time",
            {"store": "server", "producers": "producers", "controller": "controller"},
            {
                "published/s": "per_s",
                "W: mean ms": "mean_ms",
                "limits at the end": "limit_end",
                "throughput to the knee's": "share",
                "W to the knee's": "times",
            },
            _loops("virtual"),
        ),
        _Shape(
            "At least 90 % of the knee's throughput, at most twice its W: rows of all",
            {"controller": "controller", "where": "where", "as required": "as_required"},
            {"rows": "rows"},
            lambda row: row["part"] == "counted",
        ),
    ),
    "flood": (
        _Shape(
            "Processes that publish without any pause",
            {"way": "way", "processes": "processes", "flow control": "flow"},
            {
                "acknowledged/s": "accepted_per_s",
                "refused, told so": "refused",
                "failed": "failed",
                "not answered": "not_answered",
                "delivery's p99 ms": "p99_ms",
                "lag at the end, s": "lag_s",
                "1 s of lag again after, s": "back_s",
                "broker MiB": "memory_mib.broker",
                "HTTP": "memory_mib.http",
                "matcher": "memory_mib.matcher",
                "gateway": "memory_mib.gateway",
                "processes that ended": "ended",
                "devices lost": "lost",
            },
        ),
    ),
    "isolation": (
        _Shape(
            "Tenant A within its agreement, beside tenant B: medians of the pairs",
            {"B publishes": "way", "B is held by": "mode", "partition": "where"},
            {
                "A's p50 ms, B silent": "off.p50_ms",
                "beside B": "on.p50_ms",
                "A's p99 ms, B silent": "off.p99_ms",
                "beside B ": "on.p99_ms",
                "p99 ratio": "p99_ratio",
                "B asks/s": "b_asked_per_s",
                "accepted/s": "b_accepted_per_s",
                "agreed/s": "b_agreed_per_s",
                "accepted to agreed": "b_share",
                "refused": "b_refused",
                "not told": "b_not_told",
            },
            lambda row: row["part"] == "pairs",
        ),
        _Shape(
            "All publishers of a tenant go to one of three HTTP nodes",
            {"nodes": "nodes", "agreed/s": "agreed_per_s"},
            {
                "evenly, accepted/s": "evenly_per_s",
                "at one, accepted/s": "at_one_per_s",
                "95 % of the rate after, s": "whole_after_s",
                "not told": "not_told",
            },
            lambda row: row["part"] == "uneven",
        ),
    ),
    "channels": (
        _Shape(
            "Messages of 140 bytes, one a second to each channel (MigratoryData at 1,000 channels: mean 92 ms, "
            "p99 691 ms, 90,000 deliveries a busy core)",
            {"subscribers": "subscribers", "channels": "channels"},
            {
                "told": "messages",
                "a second": "per_s",
                "gaps": "gaps",
                "median ms": "p50_ms",
                "mean": "mean_ms",
                "sd": "std_ms",
                "p90": "p90_ms",
                "p95": "p95_ms",
                "p99": "p99_ms",
                "Mbit/s": "mbit_s",
                "busy cores": "cpu_share",
                "a busy core and second": "per_busy_core_s",
            },
            lambda row: row["part"] == "live",
        ),
        _Shape(
            "A client comes back to 50 channels",
            {"messages of others": "others", "in order": "in_order", "all the time": "is_meanwhile"},
            {
                "told": "messages",
                "missed": "missed",
                "seconds": "seconds",
                "payloads read from Kafka, MiB": "read_mib",
                "matcher's CPU s": "matcher_cpu_s",
                "matcher MiB": "matcher_mib",
                "an object's p99 ms before": "p99_ms_without",
                "meanwhile": "p99_ms",
            },
            lambda row: row["part"] == "behind",
        ),
        _Shape(
            "Messages sent and acknowledged (RocketSpeed's Pilot: 140,000 to 160,000 a second at 150 ms)",
            {"way": "way", "payload bytes": "payload_bytes"},
            {"a second": "per_s", "p50 ms of a request": "p50_ms", "p99": "p99_ms"},
            lambda row: row["part"] == "sending",
        ),
    ),
    "usage": (
        _Shape(
            "Workers of the usage job are killed",
            {"workers": "workers", "records/s": "per_s"},
            {
                "kills": "kills",
                "within 1 s of a takeover": "soon",
                "ended by themselves": "ended",
                "records": "records",
                "counts compared": "counts",
                "that differ": "counts_that_differ",
                "pause, median s": "pause_median_s",
                "longest": "pause_max_s",
                "log lines": "log_lines",
            },
            lambda row: row["case"] == "kills",
        ),
        _Shape(
            "What one worker carries",
            {"workers": "workers", "records": "records"},
            {
                "records/s": "per_s",
                "records a second of CPU": "per_core_s",
                "counters": "counters",
                "memory MiB": "memory_mib",
            },
            lambda row: row["case"] == "backlog",
        ),
    ),
    "queries": (
        _Shape(
            "Subscribers of ten objects: medians of the turns",
            {"subscribers": "clients", "registered": "by"},
            {
                **{name: _LATENCY[name] for name in ("mean ms", "p95", "p99")},
                **_CPU,
                "CPU to by name": "to_names.all",
                "mean to by name": "to_names.mean",
                "delivered": "deliveries",
                "of": "expected",
                "CQBS: mean ms": "cqbs_mean_ms",
                "CQBS: p95": "cqbs_p95_ms",
            },
            lambda row: row["part"] == "broker",
        ),
        _Shape(
            "Clients on one object: medians of the turns",
            {"clients": "clients", "registered": "by", "publishes/s": "per_s"},
            {
                "median ms": "p50_ms",
                "p99": "p99_ms",
                **_CPU,
                "CPU to by name": "to_names.all",
                "matcher's": "to_names.matcher",
                "gateway's": "to_names.gateway",
                "delivered": "deliveries",
                "of": "expected",
            },
            lambda row: row["part"] == "distinct",
        ),
        _Shape(
            "From the change of a description to the device",
            {"Kafka nodes": "kafka_nodes", "subscribers": "clients", "phase": "phase"},
            {
                "changes": "changes",
                "mean ms": "mean_ms",
                "p95": "p95_ms",
                "p99": "p99_ms",
                "differences": "told",
                "of": "of",
                "longest gap, s": "gap_s",
                "devices with wrong sets": "wrong",
            },
            lambda row: row["part"] == "churn",
        ),
        _Shape(
            "Values while queries come and go",
            {"queries": "queries", "when": "when"},
            {
                "changed/s": "changed_per_s",
                "median ms": "p50_ms",
                "p95": "p95_ms",
                "p99": "p99_ms",
                "delivered": "deliveries",
                "of": "expected",
                "refused": "refused",
                "matcher MiB": "used.matcher.memory_mib",
                "matcher CPU s": "used.matcher.cpu_s",
                "all registered in, s": "registered_s",
            },
            lambda row: row["part"] == "registering",
        ),
        _Shape(
            "Values while descriptions of others change",
            {
                "queries": "queries",
                "each for a": "condition",
                "objects": "objects",
                "changes/s": "changes_per_s",
                "what": "what",
            },
            {
                "made/s": "changes_made_per_s",
                "median ms": "p50_ms",
                "p95": "p95_ms",
                "p99": "p99_ms",
                "delivered": "deliveries",
                "of": "expected",
                "devices with wrong sets": "wrong",
            },
            lambda row: row["part"] == "changes",
        ),
        _Shape(
            "The whole system: three gateways, three matchers",
            {"subscribers": "clients", "objects": "objects", "descriptions change": "changed"},
            {
                "values/s": "published_per_s",
                "mean ms": "mean_ms",
                "median ms": "p50_ms",
                "p95": "p95_ms",
                "p99": "p99_ms",
                "delivered": "deliveries",
                "differences": "told",
            },
            lambda row: row["part"] == "system",
        ),
        _Shape(
            "A takeover behind changes of descriptions that are not compacted",
            {"changes": "changes", "objects": "objects", "the other matcher": "case"},
            {
                "longest gap, s": "gap_s",
                "slowest partition taken over in, s": "takeover_s",
                "differences": "told",
                "median ms": "p50_ms",
                "devices with wrong sets": "wrong",
            },
            lambda row: row["part"] == "behind",
        ),
        _Shape(
            "Bytes of an unchanged wake",
            {"queries": "queries", "wake": "when"},
            {"up": "up", "down": "down", "together": "bytes"},
            lambda row: row["part"] == "wire",
        ),
    ),
}


def tables(result: Mapping[str, Any]) -> list[Table]:
    """Those of one experiment's result."""
    name = result["experiment"]
    made = []
    for shape in _SHAPES[name]:
        rows = [row for row in result["rows"] if shape.only(row)]
        lines = medians(rows, tuple(shape.keys.values()), tuple(shape.values.values()))
        cells = tuple(tuple(figure(value) for value in line) for line in lines)
        made.append(Table(shape.title, (*shape.keys, *shape.values), cells, THESIS.get(name, "")))
    return made


def origin(result: Mapping[str, Any]) -> str:
    """One line: when, on what, which commit."""
    machine = result["machine"]
    changed = " with changes" if result["changed"] else ""
    tried = " **Tiny loads: only tried, no figures.**" if result["quick"] else ""
    early = f" **Ended early: {result['error']}.**" if result["error"] else ""
    return (
        f"{result['at']}, commit {result['commit']}{changed}; {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_gib']} GiB, Linux {machine['kernel']}, load before {machine['load_before']}.{tried}{early}"
    )


def parameters(result: Mapping[str, Any]) -> str:
    """One sentence: with what it was run."""
    return f"Parameters: {', '.join(f'{name} {_plain(value)}' for name, value in result['parameters'].items())}."


def versions(result: Mapping[str, Any]) -> str:
    """One sentence: of what it was run with."""
    found = {name: _VERSION.search(text) for name, text in result["versions"].items()}
    return f"Versions: {', '.join(f'{name} {match.group()}' for name, match in found.items() if match)}."


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
