"""Caller: the POST request to a receiver, within its bounds. It knows nothing of why it calls."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp
from coldnotify_common.hooks.hook_signatures import signature
from coldnotify_common.hooks.hook_urls import HookUrls, RefusedUrl

from coldnotify_hooks.core.ownership import CALL_S
from coldnotify_hooks.core.receiver_answers import Meaning, Reply, reply_of
from coldnotify_hooks.judged_resolver import JudgedResolver, Lookup, look_up
from coldnotify_hooks.metrics import CALLS

OF_HOST_MAX = 4
"""Calls of one host at a time. A hook makes one call at a time, so it has at most one of them while others wait."""
ANSWER_BYTES_MAX = 64 * 1024
_CONNECT_S = 4.0
_GATE_S = 0.05
USER_AGENT = "coldnotify-hooks"


@dataclass(frozen=True)
class Call:
    """One request."""

    url: str
    message_id: str
    """The same in each repetition, by whichever caller."""
    body: bytes
    content_type: str
    secrets: tuple[str, ...]
    claim: int
    position: str


class Caller:
    """The receivers of one process. Used in its event loop."""

    def __init__(
        self, urls: HookUrls, lookup: Lookup = look_up, clock: Callable[[], float] = time.time,
        context: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        """`lookup` and `context` (trust in receivers' certificates; None: the system's) are others in tests."""
        self._urls = urls
        self._clock = clock
        self._hosts: dict[str, tuple[asyncio.Semaphore, int]] = {}
        """The permits of each host that is called or waited for, and by how many."""
        connector = aiohttp.TCPConnector(
            resolver=JudgedResolver(urls, lookup), use_dns_cache=False, limit=0, ssl=context or True
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=CALL_S, sock_connect=_CONNECT_S),
        )

    async def post(self, call: Call, may_call: Callable[[], bool]) -> Reply:
        """Calls once `may_call` allows it and the host has a place; returns what came of it. Waits without a limit for
        both, so whoever has no right any more cancels it."""
        while True:
            async with self._place(urlsplit(call.url).netloc):
                if may_call():
                    reply = await self._post(call)
                    CALLS.labels(reply.meaning.value).inc()
                    return reply
            await asyncio.sleep(_GATE_S)

    async def close(self) -> None:
        """Ends all calls."""
        await self._session.close()

    async def _post(self, call: Call) -> Reply:
        now_s = self._clock()
        try:
            # Again, because the operator may allow less than when the hook was set.
            self._urls.check(call.url)
            async with self._session.post(
                call.url, data=call.body, headers=_headers(call, int(now_s)), allow_redirects=False
            ) as response:
                read = 0
                async for chunk in response.content.iter_any():
                    read += len(chunk)
                    if read >= ANSWER_BYTES_MAX:
                        response.close()
                        break
                return reply_of(response.status, response.headers.get("Retry-After"), self._clock())
        except RefusedUrl as error:
            return Reply(Meaning.AWAY, str(error))
        except TimeoutError:
            return Reply(Meaning.AWAY, f"no answer within {CALL_S:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Reply(Meaning.AWAY, _words(error))

    @asynccontextmanager
    async def _place(self, host: str) -> AsyncIterator[None]:
        permits, users = self._hosts.get(host, (asyncio.Semaphore(OF_HOST_MAX), 0))
        self._hosts[host] = permits, users + 1
        try:
            async with permits:
                yield
        finally:
            permits, users = self._hosts.pop(host)
            if users > 1:
                self._hosts[host] = permits, users - 1


def _headers(call: Call, now_s: int) -> Mapping[str, str]:
    return {
        "Content-Type": call.content_type,
        "User-Agent": USER_AGENT,
        "webhook-id": call.message_id,
        "webhook-timestamp": str(now_s),
        "webhook-signature": signature(call.secrets, call.message_id, now_s, call.body),
        "ColdNotify-Claim": str(call.claim),
        "ColdNotify-Position": call.position,
    }


def _words(error: Exception) -> str:
    """Returns the reason, without addresses: who may see it may not see the operator's network."""
    cause = error.__cause__
    if isinstance(cause, RefusedUrl):
        return str(cause)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the host's name has no address"
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return "TLS: the receiver's certificate or protocol is refused"
    return f"no answer: {type(error).__name__}"
