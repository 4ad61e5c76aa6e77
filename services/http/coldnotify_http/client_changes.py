"""The endpoints by which operators disconnect and forget clients, and forget shares: passed on to their matcher, and
noted in the log."""

import structlog
from aiohttp import web
from coldnotify_common.http.web import BadRequest, error_response
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.http.web_shares import who_asks
from coldnotify_schemas.names import InvalidName, check_name, check_object
from coldnotify_schemas.share_names import check_share

from coldnotify_http.ledger_endpoints import GROUP, NOBODY, RETRY_AFTER_S, as_it_is, sees_addresses
from coldnotify_http.metrics import ACKNOWLEDGED, FORGET_SHARE, INDETERMINATE, REFUSED, Metrics
from coldnotify_http.node_client import NobodyAnswers, NodeAnswer, NodeClient
from coldnotify_http.request_parts import Bodies, domain_and_group

log = structlog.get_logger()

NOT_DONE, MAY_BE_DONE = "not done", "unknown: it may be done"
_NOT_ALLOWED, _UNAVAILABLE = 405, 503
_CHANGES = {"PATCH": "disconnect", "DELETE": "forget"}


class ClientChanges:
    """The handlers. Each request leaves a line in the log, whoever asks and whatever comes of it."""

    def __init__(self, changing: NodeClient, metrics: Metrics, bodies: Bodies) -> None:
        """`changing`: waits for as long as a publish may take."""
        self._changing = changing
        self._metrics = metrics
        self._bodies = bodies

    def routes(self) -> list[web.AbstractRouteDef]:
        """PATCH and DELETE of one client, and DELETE of one share."""
        path, share = f"{GROUP}/clients/{{client}}", f"{GROUP}/channels/{{channel:(?s:.+)}}/shares/{{share}}"
        return [
            web.patch(path, self.changed),
            web.delete(path, self.changed),
            web.delete(share, self.share_forgotten),
        ]

    async def changed(self, request: web.Request) -> web.Response:
        """PATCH, with {"online": false}, or DELETE .../clients/{client}?reason."""
        try:
            domain, group = domain_and_group(request)
            client = check_name("client", request.match_info["client"])
            body = await self._bodies.one(request, outcome=NOT_DONE) if request.method == "PATCH" else None
        except (BadRequest, InvalidName, web.HTTPException):
            self._metrics.bad_requests.inc()
            raise
        about = {"domain": domain, "group": group, "client": client}
        return await self._passed_on(request, _CHANGES[request.method], about, body)

    async def share_forgotten(self, request: web.Request) -> web.Response:
        """DELETE .../channels/{channel}/shares/{share}?reason."""
        try:
            domain, group = domain_and_group(request)
            channel = check_object(request.match_info["channel"], "channel")
            share = check_share(request.match_info["share"], channel)
        except (BadRequest, InvalidName, web.HTTPException):
            self._metrics.bad_requests.inc()
            raise
        about = {"domain": domain, "group": group, "channel": channel, "share": share}
        return await self._passed_on(request, FORGET_SHARE, about, None)

    async def _passed_on(
        self, request: web.Request, change: str, about: dict[str, str], body: bytes | None
    ) -> web.Response:
        try:
            asked, who = request.rel_url.raw_path_qs, who_asks(request)
            answer = await self._changing.matcher(asked, request.method, body, who=who)
            outcome = ACKNOWLEDGED if answer.status == 200 else REFUSED
            response, said = as_it_is(answer), answer.body.get("outcome") or answer.error
        except NobodyAnswers as error:
            unknown = any(map(_may_be_done, error.answers))
            outcome, said = INDETERMINATE if unknown else REFUSED, MAY_BE_DONE if unknown else NOT_DONE
            response = error_response(503, str(error) if sees_addresses(request) else NOBODY, outcome=said)
            response.headers["Retry-After"] = str(RETRY_AFTER_S)
        self._metrics.changes.labels(change, outcome).inc()
        identity = request.get(IDENTITY)
        log.info(
            f"{'share' if change == FORGET_SHARE else 'client'} changed by an operator", change=change, **about,
            by=None if identity is None else identity.name, address=request.remote,
            reason=request.query.get("reason") or None, status=response.status, outcome=said,
        )  # fmt: skip
        return response


def _may_be_done(answer: NodeAnswer) -> bool:
    """Returns true unless it is known that this matcher has done nothing."""
    if answer.status == _UNAVAILABLE:
        return isinstance(answer.body, dict) and answer.body.get("outcome") == MAY_BE_DONE
    return answer.reached and answer.status != _NOT_ALLOWED
