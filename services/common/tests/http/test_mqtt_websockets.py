"""Handshakes that offer the subprotocol of MQTT, or do not, and the probes of their connections."""

import asyncio
import json
import socket
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import hdrs, web
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request
from coldnotify_common.dead_peers import PROBED_AFTER_S
from coldnotify_common.http.mqtt_websockets import PATH, probe, refusal
from multidict import CIMultiDict


def offering(*headers: str) -> web.Request:
    named = CIMultiDict((hdrs.SEC_WEBSOCKET_PROTOCOL, header) for header in headers)
    return make_mocked_request("GET", PATH, headers=named)


@pytest.mark.parametrize("headers", [["mqtt"], ["mqttv3.1, mqtt"], ["chat", "mqtt,chat"]])
def test_it_is_offered_anywhere_in_the_list(headers: Sequence[str]) -> None:
    assert refusal(offering(*headers)) is None


@pytest.mark.parametrize("headers", [[], [""], ["mqttv3.1"], ["MQTT"], ["chat", "mqtt5"]])
def test_others_are_refused_by_the_headers_name(headers: Sequence[str]) -> None:
    refused = refusal(offering(*headers))
    assert refused is not None
    assert (refused.status, json.loads(refused.text or "")["field"]) == (400, "Sec-WebSocket-Protocol")


async def test_tcp_probes_the_connection_of_the_request() -> None:
    found: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        probe(request)
        assert request.transport is not None
        connection = request.transport.get_extra_info("socket")
        found.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE))
        return web.Response()

    app = web.Application()
    app.add_routes([web.get(PATH, answer)])
    async with TestClient(TestServer(app)) as client, client.get(PATH) as answered:
        assert answered.status == 200
    assert found == [PROBED_AFTER_S]


class ClosedTransport(asyncio.Transport):
    """Its socket is closed already."""

    def __init__(self) -> None:
        gone = socket.socket()
        gone.close()
        super().__init__({"socket": gone})


def test_a_client_that_has_gone_is_not_probed() -> None:
    probe(make_mocked_request("GET", PATH, transport=ClosedTransport()))
