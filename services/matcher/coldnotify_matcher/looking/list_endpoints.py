"""Lists over all groups that this matcher serves: groups, clients, and everything whose name contains a text.

The HTTP service asks all matchers at once, and merges their pages (`sorted_lists`). Filters that need no more than a
name are evaluated without the worker's lock; others take it for some milliseconds at a time (`Look.each`). A pass that
takes too long ends early and says so (`partial`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain, repeat
from typing import Annotated, Any, TypeVar

import msgspec
from aiohttp import web
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.sorted_lists import (
    CLIENTS,
    GROUPS,
    NOW,
    SEARCH,
    Listed,
    ListKind,
    ListRequest,
    Place,
    listed,
)
from coldnotify_common.http.web import BadRequest
from coldnotify_common.security.identity import Identity
from coldnotify_schemas.records import VERSION_MAX

from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.looking.overview import OVERDUE_S_DEFAULT, PASS_S_MAX, OverviewEndpoints
from coldnotify_matcher.looking.state_endpoints import HasWorker, Look
from coldnotify_matcher.matcher_partition import MatcherPartition

CLIENTS_ASKED_MAX = 5_000
"""Maximum of `clients` in a request: their names fill a body."""
_CHECKED_EVERY = 64
"""Names between two looks at the clock."""
_NEVER = -1
_KINDS = ("group", "client", "object", "channel")

T = TypeVar("T")
_Client = tuple[MatcherPartition, RegisteredClient]
_Lister = Callable[[ListRequest, "ListBounds"], web.Response]


class ListBounds(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request: what may be listed, of all that is there."""

    domains: list[str] | None = None
    """Patterns of domains, as in an identity's rights; None: all."""
    clients: Annotated[list[str], msgspec.Meta(max_length=CLIENTS_ASKED_MAX)] | None = None
    """Clients as domain/group/client; None: all."""
    overdue_s: Annotated[int, msgspec.Meta(ge=0, le=VERSION_MAX)] = OVERDUE_S_DEFAULT


def routes(current: HasWorker) -> list[web.AbstractRouteDef]:
    """Routes POST /v1/groups, /v1/clients and /v1/search. They change nothing; the bounds are long for a path."""
    lists = ListEndpoints(current)
    return [
        web.post("/v1/groups", _handler(GROUPS, lists.groups)),
        web.post("/v1/clients", _handler(CLIENTS, lists.clients)),
        web.post("/v1/search", _handler(SEARCH, lists.search)),
    ]


def _handler(kind: ListKind, list_: _Lister) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        asked, bounds = kind.of(request), _bounds(await request.read())
        return await asyncio.to_thread(list_, asked, bounds)

    return handle


def _bounds(body: bytes) -> ListBounds:
    try:
        return msgspec.json.decode(body or b"{}", type=ListBounds)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        words = str(error)
        field = next((name for name in ListBounds.__struct_fields__ if f"$.{name}" in words), "body")
        raise BadRequest(field, words) from None


class ListEndpoints:
    """The handlers; they run in threads."""

    def __init__(self, current: HasWorker) -> None:
        self._look = Look(current)
        self._overview = OverviewEndpoints(current)

    def groups(self, asked: ListRequest, bounds: ListBounds) -> web.Response:
        """POST /v1/groups: sums over each group."""
        may = _may(bounds)
        sums = self._overview.groups(bounds.overdue_s)
        found = (
            (_group_place(row, asked.sort), row)
            for row in sums.groups
            if may(row["domain"]) and asked.has("id", f"{row['domain']}/{row['group']}") and _group_fits(row, asked)
        )
        return self._answer(listed(found, asked), sums.partitions, partial=sums.partial)

    def clients(self, asked: ListRequest, bounds: ListBounds) -> web.Response:
        """POST /v1/clients: clients of all groups."""
        served, deadline = self._look.served_partitions(), _Deadline()
        by_name = asked.sort in ("client", "group") and not asked.state and not asked.timed
        found: list[Iterable[_Client]] = []
        for partition in served:
            candidates: Iterable[RegisteredClient] = self._candidates(partition, asked, bounds, deadline)
            if not by_name:
                # All of them first: those that are passed over must not keep the lock.
                candidates = self._look.each(partition, deadline.until(list(candidates)))
            found.append(zip(repeat(partition), candidates))
        now_ms = time.time_ns() // 1_000_000
        of_all = (
            (_client_place(client, asked.sort), (partition, client))
            for partition, client in chain.from_iterable(found)
            if by_name or _client_fits(client, asked, now_ms)
        )
        page = listed(of_all, asked)
        shown = self._show_clients([one for _, one in page.items])
        items = [(place, shown[place.key]) for place, _ in page.items if place.key in shown]
        return self._answer(page._replace(items=items), served, partial=deadline.over)

    def search(self, asked: ListRequest, bounds: ListBounds) -> web.Response:
        """POST /v1/search: groups, clients, objects and channels whose names contain the text."""
        if not asked.parts.get("text"):
            raise BadRequest("text", "is missing")
        served, deadline = self._look.served_partitions(), _Deadline()
        text, may = asked.parts["text"], _may(bounds)
        found = chain.from_iterable(self._named(partition, text, may, deadline) for partition in served)
        return self._answer(listed(found, asked), served, partial=deadline.over)

    def _candidates(
        self, partition: MatcherPartition, asked: ListRequest, bounds: ListBounds, deadline: _Deadline
    ) -> Iterator[RegisteredClient]:
        """Yields the clients that may be in the list, as far as their names say."""
        part, may = asked.parts.get("id", ""), None if bounds.domains is None else _may(bounds)
        with self._look.lock():
            clients = partition.engine.state.clients
            if bounds.clients is None:
                some = list(clients.values())
            else:
                some = [clients[key] for key in dict.fromkeys(bounds.clients) if key in clients]
        for client in deadline.until(some):
            key = client.key
            if client.looks or (part and part not in key.lower()) or (may and not may(key.partition("/")[0])):
                continue
            yield client

    def _show_clients(self, found: list[_Client]) -> dict[str, dict[str, Any]]:
        by_partition: dict[int, tuple[MatcherPartition, list[RegisteredClient]]] = {}
        for partition, client in found:
            by_partition.setdefault(partition.number, (partition, []))[1].append(client)
        return {
            client.key: _show_client(client)
            for partition, clients in by_partition.values()
            for client in self._look.each(partition, clients)
        }

    def _named(
        self, partition: MatcherPartition, text: str, may: Callable[[str], bool], deadline: _Deadline
    ) -> Iterator[tuple[Place, dict[str, Any]]]:
        """Yields what has such a name. A channel is known by its last message."""
        with self._look.lock():
            state = partition.engine.state
            clients = list(state.clients.items())
            objects = list(state.objects)
            channels = [key for log in state.channel_logs.values() for key in log.last.keys("")]
        known = [key for key, client in clients if not client.looks]
        groups = {"/".join(key.split("/", 2)[:2]): None for key in chain(known, objects, channels)}
        for rank, keys in enumerate((groups, known, objects, channels)):
            for key in deadline.until(keys):
                if text not in key.lower():
                    continue
                domain, group, *name = key.split("/", 2)
                if may(domain) and (not name or text in name[0].lower()):
                    row = {"kind": _KINDS[rank], "domain": domain, "group": group, "name": name[0] if name else None}
                    yield Place(rank, f"{rank} {key}"), row  # a client may have an object's name

    def _answer(self, page: Listed, served: list[MatcherPartition], *, partial: bool) -> web.Response:
        return json_answer(
            {
                "items": [{"place": place, **shown} for place, shown in page.items],
                "more": page.more,
                "count": page.total,
                "partial": partial,
                "partitions": sorted(one.number for one in served),
                "partitions_count": self._look.partitions_count(),
                "now_ms": time.time_ns() // 1_000_000,
            }
        )


class _Deadline:
    """The end of a pass."""

    def __init__(self) -> None:
        self._end_s = time.monotonic() + PASS_S_MAX
        self.over = False
        """True once something was left out."""

    def until(self, items: Iterable[T]) -> Iterator[T]:
        """Yields the items until the end."""
        for place, one in enumerate(items):
            if place % _CHECKED_EVERY == 0 and time.monotonic() > self._end_s:
                self.over = True
                return
            yield one


def _may(bounds: ListBounds) -> Callable[[str], bool]:
    """Returns a function that says of a domain whether it may be listed."""
    if bounds.domains is None:
        return lambda _: True
    return cache(Identity("", publishes=tuple(bounds.domains)).may_publish)


def _group_fits(row: Mapping[str, Any], asked: ListRequest) -> bool:
    if asked.state and not _IN_STATE[asked.state](row):
        return False
    return asked.within(row["last_seen_ms"])


_IN_STATE: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "online": lambda row: row["online"] > 0,
    "asleep": lambda row: row["online"] == 0,
    "behind": lambda row: row["lacking"] > 0,
    "overdue": lambda row: row["overdue"] > 0,
}


def _group_place(row: Mapping[str, Any], sort: str) -> Place:
    key = f"{row['domain']}/{row['group']}"
    if sort == "group":
        return Place(key, key)
    if sort == "oldest":
        since_ms = row["oldest_since_ms"]
        return Place(NOW if since_ms is None else since_ms, key)
    if sort == "last_seen":
        return Place(NOW if row["online"] else row["last_seen_ms"] or _NEVER, key)
    return Place(row[sort], key)


def _client_fits(client: RegisteredClient, asked: ListRequest, now_ms: int) -> bool:
    online = client.session is not None
    if asked.state == "online":
        fits = online
    elif asked.state == "behind":
        fits = bool(client.unapplied())
    else:
        fits = not asked.state or asked.state == _state(client)
    return fits and asked.within(now_ms if online else client.last_seen_ms or None)


def _client_place(client: RegisteredClient, sort: str) -> Place:
    value: str | int
    if sort == "client":
        value = client.name
    elif sort == "group":
        value = client.group_key
    elif sort == "state":
        value = _state(client)
    elif sort == "last_seen":
        value = NOW if client.session is not None else client.last_seen_ms or _NEVER
    else:
        value = client.registered if sort == "registered" else len(client.unapplied())
    return Place(value, client.key)


def _state(client: RegisteredClient) -> str:
    return "asleep" if client.session is None else client.session.shown_state


def _show_client(client: RegisteredClient) -> dict[str, Any]:
    domain, group, name = client.key.split("/")
    session = client.session
    return {
        "domain": domain,
        "group": group,
        "client": name,
        "state": _state(client),
        "last_seen_ms": client.last_seen_ms or None,
        "registered": client.registered,
        "lacking": len(client.unapplied()),
        "gateway": None if session is None else f"{session.gateway.id:016x}",
        "session": None if session is None else session.number,
    }
