"""Pages from elsewhere and names that lead here, over real HTTP."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, web
from aiohttp.typedefs import Middleware
from coldnotify_common.http.admin import bound_port, listen
from coldnotify_common.http.web import json_errors
from coldnotify_common.http.web_origins import asked_by_name, is_known, names_of, own_pages

LINK = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
FRAME = LINK | {"Sec-Fetch-Dest": "iframe"}
IMAGE = {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
ALL_SITES = ("cross-site", "same-site", "same-origin", "none")


@asynccontextmanager
async def served(*middlewares: Middleware) -> AsyncIterator[str]:
    """Its host:port."""

    async def fine(_request: web.Request) -> web.Response:
        return web.json_response("fine")

    app = web.Application(middlewares=[json_errors, *middlewares])
    for path in ("/", "/v1/objects", "/v1/sync"):
        app.router.add_route("*", path, fine)
    runner = await listen(app, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{bound_port(runner)}"
    finally:
        await runner.cleanup()


async def test_pages_from_elsewhere_are_refused_but_where_they_are_passed_on() -> None:
    asked = [
        ("/v1/objects", None, 200),
        ("/v1/objects", "OWN", 200),
        ("/v1/objects", "https://evil.example", 403),
        ("/v1/objects", "OWN.evil.example", 403),
        ("/v1/objects", "null", 403),
        ("/v1/objects", "http://[", 403),
        ("/v1/sync", "https://evil.example", 200),
    ]
    async with served(own_pages(("/v1/sync",))) as address, ClientSession() as session:
        for path, origin, status in asked:
            headers = {} if origin is None else {"Origin": origin.replace("OWN", f"http://{address}")}
            async with session.post(f"http://{address}{path}", data="{}", headers=headers) as response:
                assert response.status == status, (path, origin)
                if status == 403:
                    assert (await response.json())["field"] == "Origin"


async def test_what_says_no_origin_is_known_by_where_the_browser_says_it_comes_from() -> None:
    async with served(own_pages(("/v1/sync",), navigable=("/",))) as address, ClientSession() as session:

        async def allowed(method: str, path: str, more: dict[str, str]) -> list[str]:
            found = []
            for site in ALL_SITES:
                headers = more | {"Sec-Fetch-Site": site}
                async with session.request(method, f"http://{address}{path}", headers=headers) as response:
                    if response.status == 200:
                        found.append(site)
                        continue
                    assert response.status == 403
                    assert method == "HEAD" or (await response.json())["field"] == "Sec-Fetch-Site"
            return found

        own = ["same-origin", "none"]
        assert await allowed("POST", "/v1/objects", {}) == own
        assert await allowed("GET", "/v1/objects", LINK) == own, "a link leads to pages only"
        assert await allowed("GET", "/", LINK) == list(ALL_SITES)
        for more in (IMAGE, FRAME, {}):
            assert await allowed("GET", "/", more) == own
        assert await allowed("POST", "/", LINK) == own, "a form is no link"
        assert await allowed("HEAD", "/", LINK) == own
        assert await allowed("POST", "/v1/sync", {}) == list(ALL_SITES), "who passes it on leaves that to others"
        # https://HOST and http://HOST have one Host, and the second may be anybody's on the network.
        assert await allowed("POST", "/v1/objects", {"Origin": f"http://{address}"}) == own


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("127.0.0.1:5", True),
        ("127.0.0.1", True),
        ("[::1]:5", True),
        ("[::1]", True),
        ("[fe80::1%eth0]:5", True),
        ("localhost:5", True),
        ("LOCALHOST", True),
        ("localhost.:5", True),
        ("matcher-1:51001", True),
        ("Matcher-1", True),
        ("inside.example", True),
        ("evil.example:51001", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("evil.localhost", False),
        ("[evil.example]", False),
        ("", False),
        (":5", False),
    ],
)
def test_which_hosts_are_known(host: str, known: bool) -> None:
    assert is_known(host, names_of("matcher-1  inside.example", "", "10.0.0.1")) is known
    assert is_known(host, names_of("*"))


async def test_a_name_that_leads_here_is_refused_with_the_setting() -> None:
    async with served(asked_by_name(names_of("ours"), "COLDNOTIFY_X_HOSTS / --x-hosts")) as address:

        async def first_line(lines: Iterable[str]) -> bytes:
            host, _, port = address.partition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(("\r\n".join([*lines, "Connection: close", "", ""])).encode())
            async with asyncio.timeout(60):
                answer = await reader.read()
            writer.close()
            return answer

        refused = await first_line(["GET / HTTP/1.1", "Host: evil.example"])
        assert b" 421 " in refused.splitlines()[0]
        assert b"--x-hosts" in refused
        assert b'"field": "Host"' in refused
        for host in ("ours", address):
            assert b" 200 " in (await first_line(["GET / HTTP/1.1", f"Host: {host}"])).splitlines()[0]
        assert b" 200 " in (await first_line(["GET / HTTP/1.0"])).splitlines()[0], "a browser always says one"
