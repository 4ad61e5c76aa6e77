"""`coldnotify top`: shows the busiest groups, the slowest clients and the oldest undelivered versions, repeatedly."""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import click
from coldnotify_common.settings import settings_options
from coldnotify_common.stop import StopFlag, stop_flag
from coldnotify_schemas.visible import visible_lines

from coldnotify_cli.counted import nothing_counted, uncounted
from coldnotify_cli.http_node import HttpNode
from coldnotify_cli.printing import echo
from coldnotify_cli.settings import HttpNodeSettings

_Text = Callable[[Any], list[str]]


@click.command("top")
@click.option("--once", is_flag=True, help="Print once and exit.")
@click.option(
    "--every-s", type=click.FloatRange(min=1), default=2, show_default=True, help="Seconds between two updates."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per update.")
@settings_options(HttpNodeSettings)
def command_top(once: bool, every_s: float, as_json: bool, settings: HttpNodeSettings) -> int:
    """Show the busiest groups, the slowest clients and the oldest undelivered versions of all matchers and gateways.

    On a terminal the display is refreshed until Ctrl-C; where matchers do not answer it keeps the last numbers, dimmed.
    A pipe gets plain lines, and stderr the partitions that no matcher answers for. Exit code 1 if the last look had no
    answer for any partition.
    """
    node = HttpNode(settings)
    with stop_flag() as stop:
        first = _first(node, stop)
        if as_json:
            last = _print_again(node, first, stop, every_s, once=once, text=lambda shown: [json.dumps(shown)])
        elif once or not sys.stdout.isatty():
            from coldnotify_cli.top_view import plain

            last = _print_again(node, first, stop, every_s, once=once, text=lambda shown: [*plain(shown), ""])
        else:
            last = _refresh(node, first, stop, every_s)
    if nothing_counted(last):
        raise click.ClickException(uncounted(last))
    return 0


def _look(node: HttpNode) -> Any:
    """Returns the overview, with the nodes where the service shows them: to operators."""
    shown = node.get("overview")
    with suppress(click.ClickException):
        shown["nodes"] = node.get("nodes")["items"]
    return shown


def _first(node: HttpNode, stop: StopFlag) -> Any:
    """Rates are known from the second look on; the service takes one every two seconds."""
    shown = _look(node)
    while shown["window_s"] == 0 and not stop.wait(1):
        shown = _look(node)
    return shown


def _print_again(node: HttpNode, shown: Any, stop: StopFlag, every_s: float, *, once: bool, text: _Text) -> Any:
    said = ""
    while True:
        echo(*text(shown))
        words = uncounted(shown)
        if words not in ("", said) and not nothing_counted(shown):
            echo(f"Warning: {words}: counts are too low", err=True)
        said = words
        if once or stop.wait(every_s):
            return shown
        shown = _look(node)


def _refresh(node: HttpNode, shown: Any, stop: StopFlag, every_s: float) -> Any:
    """Returns the last answer."""
    from rich.live import Live

    from coldnotify_cli.top_view import old_view, rich_view

    whole = None if uncounted(shown) else shown
    with Live(rich_view(shown), screen=True, auto_refresh=False) as live:
        while not stop.wait(every_s):
            try:
                shown = _look(node)
            except click.ClickException as error:
                live.update(old_view(visible_lines(error.format_message()), whole or shown), refresh=True)
                continue
            words = uncounted(shown)
            if not words:
                whole = shown
            live.update(rich_view(shown) if whole is None or not words else old_view(words, whole), refresh=True)
    return shown
