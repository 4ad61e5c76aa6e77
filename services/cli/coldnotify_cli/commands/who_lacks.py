"""`coldnotify who-lacks`: which clients have not applied a version of an object."""

import json
from typing import Any

import click
from coldnotify_common.plurals import number_of
from coldnotify_common.settings import settings_options

from coldnotify_cli.http_node import HttpNode
from coldnotify_cli.printing import echo
from coldnotify_cli.settings import HttpNodeSettings
from coldnotify_cli.tables import cell, print_table

_STATES = {"pending": "with callbacks that have not returned", "parked": "with callbacks that raise"}


@click.command("who-lacks")
@click.argument("domain")
@click.argument("group")
@click.argument("object_id", metavar="OBJECT")
@click.option("--version", type=click.IntRange(min=0), help="Version to ask about; default: the newest.")
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of clients; default: all.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a summary, then one object per client.")
@settings_options(HttpNodeSettings)
def command_who_lacks(
    domain: str,
    group: str,
    object_id: str,
    version: int | None,
    limit: int | None,
    as_json: bool,
    settings: HttpNodeSettings,
) -> int:
    """Show which clients of DOMAIN and GROUP that are registered for OBJECT have not applied its newest version.

    Also shows since when they lack it, whether they sleep, when they were last seen, and what they say of their
    callbacks. An acknowledgement of a client shows here a second or two later. Exit code 1 if nothing of this name was
    published and nobody is registered for it.
    """
    path = ("domains", domain, "groups", group, "objects", object_id, "lacking")
    rows: list[dict[str, Any]] = []
    summary: dict[str, Any] = {}
    for page in HttpNode(settings).pages(*path, limit=limit, version=version):
        if not summary:
            summary = {name: value for name, value in page.items() if name not in ("items", "next")}
            echo(json.dumps(summary) if as_json else _summary(summary))
        rows = page["items"]
        if as_json:
            for row in rows:
                echo(json.dumps(row))
        elif rows:
            print_table({**row, "callbacks": _callbacks(row.get("callbacks"))} for row in rows)
    return 0 if summary["version"] is not None or summary["registered"] else 1


def _summary(shown: dict[str, Any]) -> str:
    name, registered = shown["object"], shown["registered"]
    if shown["wanted_version"] is None:
        return f"{name}: nothing was published yet; {registered} registered"
    wanted = f"{name} version {shown['wanted_version']}"
    if not shown["published"]:
        return f"{wanted}: is not published, the newest is {shown['version']}; {registered} registered"
    newest = "" if shown["wanted_version"] != shown["version"] else f" (published {_time(shown['published_ms'])})"
    about = "" if shown["exact"] else "at most "
    unable = shown.get("told_at_least")
    told = f"; {unable} cannot report callbacks, and count as applied once told" if unable else ""
    if not shown["lacking"]:
        return f"{wanted}{newest}: nobody lacks it, of {registered} registered{told}"
    words = [f"{shown['asleep']} of them asleep"]
    for state, meaning in _STATES.items():
        if shown.get(state):
            words.append(f"{shown[state]} {meaning}")
    return f"{wanted}{newest}: {about}{shown['lacking']} of {registered} lack it, {', '.join(words)}{told}"


def _callbacks(shown: dict[str, Any] | None) -> str:
    if shown is None:
        return "-"
    raised = f", raised {number_of(shown['failures'], 'time')}" if shown["failures"] else ""
    return f"{shown['state']}{raised}" + (f": {shown['error']}" if shown["error"] else "")


def _time(unix_ms: int | None) -> str:
    return cell("_ms", unix_ms)
