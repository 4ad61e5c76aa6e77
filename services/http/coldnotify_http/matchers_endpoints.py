"""Partitions of all matchers, and removals that wait there, at any HTTP node. For operators."""

from typing import Any

from aiohttp import web
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.web import error_response
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.http.web_shares import who_asks

from coldnotify_http.ledger_endpoints import as_it_is, later
from coldnotify_http.node_client import NO_MATCHER, NodeAnswer, NodeClient
from coldnotify_http.request_parts import Bodies

PARTITIONS, REMOVALS = "/v1/partitions", "/v1/removals"
_REFUSED = (400, 409)
"""Statuses by which a matcher refuses what all would refuse: an invalid body, or clocks that are apart."""


class MatchersEndpoints:
    """The handlers. Answers contain the rows of all matchers, and a line for each matcher."""

    def __init__(self, asking: NodeClient, bodies: Bodies) -> None:
        self._asking = asking
        self._bodies = bodies

    def routes(self) -> list[web.AbstractRouteDef]:
        """GET /v1/partitions, GET and PATCH /v1/removals."""
        return [web.get(PARTITIONS, self.ask), web.get(REMOVALS, self.ask), web.patch(REMOVALS, self.ask)]

    async def ask(self, request: web.Request) -> web.Response:
        """Passes the request to all matchers. The answer is 200 if one of them has done what was asked."""
        identity = request.get(IDENTITY)
        if identity is not None and not identity.is_operator:
            return error_response(403, f"{identity.name} is no operator (who may publish to all domains)")
        body = await self._bodies.one(request) if request.method == "PATCH" else None
        who = who_asks(request)
        return _together(await self._asking.every_matcher(request.path, request.method, body, who=who))


def _together(answers: list[NodeAnswer]) -> web.Response:
    done = [one for one in answers if one.status == 200]
    if not done:
        for refusal in (one for one in answers if one.status in _REFUSED):
            return as_it_is(refusal)
        why = "; ".join(f"matcher {one.address}: {one.error}" for one in answers)
        return later(why or NO_MATCHER)
    rows = [{"matcher": one.address, **row} for one in done for row in one.body["items"]]
    rows.sort(key=lambda row: (row["partition"], row["matcher"]))
    return json_answer({"items": rows, "matchers": [_matcher(one) for one in answers]})


def _matcher(answer: NodeAnswer) -> dict[str, Any]:
    if answer.status != 200:
        return {"address": answer.address, "error": answer.error}
    return {"address": answer.address, "error": None} | {n: v for n, v in answer.body.items() if n != "items"}
