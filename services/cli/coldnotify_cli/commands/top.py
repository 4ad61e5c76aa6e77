"""`coldnotify top`: shows the busiest groups, the slowest clients and the oldest undelivered versions, repeatedly."""

import json
import sys
from collections.abc import Callable
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

    On a terminal the display is refreshed until Ctrl-C; a pipe gets plain lines. With --once, exit code 1 if no matcher
    answers for any partition.
    """
    node = HttpNode(settings)
    with stop_flag() as stop:
        first = _first(node, stop)
        if as_json:
            _print_again(node, first, stop, every_s, once=once, text=lambda shown: [json.dumps(shown)])
        elif once or not sys.stdout.isatty():
            from coldnotify_cli.top_view import plain

            _print_again(node, first, stop, every_s, once=once, text=lambda shown: [*plain(shown), ""])
        else:
            _refresh(node, first, stop, every_s)
    if once and nothing_counted(first):
        raise click.ClickException(uncounted(first))
    return 0


def _first(node: HttpNode, stop: StopFlag) -> Any:
    """Rates are known from the second look on; the service takes one every two seconds."""
    shown = node.get("overview")
    while shown["window_s"] == 0 and not stop.wait(1):
        shown = node.get("overview")
    return shown


def _print_again(node: HttpNode, shown: Any, stop: StopFlag, every_s: float, *, once: bool, text: _Text) -> None:
    echo(*text(shown))
    while not once and not stop.wait(every_s):
        echo(*text(node.get("overview")))


def _refresh(node: HttpNode, shown: Any, stop: StopFlag, every_s: float) -> None:
    from rich.live import Live
    from rich.text import Text

    from coldnotify_cli.top_view import rich_view

    with Live(rich_view(shown), screen=True, auto_refresh=False) as live:
        while not stop.wait(every_s):
            try:
                live.update(rich_view(node.get("overview")), refresh=True)
            except click.ClickException as error:
                live.update(Text(visible_lines(error.format_message())), refresh=True)
