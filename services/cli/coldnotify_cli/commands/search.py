"""`coldnotify search`: finds groups, clients, objects and channels by a part of their names."""

import click
from coldnotify_common.settings import settings_options

from coldnotify_cli.found_pages import print_found
from coldnotify_cli.http_node import HttpNode
from coldnotify_cli.settings import HttpNodeSettings


@click.command("search")
@click.argument("text")
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of rows; default: all.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
@settings_options(HttpNodeSettings)
def command_search(text: str, limit: int | None, as_json: bool, settings: HttpNodeSettings) -> int:
    """Find groups, clients, objects and channels whose names contain TEXT, in upper or lower case.

    Exit code 1 if a matcher has not answered: then there may be more.
    """
    pages = HttpNode(settings).pages("search", limit=limit, text=text)
    return print_found(pages, ("kind", "domain", "group", "name"), as_json=as_json)
