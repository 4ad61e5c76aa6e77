"""`coldnotify explain`: shows when a version was published, matched, sent and acknowledged, or why it was not."""

import json
from typing import Any

import click
from coldnotify_common.settings import settings_options

from coldnotify_cli.http_node import HttpNode
from coldnotify_cli.printing import echo
from coldnotify_cli.settings import HttpNodeSettings
from coldnotify_cli.tables import cell, print_table


@click.command("explain")
@click.argument("domain")
@click.argument("group")
@click.argument("client")
@click.argument("object_id", metavar="[OBJECT]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_options(HttpNodeSettings)
def command_explain(
    domain: str, group: str, client: str, object_id: str | None, as_json: bool, settings: HttpNodeSettings
) -> int:
    """Say why CLIENT of DOMAIN and GROUP has, or has not, applied the newest version of OBJECT.

    Without OBJECT: of all objects that it is registered for.
    """
    path = ("domains", domain, "groups", group, "clients", client, "explanation")
    shown = HttpNode(settings).get(*path, object=object_id)
    if as_json:
        echo(json.dumps(shown))
    else:
        _print(shown)
    return 0


def _print(shown: dict[str, Any]) -> None:
    about = f"{shown['domain']}/{shown['group']}/{shown['client']}"
    if shown["object"] is not None:
        about += f" and {shown['object']}"
    echo(f"{about}: {shown['verdict'].replace('_', ' ')}: {shown['words']}")
    width = max(len(event["step"]) for event in shown["timeline"])
    for event in shown["timeline"]:
        echo(f"  {cell('_ms', event['when_ms']):<25}  {event['step']:<{width}}  {event['text']}")
    for silent in shown["gateways_silent"]:
        echo(f"  gateway not asked: {silent}")
    if shown["object"] is None and shown["lacking"]:
        echo()
        print_table(shown["lacking"])
