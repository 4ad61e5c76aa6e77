"""Handshakes of WebSockets that carry MQTT: their path, their subprotocol, and the refusal of those without it."""

from contextlib import suppress

from aiohttp import hdrs, web

from coldnotify_common import dead_peers
from coldnotify_common.http.web import error_response

PATH = "/mqtt"
SUBPROTOCOL = "mqtt"


def refusal(request: web.Request) -> web.Response | None:
    """Returns the answer to a handshake that does not offer the subprotocol [MQTT-6.0.0-3]; None: it does."""
    headers = request.headers.getall(hdrs.SEC_WEBSOCKET_PROTOCOL, [])
    if SUBPROTOCOL in (one.strip() for header in headers for one in header.split(",")):
        return None
    words = f"a WebSocket that offers the subprotocol {SUBPROTOCOL} is wanted, see docs/mqtt.md"
    return error_response(400, words, field=hdrs.SEC_WEBSOCKET_PROTOCOL)


def probe(request: web.Request) -> None:
    """Has TCP probe the request's connection, because a client of MQTT 3.1.1 may say no keepalive."""
    if request.transport is not None:
        with suppress(OSError):  # it is gone, which is noticed in the usual way
            dead_peers.probe(request.transport.get_extra_info("socket"))
