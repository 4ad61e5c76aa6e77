"""The delivery ledger: clients that have not applied a version, since when, and why not, in this matcher's partitions.

A client has applied versions at or below its cursor. The cursor here is the one that the client acknowledged: gateways
merge acknowledgements for about a second, and repeat them to a new matcher after a takeover. So the ledger may be late:
it may name clients that have just applied a version. Registrations that a client reports as unsettled, because their
callbacks have not returned or raise, it has not applied, whatever its cursor (`engine.clients.unsettled`). A client of
release 0.1.0 cannot report that: at least it was sent the version. The client that caused a version (`source`) gets no
notification of it and counts as having it. Queries are evaluated at each look, even for clients that are offline.

A scan of many clients takes the worker's lock for some milliseconds at a time (`Look.each`), and evaluates queries
without it (`evaluating`), so that it holds up no step.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, NamedTuple

from aiohttp import web
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.list_pages import page, page_request
from coldnotify_common.http.query_numbers import whole_number
from coldnotify_common.http.web import error_response
from coldnotify_schemas.descriptions import Description
from coldnotify_schemas.mqtt.told_sizes import told_bytes_min
from coldnotify_schemas.names import check_name, check_object
from coldnotify_schemas.records import VERSION_MAX

from coldnotify_matcher.engine import Engine
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.memberships import LookedMember
from coldnotify_matcher.engine.clients.unsettled import UnsettledRegistration
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.engine.streams.stream import NO_CURSOR
from coldnotify_matcher.looking.evaluating import Evaluation, fits, in_turn, why
from coldnotify_matcher.looking.outcome_endpoints import show_outcome
from coldnotify_matcher.looking.showing import show_unsettled
from coldnotify_matcher.looking.state_endpoints import (
    HasWorker,
    Look,
    client_summary,
    in_a_thread,
    show_object,
    show_will,
)
from coldnotify_matcher.matcher_partition import MatcherPartition

LACKING_SHOWN_MAX = 100
"""Number of objects that one explanation lists."""


def routes(current: HasWorker) -> list[web.AbstractRouteDef]:
    """Routes GET endpoints below /v1/domains/{domain}/groups/{group}."""
    ledger = LedgerEndpoints(current)
    group = "/v1/domains/{domain}/groups/{group}"
    return [
        web.get(f"{group}/objects/{{object:(?s:.+)}}/lacking", in_a_thread(ledger.lacking)),
        web.get(f"{group}/objects/{{object:(?s:.+)}}/subscribers", in_a_thread(ledger.subscribers)),
        web.get(f"{group}/clients/{{client}}/explanation", in_a_thread(ledger.explanation)),
    ]


class LedgerMark(NamedTuple):
    """The offset that a cursor must have reached for a version to be applied."""

    offset: int | None
    """None: no client can have applied it, because it was not published yet."""
    exact: bool
    """False: the version is older than the history. Clients that reached `offset` have applied it, others may have."""


def mark_of(engine: Engine, obj: Obj, version: int | None) -> LedgerMark:
    """Returns the mark for a version of the object's present incarnation; None: the newest."""
    version = obj.version if version is None else version
    if version < 0:
        return LedgerMark(NO_CURSOR, exact=True)  # nothing was ever published: no client lacks it
    if version > obj.version:
        return LedgerMark(None, exact=True)
    before = False
    for publish in engine.history.publishes(obj.key):
        if publish.incarnation != obj.incarnation or publish.version < version:
            before = True
            continue
        return LedgerMark(publish.offset, exact=before or publish.version == version)
    return LedgerMark(obj.offset, exact=obj.version == version)


def lacks(client: RegisteredClient, obj: Obj, mark: LedgerMark) -> bool:
    """Returns true if the client, which is registered for the object, has not applied it up to the mark."""
    return mark.offset is None or untaken(client, obj) is not None or client.lacks(obj, offset=mark.offset)


def untaken(client: RegisteredClient, obj: Obj) -> UnsettledRegistration | None:
    """Returns the client's report that its application has not taken an object; None: there is none.

    The report may be about a query with this member, if the client has not registered its name. While the client is
    offline, its sets are not known: then any of its queries that may have the object counts.
    """
    if client.interested(obj) or not client.unsettled:
        return client.unsettled.get(obj)
    for query in client.queries.values():
        unsettled = client.unsettled.get(query)
        if unsettled is None or not unsettled.concerns(obj.name):
            continue
        if query.set is None or not query.set.ready or obj.name in query.set.members:
            return unsettled
    return None


def lacking_since_ms(engine: Engine, client: RegisteredClient, obj: Obj) -> int | None:
    """Returns the time since which the client lacks it (Unix time): that of the publish of the oldest remembered
    version that it has not applied, or that at which its application should have taken it; None: unknown."""
    unsettled = untaken(client, obj)
    if unsettled is not None and client.cursor >= obj.offset:
        return unsettled.since_ms
    publishes = engine.history.publishes(obj.key)
    # Not one by one: a busy object has thousands, and the search is made for thousands of clients.
    first = bisect_right(publishes, client.cursor, key=lambda publish: publish.offset)
    return _time_or_null(publishes[first].timestamp_ms if first < len(publishes) else obj.published_ms)


class LedgerEndpoints:
    """The handlers; they run in threads."""

    def __init__(self, current: HasWorker) -> None:
        self._look = Look(current)

    def lacking(self, request: web.Request) -> web.Response:
        """GET .../objects/{object}/lacking?version&limit&after: clients that have not applied the newest, or that,
        version.

        With `partition` and `offset` of the record that published it, the answer contains that record's outcome, too.
        """
        limit, after = page_request(request.query)
        version, record = _version(request), _record(request)
        name = check_object(request.match_info["object"])
        with self._look.served(request) as (prefix, partition):
            engine = partition.engine
            obj = engine.state.objects.get(prefix + name)
            if obj is None:
                return error_response(404, f"object: {prefix}{name} is not known")
            mark = mark_of(engine, obj, version)
            shown: dict[str, Any] = {
                **show_object(obj, payload=False),
                "wanted_version": version if version is not None else _version_or_null(obj),
                "published": mark.offset is not None,
                "exact": mark.exact,
                "position": engine.state.position,
                "generation": engine.state.generation,
            }
            if record is not None and record[0] == partition.number:
                taken = engine.history.outcome(record[1])
                if taken is not None and taken.key == obj.key:
                    shown |= show_outcome(taken)
            clients = [client for client in engine.state.clients.values() if not client.looks]
        wanting = self._wanting(partition, [one for one in clients if one.key.startswith(prefix)], obj)
        rows: dict[str, dict[str, Any]] = {}
        registered = by_query = asleep = pending = parked = unable = 0
        for client in self._look.each(partition, wanting):
            registered += 1
            by_query += not (client.interested(obj) or client.kept)
            unable += not client.tells_unsettled
            if lacks(client, obj, mark):
                unsettled = untaken(client, obj)
                parked += unsettled is not None and unsettled.parked
                pending += unsettled is not None and not unsettled.parked
                asleep += client.session is None
                rows[client.name] = {
                    "client": client.name,
                    "state": _state(client),
                    "since_ms": lacking_since_ms(engine, client, obj) if mark.offset is not None else None,
                    "last_seen_ms": _last_seen_ms(client),
                    "cursor": client.cursor if client.cursor >= 0 else None,
                    "callbacks": show_unsettled(unsettled),
                }
        shown |= {
            "registered": registered,
            "by_query": by_query,
            "applied": registered - len(rows),
            "lacking": len(rows),
            "asleep": asleep,
            "pending": pending,
            "parked": parked,
            "told_at_least": unable,
            "now_ms": time.time_ns() // 1_000_000,
        }
        return json_answer({**shown, **page(sorted(rows), limit, after, rows.__getitem__)})

    def subscribers(self, request: web.Request) -> web.Response:
        """GET .../objects/{object}/subscribers?limit&after: the clients that receive the object's newest version, by
        their names."""
        limit, after = page_request(request.query)
        name = check_object(request.match_info["object"])
        with self._look.served(request) as (prefix, partition):
            engine = partition.engine
            obj = engine.state.objects.get(prefix + name)
            if obj is None:
                return error_response(404, f"object: {prefix}{name} is not known")
            about = {"object": name, "position": engine.state.position, "generation": engine.state.generation}
            mark = mark_of(engine, obj, None)
            clients = [client for client in engine.state.clients.values() if not client.looks]
        wanting = self._wanting(partition, [one for one in clients if one.key.startswith(prefix)], obj)
        rows = {
            client.name: {
                "client": client.name,
                "by": _way(client, obj),
                "state": _state(client),
                "applied": not lacks(client, obj, mark),
                "last_seen_ms": _last_seen_ms(client),
            }
            for client in self._look.each(partition, wanting)
        }
        about |= {"subscribers": len(rows), "now_ms": time.time_ns() // 1_000_000}
        return json_answer({**about, **page(sorted(rows), limit, after, rows.__getitem__)})

    def explanation(self, request: web.Request) -> web.Response:
        """GET .../clients/{client}/explanation?object: reasons why it has, or has not, applied it, as this matcher
        knows them.

        Also answers for an unknown client or object: then they are null.
        """
        name = check_name("client", request.match_info["client"])
        object_name = request.query.get("object")
        if object_name is not None:
            check_object(object_name)
        looked: LookedMember | None = None
        with self._look.served(request) as (prefix, partition):
            engine = partition.engine
            client = engine.state.clients.get(prefix + name)
            shown: dict[str, Any] = {
                "partition": partition.number,
                "generation": engine.state.generation,
                "position": engine.state.position,
                "requests_waiting": len(partition.pending),
                "client": None,
                "object": None,
            }
            if client is not None:
                shown["client"] = client_summary(client) | {
                    **show_will(engine.state.wills, client),
                    "last_seen_ms": _last_seen_ms(client),
                    "gateway_heard_ms": client.session.gateway.heard_ms if client.session is not None else None,
                }
                shown["lacking"] = self._lacked(engine, client)
                shown["queries_unknown"] = sum(not query.settled for query in client.queries.values())
                shown["queries_missed"] = engine.state.members.missed(client, client.cursor)
            if (refused := engine.state.refused_clients.of(prefix + name)) is not None:
                shown["refused"] = {"when_ms": refused[0], "reason": refused[1]}
            if object_name is not None:
                obj = engine.state.objects.get(prefix + object_name)
                shown["rejected"] = [one._asdict() for one in engine.history.rejections(prefix + object_name)]
                if obj is not None:
                    shown["object"] = self._object(engine, client, obj)
                    looked = None if client is None else engine.state.members.look(client, obj.name)
        if looked is not None and (looked.members or looked.refused) and object_name is not None:
            about = shown["object"]
            with in_turn():
                queries = why(looked, object_name, Evaluation())
            about["client_queries"] = [
                {"query": text, "member": member, "why": words} for text, member, words in queries
            ]
            by_query = any(member for _, member, _ in queries)
            about["client_applied"] |= by_query and not about["client_registered"] and about["client_has"]
            about["client_registered"] |= by_query
        if shown["object"] is not None:
            del shown["object"]["client_has"]
        return json_answer({**shown, "now_ms": time.time_ns() // 1_000_000})

    def _lacked(self, engine: Engine, client: RegisteredClient) -> list[dict[str, Any]]:
        shown = sorted(client.unapplied()[:LACKING_SHOWN_MAX], key=lambda obj: obj.offset)
        return [
            {
                "object": obj.name,
                "version": _version_or_null(obj),
                "since_ms": lacking_since_ms(engine, client, obj),
                "callbacks": show_unsettled(client.unsettled.get(obj)),
            }
            for obj in shown
        ]

    def _object(self, engine: Engine, client: RegisteredClient | None, obj: Obj) -> dict[str, Any]:
        shown = show_object(obj, payload=False)
        mark = mark_of(engine, obj, None)
        registered = client is not None and (client.interested(obj) or client.fits(obj))
        has = client is not None and mark.offset is not None and not lacks(client, obj, mark)
        return {
            **shown,
            "held": engine.conflation.held_since(obj) is not None,
            "client_registered": registered,
            "client_applied": registered and has,
            "client_has": has,
            "client_queries": [],
            "client_is_source": client is not None and client.published(obj),
            "client_too_large": client is not None and _is_too_large(client, obj),
            "client_tells_callbacks": client is not None and client.tells_unsettled,
            "client_callbacks": None if client is None else show_unsettled(untaken(client, obj)),
            "since_ms": lacking_since_ms(engine, client, obj) if client is not None else None,
        }

    def _wanting(
        self, partition: MatcherPartition, clients: Iterable[RegisteredClient], obj: Obj
    ) -> list[RegisteredClient]:
        """Returns the clients that receive the object's newest version, by its name, by a query or by a filter."""
        engine = partition.engine
        wanting: list[RegisteredClient] = []
        undecided: list[tuple[RegisteredClient, list[str]]] = []
        description: Description | None = None
        for client in self._look.each(partition, clients):
            if client.interested(obj) or client.fits(obj):
                wanting.append(client)
            elif client.queries:
                looked = engine.state.members.look(client, obj.name)
                description = looked.description
                if any(looked.members.values()):
                    wanting.append(client)
                elif texts := [text for text, member in looked.members.items() if member is None]:
                    undecided.append((client, texts))
        if not undecided or description is None:
            return wanting
        with in_turn():
            texts_of_all = (text for _, texts in undecided for text in texts)
            fitting = fits(texts_of_all, obj.name, description, Evaluation())
        return wanting + [client for client, texts in undecided if any(fitting[text] for text in texts)]


def _is_too_large(client: RegisteredClient, obj: Obj) -> bool:
    """Returns true if a connected client takes no packet of the size of the newest version, and is not told it."""
    bytes_max = 0 if client.session is None else client.session.packet_bytes_max
    fitting = client.filters.fitting(obj.name) if bytes_max and client.fits(obj) else []
    if not fitting or obj.deleted:
        return False
    identifiers = tuple(one.identifier for one in fitting if one.identifier)
    expires = obj.expires_at_ms is not None
    size_bytes = told_bytes_min(obj.name, obj.payload, obj.properties, identifiers=identifiers, expires=expires)
    return size_bytes > bytes_max


def _version(request: web.Request) -> int | None:
    text = request.query.get("version")
    return None if text is None else whole_number("version", text, maximum=VERSION_MAX)


def _record(request: web.Request) -> tuple[int, int] | None:
    """Returns partition and offset of the record whose outcome is wanted, too; each requires the other."""
    query = request.query
    if "partition" not in query and "offset" not in query:
        return None
    partition, offset = (
        whole_number(name, query.get(name, ""), maximum=VERSION_MAX) for name in ("partition", "offset")
    )
    return partition, offset


def _way(client: RegisteredClient, obj: Obj) -> str:
    """Returns what makes the client receive the object: its name, a filter of MQTT, or a query."""
    if client.interested(obj):
        return "name"
    return "filter" if client.fits(obj) else "query"


def _state(client: RegisteredClient) -> str:
    return "asleep" if client.session is None else client.session.shown_state


def _last_seen_ms(client: RegisteredClient) -> int | None:
    """Returns the time when it was last seen. A gateway reports an online client every few seconds."""
    heard_ms = client.session.gateway.heard_ms if client.session is not None else 0
    return max(client.last_seen_ms, heard_ms) or None


def _version_or_null(obj: Obj) -> int | None:
    return obj.version if obj.version >= 0 else None


def _time_or_null(unix_ms: int) -> int | None:
    return unix_ms if unix_ms >= 0 else None
