"""`coldnotify state ...`: looks into the matchers, as tables or JSON."""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any, TypeVar

import click
from coldnotify_common.settings import settings_options

from coldnotify_cli.looking_in import Matchers
from coldnotify_cli.settings import LookSettings

F = TypeVar("F", bound=Callable[..., Any])
Row = dict[str, Any]

_WIDTH_ROWS = 200
"""Columns are as wide as their widest value in so many rows: a list of any length is printed as it comes."""


def _options(function: Callable[..., int]) -> Callable[..., int]:
    with_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, an object per line for lists.")
    return with_json(settings_options(LookSettings)(function))


_limit = click.option("--limit", type=click.IntRange(min=1), help="At most so many; without: all.")


@click.group("state")
def command_state() -> None:
    """Look into the matchers: what they know of clients, objects and partitions."""


@command_state.command("client")
@click.argument("domain")
@click.argument("group")
@click.argument("client")
@_options
def client(domain: str, group: str, client: str, as_json: bool, settings: LookSettings) -> int:
    """One client: its session, its cursor, its registrations and which of them it has not been told."""
    matchers = Matchers(settings)
    path = ("domains", domain, "groups", group, "clients", client)
    shown = matchers.get(*path, limit=1000)
    registrations = shown.pop("registrations")
    rows = list(registrations["items"])
    while registrations["next"] is not None:
        registrations = matchers.get(*path, limit=1000, after=registrations["next"])["registrations"]
        rows += registrations["items"]
    if as_json:
        click.echo(json.dumps({**shown, "registrations": rows}))
        return 0
    _print_one(shown)
    click.echo()
    _print_table(rows)
    return 0


@command_state.command("clients")
@click.argument("domain")
@click.argument("group")
@_limit
@_options
def clients(domain: str, group: str, limit: int | None, as_json: bool, settings: LookSettings) -> int:
    """All clients of a group."""
    return _print_list(Matchers(settings).items("domains", domain, "groups", group, "clients", limit=limit), as_json)


@command_state.command("object")
@click.argument("domain")
@click.argument("group")
@click.argument("object_id", metavar="OBJECT")
@_options
def object_(domain: str, group: str, object_id: str, as_json: bool, settings: LookSettings) -> int:
    """One object: its newest version, and how many clients are registered for it."""
    shown = Matchers(settings).get("domains", domain, "groups", group, "objects", object_id)
    if as_json:
        click.echo(json.dumps(shown))
    else:
        _print_one(shown)
    return 0


@command_state.command("objects")
@click.argument("domain")
@click.argument("group")
@_limit
@_options
def objects(domain: str, group: str, limit: int | None, as_json: bool, settings: LookSettings) -> int:
    """All objects of a group."""
    return _print_list(Matchers(settings).items("domains", domain, "groups", group, "objects", limit=limit), as_json)


@command_state.command("partitions")
@_options
def partitions(as_json: bool, settings: LookSettings) -> int:
    """The partitions that the matchers serve or follow."""
    rows = [
        {"matcher": address, **row}
        for address, answer in Matchers(settings).get_from_all("partitions")
        for row in answer["items"]
    ]
    return _print_list(rows, as_json)


def _print_list(rows: Iterable[Row], as_json: bool) -> int:
    if as_json:
        for row in rows:
            click.echo(json.dumps(row))
    else:
        _print_table(rows)
    return 0


def _print_one(shown: Row) -> None:
    width = max(len(_title(name)) for name in shown)
    for name, value in shown.items():
        click.echo(f"{_title(name):<{width}}  {_cell(name, value)}")


def _print_table(rows: Iterable[Row]) -> None:
    rest = iter(rows)
    first = list(islice(rest, _WIDTH_ROWS))
    if not first:
        click.echo("(none)")
        return
    names = list(first[0])
    widths = [max(len(_title(name)), *(len(_cell(name, row.get(name))) for row in first)) for name in names]
    click.echo("  ".join(f"{_title(name):<{width}}" for name, width in zip(names, widths, strict=True)).rstrip())
    for row in chain(first, rest):
        cells = (f"{_cell(name, row.get(name)):<{width}}" for name, width in zip(names, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _title(name: str) -> str:
    """Times are shown as dates, not as ms."""
    return name.removesuffix("_ms")


def _cell(name: str, value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith(("_ms", "expires_at")) and isinstance(value, int):
        return _time(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _time(unix_ms: int) -> str:
    try:
        return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(sep=" ", timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return str(unix_ms)
