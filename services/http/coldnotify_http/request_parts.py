"""What requests that publish or ask have in common: domain and group, a body that comes in time, a trace context."""

import asyncio

from aiohttp import web
from coldnotify_schemas.names import check_name
from coldnotify_schemas.traceparent import TRACEPARENT_HEADER, is_traceparent


def domain_and_group(request: web.Request) -> tuple[str, str]:
    """Those of the path. Raises InvalidName."""
    return check_name("domain", request.match_info["domain"]), check_name("group", request.match_info["group"])


async def body_of(request: web.Request, timeout_s: float) -> bytes:
    """All of it. Raises HTTPException if it is too large, or does not come in time."""
    try:
        async with asyncio.timeout(timeout_s):
            return await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(
            text=f"the body did not arrive within {timeout_s:g} s; nothing was published"
        ) from None


def traceparent_of(request: web.Request) -> str:
    """Its trace context. "": none; as the standard wants it, what is no trace context harms nothing it came with."""
    traceparent = request.headers.get(TRACEPARENT_HEADER, "")
    return traceparent if is_traceparent(traceparent) else ""
