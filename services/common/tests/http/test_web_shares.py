"""Who asks, as shares count it: an identity, or else a domain, or else an address."""

from typing import Any

import pytest
from aiohttp import ClientSession, TCPConnector, web
from coldnotify_common.http.listening import listening
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.http.web_port import WebPort
from coldnotify_common.http.web_shares import not_now, who_asks
from coldnotify_common.security.identity import ANYBODY, Identity
from coldnotify_common.security.shared import Full

TENANT = Identity("tenant", publishes=("d",))


@pytest.mark.parametrize(
    ("identity", "path", "who"),
    [
        (TENANT, "/d/d", repr(TENANT.who)),
        (ANYBODY, "/d/d", "'d'"),
        (None, "/d/d", "'d'"),
        (ANYBODY, "/all", repr(b"\x7f\x00\x00\x02")),
        (TENANT, "/all", repr(TENANT.who)),
    ],
)
async def test_who_asks(identity: Identity | None, path: str, who: str) -> None:
    async def tell(request: web.Request) -> web.Response:
        if identity is not None:
            request[IDENTITY] = identity
        return web.Response(text=repr(who_asks(request)))

    assert await asked(tell, path) == who
    if path == "/all" and identity is not TENANT:
        assert await asked(tell, path, shared=lambda _address: True) == "None"


async def asked(tell: Any, path: str, **more: Any) -> str:
    app = web.Application()
    app.add_routes([web.get("/d/{domain}", tell), web.get("/all", tell)])
    port = WebPort(app, connections_max=9, silent_max=9, silent_s=60, shutdown_timeout_s=1, **more)
    await port.start(listening("127.0.0.1", 0, setting=""))
    try:
        async with (
            ClientSession(connector=TCPConnector(local_addr=("127.0.0.2", 0))) as http,
            http.get(f"http://127.0.0.1:{port.port}{path}") as answer,
        ):
            return await answer.text()
    finally:
        await port.stop()


def test_the_answer_says_whose_share_is_used_up_and_when_to_come_back() -> None:
    own, all_ = (not_now(full, "2 queries") for full in (Full.OF_ONE, Full.OF_ALL))
    assert (own.status, own.headers["Retry-After"], all_.status) == (503, "1", 503)
    assert (own.text, all_.text) == (
        "you have 2 queries under way already",
        "all together have 2 queries under way already",
    )
