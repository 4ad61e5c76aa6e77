"""The endpoint that starts an object's versions over, if its newest version is the one that who asks has seen."""

from typing import Any

import msgspec
import structlog
from aiohttp import web
from coldnotify_common.http.web import BadRequest, error_response
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.http.web_shares import who_asks
from coldnotify_schemas.names import InvalidName, check_object
from coldnotify_schemas.records import InvalidRecord, name_the_field, parse_headed_record

from coldnotify_http.ledger_endpoints import GROUP, answered, as_it_is
from coldnotify_http.metrics import Metrics
from coldnotify_http.node_client import NodeClient, path
from coldnotify_http.publishing import PublishEndpoints
from coldnotify_http.request_parts import domain_and_group

log = structlog.get_logger()


class SeenVersion(msgspec.Struct, forbid_unknown_fields=True):
    """The newest version, as who asks has seen it."""

    version: int
    incarnation: int = 0


class Reset(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request."""

    object: str
    newest: SeenVersion
    version: int = 0
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    payload_base64: str | msgspec.UnsetType = msgspec.UNSET


class Resetting:
    """The handler. Each reset leaves a line in the log."""

    def __init__(self, publishing: PublishEndpoints, asking: NodeClient, metrics: Metrics) -> None:
        self._publishing = publishing
        self._asking = asking
        self._metrics = metrics

    def routes(self) -> list[web.AbstractRouteDef]:
        """POST .../resets."""
        return [web.post(f"{GROUP}/resets", answered(self.reset))]

    async def reset(self, request: web.Request) -> web.Response:
        """POST .../resets: {"object", "newest": {"version", "incarnation"}, "version", "payload"}.

        The record has the next incarnation. So a reset requires knowledge of the newest version, and cannot happen
        twice.
        """
        try:
            domain, group = domain_and_group(request)
            body = await self._publishing.bodies.one(request)
            wanted = _parse(body)
        except (BadRequest, InvalidName, web.HTTPException):
            self._metrics.bad_requests.inc()
            raise
        asked = path("domains", domain, "groups", group, "objects", wanted.object)
        known = await self._asking.matcher(asked, who=who_asks(request))
        if known.status != 200:
            return as_it_is(known)
        newest = {"version": known.body["version"], "incarnation": known.body["incarnation"]}
        if newest != msgspec.to_builtins(wanted.newest):
            return _other_newest(newest)
        incarnation = newest["incarnation"] + 1
        fields: dict[str, Any] = {"version": wanted.version, "incarnation": incarnation}
        for name in ("payload", "payload_base64"):
            if (said := getattr(wanted, name)) is not msgspec.UNSET:
                fields[name] = said
        try:
            record = parse_headed_record(
                msgspec.json.encode(fields), payload_bytes_max=self._publishing.payload_bytes_max
            )
        except InvalidRecord as error:
            raise _bad_request(str(error)) from None
        response = await self._publishing.publish_one(request, domain, group, (wanted.object, record), len(body))
        identity = request.get(IDENTITY)
        log.info(
            "object reset", domain=domain, group=group, object=wanted.object, incarnation=incarnation,
            version=wanted.version, by=None if identity is None else identity.name, address=request.remote,
            status=response.status,
        )  # fmt: skip
        return response


def _parse(body: bytes) -> Reset:
    try:
        wanted = msgspec.json.decode(body, type=Reset)
    except msgspec.ValidationError as error:
        raise _bad_request(name_the_field(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest("body", f"is not JSON: {error}") from None
    check_object(wanted.object)
    return wanted


def _other_newest(newest: dict[str, Any]) -> web.Response:
    words = "newest: another version is the newest by now, or nothing was published"
    return error_response(409, words, field="newest", newest=newest)


def _bad_request(words: str) -> BadRequest:
    field, _, rest = words.partition(": ")
    return BadRequest(field, rest)
