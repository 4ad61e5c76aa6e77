"""`coldnotify describe`: sets an object's description, key by key or as a whole, or shows it."""

import json
from typing import Any

import click
from coldnotify_common.settings import settings_options

from coldnotify_cli.described import parse_assignments, show_value
from coldnotify_cli.http_node import HttpNode
from coldnotify_cli.printing import echo
from coldnotify_cli.settings import HttpNodeSettings
from coldnotify_cli.tables import cell


@click.command("describe")
@click.argument("domain")
@click.argument("group")
@click.argument("object_id", metavar="OBJECT")
@click.argument("assignments", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("--remove", metavar="KEY", multiple=True, help="Key to remove; may be given several times.")
@click.option("--replace", is_flag=True, help="Make the given keys the whole description.")
@click.option("--delete", is_flag=True, help="Remove the whole description.")
@click.option(
    "--if-revision",
    metavar="REVISION",
    help="Change the description only if it has this revision; none: only if it never had one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@settings_options(HttpNodeSettings)
def command_describe(
    domain: str,
    group: str,
    object_id: str,
    assignments: tuple[str, ...],
    remove: tuple[str, ...],
    replace: bool,
    delete: bool,
    if_revision: str | None,
    as_json: bool,
    settings: HttpNodeSettings,
) -> int:
    """Set keys of the description of OBJECT of DOMAIN and GROUP, and print the whole; without any, only print it.

    Other keys stay as they are. VALUE is a number, true, false, or a text; a text that looks like one of these stands
    in double quotes: 'Room="410"'. KEY= sets an empty text.

    Exit code 1 if nobody serves the object now, or the description has another revision than --if-revision.
    """
    pairs = parse_assignments(assignments)
    if twice := set(remove) & pairs.keys():
        raise click.UsageError(f"--remove {min(twice)}: the key is set, too")
    if delete and (pairs or remove or replace):
        raise click.UsageError("--delete: removes all keys, so none can be set, removed or replaced")
    if replace and remove:
        raise click.UsageError("--replace: removes all other keys, so --remove has no use")
    method = "GET"
    body: dict[str, Any] | None = None
    if delete:
        method = "DELETE"
    elif replace:
        method, body = "PUT", pairs
    elif pairs or remove:
        method, body = "PATCH", {**pairs, **dict.fromkeys(remove)}
    elif if_revision is not None:
        raise click.UsageError("--if-revision: there is nothing to change; add KEY=VALUE, --remove or --delete")
    path = ("domains", domain, "groups", group, "objects", object_id, "description")
    shown = HttpNode(settings).ask(method, *path, body=body, if_revision=if_revision)
    echo(*([json.dumps(shown, ensure_ascii=False)] if as_json else _lines(shown)))
    return 0


def _lines(shown: dict[str, Any]) -> list[str]:
    description = shown["description"]
    if description is None:
        return [f"{shown['object']}: has no description"]
    width = max(map(len, description), default=0)
    lines = [f"{key:<{width}}  {show_value(value)}" for key, value in description.items()] or ["(no keys)"]
    return [*lines, f"since {cell('_ms', shown['version'])}, revision {shown['revision']}"]
