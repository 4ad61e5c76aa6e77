"""Asks other gateways if Kafka answers them, when it does not answer this one.

Whatever has cut this gateway off may be its own: no descriptors are left, or no name server. So the peers' addresses
are looked up while all is well, and a few descriptors are held ready for the questions.
"""

import asyncio
import os
import random
import socket
import ssl
from collections.abc import Sequence
from typing import Any

import structlog

log = structlog.get_logger()

ASKED_MAX = 5
ANSWER_S = 3.0
"""Longest time for the answers. A gateway answers within milliseconds."""
LOOK_UP_EVERY_S = 60.0
"""Interval at which other peers are drawn and looked up."""
_ANSWER_BYTES_MAX = 1024
_QUESTION = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
"""Every inside port takes this host's name; it need not know its own."""

Place = tuple[str, int]


class Peers:
    """The gateways that this one may ask. All of it runs in the event loop."""

    def __init__(self, client_tls: ssl.SSLContext | None) -> None:
        """`client_tls`: the context for inside ports; None: without TLS."""
        self._tls = client_tls
        self._found: dict[Place, tuple[int, Any]] = {}
        """Families and addresses of the peers to ask."""
        self._spare: list[int] = []
        self._closed = False
        self._hold_spare()

    def __len__(self) -> int:
        return len(self._found)

    async def look_up(self, peers: Sequence[Place]) -> None:
        """Draws the peers to ask, and looks them up. Earlier ones take the places of those without an address."""
        loop = asyncio.get_running_loop()
        drawn = random.sample(peers, min(ASKED_MAX, len(peers)))
        found: dict[Place, tuple[int, Any]] = {}
        for host, port in drawn:
            try:
                (family, *_, address), *_ = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                found[host, port] = family, address
            except (OSError, UnicodeError):
                continue
        before = {place: at for place, at in self._found.items() if place not in found}
        self._found = dict(list({**found, **before}.items())[:ASKED_MAX])
        self._hold_spare()

    async def any_ready(self) -> bool:
        """Asks all of them at once. Returns true as soon as one is ready."""
        self._free_spare()
        asked = []
        # All sockets are made before anything else can take the freed descriptors.
        for place, (family, address) in self._found.items():
            try:
                asked.append((place, address, socket.socket(family, socket.SOCK_STREAM)))
            except OSError as error:
                log.warning("another gateway cannot be asked", gateway=place[0], error=str(error))
        tasks = [asyncio.create_task(self._ask(place, address, one)) for place, address, one in asked]
        try:
            for answer in asyncio.as_completed(tasks):
                if await answer:
                    return True
            return False
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for *_, one in asked:
                one.close()
            self._hold_spare()

    def close(self) -> None:
        """Releases the descriptors."""
        self._closed = True
        self._free_spare()

    async def _ask(self, place: Place, address: Any, one: socket.socket) -> bool:
        host, port = place
        one.setblocking(False)
        try:
            async with asyncio.timeout(ANSWER_S):
                await asyncio.get_running_loop().sock_connect(one, address)
                reader, writer = await asyncio.open_connection(
                    sock=one, ssl=self._tls, server_hostname=host if self._tls is not None else None
                )
                try:
                    writer.write(_QUESTION)
                    said = await reader.read(_ANSWER_BYTES_MAX)
                finally:
                    writer.close()
        except (OSError, TimeoutError, ssl.SSLError):
            return False
        ready = said.startswith((b"HTTP/1.1 200 ", b"HTTP/1.0 200 "))
        log.info("asked another gateway if Kafka answers it", gateway=f"{host}:{port}", ready=ready)
        return ready

    def _free_spare(self) -> None:
        spare, self._spare = self._spare, []
        for descriptor in spare:
            os.close(descriptor)

    def _hold_spare(self) -> None:
        while len(self._spare) < ASKED_MAX and not self._closed:
            try:
                self._spare.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                return
