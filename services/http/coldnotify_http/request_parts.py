"""Common parts of requests that publish or ask: domain and group, bounded bodies, a trace context."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from aiohttp import web
from coldnotify_common.http.web import BadRequest
from coldnotify_common.http.web_bodies import BodyReader
from coldnotify_common.slices import Slices
from coldnotify_schemas.names import check_name
from coldnotify_schemas.traceparent import TRACEPARENT_HEADER, is_traceparent

from coldnotify_http.bodies import SINGLE_BODY_BYTES_MAX
from coldnotify_http.settings import HttpSettings

T = TypeVar("T")
NOT_PUBLISHED = "not published"


def domain_and_group(request: web.Request) -> tuple[str, str]:
    """Those of the path. Raises InvalidName."""
    return check_name("domain", request.match_info["domain"]), check_name("group", request.match_info["group"])


def yes_or_no(request: web.Request, parameter: str, *, default: bool) -> bool:
    """Returns a query parameter that is `yes` or `no`. Raises BadRequest."""
    text = request.query.get(parameter)
    if text is not None and text not in ("yes", "no"):
        raise BadRequest(parameter, f"{text[:80]!r} is neither yes nor no")
    return default if text is None else text == "yes"


class Bodies:
    """The bodies of this node's requests: all together they have a bound, and so has each identity."""

    def __init__(self, settings: HttpSettings) -> None:
        within_s = settings.http_body_timeout_s
        self._reader = BodyReader(bytes_max=settings.http_body_bytes_max, small_s=within_s, s=within_s)
        self._slices = Slices()

    async def one(
        self, request: web.Request, bytes_max: int = SINGLE_BODY_BYTES_MAX, *, outcome: str = NOT_PUBLISHED
    ) -> bytes:
        """Returns the body of a request for one thing. Raises HTTPException if it is too long, or does not arrive in
        time.

        `outcome`: reported if too many requests arrive at this moment.
        """
        async with self._reader.read(request, bytes_max, outcome=outcome) as body:
            return body

    async def many(self, request: web.Request, parse: Callable[[bytes], Iterator[T]]) -> tuple[list[T], int]:
        """Parses the body of a request for many things with `parse`, while others have turns; returns its items and its
        length.

        Raises HTTPException, and what `parse` raises.
        """
        async with self._reader.read(request, outcome=NOT_PUBLISHED) as body:
            return await self._slices.all(parse(body)), len(body)


def traceparent_of(request: web.Request) -> str:
    """Returns its trace context. "": none; by the standard an invalid one does not affect its request."""
    traceparent = request.headers.get(TRACEPARENT_HEADER, "")
    return traceparent if is_traceparent(traceparent) else ""
