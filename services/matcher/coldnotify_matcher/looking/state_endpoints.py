"""The HTTP port's view of the matcher's state: partitions, clients and objects, as JSON, paged."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
from aiohttp import web
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.list_pages import Page, PageRequest, page_request
from coldnotify_common.http.web import BadRequest, error_response
from coldnotify_schemas.descriptions import Description, encode_description
from coldnotify_schemas.matcher_state import EXPIRY_NEVER
from coldnotify_schemas.names import check_name, check_object
from coldnotify_schemas.partitioner import partition_of
from coldnotify_streams.core.partition_progress import OwningPhase

from coldnotify_matcher.engine import Engine
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.wills import Wills
from coldnotify_matcher.engine.interests.by_filter import RegisteredFilter
from coldnotify_matcher.engine.interests.by_query.by_query import RegisteredQuery
from coldnotify_matcher.engine.objects.description_store import NEVER, StoredDescription
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.looking.channel_standing import cursor_of, show_channel
from coldnotify_matcher.looking.showing import show_unsettled
from coldnotify_matcher.matcher_partition import MatcherPartition

if TYPE_CHECKING:
    from coldnotify_matcher.worker import MatcherWorker

T = TypeVar("T")

NAMES_MAX = 100
"""Objects that are asked for by their names at once: the worker waits until all are copied."""

UNSAYABLE_SHOWN_MAX = 10
"""Names of a partition that MQTT cannot say, which are shown."""
LOCK_TIMEOUT_S = 2.0
"""A step takes milliseconds, unless Kafka does not answer."""
LOCKED_S = 0.005
"""A longer look lets the worker have its lock in between: a publish waits this long for it."""
REST_S = 0.0002
"""Long enough for the worker to take it."""
_one_look = threading.RLock()
"""Held with the worker's lock, and acquired first: the worker waits for one look, and not for all that wait."""


class HasWorker(Protocol):
    """Holds the current worker."""

    worker: MatcherWorker | None


def routes(current: HasWorker) -> list[web.AbstractRouteDef]:
    """Routes GET endpoints below /v1; each answers for the partitions that this matcher serves. Those of objects are
    among `find_endpoints`."""
    look = Look(current)
    group = "/v1/domains/{domain}/groups/{group}"
    return [
        web.get("/v1/partitions", in_a_thread(look.partitions)),
        web.get(f"{group}/clients", in_a_thread(look.clients)),
        web.get(f"{group}/clients/{{client}}", in_a_thread(look.client)),
    ]


def in_a_thread(look: Callable[[web.Request], web.Response]) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Runs a handler in a thread, so that waiting for the worker's lock holds up neither /healthz nor /metrics."""

    async def handle(request: web.Request) -> web.Response:
        return await asyncio.to_thread(look, request)

    return handle


def partition_for(current: HasWorker, domain: str, group: str) -> MatcherPartition:
    """Returns the group's partition, in any phase, without the worker's lock. 503 if it is not this matcher's."""
    worker = current.worker
    partitions = [] if worker is None else list(worker.partitions.values())
    if partitions:
        number = partition_of(domain, group, partitions[0].engine.state.partitions)
        for partition in partitions:
            if partition.number == number:
                return partition
    raise web.HTTPServiceUnavailable(text=f"{domain}/{group} is not served by this matcher (now)")


class Look:
    """The handlers; each runs in a thread and holds the worker's lock while it reads."""

    def __init__(self, current: HasWorker) -> None:
        self._current = current

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keeps the state unchanged in the block. 503 if the lock is not free in time."""
        worker = self._current.worker
        if worker is None:
            yield
            return
        until_s = time.monotonic() + LOCK_TIMEOUT_S
        if not _one_look.acquire(timeout=LOCK_TIMEOUT_S):
            raise web.HTTPServiceUnavailable(text=f"others have been looking in for {LOCK_TIMEOUT_S:g} s")
        try:
            if not worker.lock.acquire(timeout=max(0.0, until_s - time.monotonic())):
                raise web.HTTPServiceUnavailable(text=f"the matcher has been in one step for {LOCK_TIMEOUT_S:g} s")
            try:
                yield
            finally:
                worker.lock.release()
        finally:
            _one_look.release()

    def each(self, partition: MatcherPartition, items: Iterable[T]) -> Iterator[T]:
        """Yields each while the lock is held, which the worker gets in between if all take long. 503 if the partition
        goes.

        An item may be gone by its turn: the caller checks.
        """
        iterator, over = iter(items), False
        while not over:
            with self.lock():
                if not self.serves(partition):
                    raise web.HTTPServiceUnavailable(text=f"partition {partition.number} was given up meanwhile")
                until_s = time.monotonic() + LOCKED_S
                over = True
                for item in iterator:
                    yield item
                    if time.monotonic() >= until_s:
                        over = False
                        break
            if not over:
                time.sleep(REST_S)

    def page(
        self,
        partition: MatcherPartition,
        names: Iterable[str],
        asked: PageRequest,
        show: Callable[[str], object | None],
    ) -> Page:
        """Returns the requested page of the names. `show` returns the item for one, under the lock; None: it is
        gone."""
        part, next_ = first_of(names, asked)
        shown = [show(name) for name in self.each(partition, part)]
        return {"items": [one for one in shown if one is not None], "next": next_}

    def _partitions(self) -> Mapping[int, MatcherPartition]:
        worker = self._current.worker
        return {} if worker is None else worker.partitions

    def serves(self, partition: MatcherPartition) -> bool:
        """Returns true if this matcher still serves it. To be called while the lock is held."""
        return self._partitions().get(partition.number) is partition and partition.phase is OwningPhase.OWNED

    def served_partitions(self) -> list[MatcherPartition]:
        """Returns the partitions that this matcher serves now."""
        with self.lock():
            return [one for one in self._partitions().values() if one.phase is OwningPhase.OWNED]

    def partitions_count(self) -> int | None:
        """Returns the number of partitions; None if this matcher has none, and does not know."""
        return next((one.engine.state.partitions for one in list(self._partitions().values())), None)

    def partitions(self, _request: web.Request) -> web.Response:
        """GET /v1/partitions."""
        with self.lock():
            worker = self._current.worker
            all_ = [] if worker is None else [*worker.partitions.values(), *worker.followed.values()]
            items = [_partition(partition) for partition in sorted(all_, key=lambda p: p.number)]
        return json_answer({"items": items})

    def clients(self, request: web.Request) -> web.Response:
        """GET .../clients, paged."""
        return self._of_group(request, lambda engine: engine.state.clients, client_summary)

    def client(self, request: web.Request) -> web.Response:
        """GET .../clients/{client}, its registrations paged."""
        name = check_name("client", request.match_info["client"])
        asked = page_request(request.query)
        with self.served(request) as (prefix, partition):
            client = partition.engine.state.clients.get(prefix + name)
            if client is None:
                return error_response(404, f"client: {prefix}{name} is not known")
            by_name = {obj.name: obj for obj in client.objects()}
            queries = [_query(query) for query in sorted(client.queries.values(), key=lambda query: query.text)]
            filters = [_filter(one) for one in sorted(client.filters.values(), key=lambda one: one.text)]
            shown: dict[str, Any] = {
                **client_summary(client),
                "queries": queries,
                "filters": filters,
                "channels_cursor": cursor_of(client),
                "kept": client.filters.protocol or None,
                "expiry_s": _expiry_s(client),
                **show_will(partition.engine.state.wills, client),
            }
            log, channels = partition.engine.state.log_of(client), list(client.channels.values())
        shown["registrations"] = self.page(
            partition, by_name, asked, lambda object_: _registration(client, by_name[object_])
        )
        channels.sort(key=lambda channel: channel.key)
        shown["channels"] = [show_channel(client, channel, log) for channel in self.each(partition, channels)]
        return json_answer(shown)

    def objects(self, request: web.Request) -> web.Response:
        """GET .../objects?prefix&from&to&limit&after, paged; or ?names, all as of one position."""
        if "names" in request.query:
            return self._named(request)
        span = name_span(request)
        return self._of_group(request, lambda engine: engine.state.objects, show_object, span)

    def _named(self, request: web.Request) -> web.Response:
        """Returns the objects of these names, with a version of null where nothing was published."""
        names = _names(request)
        with self.served(request) as (prefix, partition):
            state = partition.engine.state
            items = [show_object(state.objects.get(prefix + name) or Obj(prefix + name)) for name in names]
            as_of = state.position
        return json_answer({"items": items, "next": None, "as_of": as_of})

    def object(self, request: web.Request) -> web.Response:
        """GET .../objects/{object}."""
        name = check_object(request.match_info["object"])
        with self.served(request) as (prefix, partition):
            obj = partition.engine.state.objects.get(prefix + name)
            described = partition.engine.state.descriptions.of(prefix[:-1], name)
            if obj is None and described is None:
                return error_response(404, f"object: {prefix}{name} is not known")
            shown = show_object(Obj(prefix + name) if obj is None else obj) | show_described(described)
        return json_answer(shown)

    def _of_group(
        self,
        request: web.Request,
        all_of: Callable[[Engine], Mapping[str, T]],
        show: Callable[[T], dict[str, Any]],
        within: Callable[[str], bool] = lambda _: True,
    ) -> web.Response:
        """Returns items of the group, paged by their names. Only those of the page are taken from the mapping.
        `within`: says of a name whether it is wanted."""
        asked = page_request(request.query)
        with self.served(request) as (prefix, partition):
            by_key = all_of(partition.engine)
            keys = list(by_key)

        def show_it(name: str) -> dict[str, Any] | None:
            return show(by_key[prefix + name]) if prefix + name in by_key else None

        names = (key.removeprefix(prefix) for key in keys if key.startswith(prefix))
        return json_answer(self.page(partition, filter(within, names), asked, show_it))

    @contextmanager
    def served(self, request: web.Request) -> Iterator[tuple[str, MatcherPartition]]:
        """Yields (domain/group/, its partition), which does not change meanwhile. 503 if this matcher does not serve
        it."""
        domain = check_name("domain", request.match_info["domain"])
        group = check_name("group", request.match_info["group"])
        with self.lock():
            partitions = self._partitions()
            count = next((p.engine.state.partitions for p in partitions.values()), 1)
            partition = partitions.get(partition_of(domain, group, count))
            if partition is None:
                raise web.HTTPServiceUnavailable(text=f"{domain}/{group} is not served by this matcher (now)")
            if partition.phase is not OwningPhase.OWNED:
                raise web.HTTPServiceUnavailable(text=f"{domain}/{group}: partition {partition.number} is being loaded")
            yield f"{domain}/{group}/", partition


def name_span(request: web.Request) -> Callable[[str], bool]:
    """Returns a function that says of a name whether it begins with `prefix`, is not before `from`, and is before `to`.
    Raises InvalidName."""
    begin, first, end = (_part_of_name(request, parameter) for parameter in ("prefix", "from", "to"))
    if not (begin or first or end):
        return lambda _: True
    return lambda name: name.startswith(begin) and name >= first and (not end or name < end)


def _part_of_name(request: web.Request, parameter: str) -> str:
    text = request.query.get(parameter)
    return "" if text is None else check_object(text, parameter)


def _names(request: web.Request) -> list[str]:
    """Returns the names in `names`, between commas. Raises BadRequest, InvalidName."""
    for other in ("query", "prefix", "from", "to", "limit", "after"):
        if other in request.query:
            raise BadRequest(other, "cannot be combined with names")
    names = list(dict.fromkeys(request.query["names"].split(",")))
    if len(names) > NAMES_MAX:
        raise BadRequest("names", f"has {len(names)} names (at most {NAMES_MAX} are allowed)")
    return [check_object(name, "names") for name in names]


def first_of(names: Iterable[str], asked: PageRequest) -> tuple[list[str], str | None]:
    """Returns the first `limit` names above `after` in their order, and the last of them if there are more."""
    limit, after = asked
    found = nsmallest(limit + 1, names if after is None else (name for name in names if name > after))
    return found[:limit], found[limit - 1] if len(found) > limit else None


def _partition(partition: MatcherPartition) -> dict[str, Any]:
    engine = partition.engine
    unsayable = engine.state.filtered.all_unsayable()
    return {
        "partition": partition.number,
        "phase": partition.phase.value,
        "read_to_end": partition.phase is OwningPhase.OWNED or not partition.behind,
        "generation": engine.state.generation,
        "position": engine.state.position,
        "requests": partition.requests_read,
        "messages": sum(log.position for log in engine.state.channel_logs.values()),
        "objects": len(engine.state.objects),
        "clients": partition.clients,
        "online": sum(len(gateway.sessions) for gateway in engine.state.gateways.values()),
        "unsayable": len(unsayable),
        "unsayable_first": sorted(unsayable)[:UNSAYABLE_SHOWN_MAX],
    }


def client_summary(client: RegisteredClient) -> dict[str, Any]:
    """Returns one client, without its registrations."""
    session = client.session
    return {
        "client": client.name,
        "online": session is not None,
        "gateway": f"{session.gateway.id:016x}" if session is not None else None,
        "session": session.number if session is not None else None,
        "session_state": session.shown_state if session is not None else None,
        "registered": client.registered,
        "digest": f"{client.digest:016x}",
        "cursor": client.cursor if client.cursor >= 0 else None,
        "lacking": len(client.unapplied()),
        "tells_callbacks": client.tells_unsettled,
        "unsettled": len(client.unsettled),
        "last_seen_ms": client.last_seen_ms,
    }


def show_will(wills: Wills, client: RegisteredClient) -> dict[str, Any]:
    """Returns the will of a client's latest session."""
    topic, due_ms = wills.shown(client.key)
    return {"will": topic, "will_due_ms": due_ms}


def _query(query: RegisteredQuery) -> dict[str, Any]:
    """Returns one query. `members` is null while the client is not connected, or the set is being computed."""
    members = len(query.set.members) if query.set is not None and query.set.ready else None
    return {"query": query.text, "members": members, "refused": query.why_never or None}


def _filter(one: RegisteredFilter) -> dict[str, Any]:
    return {"filter": one.text, "options": one.options, "identifier": one.identifier or None, "answered": not one.owed}


def _expiry_s(client: RegisteredClient) -> int | None:
    """Returns the seconds that what is kept of the client outlives its session; None: nothing is kept, or it stays."""
    return client.filters.expiry_s if client.kept and client.filters.expiry_s != EXPIRY_NEVER else None


def _registration(client: RegisteredClient, obj: Obj) -> dict[str, Any]:
    return {
        "object": obj.name,
        "version": obj.version if obj.version >= 0 else None,
        "offset": obj.offset if obj.offset >= 0 else None,
        "applied": not client.lacks(obj),
        "callbacks": show_unsettled(client.unsettled.get(obj)),
    }


def show_described(described: StoredDescription | None) -> dict[str, Any]:
    """Returns an object's description and its version; null if it has none, or never had one."""
    if described is None:
        return {"description": None, "described_ms": None}
    description = None if described.description is None else show_description(described.description)
    return {"description": description, "described_ms": described.version if described.version != NEVER else None}


def show_description(description: Description) -> dict[str, Any]:
    """Returns the description as JSON has it: whole numbers without a fraction."""
    shown: dict[str, Any] = msgspec.json.decode(encode_description(description))
    return shown


def show_object(obj: Obj, *, payload: bool = True) -> dict[str, Any]:
    """Returns one object, without the names of its clients. `payload`: with it."""
    return {
        "object": obj.name,
        "version": obj.version if obj.version >= 0 else None,
        "incarnation": obj.incarnation,
        "offset": obj.offset if obj.offset >= 0 else None,
        "published_ms": obj.published_ms if obj.published_ms >= 0 else None,
        "deleted": obj.deleted,
        "source": obj.source,
        **(_payload(obj) if payload else {}),
        "expires_at": obj.expires_at_ms,
        "registered": obj.registered,
        "online": sum(
            sum(n in gateway.sessions for n in subscribers.numbers) for gateway, subscribers in obj.subscribers.items()
        ),
    }


def _payload(obj: Obj) -> dict[str, Any]:
    """Returns the payload as JSON; in base64, under a name of its own, if it is no JSON."""
    if obj.raw:
        return {"payload": None, "payload_base64": base64.b64encode(obj.payload).decode()}
    return {"payload": msgspec.json.decode(obj.payload) if obj.payload else None}
