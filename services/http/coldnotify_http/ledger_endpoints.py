"""The delivery ledger at any HTTP node: who lacks a version, and why a client does; asked of matcher and gateways."""

import asyncio

from aiohttp import web
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.list_pages import page_request
from coldnotify_common.http.web import Handler, error_response
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.http.web_shares import who_asks
from coldnotify_common.security.fair_turns import Turns
from coldnotify_common.security.shared import Who
from coldnotify_schemas.names import check_name, check_object

from coldnotify_http.explaining import AtGateway, Row, explain
from coldnotify_http.node_client import NobodyAnswers, NodeAnswer, NodeClient, good, path
from coldnotify_http.request_parts import domain_and_group

RETRY_AFTER_S = 1
NOBODY = "no matcher serves this group at the moment"
GROUP = "/v1/domains/{domain}/groups/{group}"
QUERIES_MAX = 16
"""One-time queries under way; of each identity one at a time, since a matcher evaluates one at a time of all."""
QUERY_TURN_S = 1.5
"""For which one waits for those before it; a matcher lets it wait as long for others'."""


def routes(asking: NodeClient) -> list[web.AbstractRouteDef]:
    """GET endpoints below /v1."""
    ledger = _Ledger(asking)
    return [
        web.get(f"{GROUP}/objects/{{object:(?s:.+)}}/lacking", answered(ledger.of_object)),
        web.get(f"{GROUP}/objects/{{object:(?s:.+)}}/subscribers", answered(ledger.of_object)),
        web.get(f"{GROUP}/clients/{{client}}/explanation", answered(ledger.explanation)),
        web.get(f"{GROUP}/clients", answered(ledger.passed_on)),
        web.get(f"{GROUP}/clients/{{client}}", answered(ledger.passed_on)),
        web.get(f"{GROUP}/matrix", answered(ledger.passed_on)),
        web.get(f"{GROUP}/queries", answered(ledger.passed_on)),
        web.get(f"{GROUP}/channels", answered(ledger.passed_on)),
        web.get(f"{GROUP}/channels/{{channel:(?s:.+)}}/shares/{{share}}", answered(ledger.passed_on)),
        web.get(f"{GROUP}/channels/{{channel:(?s:.+)}}", answered(ledger.passed_on)),
        web.get(f"{GROUP}/objects", answered(ledger.objects)),
        web.get(f"{GROUP}/objects/{{object:(?s:.+)}}", answered(ledger.passed_on)),
    ]


def answered(handler: Handler) -> Handler:
    """Answers 503 with Retry-After if no matcher can answer; operators are told which of them, and why."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except NobodyAnswers as error:
            return later(str(error) if sees_addresses(request) else NOBODY)

    return handle


class _Ledger:
    def __init__(self, asking: NodeClient) -> None:
        self._asking = asking
        self._queries = Turns(QUERIES_MAX, of_one=1)

    async def of_object(self, request: web.Request) -> web.Response:
        """GET .../objects/{object}/lacking?version&limit&after and /subscribers?limit&after."""
        check_object(request.match_info["object"])
        return await self.passed_on(request)

    async def explanation(self, request: web.Request) -> web.Response:
        """GET .../clients/{client}/explanation?object."""
        who = who_asks(request)
        domain, group = domain_and_group(request)
        client = check_name("client", request.match_info["client"])
        object_name = request.query.get("object")
        base = ("domains", domain, "groups", group, "clients", client)
        matcher, gateways = await asyncio.gather(
            self._asking.matcher(path(*base, "explanation", object=object_name), who=who),
            self._at_gateways(path(*base), who),
        )
        if matcher.status != 200:
            return as_it_is(matcher)
        sessions, silent = gateways
        if not sees_addresses(request):
            sessions = [one._replace(address="", session=_without_address(one.session)) for one in sessions]
            silent = [f"#{i}: no answer" for i in range(1, len(silent) + 1)]
        explanation = explain(matcher.body, sessions, object_name=object_name)
        asked = {"domain": domain, "group": group, "client": client, "object": object_name}
        known = {name: matcher.body[name] for name in ("partition", "generation", "position", "now_ms")}
        details = {"client_state": matcher.body["client"], "object_state": matcher.body["object"]}
        return json_answer({**asked, **explanation, **known, **details, "gateways_silent": silent})

    async def objects(self, request: web.Request) -> web.Response:
        """GET .../objects?query&prefix&from&to&names&limit&after: all, or those that fit."""
        if "query" not in request.query:
            answer = await self._passed_on(request)
            if answer.status == 200 and "names" in request.query and "as_of" not in answer.body:
                raise NobodyAnswers("the matcher that serves this group is of a release without names")
            return as_it_is(answer)
        try:
            async with self._queries.turn(who_asks(request), QUERY_TURN_S):
                answer = await self._passed_on(request)
        except TimeoutError:
            return later("your other queries are being evaluated, and only one at a time")
        if answer.status == 200 and "query" not in answer.body:
            raise NobodyAnswers("the matcher that serves this group is of a release without queries")
        return as_it_is(answer)

    async def passed_on(self, request: web.Request) -> web.Response:
        """The same question to the matcher that serves the group."""
        return as_it_is(await self._passed_on(request))

    async def _passed_on(self, request: web.Request) -> NodeAnswer:
        domain_and_group(request)
        page_request(request.query)
        return await self._asking.matcher(request.rel_url.raw_path_qs, who=who_asks(request))

    async def _at_gateways(self, path_: str, who: Who) -> tuple[list[AtGateway], list[str]]:
        """(sessions of the client, gateways that could not be asked)."""
        answers, identities = await asyncio.gather(
            self._asking.every_gateway(path_, who=who), self._asking.every_gateway(path("gateway"), who=who)
        )
        ids = {address: body["gateway"] for address, body in good(identities)}
        sessions = [
            AtGateway(address, ids[address], session)
            for address, body in good(answers)
            if address in ids
            for session in body["sessions"]
        ]
        return sessions, [f"{one.address}: {one.error}" for one in answers if one.status not in (200, 404)]


def later(words: str) -> web.Response:
    """Returns a 503 with Retry-After."""
    response = error_response(503, words)
    response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response


def sees_addresses(request: web.Request) -> bool:
    """Returns true if the caller is an operator, or if callers need not authenticate."""
    identity = request.get(IDENTITY)
    return identity is None or identity.is_operator


def _without_address(session: Row) -> Row:
    return {name: value for name, value in session.items() if name != "address"}


def as_it_is(answer: NodeAnswer) -> web.Response:
    """Passes a matcher's answer on."""
    return json_answer(answer.body, status=answer.status)
