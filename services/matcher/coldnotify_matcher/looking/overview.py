"""Delivery as a whole: the busiest groups, the slowest clients, the oldest undelivered versions; a group as a matrix.

One look is a pass over all clients, some milliseconds at a time; a client that has everything of its group costs one
comparison, others one for each registration by name. Members of queries that clients lack are not counted: each set
would have to be checked. A pass that takes too long ends early and says so (`partial`).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from heapq import nlargest, nsmallest
from typing import Any, NamedTuple

from aiohttp import web
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.list_pages import PageRequest, page_request
from coldnotify_common.http.query_numbers import whole_number
from coldnotify_common.http.web import BadRequest

from coldnotify_matcher.engine import Engine
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.looking.ledger import lacking_since_ms
from coldnotify_matcher.looking.state_endpoints import HasWorker, Look, first_of, in_a_thread
from coldnotify_matcher.matcher_partition import MatcherPartition

SHOWN_MAX = 20
"""Number of slowest clients and oldest objects, for each partition."""
GROUPS_SHOWN_MAX = 200
SEEN_MS = {"seen_1h": 3_600_000, "seen_1d": 86_400_000, "seen_7d": 7 * 86_400_000}
"""Periods for clients that are connected, or were within the period: fleets that only wake are never online."""
_SUMS = ("clients", "online", "lacking", "overdue", "objects", *SEEN_MS)
RECENT_MS = 60_000
"""The period of present traffic."""
PASS_S_MAX = 1.5
SUMS_KEPT_S = 2.0
"""Maximum age of sums over groups: as old as an overview may be."""
OVERDUE_S_DEFAULT = 3600
_OVERDUE_S_MAX = 10**9 - 1
MATRIX_OBJECTS_MAX = 100
MATRIX_FROM_MAX = 100_000
"""Maximum of `objects_from`: beyond, a look at the matrix would sort too much."""
MATRIX_SCANNED_MAX = 5_000
"""Clients that one request checks, if it wants only those that lack something."""


def routes(current: HasWorker) -> list[web.AbstractRouteDef]:
    """Routes GET /v1/overview?overdue_s and .../groups/{group}/matrix?limit&after."""
    shown = OverviewEndpoints(current)
    return [
        web.get("/v1/overview", in_a_thread(shown.overview)),
        web.get("/v1/domains/{domain}/groups/{group}/matrix", in_a_thread(shown.matrix)),
    ]


@dataclass
class _Group:
    """Sums over one domain/group."""

    newest_offset: int = -1
    objects: int = 0
    clients: int = 0
    online: int = 0
    lacking: int = 0
    overdue: int = 0
    oldest_since_ms: int | None = None
    last_seen_ms: int = 0
    """The last time at which one of its clients was seen."""
    seen: Counter[str] = field(default_factory=Counter)
    """By the names of SEEN_MS."""

    def see(self, time_ms: int) -> None:
        """Takes a time at which one of its clients was seen."""
        self.last_seen_ms = max(self.last_seen_ms, time_ms)


@dataclass
class _Pass:
    """The results of one pass over a partition."""

    groups: dict[str, _Group] = field(default_factory=dict)
    slow: list[tuple[int, int, RegisteredClient]] = field(default_factory=list)
    """(start of the delay, number of objects that it lacks, client)."""
    undelivered: dict[Obj, list[int]] = field(default_factory=dict)
    """By object that a client lacks: [start of the delay, number of such clients, number of them asleep]."""
    partial: bool = False


class GroupSums(NamedTuple):
    """Sums over each group that a matcher serves."""

    groups: list[dict[str, Any]]
    partitions: list[MatcherPartition]
    """The partitions of these groups."""
    partial: bool


class OverviewEndpoints:
    """The handlers; they run in threads."""

    def __init__(self, current: HasWorker) -> None:
        self._look = Look(current)
        self._sums: tuple[float, float, GroupSums] | None = None
        """Until when they count (monotonic), and for which `overdue_s`."""
        self._summing = threading.Lock()

    def overview(self, request: web.Request) -> web.Response:
        """GET /v1/overview: the partitions that this matcher serves, added up by group."""
        overdue_s = _overdue_s(request)
        deadline_s = time.monotonic() + PASS_S_MAX
        now_ms = time.time_ns() // 1_000_000
        groups: list[dict[str, Any]] = []
        clients: list[dict[str, Any]] = []
        objects: list[dict[str, Any]] = []
        partial = False
        served = self._look.served_partitions()
        for partition in served:
            found = self._pass(partition, now_ms - int(overdue_s * 1000), deadline_s)
            partial |= found.partial
            groups += self._show_groups(partition, found, now_ms)
            clients += [_show_slow(*one) for one in nsmallest(SHOWN_MAX, found.slow, key=lambda one: one[0])]
            oldest = nsmallest(SHOWN_MAX, found.undelivered.items(), key=lambda one: one[1][0])
            objects += [_show_undelivered(obj, *sums) for obj, sums in oldest]
        domains: dict[str, Counter[str]] = {}
        for group in groups:
            of_domain = domains.setdefault(group["domain"], Counter(dict.fromkeys((*_SUMS, "groups_count"), 0)))
            of_domain.update({name: group[name] for name in _SUMS} | {"groups_count": 1})
        totals = {name: sum(group[name] for group in groups) for name in _SUMS}
        return json_answer(
            {
                "now_ms": now_ms,
                "recent_s": RECENT_MS / 1000,
                "overdue_s": overdue_s,
                "partial": partial,
                "partitions": sorted(one.number for one in served),
                "partitions_count": self._look.partitions_count(),
                "groups_count": len(groups),
                **totals,
                "domains": domains,
                "groups": nlargest(GROUPS_SHOWN_MAX, groups, key=lambda one: (one["publishes"], one["clients"])),
                "slowest": nsmallest(SHOWN_MAX, clients, key=lambda one: one["since_ms"]),
                "oldest": nsmallest(SHOWN_MAX, objects, key=lambda one: one["since_ms"]),
            }
        )

    def groups(self, overdue_s: float) -> GroupSums:
        """Returns sums over all groups. One pass is for all who ask within SUMS_KEPT_S, and for all of their pages."""
        with self._summing:
            if self._sums is not None and self._sums[1] == overdue_s and time.monotonic() < self._sums[0]:
                return self._sums[2]
            deadline_s = time.monotonic() + PASS_S_MAX
            now_ms = time.time_ns() // 1_000_000
            served, groups, partial = self._look.served_partitions(), list[dict[str, Any]](), False
            for partition in served:
                found = self._pass(partition, now_ms - int(overdue_s * 1000), deadline_s)
                partial |= found.partial
                groups += self._show_groups(partition, found, now_ms)
            sums = GroupSums(groups, served, partial)
            self._sums = time.monotonic() + SUMS_KEPT_S, overdue_s, sums
            return sums

    def matrix(self, request: web.Request) -> web.Response:
        """GET .../groups/{group}/matrix?lacking&objects_from: which client has applied which object.

        Clients are paged; with `lacking=yes` a page has only those that lack something, and may be short although there
        are more. It shows MATRIX_OBJECTS_MAX objects, the newest first, from the place `objects_from` on.
        """
        limit, after = page_request(request.query)
        lacking = request.query.get("lacking", "no")
        if lacking not in ("yes", "no"):
            raise BadRequest("lacking", f"{lacking[:80]!r} is neither yes nor no")
        objects_from = whole_number("objects_from", request.query.get("objects_from", "0"), maximum=MATRIX_FROM_MAX)
        with self._look.served(request) as (prefix, partition):
            engine = partition.engine
            all_clients = list(engine.state.clients.values())
            all_keys = list(engine.state.objects)
        by_name = {one.name: one for one in all_clients if one.key.startswith(prefix) and not one.looks}
        of_group = [key for key in all_keys if key.startswith(prefix)]
        offsets = [
            (engine.state.objects.offset_of(key), key)
            for key in self._look.each(partition, of_group)
            if key in engine.state.objects
        ]
        newest = nlargest(objects_from + MATRIX_OBJECTS_MAX, offsets)[objects_from:]
        objects = [
            engine.state.objects[key] for _, key in self._look.each(partition, newest) if key in engine.state.objects
        ]

        def row(name: str) -> dict[str, Any]:
            return _matrix_row(engine, by_name[name], objects)

        clients: dict[str, Any]
        if lacking == "yes":
            clients = self._of_those_that_lack(partition, by_name, limit, after, row)
        else:
            clients = {**self._look.page(partition, by_name, PageRequest(limit, after), row)}
        shown: dict[str, Any] = {
            "objects": [
                {
                    "object": obj.name,
                    "version": obj.version if obj.version >= 0 else None,
                    "registered": obj.registered,
                }
                for obj in objects
            ],
            "objects_count": len(of_group),
            "clients_count": len(by_name),
            **clients,
        }
        return json_answer(shown | {"now_ms": time.time_ns() // 1_000_000})

    def _show_groups(self, partition: MatcherPartition, found: _Pass, now_ms: int) -> list[dict[str, Any]]:
        with self._look.lock():
            recent = Counter(_group_of(key) for key in partition.engine.history.since(now_ms - RECENT_MS))
        return [_show_group(key, group, recent[key]) for key, group in found.groups.items()]

    def _pass(self, partition: MatcherPartition, overdue_before_ms: int, deadline_s: float) -> _Pass:
        found = _Pass()
        now_ms = time.time_ns() // 1_000_000
        with self._look.lock():
            objects = partition.engine.state.objects
            keys = list(objects)
            clients = [client for client in partition.engine.state.clients.values() if not client.looks]
        try:
            for key in self._look.each(partition, keys):
                if key not in objects:
                    continue  # forgotten meanwhile
                group = found.groups.setdefault(_group_of(key), _Group())
                group.objects += 1
                group.newest_offset = max(group.newest_offset, objects.offset_of(key))
            for client in self._look.each(partition, clients):
                _take(found, partition.engine, client, overdue_before_ms, now_ms)
                if time.monotonic() > deadline_s:
                    found.partial = True
                    break
        except web.HTTPServiceUnavailable:
            if self._look.serves(partition):
                raise
        return found

    def _of_those_that_lack(
        self,
        partition: MatcherPartition,
        by_name: Mapping[str, RegisteredClient],
        limit: int,
        after: str | None,
        row: Callable[[str], dict[str, Any]],
    ) -> dict[str, Any]:
        """Returns the first `limit` names above `after` that lack something, and the name after which there may be
        more."""
        part, next_ = first_of(by_name, PageRequest(MATRIX_SCANNED_MAX, after))
        found: list[dict[str, Any]] = []
        for name in self._look.each(partition, part):
            if by_name[name].unapplied():
                found.append(row(name))
                if len(found) == limit:
                    return {"items": found, "next": name if name != part[-1] or next_ is not None else None}
        return {"items": found, "next": next_}


def _take(found: _Pass, engine: Engine, client: RegisteredClient, overdue_before_ms: int, now_ms: int) -> None:
    group = found.groups.setdefault(client.group_key, _Group())
    group.clients += 1
    online = client.session is not None
    group.online += online
    group.see(now_ms if online else client.last_seen_ms)
    for name, within_ms in SEEN_MS.items():
        group.seen[name] += online or client.last_seen_ms > now_ms - within_ms
    if client.cursor >= group.newest_offset and not client.unsettled:
        return
    lacked = client.unapplied()
    if not lacked:
        return
    oldest_ms = 1 << 62
    for obj in lacked:
        since_ms = lacking_since_ms(engine, client, obj) or 0
        oldest_ms = min(oldest_ms, since_ms)
        sums = found.undelivered.setdefault(obj, [since_ms, 0, 0])
        sums[0] = min(sums[0], since_ms)
        sums[1] += 1
        sums[2] += not online
    group.lacking += 1
    group.overdue += oldest_ms < overdue_before_ms
    group.oldest_since_ms = oldest_ms if group.oldest_since_ms is None else min(group.oldest_since_ms, oldest_ms)
    found.slow.append((oldest_ms, len(lacked), client))


def _show_group(key: str, group: _Group, publishes: int) -> dict[str, Any]:
    domain, _, name = key.partition("/")
    return {
        "domain": domain,
        "group": name,
        "objects": group.objects,
        "clients": group.clients,
        "online": group.online,
        "lacking": group.lacking,
        "overdue": group.overdue,
        "oldest_since_ms": group.oldest_since_ms,
        **{name: group.seen[name] for name in SEEN_MS},
        "last_seen_ms": group.last_seen_ms or None,
        "publishes": publishes,
    }


def _show_slow(since_ms: int, lacking: int, client: RegisteredClient) -> dict[str, Any]:
    domain, group, name = client.key.split("/")
    return {
        "domain": domain,
        "group": group,
        "client": name,
        "since_ms": since_ms,
        "lacking": lacking,
        "state": "asleep" if client.session is None else client.session.shown_state,
        "last_seen_ms": client.last_seen_ms or None,
    }


def _group_of(key: str) -> str:
    """Returns domain/group of an object's key."""
    domain, group, _ = key.split("/", 2)
    return f"{domain}/{group}"


def _show_undelivered(obj: Obj, since_ms: int, lacking: int, asleep: int) -> dict[str, Any]:
    domain, group, name = obj.key.split("/", 2)
    return {
        "domain": domain,
        "group": group,
        "object": name,
        "version": obj.version,
        "since_ms": since_ms,
        "lacking": lacking,
        "asleep": asleep,
        "registered": obj.registered,
    }


def _matrix_row(engine: Engine, client: RegisteredClient, objects: list[Obj]) -> dict[str, Any]:
    cells = []
    for obj in objects:
        if not client.interested(obj):
            cells.append("")
        elif obj in client.unsettled:
            cells.append("parked" if client.unsettled[obj].parked else "pending")
        elif client.lacks(obj):
            cells.append("lacks")
        else:
            cells.append("has" if client.tells_unsettled or client.published(obj) else "told")
    behind = client.unapplied()
    since_ms = min((lacking_since_ms(engine, client, obj) or 0 for obj in behind), default=None)
    return {
        "client": client.name,
        "state": "asleep" if client.session is None else client.session.shown_state,
        "last_seen_ms": client.last_seen_ms or None,
        "registered": client.registered,
        "lacking": len(behind),
        "since_ms": since_ms,
        "cells": cells,
    }


def _overdue_s(request: web.Request) -> float:
    text = request.query.get("overdue_s", str(OVERDUE_S_DEFAULT))
    return whole_number("overdue_s", text, maximum=_OVERDUE_S_MAX)
