"""`coldnotify client disconnect|forget`: ends a client's session, or has the service forget the client."""

import json
from typing import Any

import click
from coldnotify_common.settings import settings_options

from coldnotify_cli.http_node import HttpNode
from coldnotify_cli.printing import confirm, echo
from coldnotify_cli.settings import HttpNodeSettings
from coldnotify_cli.suggesting_group import SuggestingGroup

_SAID = {
    "disconnected": "is disconnected; it may come back",
    "not_connected": "was not connected",
    "forgotten": "is forgotten; if it comes back, it registers again",
}


@click.group("client", cls=SuggestingGroup)
def command_client() -> None:
    """Administer one client."""


@command_client.command("disconnect")
@click.argument("domain")
@click.argument("group")
@click.argument("client_id", metavar="CLIENT")
@click.option("--reason", help="Reason, for the client and the service's log.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@settings_options(HttpNodeSettings)
def disconnect(
    domain: str, group: str, client_id: str, reason: str | None, yes: bool, as_json: bool, settings: HttpNodeSettings
) -> int:
    """End the session of CLIENT. Its gateway tells it why, and it may come back."""
    confirm(f"Disconnect {domain}/{group}/{client_id}?", yes=yes)
    path = ("domains", domain, "groups", group, "clients", client_id)
    _say(HttpNode(settings).ask("PATCH", *path, body={"online": False}, reason=reason), as_json=as_json)
    return 0


@command_client.command("forget")
@click.argument("domain")
@click.argument("group")
@click.argument("client_id", metavar="CLIENT")
@click.option("--reason", help="Reason, for the client and the service's log.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@settings_options(HttpNodeSettings)
def forget(
    domain: str, group: str, client_id: str, reason: str | None, yes: bool, as_json: bool, settings: HttpNodeSettings
) -> int:
    """Have the service forget CLIENT: its session ends, its registrations and cursor are removed.

    A client that comes back registers again by itself, and is told the newest version of everything.
    """
    node = HttpNode(settings)
    path = ("domains", domain, "groups", group, "clients", client_id)
    if not yes:
        shown = node.get(*path, limit=1)
        state = "is online" if shown["online"] else "is asleep"
        words = f"{domain}/{group}/{client_id} {state} and registered for {shown['registered']}. Forget it?"
        confirm(words, yes=yes)
    _say(node.ask("DELETE", *path, reason=reason), as_json=as_json)
    return 0


def _say(done: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        echo(json.dumps(done))
        return
    online = " (its session was ended)" if done["was_online"] and done["outcome"] == "forgotten" else ""
    echo(f"{done['domain']}/{done['group']}/{done['client']} {_SAID[done['outcome']]}{online}")
