"""Lists of what several processes know: filtered and sorted by each of them, paged from the same place, then merged.

A place in a list is the value by which it is sorted and the item's key. Every process returns its first items behind
the requested place, so the first of all of them are the page, however many items there are. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import nlargest, nsmallest
from typing import Any, NamedTuple, TypeVar

import msgspec
from aiohttp import web
from coldnotify_schemas.protocol import ITEMS_PER_PAGE_MAX

from coldnotify_common.http.json_answers import EXACT_MAX
from coldnotify_common.http.list_pages import LIMIT_DEFAULT
from coldnotify_common.http.query_numbers import whole_number
from coldnotify_common.http.web import BadRequest

T = TypeVar("T")
Value = str | int

NOW = EXACT_MAX
"""The value of a time that goes on: what is connected sorts as seen last, in the same place at every look."""
TEXT_CHARS_MAX = 255
"""Maximum length of a part of a name or address."""
_SHOWN_CHARS = 80
_PAGED = ("limit", "after", "sort", "order")
_TIMES = ("since_ms", "until_ms")


class Place(NamedTuple):
    """A place in a sorted list."""

    value: Value
    key: str

    def text(self) -> str:
        """Returns the place as the `after` of the next page."""
        return msgspec.json.encode([self.value, self.key]).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListKind:
    """The parameters of one list."""

    sorts: tuple[str, ...]
    """Columns by which it can be sorted; the first is the default."""
    texts: frozenset[str]
    """Columns that are texts; the others are numbers."""
    states: tuple[str, ...] = ()
    parts: tuple[str, ...] = ("id",)
    """Parameters that are a part of a text."""
    timed: bool = True
    """True if it can be filtered by time."""

    def of(self, request: web.Request) -> ListRequest:
        """Reads the parameters of a request. Raises BadRequest, which names the parameter."""
        return self.request(request.query)

    def request(self, query: Mapping[str, str]) -> ListRequest:
        """The same, from the parameters alone."""
        names = (*_PAGED, *self.parts, *(_TIMES if self.timed else ()), *(("state",) if self.states else ()))
        for name in query:
            if name not in names:
                raise BadRequest(name[:_SHOWN_CHARS], f"is unknown; this list takes {', '.join(names)}")
        limit = whole_number("limit", query.get("limit", str(LIMIT_DEFAULT)), minimum=1, maximum=ITEMS_PER_PAGE_MAX)
        sort = _choice("sort", query, self.sorts, self.sorts[0])
        times = {name: whole_number(name, query[name], maximum=EXACT_MAX) for name in _TIMES if query.get(name)}
        return ListRequest(
            limit=limit,
            after=self._place(query.get("after"), is_text=sort in self.texts),
            sort=sort,
            descending=_choice("order", query, ("asc", "desc"), "asc") == "desc",
            state=_choice("state", query, self.states, "") if query.get("state") else "",
            since_ms=times.get("since_ms"),
            until_ms=times.get("until_ms"),
            parts={name: text_part(name, query[name]) for name in self.parts if query.get(name)},
        )

    @staticmethod
    def _place(after: str | None, *, is_text: bool) -> Place | None:
        if not after:
            return None
        try:
            value, key = msgspec.json.decode(after, type=tuple[Value, str])
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            value, key = None, ""
        if isinstance(value, str) is not is_text or value is None:
            raise BadRequest("after", f"{after[:_SHOWN_CHARS]!r} is not the `next` of a page of this list, so sorted")
        return Place(value, key)


class ListRequest(NamedTuple):
    """The requested part of a list."""

    limit: int
    after: Place | None
    sort: str
    descending: bool
    state: str
    """"": any."""
    since_ms: int | None
    until_ms: int | None
    parts: Mapping[str, str]
    """Parts of texts, in lower case, by parameter."""

    def has(self, name: str, text: str) -> bool:
        """Returns true if the text contains what the parameter wants, in upper or lower case."""
        return self.parts.get(name, "") in text.lower()

    def within(self, time_ms: int | None) -> bool:
        """Returns true if the time is within those that are wanted. None: unknown."""
        if self.since_ms is None and self.until_ms is None:
            return True
        if time_ms is None:
            return False
        return (self.since_ms or 0) <= time_ms and (self.until_ms is None or time_ms <= self.until_ms)

    @property
    def timed(self) -> bool:
        """True if some times are not wanted."""
        return self.since_ms is not None or self.until_ms is not None


class Listed(NamedTuple):
    """One page of one process, or of all."""

    items: list[tuple[Place, Any]]
    total: int
    """Number of items that fit, on all pages."""
    more: bool
    """True if there are items behind this page."""

    @property
    def next(self) -> str | None:
        """The `after` of the next page, None at the end."""
        return self.items[-1][0].text() if self.more and self.items else None


def listed(found: Iterable[tuple[Place, T]], asked: ListRequest) -> Listed:
    """Returns the requested page of what was found, in any order. At most a page is held."""
    counted = _Counted()
    after, limit = asked.after, asked.limit + 1
    if asked.descending:
        behind = (one for one in counted(found) if after is None or one[0] < after)
        first = nlargest(limit, behind, key=_place_of)
    else:
        behind = (one for one in counted(found) if after is None or one[0] > after)
        first = nsmallest(limit, behind, key=_place_of)
    return Listed(first[: asked.limit], counted.count, len(first) == limit)


def merged(parts: Iterable[Listed], asked: ListRequest) -> Listed:
    """Returns the page of all from one page of each. An item that two have counts once, if both are in their pages."""
    parts = list(parts)
    items = [one for part in parts for one in part.items]
    by_key = {place.key: (place, shown) for place, shown in items}
    first = sorted(by_key.values(), key=_place_of, reverse=asked.descending)
    twice = len(items) - len(by_key)
    more = len(first) > asked.limit or any(part.more for part in parts)
    return Listed(first[: asked.limit], sum(part.total for part in parts) - twice, more)


class _Counted:
    """Counts what goes through it."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, items: Iterable[T]) -> Iterator[T]:
        for one in items:
            self.count += 1
            yield one


def _place_of(one: tuple[Place, Any]) -> Place:
    return one[0]


def _choice(name: str, query: Mapping[str, str], choices: tuple[str, ...], default: str) -> str:
    given = query.get(name, default)
    if given not in choices and given != default:
        raise BadRequest(name, f"{given[:_SHOWN_CHARS]!r} is not one of {', '.join(choices)}")
    return given


def text_part(name: str, text: str) -> str:
    """Returns a parameter that is a part of a text, in lower case. Raises BadRequest, which names the parameter."""
    if len(text) > TEXT_CHARS_MAX:
        raise BadRequest(name, f"has {len(text)} characters (at most {TEXT_CHARS_MAX} are allowed)")
    return text.lower()


GROUPS = ListKind(
    sorts=("group", "clients", "online", "objects", "lacking", "overdue", "publishes", "last_seen", "oldest"),
    texts=frozenset({"group"}),
    states=("online", "asleep", "behind", "overdue"),
)
CLIENTS = ListKind(
    sorts=("client", "group", "state", "last_seen", "registered", "lacking"),
    texts=frozenset({"client", "group", "state"}),
    states=("online", "asleep", "unsynced", "catching", "live", "behind"),
    parts=("id", "address"),
)
SEARCH = ListKind(sorts=("kind",), texts=frozenset(), parts=("text",), timed=False)
_PROCESS_STATES = ("ready", "not_ready", "silent")
GATEWAYS = ListKind(
    sorts=("address", "state", "version", "started", "cpu", "connections", "sessions"),
    texts=frozenset({"address", "state", "version"}),
    states=_PROCESS_STATES,
    parts=("id", "address"),
)
MATCHERS = ListKind(
    sorts=("address", "state", "version", "started", "cpu", "partitions", "clients", "online", "objects"),
    texts=frozenset({"address", "state", "version"}),
    states=_PROCESS_STATES,
    parts=("address",),
)
KINDS: Mapping[str, ListKind] = {
    "groups": GROUPS, "clients": CLIENTS, "search": SEARCH, "gateways": GATEWAYS, "matchers": MATCHERS,
}  # fmt: skip
"""By the end of their paths."""
