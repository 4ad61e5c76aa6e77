"""ReadingUp: waits until a group's partition is read to the present end of its log, for looks that may not be behind.

The ends of the objects and of the claims are requested after the call. If the partition is still served once both are
read, nobody had claimed it by then, and all that was acknowledged before the call is in its state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from aiohttp import web
from coldnotify_common.http.web import BadRequest
from coldnotify_common.kafka.kafka_clients import KafkaUnavailable
from coldnotify_schemas.names import check_name
from coldnotify_streams.core.partition_progress import OwningPhase
from confluent_kafka.admin import AdminClient

from coldnotify_matcher.asked_writes import LogEnd
from coldnotify_matcher.looking.state_endpoints import HasWorker, Look, in_a_thread, partition_for
from coldnotify_matcher.matcher_partition import MatcherPartition

LOOK_AGAIN_S = 0.25
"""A bell may be gone with its worker."""
LOOK_S = 2.0
"""For which a look waits. The HTTP service waits for 3 s by default."""


class AskedEnds(Protocol):
    """The method of AskedWrites that this module needs."""

    async def end(self, admin: AdminClient, partition: int) -> LogEnd:
        """Returns the partition's end, requested after this call. Raises KafkaUnavailable."""


class ReadingUp:
    """Waits, for all who ask, in the event loop."""

    def __init__(self, current: HasWorker, log: AskedEnds) -> None:
        self._current = current
        self._look = Look(current)
        self._log = log

    async def up(self, domain: str, group: str) -> MatcherPartition:
        """Returns the group's partition, once it is read to the present end of its log, including others' claims.

        Raises HTTPServiceUnavailable, KafkaUnavailable.
        """
        partition = partition_for(self._current, domain, group)
        worker = self._current.worker
        if worker is None or partition.phase is not OwningPhase.OWNED:
            raise web.HTTPServiceUnavailable(text=f"{domain}/{group}: partition {partition.number} is being loaded")
        end = await self._log.end(worker.admin, partition.number)
        while True:
            ring = worker.bell.next_ring()
            if worker is not self._current.worker or not self._look.serves(partition):
                raise web.HTTPServiceUnavailable(text=f"partition {partition.number} was given up meanwhile")
            read = partition.positions
            topics = partition.engine.state.rules.topics
            if read.get(topics.objects, 0) >= end.objects and read.get(topics.sessions, 0) >= end.sessions:
                return partition
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_S):
                    await ring.wait()

    def before(self, look: Callable[[web.Request], web.Response]) -> Callable[[web.Request], Awaitable[web.Response]]:
        """Returns a handler that looks in a thread; with `consistent=1` behind all that was acknowledged before."""
        looking = in_a_thread(look)

        async def handle(request: web.Request) -> web.Response:
            if _is_consistent(request):
                domain = check_name("domain", request.match_info["domain"])
                group = check_name("group", request.match_info["group"])
                try:
                    async with asyncio.timeout(LOOK_S):
                        await self.up(domain, group)
                except TimeoutError:
                    words = f"{domain}/{group} is not read to the end of its log within {LOOK_S:g} s"
                    raise web.HTTPServiceUnavailable(text=words) from None
                except KafkaUnavailable as error:
                    raise web.HTTPServiceUnavailable(text=str(error)) from None
            return await looking(request)

        return handle


def _is_consistent(request: web.Request) -> bool:
    text = request.query.get("consistent", "0")
    if text not in ("0", "1"):
        raise BadRequest("consistent", f"{text[:80]!r} is neither 0 nor 1")
    return text == "1"
