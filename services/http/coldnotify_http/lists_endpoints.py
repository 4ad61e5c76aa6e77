"""Lists over all matchers and gateways at any HTTP node: groups, clients, gateways, matchers, and a search by name.

They are filtered, sorted and paged here and there, so that a page asks once, however much there is. A process without
an answer is named, and no zeros are shown of it.
"""

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aiohttp import web
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.sorted_lists import KINDS, Listed, ListKind, ListRequest, Place, listed, merged
from coldnotify_common.http.web import BadRequest, Handler, error_response
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.http.web_shares import who_asks
from coldnotify_common.security.fair_turns import Turns
from coldnotify_common.security.identity import Identity
from coldnotify_common.security.shared import Who
from coldnotify_schemas.names import check_name
from coldnotify_schemas.protocol import ITEMS_PER_PAGE_MAX

from coldnotify_http.ledger_endpoints import later, sees_addresses
from coldnotify_http.node_client import NO_MATCHER, NodeAnswer, NodeClient, good, path
from coldnotify_http.overview_endpoints import AnsweredPartitions

LISTS_MAX = 16
"""Lists under way; each asks all processes."""
LISTS_OF_ONE_MAX = 4
LIST_TURN_S = 2.0
"""For which one waits for those before it."""
CLIENTS_ASKED_MAX = 5_000
"""Clients of an address that matchers are asked about: what a body of theirs has room for."""
_NOT_FOUND = 404
_OLD = "is of a release without lists"

Row = dict[str, Any]


class ListsEndpoints:
    """The handlers."""

    def __init__(self, asking: NodeClient, overdue_s: int) -> None:
        self._asking = asking
        self._overdue_s = overdue_s
        self._turns = Turns(LISTS_MAX, LISTS_OF_ONE_MAX)
        self._answered = AnsweredPartitions()

    def routes(self) -> list[web.AbstractRouteDef]:
        """The endpoints' routes."""
        return [
            web.get("/v1/groups", self._in_turn(self.groups)),
            web.get("/v1/domains/{domain}/groups", self._in_turn(self.groups)),
            web.get("/v1/clients", self._in_turn(self.clients)),
            web.get("/v1/search", self._in_turn(self.search)),
            web.get("/v1/gateways", self._in_turn(self.gateways)),
            web.get("/v1/matchers", self._in_turn(self.matchers)),
        ]

    async def groups(self, request: web.Request) -> web.Response:
        """GET /v1/groups and /v1/domains/{domain}/groups: sums over each group, of all domains or of this one."""
        bounds: Row = {"overdue_s": self._overdue_s}
        if (domain := request.match_info.get("domain")) is not None:
            bounds["domains"] = [check_name("domain", domain)]
        return await self._of_matchers(request, "groups", bounds)

    async def search(self, request: web.Request) -> web.Response:
        """GET /v1/search?text: whatever has such a name."""
        if not request.query.get("text", "").strip():
            raise BadRequest("text", "is missing")
        return await self._of_matchers(request, "search", {})

    async def clients(self, request: web.Request) -> web.Response:
        """GET /v1/clients: clients of all groups. Addresses are known to gateways, and shown to operators."""
        if not request.query.get("address"):
            return await self._of_matchers(request, "clients", {})
        if not sees_addresses(request):
            return error_response(403, "address: is for operators (who may publish to all domains)", field="address")
        asked = KINDS["clients"].of(request)
        answers = await self._asking.every_gateway(
            path("sessions", address=asked.parts["address"], limit=ITEMS_PER_PAGE_MAX), who=who_asks(request)
        )
        keys: dict[str, None] = {}
        partial = False
        for _, body in good(answers):
            partial |= body["next"] is not None
            # A gateway of the release before returns all of them.
            found = (one for one in body["items"] if asked.has("address", one["address"]))
            keys |= {f"{one['domain']}/{one['group']}/{one['client']}": None for one in found}
        partial |= len(keys) > CLIENTS_ASKED_MAX
        gateways = _processes(answers)
        if answers and all(one["error"] for one in gateways):
            return later("; ".join(f"gateway {one['address']}: {one['error']}" for one in gateways))
        bounds = {"clients": list(keys)[:CLIENTS_ASKED_MAX]}
        return await self._of_matchers(request, "clients", bounds, {"gateways": gateways}, partial=partial)

    async def gateways(self, request: web.Request) -> web.Response:
        """GET /v1/gateways, for operators."""
        return await self._of_processes(request, "gateways", self._asking.every_gateway, path("gateway"), _gateway)

    async def matchers(self, request: web.Request) -> web.Response:
        """GET /v1/matchers, for operators."""
        return await self._of_processes(request, "matchers", self._asking.every_matcher, path("partitions"), _matcher)

    def _in_turn(self, handler: Handler) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                async with self._turns.turn(who_asks(request), LIST_TURN_S):
                    return await handler(request)
            except TimeoutError:
                return later("other lists are being made, and only some at a time")

        return handle

    async def _of_matchers(
        self,
        request: web.Request,
        kind: str,
        bounds: Row,
        more: Mapping[str, Any] | None = None,
        *,
        partial: bool = False,
    ) -> web.Response:
        """Returns one page of all matchers' lists. `more`: further fields."""
        asked = KINDS[kind].of(request)
        identity: Identity | None = request.get(IDENTITY)
        if identity is not None and not identity.is_operator:
            # Who asks for one domain was asked whether he may look at it.
            bounds = {"domains": identity.publishes} | bounds
        if not self._asking.matchers:
            return later(NO_MATCHER)
        query = {name: value for name, value in request.query.items() if name != "address"}
        answers = await self._asking.every_matcher(
            path(kind, **query), "POST", json.dumps(bounds).encode(), who=who_asks(request)
        )
        matchers = _processes(answers)
        operator = sees_addresses(request)
        if all(one["error"] for one in matchers):
            why = "; ".join(f"matcher {one['address']}: {one['error']}" for one in matchers)
            return later(why if operator else "no matcher answers at the moment")
        bodies = [body for _, body in good(answers)]
        now_ms = time.time_ns() // 1_000_000
        page = merged([_listed(body) for body in bodies], asked)
        rows = [row for _, row in page.items]
        if kind == "clients":
            await self._add_sessions(rows, who_asks(request), operator=operator)
        shown: Row = {
            "items": rows,
            "next": page.next,
            "count": page.total,
            "partial": partial or any(body["partial"] for body in bodies),
            "partitions": self._answered.counted(answers, now_ms),
            "matchers": matchers if operator else _unnamed(matchers),
            "now_ms": now_ms,
        }
        return json_answer(shown | dict(more or {}))

    async def _add_sessions(self, rows: list[Row], who: Who, *, operator: bool) -> None:
        """Asks gateways for the addresses and ages of the sessions on a page. None: not known, or not shown."""
        sessions: dict[str, list[int]] = defaultdict(list)
        for row in rows:
            if row["gateway"] is not None:
                sessions[row["gateway"]].append(row["session"])
        known: dict[tuple[str, int], Row] = {}
        if sessions:
            body = json.dumps({"gateways": sessions}).encode()
            for _, shown in good(await self._asking.every_gateway(path("sessions"), "POST", body, who=who)):
                known |= {(shown["gateway"], one["session"]): one for one in shown["items"]}
        for row in rows:
            session = known.get((row["gateway"], row["session"]), {})
            row["address"] = session.get("address") if operator else None
            row["age_s"] = session.get("age_s")

    async def _of_processes(
        self,
        request: web.Request,
        kind: str,
        every: Callable[..., Any],
        state_path: str,
        show: Callable[[Mapping[str, Any]], Row],
    ) -> web.Response:
        identity = request.get(IDENTITY)
        if identity is not None and not identity.is_operator:
            return error_response(403, f"{identity.name} is no operator (who may publish to all domains)")
        asked = KINDS[kind].of(request)
        who = who_asks(request)
        states, facts = await asyncio.gather(every(state_path, who=who), every(path("process"), who=who))
        rows = [_process(state, fact, show) for state, fact in zip(states, facts, strict=True)]
        page = listed(_fitting(rows, asked, KINDS[kind]), asked)
        shown = {"items": [row for _, row in page.items], "next": page.next, "count": page.total}
        return json_answer(shown | {"now_ms": time.time_ns() // 1_000_000})


def _listed(body: Mapping[str, Any]) -> Listed:
    items = [(Place(*row.pop("place")), row) for row in body["items"]]
    return Listed(items, body["count"], body["more"])


def _processes(answers: Sequence[NodeAnswer]) -> list[Row]:
    return [{"address": one.address, "error": _error(one)} for one in answers]


def _error(answer: NodeAnswer) -> str | None:
    if answer.status == 200:
        return None
    return _OLD if answer.status in (_NOT_FOUND, 405) else answer.error


def _unnamed(processes: list[Row]) -> list[Row]:
    return [{"address": f"#{number}", "error": one["error"] and "no answer"} for number, one in enumerate(processes, 1)]


def _process(state: NodeAnswer, facts: NodeAnswer, show: Callable[[Mapping[str, Any]], Row]) -> Row:
    """Returns one process. What it does not say is None: it does not answer, or is of an older release."""
    about = facts.body if facts.status == 200 and isinstance(facts.body, dict) else {}
    shown = show(state.body if state.status == 200 and isinstance(state.body, dict) else {})
    ready = about.get("ready", shown.pop("ready"))
    words, error = "ready", None
    if not state.status and not facts.status:
        words, error = "silent", state.error
    elif state.status != 200 or ready is False:
        words, error = "not_ready", about.get("not_ready") or (None if state.status == 200 else state.error)
    known = {name: about.get(name) for name in ("version", "started_ms", "uptime_s", "cpu")}
    return {"address": state.address, "state": words, "error": error, **known, **shown}


def _gateway(body: Mapping[str, Any]) -> Row:
    partitions = body.get("partitions")
    sessions = None if partitions is None else sum(one["sessions"] for one in partitions)
    shown = {name: body.get(name) for name in ("gateway", "connections", "ready")}
    return shown | {"sessions": sessions}


def _matcher(body: Mapping[str, Any]) -> Row:
    items = body.get("items")
    served = [one for one in items or [] if one["phase"] == "owned"]
    names = ("clients", "online", "objects")
    sums = {name: None if items is None else sum(one[name] for one in served) for name in names}
    numbers = None if items is None else [one["partition"] for one in served]
    followed = None if items is None else len(items) - len(served)
    return {"ready": None, "partitions": numbers, "following": followed, **sums}


def _fitting(rows: Iterable[Row], asked: ListRequest, kind: ListKind) -> Iterable[tuple[Place, Row]]:
    for row in rows:
        fits = asked.has("address", row["address"]) and asked.has("id", row.get("gateway") or "")
        if fits and asked.state in ("", row["state"]) and asked.within(row["started_ms"]):
            yield Place(_value(row, asked.sort, kind), row["address"]), row


def _value(row: Row, sort: str, kind: ListKind) -> str | int:
    if sort in kind.texts:
        return row[sort] or ""
    value = row[{"started": "started_ms"}.get(sort, sort)]
    if value is None:
        return -1
    if isinstance(value, list):
        return len(value)
    return round(value * 1000) if sort == "cpu" else int(value)
