"""The console's files as they are served; what the page does is tested in a real browser, across services."""

from aiohttp import ClientSession, web
from coldnotify_common.http.admin import bound_port, listen
from coldnotify_http import console

_BYTES_MAX = 150_000
"""Of all files together, uncompressed: an operator may look in over a slow link."""


async def test_every_file_is_there_with_its_kind_and_needs_nothing_from_elsewhere() -> None:
    app = web.Application()
    app.add_routes(console.routes())
    runner = await listen(app, "127.0.0.1", 0)
    try:
        async with ClientSession(f"http://127.0.0.1:{bound_port(runner)}") as client:
            kinds, page_bytes = set(), 0
            for path in console.OPEN_PATHS:
                async with client.get(path) as response:
                    assert response.status == 200
                    kinds.add(response.content_type)
                    policy = response.headers["Content-Security-Policy"].split("; ")
                    assert {"default-src 'self'", "form-action 'self'", "frame-ancestors 'none'"} <= set(policy)
                    text = await response.text()
                    page_bytes += len(text.encode())
                    assert "://" not in text.replace("http://www.w3.org/2000/svg", "")
            assert kinds == {"text/html", "text/css", "text/javascript"}
            assert page_bytes < _BYTES_MAX
            async with client.get("/console/../app.py") as response:
                assert response.status == 404
    finally:
        await runner.cleanup()
