"""Answers / of an HTTP port: names the port, lists its paths, and points to the console."""

from collections.abc import Iterable

from aiohttp import web
from coldnotify_schemas.protocol import HTTP_PORT

_CONSOLE = (
    f"The console, a page for people, is at / of the HTTP service (`coldnotify http`): port {HTTP_PORT}, unless "
    "--http-port says otherwise."
)


def about(what: str, routes: Iterable[web.AbstractRouteDef]) -> web.RouteDef:
    """Returns the route GET /: plain text that names the port (`what`) and lists the paths of `routes`."""
    asked: dict[str, list[str]] = {}
    for route in routes:
        if isinstance(route, web.RouteDef) and route.method != "OPTIONS":
            methods = asked.setdefault(route.path, [])
            methods.append("GET" if route.method == "HEAD" else route.method)
    paths = "".join(f"  {', '.join(dict.fromkeys(methods))} {path}\n" for path, methods in asked.items())
    text = f"ColdNotify: {what}.\n\nIt answers:\n{paths}\n{_CONSOLE}\n"

    async def root(_request: web.Request) -> web.Response:
        return web.Response(text=text)

    return web.get("/", root)
