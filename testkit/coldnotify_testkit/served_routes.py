"""For tests: routes of a service, served on a port for looking in as the service itself serves them, or alone."""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager

from aiohttp import web
from aiohttp.typedefs import Middleware
from coldnotify_common.http.admin import AdminServer, AdminThread, bound_port, listen
from coldnotify_common.http.web import json_errors


@asynccontextmanager
async def served(*routes: web.AbstractRouteDef) -> AsyncIterator[str]:
    """Their host:port, while the block runs."""
    server = AdminServer("127.0.0.1", 0, readiness=lambda: None, routes=routes)
    await server.start()
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        await server.stop()


@contextmanager
def served_in_a_thread(routes: Iterable[web.AbstractRouteDef]) -> Iterator[int]:
    """Their port, while the block runs, for tests without an event loop."""
    admin = AdminThread(AdminServer("127.0.0.1", 0, readiness=lambda: None, routes=routes))
    admin.start()
    try:
        yield admin.port
    finally:
        admin.stop()


@asynccontextmanager
async def served_alone(routes: Iterable[web.AbstractRouteDef], *middlewares: Middleware) -> AsyncIterator[str]:
    """Their URL, while the block runs: nothing else is on the port. Errors are JSON, as everywhere."""
    app = web.Application(middlewares=[json_errors, *middlewares])
    app.add_routes(routes)
    runner = await listen(app, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{bound_port(runner)}"
    finally:
        await runner.cleanup()
