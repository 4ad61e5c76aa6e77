"""Endpoints that show the gateway, its partitions and its sessions. They return JSON, and lists in pages."""

from typing import Annotated, cast

import msgspec
from aiohttp import web
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.list_pages import page, page_request
from coldnotify_common.http.sorted_lists import text_part
from coldnotify_common.http.web import BadRequest, error_response
from coldnotify_schemas.names import check_name
from coldnotify_schemas.protocol import ITEMS_PER_PAGE_MAX
from coldnotify_schemas.records import VERSION_MAX

from coldnotify_gateway.core import Gateway, Identified
from coldnotify_gateway.core.freshness import age_known_s
from coldnotify_gateway.core.stream import or_none
from coldnotify_gateway.device_connection import DeviceConnection
from coldnotify_gateway.metrics import Running
from coldnotify_gateway.service import GatewayService

_KEY_DIGITS = 10
"""Digits of a session's number as the key of a list, because keys must sort as text in the order of the numbers."""


def routes(running: Running) -> list[web.AbstractRouteDef]:
    """GET /v1/gateway, /v1/sessions?limit&after&address, /v1/domains/{domain}/groups/{group}/clients/{client}; and POST
    /v1/sessions, which returns the sessions with some numbers."""

    async def gateway(_request: web.Request) -> web.Response:
        service, core = _present(running)
        return json_answer(_show_gateway(service, core))

    async def sessions(request: web.Request) -> web.Response:
        limit, after = page_request(request.query)
        service, core = _present(running)
        part = text_part("address", request.query.get("address", ""))
        found = (session for session in core.sessions() if part in session.address.lower())
        by_key = {f"{session.number:0{_KEY_DIGITS}d}": session for session in found}
        return json_answer(page(list(by_key), limit, after, lambda key: _show_session(service, by_key[key])))

    async def some_sessions(request: web.Request) -> web.Response:
        numbers = _numbers(await request.read())
        service, core = _present(running)
        shown = f"{core.id:016x}"
        wanted = set(numbers.get(shown, ()))
        items = [_show_session(service, one) for one in core.sessions() if one.number in wanted]
        return json_answer({"gateway": shown, "items": items})

    async def client(request: web.Request) -> web.Response:
        wanted = tuple(check_name(field, request.match_info[field]) for field in ("domain", "group", "client"))
        service, core = _present(running)
        found = [one for one in core.sessions() if (one.domain, one.group, one.client) == wanted]
        if not found:
            return error_response(404, f"{'/'.join(wanted)} has no session at this gateway")
        return json_answer({"sessions": [_show_session(service, session) for session in found]})

    return [
        web.get("/v1/gateway", gateway),
        web.get("/v1/sessions", sessions),
        web.post("/v1/sessions", some_sessions),
        web.get("/v1/domains/{domain}/groups/{group}/clients/{client}", client),
    ]


_Number = Annotated[int, msgspec.Meta(ge=0, le=VERSION_MAX)]


class _Wanted(msgspec.Struct, forbid_unknown_fields=True):
    gateways: dict[str, Annotated[list[_Number], msgspec.Meta(max_length=ITEMS_PER_PAGE_MAX)]]


def _numbers(body: bytes) -> dict[str, list[int]]:
    """Returns the numbers of sessions by the id of their gateway. Raises BadRequest."""
    try:
        return msgspec.json.decode(body, type=_Wanted).gateways
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest("gateways", f"is not {{id: [number, ...]}}: {error}") from None


def _present(running: Running) -> tuple[GatewayService, Gateway]:
    service = running.service
    if service is None or service.gateway is None:
        raise web.HTTPServiceUnavailable(text="the gateway is not up yet")
    return service, service.gateway


def _show_gateway(service: GatewayService, gateway: Gateway) -> dict[str, object]:
    return {
        "gateway": f"{gateway.id:016x}",
        "inbox": gateway.inbox,
        "host": service.host,
        **service.ports,
        "connections": gateway.connection_count,
        "ready": service.readiness() is None,
        "stale": gateway.stale_sessions(service.now_s()),
        "partitions": [
            {
                "partition": view.partition,
                "generation": view.generation,
                "number": view.number,
                "position": or_none(view.position),
                "sessions": len(view.sessions),
                "live": sum(map(len, view.live.values())),
            }
            for view in gateway.views
        ],
    }


def _show_session(service: GatewayService, session: Identified) -> dict[str, object]:
    return {
        "session": session.number,
        "domain": session.domain,
        "group": session.group,
        "client": session.client,
        "state": session.state.name.lower(),
        "partition": session.view.partition,
        "epoch": session.objects.epoch,
        "complete": or_none(session.complete_in(session.objects)),
        "acked": or_none(session.objects.acked),
        "age_s": age_known_s(session.oldest_s, service.now_s()),
        "names": session.dialect.by_name,
        "address": session.address,
        "since_ms": round((session.connected_s + service.clock_offset_s) * 1000),
        "heard_ms": round((session.heard_s + service.clock_offset_s) * 1000),
        "buffered_bytes": cast(DeviceConnection, session.peer).buffered_bytes,
    }
