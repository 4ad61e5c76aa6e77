"""Prints what services answer: tables for people, JSON for programs."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any

from coldnotify_common.http.json_answers import is_text
from coldnotify_schemas.visible import visible

from coldnotify_cli.printing import echo

Row = dict[str, Any]

_WIDTH_ROWS = 200
"""Columns are as wide as their widest value in so many rows: a list of any length is printed as it comes."""


def print_list(rows: Iterable[Row], as_json: bool) -> int:
    """A table, or with `as_json` an object a line. Returns the exit code."""
    if as_json:
        for row in rows:
            echo(json.dumps(row))
    else:
        print_table(rows)
    return 0


def print_one(shown: Row) -> None:
    """Names and values, a line each."""
    width = max(len(title(name)) for name in shown)
    for name, value in shown.items():
        if is_text(name, shown):
            continue
        echo(f"{title(name):<{width}}  {cell(name, value)}")


def print_table(rows: Iterable[Row]) -> None:
    """Prints a table. Columns have the first row's names, without those that repeat others as texts."""
    rest = iter(rows)
    first = list(islice(rest, _WIDTH_ROWS))
    if not first:
        echo("(none)")
        return
    names = [name for name in first[0] if not is_text(name, first[0])]
    widths = [max(len(title(name)), *(len(cell(name, row.get(name))) for row in first)) for name in names]
    echo("  ".join(f"{title(name):<{width}}" for name, width in zip(names, widths, strict=True)).rstrip(), bold=True)
    for row in chain(first, rest):
        cells = (f"{cell(name, row.get(name)):<{width}}" for name, width in zip(names, widths, strict=True))
        echo("  ".join(cells).rstrip())


def title(name: str) -> str:
    """Times are shown as dates, not as ms."""
    return name.removesuffix("_ms")


def cell(name: str, value: object) -> str:
    """A value as it is printed, and as wide."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith(("_ms", "expires_at")) and isinstance(value, int):
        return time_of(value)
    return visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def time_of(unix_ms: int) -> str:
    """Returns the date in UTC, if it is one."""
    try:
        return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(sep=" ", timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return str(unix_ms)
