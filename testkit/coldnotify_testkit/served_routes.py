"""For tests: routes of a service, served on a port for looking in as the service itself would serve them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from coldnotify_common.admin import AdminServer


@asynccontextmanager
async def served(*routes: web.AbstractRouteDef) -> AsyncIterator[str]:
    """Their host:port, while the block runs."""
    server = AdminServer("127.0.0.1", 0, readiness=lambda: None, routes=routes)
    await server.start()
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        await server.stop()
