"""`coldnotify hook`: sets, lists, removes, tests and rotates webhooks, through the HTTP service."""

import json
from typing import Any

import click
from coldnotify_common.settings import settings_options

from coldnotify_cli.http_node import HttpNode
from coldnotify_cli.printing import echo
from coldnotify_cli.settings import HttpNodeSettings
from coldnotify_cli.tables import cell

_TEST_S = 20.0
"""The service waits up to 15 s for the call."""


@click.group("hook")
def command_hook() -> None:
    """Set, list, remove, test or rotate webhooks. `coldnotify hooks` calls them."""


@command_hook.command("set")
@click.argument("domain")
@click.argument("group")
@click.argument("name")
@click.argument("url")
@click.option("--object", "objects", metavar="OBJECT", multiple=True, help="Object to be told of; several times.")
@click.option("--query", metavar="QUERY", help="Query whose objects are to be told of.")
@click.option("--channel", "channels", metavar="CHANNEL", multiple=True, help="Channel to be told; several times.")
@click.option("--format", "format_", type=click.Choice(["json", "cloudevents"]), default="json", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_options(HttpNodeSettings)
def hook_set(
    domain: str,
    group: str,
    name: str,
    url: str,
    objects: tuple[str, ...],
    query: str | None,
    channels: tuple[str, ...],
    format_: str,
    as_json: bool,
    settings: HttpNodeSettings,
) -> int:
    """Set the webhook NAME of DOMAIN and GROUP: URL is called with every newer version, or every message.

    What it was before is replaced. The secret of a new one is printed, and never shown again.
    """
    body: dict[str, Any] = {"url": url, "format": format_}
    body |= {"objects": list(objects)} if objects else {}
    body |= {"query": query} if query is not None else {}
    body |= {"channels": list(channels)} if channels else {}
    shown = HttpNode(settings).ask("PUT", *_path(domain, group, name), body=body)
    _say(f"{name}: set", shown, as_json=as_json)
    return 0


@command_hook.command("list")
@click.argument("domain")
@click.argument("group")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_options(HttpNodeSettings)
def hook_list(domain: str, group: str, as_json: bool, settings: HttpNodeSettings) -> int:
    """List the webhooks of DOMAIN and GROUP."""
    listed = HttpNode(settings).get(*_path(domain, group))
    items = listed["items"]
    if as_json:
        echo(json.dumps(items, ensure_ascii=False))
    elif not items:
        echo("no webhooks" if listed["enabled"] else "this installation has no webhooks (--hooks-key-file)")
    else:
        echo(*map(_line, items))
    return 0


@command_hook.command("remove")
@click.argument("domain")
@click.argument("group")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_options(HttpNodeSettings)
def hook_remove(domain: str, group: str, name: str, as_json: bool, settings: HttpNodeSettings) -> int:
    """Remove the webhook NAME of DOMAIN and GROUP."""
    shown = HttpNode(settings).ask("DELETE", *_path(domain, group, name))
    _say(f"{name}: removed", shown, as_json=as_json)
    return 0


@command_hook.command("test")
@click.argument("domain")
@click.argument("group")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_options(HttpNodeSettings)
def hook_test(domain: str, group: str, name: str, as_json: bool, settings: HttpNodeSettings) -> int:
    """Have the receiver of the webhook NAME called once. Exit code 1 if it did not answer with 2xx."""
    shown = HttpNode(settings, timeout_s=_TEST_S).ask("POST", *_path(domain, group, name), "test")
    words = f"{name}: {'applied' if shown['applied'] else 'not applied'}: {shown['words']}"
    _say(words, shown, as_json=as_json)
    return 0 if shown["applied"] else 1


@command_hook.command("rotate")
@click.argument("domain")
@click.argument("group")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@settings_options(HttpNodeSettings)
def hook_rotate(domain: str, group: str, name: str, as_json: bool, settings: HttpNodeSettings) -> int:
    """Give the webhook NAME a new secret, which is printed. For 24 hours, calls are signed with both."""
    shown = HttpNode(settings).ask("POST", *_path(domain, group, name), "rotate")
    _say(f"{name}: rotated", shown, as_json=as_json)
    return 0


def _path(domain: str, group: str, *name: str) -> tuple[str, ...]:
    return ("domains", domain, "groups", group, "hooks", *name)


def _say(words: str, shown: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        echo(json.dumps(shown, ensure_ascii=False))
        return
    echo(words)
    if "secret" in shown:
        echo(f"secret: {shown['secret']}", "It is not shown again.")


def _line(item: dict[str, Any]) -> str:
    wanted = (
        f"query {item['query']}" if "query" in item else ", ".join(item.get("objects") or item.get("channels") or ())
    )
    suspended = item["suspended_ms"]
    state = "" if suspended is None else f"  suspended since {cell('_ms', suspended)}"
    return f"{item['name']}  {item['url']}  {wanted}{state}"
