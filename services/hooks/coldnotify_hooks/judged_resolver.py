"""JudgedResolver: a name's addresses for one connection, each of them judged. The connection goes to one of these."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

from aiohttp.abc import AbstractResolver, ResolveResult
from coldnotify_common.hooks.hook_urls import HookUrls

Lookup = Callable[[str, int], Awaitable[list[str]]]


async def look_up(host: str, port: int) -> list[str]:
    """Returns the addresses of a name, by the system's resolver. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class JudgedResolver(AbstractResolver):
    """aiohttp asks it once for each connection, and connects to its answers. So nobody resolves a second time."""

    def __init__(self, urls: HookUrls, lookup: Lookup = look_up) -> None:
        self._urls = urls
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Returns the judged addresses of a host. Raises RefusedUrl, OSError."""
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._urls.judge(host, await self._lookup(host, port))
        ]

    async def close(self) -> None:
        """Nothing is open."""
