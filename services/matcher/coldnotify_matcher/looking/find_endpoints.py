"""One-time queries over HTTP: find the objects of a group that fit now, page by page in the order of their names.

Nothing is registered, and nothing is kept between two pages. Names, versions and descriptions of some objects at a time
are copied while the worker waits, and the query is evaluated without its lock. So the result is right for each object
at some time during the request, and not for all at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

from aiohttp import web
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.list_pages import PageRequest, page_request
from coldnotify_common.http.web import error_response
from coldnotify_schemas.descriptions import Description

from coldnotify_matcher.engine.interests.by_query.language import InvalidQuery
from coldnotify_matcher.engine.interests.by_query.query import CanonicalQuery, query_of
from coldnotify_matcher.engine.objects.objects import UNKNOWN
from coldnotify_matcher.looking.evaluating import PASS_S_MAX, REST_S, TURN_S_MAX, Evaluation, in_turn
from coldnotify_matcher.looking.reading_up import AskedEnds, ReadingUp
from coldnotify_matcher.looking.state_endpoints import HasWorker, Look, name_span, show_description
from coldnotify_matcher.matcher_partition import MatcherPartition

OBJECTS_A_LOCK = 1_000
"""Objects copied while the worker waits: about a millisecond."""
NAMES_A_SORT = 5_000
"""Sorting them takes a millisecond, in which no other thread has the interpreter."""


def routes(current: HasWorker, log: AskedEnds) -> list[web.AbstractRouteDef]:
    """Routes GET .../objects: those that fit `query`; without one, all that the matcher knows; and .../OBJECT."""
    found, reading = FindEndpoint(current), ReadingUp(current, log)
    objects = "/v1/domains/{domain}/groups/{group}/objects"
    return [
        web.get(objects, reading.before(found.objects)),
        # (?s: a name may have line feeds, too.
        web.get(f"{objects}/{{object:(?s:.+)}}", reading.before(Look(current).object)),
    ]


class _One(NamedTuple):
    """An object as it was when it was copied."""

    name: str
    version: int | None
    description: Description | None


class FindEndpoint:
    """The handler; it runs in a thread."""

    def __init__(self, current: HasWorker, *, pass_s: float = PASS_S_MAX, turn_s: float = TURN_S_MAX) -> None:
        self._look = Look(current)
        self._pass_s = pass_s
        self._turn_s = turn_s

    def objects(self, request: web.Request) -> web.Response:
        """GET .../objects?query&prefix&from&to&limit&after: a page may have fewer than `limit`; the list is complete if
        `next` is null."""
        text = request.query.get("query")
        if text is None or "names" in request.query:
            return self._look.objects(request)
        within = name_span(request)
        asked = page_request(request.query)
        try:
            query = query_of(text)
        except InvalidQuery as error:
            place = {"line": error.line, "column": error.column, "expected": error.reason}
            return error_response(400, f"query: {error}", field="query", **place)
        with in_turn(self._turn_s):
            with self._look.served(request) as (prefix, partition):
                keys = list(partition.engine.state.objects)
                described = list(partition.engine.state.descriptions.of_group(prefix[:-1]))
            names = {key[len(prefix) :] for key in keys if key.startswith(prefix)}
            names.update(name for name in described if name not in names)
            in_order = _in_order(filter(within, names), asked.after)
            return json_answer(self._page(query, asked, partition, prefix, in_order))

    def _page(
        self, query: CanonicalQuery, asked: PageRequest, partition: MatcherPartition, prefix: str, names: Iterator[str]
    ) -> dict[str, object]:
        """Returns the names that fit, until there are enough, or the time is over."""
        evaluation = Evaluation(self._pass_s)
        items: list[dict[str, Any]] = []
        while part := list(islice(names, OBJECTS_A_LOCK)):
            for number, one in enumerate(self._slice(partition, prefix, part), 1):
                if one is not None and query.matches(one.name, one.description or {}):
                    items.append(_shown(one))
                if not evaluation.goes_on() or len(items) == asked.limit:
                    more = number < len(part) or next(names, None) is not None
                    return {"query": query.text, "items": items, "next": part[number - 1] if more else None}
        return {"query": query.text, "items": items, "next": None}

    def _slice(self, partition: MatcherPartition, prefix: str, names: list[str]) -> list[_One | None]:
        """Returns the objects of these names as they are now; None: there is none. 503 if the partition goes
        meanwhile."""
        with self._look.lock():
            if not self._look.serves(partition):
                raise web.HTTPServiceUnavailable(text=f"partition {partition.number} was given up meanwhile")
            return [_one(partition, prefix, name) for name in names]


def _in_order(names: Iterable[str], after: str | None) -> Iterator[str]:
    """Yields the names after `after`, sorted piece by piece and merged on request."""
    rest = (name for name in names if after is None or name > after)
    pieces: list[list[str]] = []
    while piece := sorted(islice(rest, NAMES_A_SORT)):
        pieces.append(piece)
        time.sleep(REST_S)
    return merge(*pieces)


def _one(partition: MatcherPartition, prefix: str, name: str) -> _One | None:
    """Returns one of the group's objects: published or described, and not deleted."""
    state, group = partition.engine.state, prefix[:-1]
    if state.members.groups.description(group, name) is None:
        return None
    described, version = state.descriptions.of(group, name), state.objects.version_of(prefix + name)
    return _One(name, version if version != UNKNOWN else None, None if described is None else described.description)


def _shown(one: _One) -> dict[str, Any]:
    description = None if one.description is None else show_description(one.description)
    return {"object": one.name, "version": one.version, "description": description}
