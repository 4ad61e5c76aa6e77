"""What an HTTP port says of itself at /."""

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from coldnotify_common.http.about import about


async def _nothing(_request: web.Request) -> web.Response:
    return web.Response()


async def test_it_says_what_it_is_what_it_answers_and_where_the_console_is() -> None:
    routes = [
        web.get("/healthz", _nothing),
        web.post("/v1/sync", _nothing),
        web.put("/v1/lamps/{lamp}", _nothing),
        web.delete("/v1/lamps/{lamp}", _nothing),
        web.options("/v1/sync", _nothing),
    ]
    app = web.Application()
    app.add_routes([about("a lamp", routes), *routes])
    async with TestServer(app) as server, ClientSession() as session, session.get(server.make_url("/")) as answer:
        lines = (await answer.text()).splitlines()
        assert answer.content_type == "text/plain"
    assert lines[:6] == [
        "ColdNotify: a lamp.",
        "",
        "It answers:",
        "  GET /healthz",
        "  POST /v1/sync",
        "  PUT, DELETE /v1/lamps/{lamp}",
    ]
    assert "--http-port" in lines[-1]
