"""Removals that wait, and clocks that are apart; operators may confirm that their clock is right."""

import asyncio

import msgspec
from aiohttp import web
from coldnotify_common.clocks import Clocks
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.web import BadRequest, error_response
from coldnotify_streams.core.partition_progress import OwningPhase

from coldnotify_matcher.looking.state_endpoints import HasWorker, Look, in_a_thread

CLOCKS_SHOWN_MAX = 100


class RemovalsPatch(msgspec.Struct, forbid_unknown_fields=True):
    """An operator's confirmation of the removals that wait."""

    confirmed: bool


def routes(current: HasWorker) -> list[web.AbstractRouteDef]:
    """Routes GET and PATCH /v1/removals."""
    pages = RemovalEndpoints(current)
    return [web.get("/v1/removals", in_a_thread(pages.show)), web.patch("/v1/removals", pages.confirm)]


class RemovalEndpoints:
    """The handlers."""

    def __init__(self, current: HasWorker) -> None:
        self._current = current
        self._look = Look(current)

    def show(self, _request: web.Request) -> web.Response:
        """GET /v1/removals."""
        return json_answer(self._shown(confirm=False))

    async def confirm(self, request: web.Request) -> web.Response:
        """PATCH /v1/removals, {"confirmed": true}: for an hour any number may be removed. 409 while clocks are
        apart."""
        try:
            patch = msgspec.json.decode(await request.read(), type=RemovalsPatch)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadRequest("confirmed", f'the body is not {{"confirmed": true}}: {error}') from None
        if not patch.confirmed:
            raise BadRequest("confirmed", "is false; a confirmation ends by itself, after an hour")
        return await asyncio.to_thread(self._confirm)

    def _confirm(self) -> web.Response:
        apart = ", ".join(self._clocks().apart)
        if apart:
            return error_response(409, f"clocks are apart, and nothing is removed until they agree: {apart}")
        return json_answer(self._shown(confirm=True))

    def _clocks(self) -> Clocks:
        worker = self._current.worker
        if worker is None:
            raise web.HTTPServiceUnavailable(text="the matcher begins anew")
        return worker.clock.trust

    def _shown(self, *, confirm: bool) -> dict[str, object]:
        clocks = self._clocks()
        with self._look.lock():
            worker = self._current.worker
            owned = (
                [] if worker is None else [one for one in worker.partitions.values() if one.phase is OwningPhase.OWNED]
            )
            items = []
            for partition in sorted(owned, key=lambda one: one.number):
                clients, objects = partition.engine.removals_held
                items.append({"partition": partition.number, "clients_held": clients, "objects_held": objects})
                if confirm:
                    partition.engine.confirm_removals(clocks.now_ms)
            apart = list(clocks.apart.items())[:CLOCKS_SHOWN_MAX]
            return {
                "now_ms": clocks.now_ms,
                "clocks_agree_s": round(clocks.agreed_s, 1),
                "clocks_apart": [{"clock": name, "ahead_ms": ahead_ms} for name, ahead_ms in apart],
                "items": items,
            }
