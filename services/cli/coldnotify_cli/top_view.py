"""The display of `coldnotify top`, as plain lines or as tables for a terminal. Pure: the overview in, text out."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from coldnotify_schemas.visible import visible
from rich.console import Group, RenderableType
from rich.styled import Styled
from rich.table import Table
from rich.text import Text

from coldnotify_cli.counted import nothing_counted, uncounted
from coldnotify_cli.tables import time_of

Overview = dict[str, Any]

ROWS_MAX = 10
_GROUP_SUMS = ("publishes", "clients", "online", "objects", "lacking", "overdue")


class TopSection(NamedTuple):
    """One table."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def headline(shown: Overview) -> list[str]:
    """Returns traffic, latency, lag and clients in a few short lines. Missing values are "-"."""
    nothing = nothing_counted(shown)
    clients, online, lacking, overdue = (
        "-" if nothing else str(shown[name]) for name in ("clients", "online", "lacking", "overdue")
    )
    by_matchers, by_gateways = (any(one["error"] is None for one in shown[name]) for name in ("matchers", "gateways"))
    traffic, latency, lag = shown["traffic"], shown["latency"], shown["lag"]

    def said(known: bool, value: float, words: str) -> str:
        return format(value, words) if known else "-"

    lines = [
        f"clients {clients}  online {online}  behind {lacking}  "
        f"overdue {overdue} (longer than {duration(shown['overdue_s'])})  stale {_count(shown.get('stale'))}",
        f"publishes {said(by_matchers, traffic['publishes_per_s'], '.1f')}/s  "
        f"deliveries {said(by_gateways, traffic['deliveries_per_s'], '.1f')}/s  "
        f"sent {said(by_gateways, traffic['sent_bytes_per_s'] / 1024, '.1f')} KiB/s  over {shown['window_s']:.0f} s",
        f"publish to socket: median {seconds(latency['p50_s'])}, 99% within {seconds(latency['p99_s'])}  "
        f"lag: objects {said(by_matchers, lag['objects'], '.0f')}, "
        f"requests {said(by_matchers, lag['requests'], '.0f')}",
    ]
    lines += [
        visible(f"{kind} {one['address']} cannot be asked: {one['error']}")
        for kind, all_ in (("matcher", shown["matchers"]), ("gateway", shown["gateways"]))
        for one in all_
        if one["error"] is not None
    ]
    if words := uncounted(shown):
        lines.append(words + ("" if nothing else ": counts are too low"))
    if shown["partial"]:
        lines.append("there are too many clients to look at all of them at once: sums are too low")
    return lines


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def sections(shown: Overview) -> list[TopSection]:
    """The busiest groups, the slowest clients, the oldest undelivered, the nodes."""
    now_ms = shown["now_ms"]
    found = [
        TopSection(
            "Busiest groups",
            ("group", "publishes/min", "clients", "online", "objects", "behind", "overdue", "oldest"),
            [
                (f"{one['domain']}/{one['group']}", *(str(one[name]) for name in _GROUP_SUMS),
                 age(one["oldest_since_ms"], now_ms))
                for one in shown["groups"][:ROWS_MAX]
            ],
        ),
        TopSection(
            "Slowest clients",
            ("client", "state", "behind by", "since", "last seen"),
            [
                (f"{one['domain']}/{one['group']}/{one['client']}", one["state"], str(one["lacking"]),
                 age(one["since_ms"], now_ms), age(one["last_seen_ms"], now_ms))
                for one in shown["slowest"][:ROWS_MAX]
            ],
        ),
        TopSection(
            "Oldest undelivered",
            ("object", "version", "since", "behind", "asleep", "registered"),
            [
                (visible(f"{one['domain']}/{one['group']}/{one['object']}"),
                 str(one["version"]), age(one["since_ms"], now_ms),
                 *(str(one[name]) for name in ("lacking", "asleep", "registered")))
                for one in shown["oldest"][:ROWS_MAX]
            ],
        ),
    ]  # fmt: skip
    return [*found, _nodes(shown["nodes"])] if "nodes" in shown else found


def _nodes(nodes: Sequence[dict[str, Any]]) -> TopSection:
    """The nodes, those first that are not ready, then those with the most load."""
    counts = Counter(one["role"] for one in nodes)
    title = visible("Nodes: " + (", ".join(f"{number} {role}" for role, number in sorted(counts.items())) or "none"))
    worst = sorted(
        nodes, key=lambda one: (one["state"] == "ready", one["state"] != "silent", -one["load"], one["role"], one["id"])
    )
    head = ("node", "state", "connections", "load", "version", "heard")
    rows = [
        (visible(f"{one['role']} {next(iter(one['addresses'].values()), one['id'])}"),
         visible(one["state"].replace("_", " ")),
         f"{one['connections']} of {one['limit']}" if one["limit"] else "-", f"{100 * one['load']:.0f} %",
         visible(one["version"]), f"{duration(one['age_s'])} ago")
        for one in worst[:ROWS_MAX]
    ]  # fmt: skip
    return TopSection(title, head, rows)


def plain(shown: Overview) -> list[str]:
    """For a pipe: its lines."""
    lines = headline(shown)
    for section in sections(shown):
        lines += ["", section.title]
        nothing = "(not known)" if uncounted(shown) else "(none)"
        lines += _columns([section.head, *section.rows]) if section.rows else [nothing]
    return lines


def rich_view(shown: Overview) -> RenderableType:
    """For a terminal."""
    parts: list[RenderableType] = [Text(line) for line in headline(shown)]
    for section in sections(shown):
        table = Table(title=section.title, title_justify="left", expand=True, title_style="bold")
        for number, name in enumerate(section.head):
            table.add_column(name, justify="left" if number == 0 else "right", overflow="fold", no_wrap=number > 0)
        for row in section.rows:
            table.add_row(*(Text(cell) for cell in row))
        parts.append(table)
    return Group(*parts)


def old_view(problem: str, shown: Overview) -> RenderableType:
    """Returns the problem, and below it what was shown before it, dimmed, with the time that it is from."""
    said = Text(f"{problem}\nnumbers are from {time_of(shown['now_ms'])}", style="bold red")
    return Group(said, Styled(rich_view(shown), "dim"))


def age(since_ms: int | None, now_ms: int) -> str:
    """Returns how long ago it was; "-" if that is unknown."""
    return "-" if not since_ms else duration(max(0, now_ms - since_ms) / 1000)


def duration(seconds: float) -> str:
    """Two units at most: 5 s, 3 min 20 s, 4 h 2 min, 12 d 3 h."""
    for unit, name, smaller, smaller_name in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= unit:
            rest = int(seconds % unit // smaller)
            return f"{int(seconds // unit)} {name}" + (f" {rest} {smaller_name}" if rest else "")
    return f"{seconds:.0f} s"


def seconds(value: float | None) -> str:
    """A latency."""
    if value is None:
        return "-"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def _columns(rows: Iterable[Sequence[str]]) -> list[str]:
    all_ = list(rows)
    widths = [max(len(row[column]) for row in all_) for column in range(len(all_[0]))]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in all_]
