"""Describes: requests to merge clients' patches into the descriptions of objects, in the order of their offsets."""

from typing import NamedTuple

from coldnotify_schemas import internal_pb2

from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.gateways.gateways import GatewayView
from coldnotify_matcher.engine.objects.merged_patches import Place
from coldnotify_matcher.engine.partition_state import PartitionState

WAITING_MAX = 1_000
"""Most requests that wait for changes by HTTP, some seconds each."""


class _Waiting(NamedTuple):
    offset: int
    place: Place
    gateway: GatewayView
    session: int
    said: internal_pb2.Describe


class PatchRequests:
    """Handles these requests."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state
        self._waiting: list[_Waiting] = []

    def on_describe(
        self, offset: int, client: RegisteredClient, session: EngineSession, said: internal_pb2.Describe, now_ms: int
    ) -> None:
        """Merges a patch, and answers once that is durable; later, if the description is being changed by HTTP."""
        place = client.group_key, said.object
        one = _Waiting(offset, place, session.gateway, session.number, said)
        if not self._must_wait(place):
            self._merge(one, now_ms)
        elif len(self._waiting) < WAITING_MAX:
            self._waiting.append(one)
            self._note()
        # Above it nothing is answered, and the gateway refuses its publish for now.

    def flush(self, now_ms: int) -> None:
        """Merges those that wait no longer."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if self._must_wait(one.place):
                self._waiting.append(one)
            else:
                self._merge(one, now_ms)
        self._note()

    def _must_wait(self, place: Place) -> bool:
        return self._state.patches.is_changing(place) or any(one.place == place for one in self._waiting)

    def _note(self) -> None:
        self._state.patches.wait(self._waiting[0].offset if self._waiting else None)

    def _merge(self, one: _Waiting, now_ms: int) -> None:
        reason = self._state.patches.merge(one.place, one.said.patch, one.offset, now_ms)
        described = internal_pb2.Described(session=one.session, ask=one.said.ask, reason=reason)
        one.gateway.tell(internal_pb2.Item(described=described))
