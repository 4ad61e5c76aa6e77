"""Prints lists over all matchers, page after page, and says what is missing in them."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from coldnotify_cli.counted import uncounted
from coldnotify_cli.printing import echo
from coldnotify_cli.tables import print_table


def print_found(pages: Iterable[dict[str, Any]], columns: Sequence[str], *, as_json: bool) -> int:
    """Prints the items of all pages: these columns as a table, or each item as JSON in a line. Returns the exit code: 1
    if a matcher has not answered for its partitions.
    """
    missing: dict[str, None] = {}
    rows = _items(pages, missing)
    if as_json:
        for row in rows:
            echo(json.dumps(row))
    else:
        print_table({name: row.get(name) for name in columns} for row in rows)
    for words in missing:
        echo(f"Error: {words}", err=True)
    return 1 if missing else 0


def _items(pages: Iterable[dict[str, Any]], missing: dict[str, None]) -> Iterator[dict[str, Any]]:
    """Yields the items, and notes in words what is missing."""
    for page in pages:
        yield from page["items"]
        if words := uncounted(page):
            missing[f"{words}: there may be more"] = None
        if page["partial"]:
            missing["there is too much to look at all of it at once: there may be more"] = None
