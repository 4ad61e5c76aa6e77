"""The endpoint of an object's description: the matcher that serves the object reads and changes it.

A change is not written here, because only the matcher knows the description into which it is merged.
"""

from aiohttp import web
from coldnotify_common.http.web import BadRequest, error_response
from coldnotify_common.http.web_auth import checks_names
from coldnotify_common.http.web_shares import who_asks
from coldnotify_common.tenancy.gate import GateRefused
from coldnotify_schemas.descriptions import parse_description, parse_patch
from coldnotify_schemas.names import InvalidName
from coldnotify_schemas.records import InvalidRecord

from coldnotify_http.bodies import object_of_path
from coldnotify_http.entrance import HttpAdmission
from coldnotify_http.ledger_endpoints import GROUP, NOBODY, RETRY_AFTER_S, answered, as_it_is, sees_addresses
from coldnotify_http.metrics import (
    ABOVE_AGREEMENT,
    ACKNOWLEDGED,
    CONFLICT,
    DESCRIPTION,
    INDETERMINATE,
    REFUSED,
    Metrics,
)
from coldnotify_http.node_client import NobodyAnswers, NodeAnswer, NodeClient
from coldnotify_http.own_names import check_described
from coldnotify_http.refusals import refusal
from coldnotify_http.request_parts import Bodies, domain_and_group

NOT_WRITTEN, MAY_BE_WRITTEN = "not written", "unknown: it may be written"
_END = "/description"
_NOT_ALLOWED, _UNAVAILABLE = 405, 503
_OUTCOMES = {200: ACKNOWLEDGED, 400: REFUSED, 409: CONFLICT}


class DescribingEndpoints:
    """The handlers."""

    def __init__(
        self,
        asking: NodeClient,
        changing: NodeClient,
        metrics: Metrics,
        bodies: Bodies,
        admission: HttpAdmission | None = None,
    ) -> None:
        """`changing`: waits for as long as a publish may take."""
        self._admission = admission
        self._asking = asking
        self._changing = changing
        self._metrics = metrics
        self._bodies = bodies

    def routes(self) -> list[web.AbstractRouteDef]:
        """GET, PUT, PATCH and DELETE. They go before those that take any path for an object's name."""
        path = f"{GROUP}/objects/{{object:(?s:.+)}}{_END}"
        return [
            web.get(path, answered(self.description)),
            web.put(path, self.changed),
            web.patch(path, self.changed),
            web.delete(path, self.changed),
        ]

    async def description(self, request: web.Request) -> web.Response:
        """GET .../objects/{object}/description."""
        _check_names(request)
        return as_it_is(await self._asking.matcher(request.rel_url.raw_path_qs, who=who_asks(request)))

    @checks_names
    async def changed(self, request: web.Request) -> web.Response:
        """PUT (the whole map), PATCH (a JSON merge patch) or DELETE .../objects/{object}/description?if_revision."""
        try:
            domain, group = _check_names(request)
            # The matcher takes the object's name from the path as it is taken here.
            check_described(request, domain, group, request.match_info["object"])
            body = await self._body(request)
        except (BadRequest, InvalidName, web.HTTPException):
            self._metrics.bad_requests.inc()
            raise
        if self._admission is not None:
            # A description is a publish, too; its key and value are about as long as path and body.
            size_bytes = len(request.rel_url.raw_path) + len(body or b"")
            admitted = self._admission.admit(request.match_info["domain"], 1, size_bytes)
            if isinstance(admitted, GateRefused):
                self._metrics.changes.labels(DESCRIPTION, ABOVE_AGREEMENT).inc()
                return refusal(admitted, NOT_WRITTEN)
        try:
            asked, who = request.rel_url.raw_path_qs, who_asks(request)
            answer = await self._changing.matcher(asked, request.method, body, who=who)
        except NobodyAnswers as error:
            unknown = any(map(_may_have_written, error.answers))
            self._metrics.changes.labels(DESCRIPTION, INDETERMINATE if unknown else REFUSED).inc()
            outcome = MAY_BE_WRITTEN if unknown else NOT_WRITTEN
            response = error_response(503, str(error) if sees_addresses(request) else NOBODY, outcome=outcome)
            response.headers["Retry-After"] = str(RETRY_AFTER_S)
            return response
        self._metrics.changes.labels(DESCRIPTION, _OUTCOMES.get(answer.status, INDETERMINATE)).inc()
        return as_it_is(answer)

    async def _body(self, request: web.Request) -> bytes | None:
        """Returns the body, checked as far as possible without the present description."""
        if request.method == "DELETE":
            return None
        body = await self._bodies.one(request, outcome=NOT_WRITTEN)
        try:
            if request.method == "PUT":
                parse_description(body)
            else:
                parse_patch(body)
        except InvalidRecord as error:
            field, _, words = str(error).partition(": ")
            raise BadRequest(field, words) from None
        return body


def _check_names(request: web.Request) -> tuple[str, str]:
    domain, group = domain_and_group(request)
    object_of_path(request.rel_url.raw_path.removesuffix(_END))
    return domain, group


def _may_have_written(answer: NodeAnswer) -> bool:
    """Returns true unless it is known that this matcher has written nothing."""
    if answer.status == _UNAVAILABLE:
        return isinstance(answer.body, dict) and answer.body.get("outcome") == MAY_BE_WRITTEN
    return answer.reached and answer.status != _NOT_ALLOWED
