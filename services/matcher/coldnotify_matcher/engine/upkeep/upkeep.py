"""Changes that passing time alone makes: gateways fall silent, stored cursors get old, a successor is noticed."""

from coldnotify_schemas.internal_pb2 import WILL_PUBLISH, WILL_WAIT

from coldnotify_matcher.engine.clients.kept_cursors import STORE_EVERY_MS
from coldnotify_matcher.engine.gateways.gateways import RETIRED_KEPT_MS, GatewayView
from coldnotify_matcher.engine.partition_state import PartitionState

GATEWAY_SILENCE_MS_MAX = 15_000
"""Three beats: a gateway that was not heard for so long counts as dead, and its sessions as offline."""
GATEWAY_FORGOTTEN_AFTER_MS = 3_600_000
"""Until then a gateway that was only stopped finds the numbers of its inbox records continued."""
STOOD_STILL_MS = 5_000
"""After so long without a tick this matcher itself may not have heard gateways."""
OUTDONE_MS = 3_000
"""Longer than a matcher that was only stopped needs to read its successor's claim, which gateways report, too."""
STORE_CURSORS_EVERY_MS = 30_000
"""Maximum age of the stored copy of a connected client's cursor; it is for looking in, the client has the true one."""


class Upkeep:
    """Checks all gateways, and all cursors that are not stored, once a tick."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state
        self._retired_turned_ms = 0
        self._ticked_ms = 0
        self._outdone_since_ms: int | None = None

    def on_tick(self, now_ms: int) -> None:
        """Make these changes."""
        state = self._state
        self._look_for_a_successor(now_ms)
        stood_still = now_ms - self._ticked_ms > STOOD_STILL_MS
        self._ticked_ms = now_ms
        for gateway in list(state.gateways.values()):
            silent_ms = now_ms - gateway.heard_ms
            if silent_ms > GATEWAY_SILENCE_MS_MAX and gateway.sessions:
                self._end_sessions(gateway, WILL_WAIT if stood_still else WILL_PUBLISH)
            elif silent_ms > GATEWAY_FORGOTTEN_AFTER_MS:
                del state.gateways[gateway.id]
        if now_ms - self._retired_turned_ms > RETIRED_KEPT_MS:
            self._retired_turned_ms = now_ms
            for gateway in state.gateways.values():
                gateway.turn_retired()
        state.changed.update(dict.fromkeys(state.brief.take_due(now_ms)))
        due = [
            client
            for client in state.dirty_cursors
            if now_ms - client.stored_ms >= (STORE_EVERY_MS if client.kept else STORE_CURSORS_EVERY_MS)
        ]
        for client in due:
            del state.dirty_cursors[client]
            if state.is_worth_keeping(client):
                state.changed[client] = None

    def _look_for_a_successor(self, now_ms: int) -> None:
        state = self._state
        if state.generation_heard <= state.generation:
            self._outdone_since_ms = None
        elif self._outdone_since_ms is None:
            self._outdone_since_ms = now_ms
        state.outdone = self._outdone_since_ms is not None and now_ms - self._outdone_since_ms >= OUTDONE_MS

    def _end_sessions(self, gateway: GatewayView, will: int) -> None:
        """End the sessions of a silent gateway, which counts as dead. `will`: what becomes of their wills."""
        state = self._state
        state.count("silent_gateways")
        for client in state.clients_of(gateway):
            state.end_session(client, will)
        # If it is heard again it announces the same sessions: they must not be taken for those that are still in the
        # index. So it is another one from here on, and only its numbers continue.
        state.gateways[gateway.id] = gateway.successor()
