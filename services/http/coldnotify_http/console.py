"""The console: a page, its style and its script, as they lie in the package; what they show they ask for themselves."""

from pathlib import Path

from aiohttp import web

_DIRECTORY = Path(__file__).parent / "console_page"
_FILES = {
    "/": ("index.html", "text/html"),
    "/v1/docs": ("api.html", "text/html"),
    "/console/style.css": ("style.css", "text/css"),
    **{
        f"/console/{name}.js": (f"{name}.js", "text/javascript")
        for name in (
            *("console", "api", "ask", "channels", "clients", "confirm", "dom", "forms", "history", "hooks", "lists"),
            *("matrix", "nodes", "publish", "send", "tenants", "words"),
        )
    },
}
PAGE = "/"
"""The target of links."""
OPEN_PATHS = tuple(_FILES)
"""Nothing in these files is secret; the page itself sends a token, if one is required, with its requests."""
_HEADERS = {
    "Cache-Control": "no-cache",
    # Some of these the default does not stand for.
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'self'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def routes() -> list[web.AbstractRouteDef]:
    """Returns the routes of GET / and its files."""
    return [web.get(path, _file) for path in _FILES]


async def _file(request: web.Request) -> web.StreamResponse:
    name, content_type = _FILES[request.path]
    response = web.FileResponse(_DIRECTORY / name, headers=_HEADERS)
    response.content_type = content_type
    response.charset = "utf-8"
    return response
