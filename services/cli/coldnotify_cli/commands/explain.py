"""`coldnotify explain`: shows when a version was published, matched, sent and acknowledged, or why it was not."""

import json
from typing import Any

import click
from coldnotify_common.plurals import number_of
from coldnotify_common.settings import settings_options

from coldnotify_cli.http_node import HttpNode, NotKnown
from coldnotify_cli.printing import echo
from coldnotify_cli.settings import HttpNodeSettings
from coldnotify_cli.tables import cell, print_table

_UNKNOWN = ("unknown_client", "unknown_object")
"""Verdicts about a name that nobody has used."""
_WHY = {
    "asleep": "it is not connected",
    "catching up": "it is being sent what it missed",
    "live": "they are on their way, or its callbacks have not returned",
}


@click.command("explain")
@click.argument("domain")
@click.argument("group")
@click.argument("client")
@click.argument("object_id", metavar="[OBJECT]", required=False)
@click.option("--channel", help="Say how many messages of this channel it lacks, since when, and why.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_options(HttpNodeSettings)
def command_explain(
    domain: str,
    group: str,
    client: str,
    object_id: str | None,
    channel: str | None,
    as_json: bool,
    settings: HttpNodeSettings,
) -> int:
    """Explain why CLIENT of DOMAIN and GROUP has, or has not, applied the newest version of OBJECT.

    Without OBJECT: of all objects that it is registered for. Exit code 1 if the client, object or channel is not known.
    """
    if channel is not None and object_id is not None:
        raise click.UsageError("--channel: cannot be combined with OBJECT")
    base, node = ("domains", domain, "groups", group, "clients", client), HttpNode(settings)
    if channel is not None:
        return _explain_channel(node.get(*base, limit=1), f"{domain}/{group}/{client}", channel, as_json=as_json)
    shown = node.get(*base, "explanation", object=object_id)
    if as_json:
        echo(json.dumps(shown))
    else:
        _print(shown)
    return 1 if shown["verdict"] in _UNKNOWN else 0


def _explain_channel(client: dict[str, Any], name: str, channel: str, *, as_json: bool) -> int:
    standing = next((one for one in client["channels"] if one["channel"] == channel), None)
    if standing is None:
        raise NotKnown(f"channel: {name} is not registered for {channel}")
    words = channel_words(standing, client["last_seen_ms"])
    if as_json:
        echo(json.dumps({"client": name, **standing, "words": words}))
    else:
        echo(f"{name} and {channel}: {words}")
    return 0


def channel_words(standing: dict[str, Any], last_seen_ms: int | None) -> str:
    """Returns how many messages a client lacks of a channel, since when, and why."""
    state, count, callbacks = standing["state"], standing["behind"], standing["callbacks"]
    lost = "; retention has removed some, which it never gets" if standing["missed"] else ""
    if not count and not standing["behind_at_least"]:
        return f"it lacks no messages{lost}"
    least = "at least " if standing["behind_at_least"] else ""
    since = "" if standing["since_ms"] is None else f", the oldest since {cell('_ms', standing['since_ms'])}"
    why = _WHY[state]
    if callbacks is not None:
        raised = f" (raised {number_of(callbacks['failures'], 'time')})" if callbacks["failures"] else ""
        why = f"its callbacks are {callbacks['state']}{raised}"
    elif state == "asleep":
        why += f", and was last seen {cell('_ms', last_seen_ms)}"
    return f"it lacks {least}{number_of(count, 'message')}{since}: {why}{lost}"


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
