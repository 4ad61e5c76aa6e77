"""Runs a back-end: an HTTP server around it, until SIGTERM or Ctrl-C."""

import asyncio
import signal
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import web

HOST = "127.0.0.1"


@asynccontextmanager
async def serving(routes: Iterable[web.AbstractRouteDef], port: int) -> AsyncIterator[str]:
    """Serves `routes` inside the block; gives their base URL. Port 0: any free one. Raises OSError."""
    app = web.Application(client_max_size=16 * 1024 * 1024)
    app.add_routes(routes)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, port)
        await site.start()
        yield f"http://{HOST}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def run_until_stopped(main: Coroutine[Any, Any, None]) -> None:
    """Runs `main` until it ends or a signal cancels it."""

    async def run() -> None:
        task = asyncio.ensure_future(main)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(run())
