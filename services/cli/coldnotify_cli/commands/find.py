"""`coldnotify find`: which objects of a group fit a query now."""

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

import click
from coldnotify_common.settings import settings_options

from coldnotify_cli.described import show_pairs
from coldnotify_cli.http_node import HttpNode
from coldnotify_cli.printing import echo
from coldnotify_cli.settings import HttpNodeSettings
from coldnotify_cli.tables import print_table

_EXAMPLE = """\b
Example:
  coldnotify find animal.observer region-1 --query 'Kind = configuration AND fps > 5'
"""


@click.command("find", epilog=_EXAMPLE)
@click.argument("domain")
@click.argument("group")
@click.option(
    "--query", metavar="TEXT", required=True, help="Query over names and descriptions, such as 'Room = 410 AND HAS on'."
)
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of objects; default: all.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
@settings_options(HttpNodeSettings)
def command_find(
    domain: str, group: str, query: str, limit: int | None, as_json: bool, settings: HttpNodeSettings
) -> int:
    """Print the objects of DOMAIN and GROUP that fit a query now, in the order of their names: version, description.

    An object without a version was described and not published. docs/queries.md says what a query can be. Nothing is
    registered; `coldnotify watch` is told what changes.
    """
    path = ("domains", domain, "groups", group, "objects")
    pages = HttpNode(settings).pages(*path, limit=limit, query=query)
    found: Iterator[dict[str, Any]] = chain.from_iterable(page["items"] for page in pages)
    if as_json:
        for one in found:
            echo(json.dumps(one, ensure_ascii=False))
    else:
        print_table({**one, "description": show_pairs(one["description"])} for one in found)
    return 0
