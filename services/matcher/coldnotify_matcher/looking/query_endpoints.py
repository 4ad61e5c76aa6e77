"""The queries that a group's clients have registered, for the HTTP views: their clients, and numbers of members."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aiohttp import web
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.list_pages import page_request

from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.interests.by_query.by_query import RegisteredQuery
from coldnotify_matcher.looking.state_endpoints import HasWorker, Look, in_a_thread

CLIENTS_SHOWN_MAX = 100
"""Number of clients' names shown for one query."""


def routes(current: HasWorker) -> list[web.AbstractRouteDef]:
    """Routes GET .../queries."""
    queries = QueryEndpoint(current)
    return [web.get("/v1/domains/{domain}/groups/{group}/queries", in_a_thread(queries.queries))]


class QueryEndpoint:
    """The handler; it runs in a thread."""

    def __init__(self, current: HasWorker) -> None:
        self._look = Look(current)

    def queries(self, request: web.Request) -> web.Response:
        """GET .../queries?limit&after: by the texts as they were registered, in their order."""
        asked = page_request(request.query)
        with self._look.served(request) as (prefix, partition):
            clients = list(partition.engine.state.clients.items())
        by_text: dict[str, list[tuple[RegisteredClient, RegisteredQuery]]] = {}
        for client in self._look.each(partition, [one for key, one in clients if key.startswith(prefix)]):
            for query in client.queries.values():
                by_text.setdefault(query.text, []).append((client, query))
        return json_answer(self._look.page(partition, by_text, asked, lambda text: _show(text, by_text[text])))


def _show(text: str, registered: Iterable[tuple[RegisteredClient, RegisteredQuery]]) -> dict[str, Any]:
    """Returns one query. `canonical` and `members` are null while none of its clients is connected, or the set is being
    computed."""
    names, online, set_ = [], 0, None
    for client, query in registered:
        names.append(client.name)
        online += client.session is not None
        set_ = set_ or query.set
    ready = set_ is not None and set_.ready
    return {
        "query": text,
        "canonical": set_.query.text if set_ is not None else None,
        "members": len(set_.members) if set_ is not None and ready else None,
        "clients_count": len(names),
        "online": online,
        "clients": sorted(names)[:CLIENTS_SHOWN_MAX],
    }
