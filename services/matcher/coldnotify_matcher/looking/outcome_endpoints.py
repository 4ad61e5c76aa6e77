"""Outcomes of records of the objects topic, for those who have just published them: requested by their offsets.

A caller waits until the records have been read. The worker's lock is not taken for that: a step may hold it for as long
as Kafka takes to acknowledge, and a record's outcome is known, and final, before its effects are durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from aiohttp import web
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.query_numbers import seconds, whole_number
from coldnotify_common.http.web import BadRequest
from coldnotify_schemas.atomic_sets import SET_PREFIX
from coldnotify_schemas.names import check_name
from coldnotify_schemas.protocol import OUTCOME_WAIT_S_MAX, OUTCOMES_PER_REQUEST_MAX
from coldnotify_schemas.records import VERSION_MAX
from coldnotify_streams.core.partition_progress import OwningPhase

from coldnotify_matcher.engine.objects.history import REJECTED, TakenMember, TakenRecord
from coldnotify_matcher.looking.state_endpoints import HasWorker, partition_for
from coldnotify_matcher.matcher_partition import MatcherPartition

WAITING_MAX = 10_000
"""Above this number requests are answered without waiting; each is a task and a connection."""
_LOOK_AGAIN_S = 0.25
"""A bell may be gone with its worker. An idle worker takes a step as often as this, too."""
UNKNOWN = "unknown"


def routes(current: HasWorker) -> list[web.AbstractRouteDef]:
    """Routes one GET endpoint below /v1/domains/{domain}/groups/{group}."""
    return [web.get("/v1/domains/{domain}/groups/{group}/outcomes", OutcomeEndpoints(current).outcomes)]


class OutcomeEndpoints:
    """The handler; it runs in the event loop."""

    def __init__(self, current: HasWorker, waiting_max: int = WAITING_MAX) -> None:
        self._current = current
        self._waiting_max = waiting_max
        self._waiting = 0

    async def outcomes(self, request: web.Request) -> web.Response:
        """GET .../outcomes?partition&offsets&wait_s: an item for each offset, once it is read, or `wait_s` are over.

        503 if this matcher does not serve the group.
        """
        domain = check_name("domain", request.match_info["domain"])
        group = check_name("group", request.match_info["group"])
        number = whole_number("partition", request.query.get("partition", ""), maximum=VERSION_MAX)
        offsets = _offsets(request)
        wait_s = seconds("wait_s", request.query.get("wait_s", "0"), maximum=OUTCOME_WAIT_S_MAX)
        if self._waiting >= self._waiting_max:
            wait_s = 0.0
        self._waiting += 1
        try:
            partition = await self._read(domain, group, offsets, wait_s)
        finally:
            self._waiting -= 1
        prefix = f"{domain}/{group}/"
        position = partition.engine.state.position
        if number != partition.number:
            why = f"the record is in partition {number}, and is about to be moved to its group's, {partition.number}"
            items = [_unknown(offset, why) for offset in offsets]
        else:
            items = [_item(partition, prefix, offset, position) for offset in offsets]
        return json_answer({"partition": partition.number, "position": position, "items": items})

    async def _read(self, domain: str, group: str, offsets: Sequence[int], wait_s: float) -> MatcherPartition:
        """Returns the group's partition, in which the offsets have been read unless the time is over. Raises
        HTTPException."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + wait_s
        was_behind = True
        while True:
            worker = self._current.worker
            ring = None if worker is None else worker.bell.next_ring()
            partition = partition_for(self._current, domain, group)
            served = partition.phase is OwningPhase.OWNED
            if served:
                if all(partition.engine.history.outcome(offset) is not None for offset in offsets):
                    return partition
                # While a record is taken in, the position moves before its outcome is known: so the next step is waited
                # for.
                behind = partition.engine.state.position <= max(offsets)
                # Those that are decided are told once that is durable.
                behind |= any(partition.engine.intake.conditions.awaits(offset) for offset in offsets)
                if not behind and not was_behind:
                    return partition
                was_behind = behind
            left_s = until_s - loop.time()
            if left_s <= 0:
                if not served:
                    raise web.HTTPServiceUnavailable(
                        text=f"{domain}/{group}: partition {partition.number} is being loaded"
                    )
                return partition
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, _LOOK_AGAIN_S)):
                    if ring is None:
                        await asyncio.sleep(_LOOK_AGAIN_S)
                    else:
                        await ring.wait()


def show_outcome(taken: TakenRecord) -> dict[str, Any]:
    """Returns the outcome of one record; `newest` is the object's newest version once it was taken in."""
    if taken.outcome == REJECTED:
        return {"outcome": taken.outcome, "reason": taken.reason}
    if taken.members:
        return {"outcome": taken.outcome, "members": [_show_member(one) for one in taken.members]}
    if taken.version < 0:
        return {"outcome": taken.outcome, "reason": taken.reason, "newest": None}
    newest: dict[str, Any] = {"version": taken.version}
    if taken.incarnation:
        newest["incarnation"] = taken.incarnation
    newest["published_ms"] = taken.published_ms if taken.published_ms >= 0 else None
    shown = {"outcome": taken.outcome, "newest": newest}
    return {**shown, "reason": taken.reason} if taken.reason else shown


def _show_member(member: TakenMember) -> dict[str, Any]:
    shown: dict[str, Any] = {"object": member.object, "newest": None}
    if member.version >= 0:
        newest: dict[str, Any] = {"version": member.version}
        if member.incarnation:
            newest["incarnation"] = member.incarnation
        newest["published_ms"] = member.published_ms if member.published_ms >= 0 else None
        shown["newest"] = newest
    return {**shown, "reason": member.reason} if member.reason else shown


def _item(partition: MatcherPartition, prefix: str, offset: int, position: int) -> dict[str, Any]:
    taken = partition.engine.history.outcome(offset)
    if taken is None:
        read = f"the matcher has read up to offset {position - 1}"
        forgotten = f"{read}, and nothing of this record is remembered"
        return _unknown(offset, forgotten if offset < position else f"{read} so far")
    if not taken.key.removeprefix(SET_PREFIX).startswith(prefix):
        return _unknown(offset, "the record is of another group")
    shown = {"offset": offset, **({"id": taken.id} if taken.id else {}), **show_outcome(taken)}
    return shown if taken.members else {"object": taken.key.removeprefix(prefix), **shown}


def _unknown(offset: int, reason: str) -> dict[str, Any]:
    return {"offset": offset, "outcome": UNKNOWN, "reason": reason}


def _offsets(request: web.Request) -> list[int]:
    texts = request.query.get("offsets", "").split(",")
    if len(texts) > OUTCOMES_PER_REQUEST_MAX:
        raise BadRequest("offsets", f"{len(texts)} are too many, at most {OUTCOMES_PER_REQUEST_MAX} are allowed")
    return [whole_number("offsets", text, maximum=VERSION_MAX) for text in texts]
