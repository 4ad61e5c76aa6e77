"""Pages of long lists, for the inspection endpoints: `?limit=&after=`."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypedDict

from coldnotify_schemas.protocol import ITEMS_PER_PAGE_MAX

from coldnotify_common.http.query_numbers import whole_number

LIMIT_DEFAULT = 100


class PageRequest(NamedTuple):
    """The requested part of a list: at most `limit` items, those whose key is above `after`."""

    limit: int
    after: str | None


class Page(TypedDict):
    """One part of a list; `next` is the `after` of the following part, None at the end."""

    items: list[object]
    next: str | None


def page_request(query: Mapping[str, str]) -> PageRequest:
    """Reads `limit` and `after` from a URL's query. Raises BadRequest, which names the parameter."""
    limit = whole_number("limit", query.get("limit", str(LIMIT_DEFAULT)), minimum=1, maximum=ITEMS_PER_PAGE_MAX)
    return PageRequest(limit, query.get("after"))


def page(
    keys: Sequence[str], limit: int = LIMIT_DEFAULT, after: str | None = None, show: Callable[[str], object] = str
) -> Page:
    """Returns the page of the sorted `keys` that begins above `after`; `show(key)` makes the item for a key."""
    start = 0 if after is None else bisect_right(keys, after)
    part = keys[start : start + limit]
    more = start + limit < len(keys)
    return {"items": [show(key) for key in part], "next": part[-1] if more and part else None}
