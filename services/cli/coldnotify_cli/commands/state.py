"""`coldnotify state`: shows the matchers' state as tables or JSON."""

import json
import time
from collections.abc import Callable
from itertools import islice
from typing import Any, TypeVar

import click
from coldnotify_common.settings import settings_options
from coldnotify_schemas.protocol import ITEMS_PER_PAGE_MAX

from coldnotify_cli.found_pages import print_found
from coldnotify_cli.http_node import HttpNode
from coldnotify_cli.matcher_client import Matchers, matchers_of
from coldnotify_cli.printing import echo
from coldnotify_cli.settings import HttpNodeSettings, LookSettings
from coldnotify_cli.suggesting_group import SuggestingGroup
from coldnotify_cli.tables import print_list, print_one, print_table

F = TypeVar("F", bound=Callable[..., Any])


def _options(function: Callable[..., int]) -> Callable[..., int]:
    with_json = click.option("--json", "as_json", is_flag=True, help="Print JSON; lists as one object per line.")
    return with_json(settings_options(LookSettings)(function))


_limit = click.option("--limit", type=click.IntRange(min=1), help="Maximum number of rows; default: all.")


@click.group("state", cls=SuggestingGroup)
def command_state() -> None:
    """Show what the matchers know of clients, objects and partitions."""


@command_state.command("client")
@click.argument("domain")
@click.argument("group")
@click.argument("client")
@_options
def client(domain: str, group: str, client: str, as_json: bool, settings: LookSettings) -> int:
    """Show one client: its session, cursor and registrations, and which of these it has not been told."""
    matchers = matchers_of(settings)
    path = ("domains", domain, "groups", group, "clients", client)
    shown = matchers.get(*path, limit=1000)
    channels = shown.pop("channels", [])
    registrations = shown.pop("registrations")
    rows = list(registrations["items"])
    while registrations["next"] is not None:
        registrations = matchers.get(*path, limit=1000, after=registrations["next"])["registrations"]
        rows += registrations["items"]
    if as_json:
        echo(json.dumps({**shown, "channels": channels, "registrations": rows}))
        return 0
    print_one(shown)
    echo()
    print_table(rows)
    if channels:
        echo()
        print_table(map(_standing, channels))
    return 0


@command_state.command("clients")
@click.argument("domain")
@click.argument("group")
@_limit
@_options
def clients(domain: str, group: str, limit: int | None, as_json: bool, settings: LookSettings) -> int:
    """Show all clients of a group."""
    return print_list(matchers_of(settings).items("domains", domain, "groups", group, "clients", limit=limit), as_json)


@command_state.command("object")
@click.argument("domain")
@click.argument("group")
@click.argument("object_id", metavar="OBJECT")
@_options
def object_(domain: str, group: str, object_id: str, as_json: bool, settings: LookSettings) -> int:
    """Show one object: its newest version, and how many clients are registered for it."""
    shown = matchers_of(settings).get("domains", domain, "groups", group, "objects", object_id)
    if as_json:
        echo(json.dumps(shown))
    else:
        print_one(shown)
    return 0


@command_state.command("objects")
@click.argument("domain")
@click.argument("group")
@_limit
@_options
def objects(domain: str, group: str, limit: int | None, as_json: bool, settings: LookSettings) -> int:
    """Show all objects of a group."""
    return print_list(matchers_of(settings).items("domains", domain, "groups", group, "objects", limit=limit), as_json)


@command_state.command("channel")
@click.argument("domain")
@click.argument("group")
@click.argument("channel")
@_options
def channel(domain: str, group: str, channel: str, as_json: bool, settings: LookSettings) -> int:
    """Show one channel: its last message, and each subscriber: by how many messages it is behind, and since when."""
    shown, rows = _channel(matchers_of(settings), domain, group, channel)
    if as_json:
        echo(json.dumps({**shown, "subscriptions": rows}))
        return 0
    shown.pop("messages")
    print_one(shown)
    echo()
    print_table(map(_standing, rows))
    return 0


@command_state.command("channels")
@click.argument("domain")
@click.argument("group")
@click.option("--behind", is_flag=True, help="Show each subscriber that lacks messages, and since when.")
@_limit
@_options
def channels(domain: str, group: str, behind: bool, limit: int | None, as_json: bool, settings: LookSettings) -> int:
    """Show all channels of a group, and how many of their subscribers are behind."""
    node = matchers_of(settings)
    rows = node.items("domains", domain, "groups", group, "channels", limit=None if behind else limit)
    if not behind:
        return print_list(rows, as_json)
    lacking = (
        {"channel": name, **one}
        for name in (row["channel"] for row in rows if row["behind"])
        for one in _channel(node, domain, group, name)[1]
        if one["behind"] or one["behind_at_least"]
    )
    found = islice(lacking, limit)
    return print_list(found if as_json else map(_standing, found), as_json)


def _channel(
    node: HttpNode | Matchers, domain: str, group: str, channel: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Returns a channel, and all of its subscribers."""
    path, rows, after = ("domains", domain, "groups", group, "channels", channel), [], None
    while True:
        place: dict[str, Any] = {} if after is None else {"after": after}
        shown = node.get(*path, limit=ITEMS_PER_PAGE_MAX, **place)
        page = shown.pop("subscriptions")
        rows += page["items"]
        if (after := page["next"]) is None:
            return shown, rows


def _standing(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a subscriber's row for people: the number of messages with its uncertainty."""
    shown = {**row, "behind": f"{row['behind']} or more" if row["behind_at_least"] else row["behind"]}
    del shown["behind_at_least"]
    return {**shown, "attributes": " ".join(row["attributes"]) or None}


_GROUPS = ("group", "clients", "online", "objects", "lacking", "overdue", "publishes", "last_seen", "oldest")


@command_state.command("groups")
@click.option("--id", "part", metavar="TEXT", help="Show groups with this in domain/group, in upper or lower case.")
@click.option(
    "--state",
    type=click.Choice(["online", "asleep", "behind", "overdue"]),
    help="Show groups with a client that is connected, without one, with one that lacks something, or for too long.",
)
@click.option(
    "--seen-within", "seen_s", type=click.IntRange(min=1), metavar="S", help="Show groups with a client seen so lately."
)
@click.option("--sort", type=click.Choice(_GROUPS), default="group", show_default=True, help="Column to sort by.")
@click.option("--desc", is_flag=True, help="Begin with the largest.")
@_limit
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
@settings_options(HttpNodeSettings)
def groups(
    part: str | None,
    state: str | None,
    seen_s: int | None,
    sort: str,
    desc: bool,
    limit: int | None,
    as_json: bool,
    settings: HttpNodeSettings,
) -> int:
    """Show all groups: clients, objects, who is behind."""
    since_ms = None if seen_s is None else time.time_ns() // 1_000_000 - seen_s * 1000
    wanted = {"id": part, "state": state, "since_ms": since_ms, "sort": sort, "order": "desc" if desc else None}
    return print_found(HttpNode(settings).pages("groups", limit=limit, **wanted), _GROUP_ROW, as_json=as_json)


_GROUP_ROW = (
    *("domain", "group", "clients", "online", "objects", "lacking", "overdue", "oldest_since_ms", "publishes"),
    "last_seen_ms",
)


@command_state.command("partitions")
@_options
def partitions(as_json: bool, settings: LookSettings) -> int:
    """Show the partitions that the matchers serve or follow."""
    shown = matchers_of(settings).of_matchers("partitions")
    print_list(shown["items"], as_json)
    return _silent(shown)


@command_state.command("removals")
@click.option(
    "--confirm",
    is_flag=True,
    help="Confirm for an hour that the clocks are right: clients and objects that wait are removed.",
)
@_options
def removals(confirm: bool, as_json: bool, settings: LookSettings) -> int:
    """Show which clients and objects wait to be forgotten or removed, because they are many at once.

    They wait until all clocks have agreed for an hour, or for --confirm. While clocks are apart nothing is removed.
    """
    shown = matchers_of(settings).of_matchers("removals", {"confirmed": True} if confirm else None)
    if not as_json:
        for matcher in shown["matchers"]:
            for one in matcher.get("clocks_apart", ()):
                echo(f"matcher {matcher['address']}: {one['clock']}: {one['ahead_ms'] / 1000:+.0f} s", err=True)
    agree_s = {one["address"]: one.get("clocks_agree_s") for one in shown["matchers"]}
    rows = ({"matcher": (at := row["matcher"]), "clocks_agree_s": agree_s[at], **row} for row in shown["items"])
    print_list(rows, as_json)
    return _silent(shown)


def _silent(shown: dict[str, Any]) -> int:
    """Names the matchers whose rows are missing on stderr. Returns the exit code."""
    silent = [one for one in shown["matchers"] if one["error"]]
    for one in silent:
        echo(f"Error: no answer from matcher {one['address']}: {one['error']}", err=True)
    return 1 if silent else 0
