"""`settled` waits in an asyncio task for what another thread settles."""

import asyncio
import concurrent.futures
from typing import TypeVar

T = TypeVar("T")


async def settled(future: concurrent.futures.Future[T], timeout_s: float) -> T:
    """Returns the future's result; a result that exists needs no time. Raises TimeoutError, and what the future raises.

    It does not use asyncio.wait_for(): under Python 3.11 a task that is cancelled just when the result comes is not
    cancelled then (https://github.com/python/cpython/issues/86296).
    """
    if future.done():
        return future.result()
    async with asyncio.timeout(timeout_s):
        return await asyncio.wrap_future(future)
