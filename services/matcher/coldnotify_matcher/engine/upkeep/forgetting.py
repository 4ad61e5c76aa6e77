"""Forgetting clients: those that an operator names, and, as garbage collection, those that are offline and not seen for
long.

A client that has nothing to lose goes within minutes: it has no registrations, or it is a page that only looked.

All clients are checked in turn, a bounded number a tick, so that a tick's cost has a bound whatever their number; and
the number of records a tick is bounded, too. If a client comes back its digest is not that of an empty set, and a
reg-sync makes it whole. No client is forgotten by a clock that others contradict, and of those that have something to
lose only few at once, unless the clock is known to be right (`removal_brake`).

A crash may come between any two of the tombstones. That of the session record, which says when the client was last
seen, is written only when those of the registrations are durable: the next owner collects the rest.
"""

from itertools import islice

from coldnotify_common.clocks import APART_MS_MAX
from coldnotify_schemas.matcher_state import EXPIRY_NEVER

from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.upkeep.removal_brake import RemovalBrake
from coldnotify_matcher.engine.writing.client_records import null_of
from coldnotify_matcher.engine.writing.outbox import EngineOutbox

LOOKED_AT_A_TICK_MAX = 1_000
"""Takes a millisecond or two; a million clients of one partition are checked within 17 minutes."""
FLEETING_FORGOTTEN_AFTER_MS = 300_000
"""For a client without registrations, or a page that only looked. Longer than a request of it can wait to be handled
again after a crash, or a gateway can stand still and be taken for dead."""
EXPIRED_A_STEP_MAX = 1_000
"""All clients of a gateway that died are forgotten within a minute."""
RECORDS_A_TICK_MAX = 200
"""A hundred clients of few registrations a second. The last client of a tick may exceed it, by its 158 records."""


class Forgetting:
    """Checks clients in turn, and removes those whose time has come."""

    def __init__(self, state: PartitionState, outbox: EngineOutbox) -> None:
        self._state = state
        self._outbox = outbox
        self.brake = RemovalBrake()
        self._to_look_at: list[RegisteredClient] = []
        self._sessions: list[RegisteredClient] = []
        """Clients forgotten in this step: the tombstones of their session records are to be written."""

    def on_tick(self, now_ms: int) -> None:
        """Forget those whose time has come. The tombstones of their registrations are written."""
        state = self._state
        if not self._to_look_at:
            self.brake.end_round(len(state.clients), now_ms)
            self._to_look_at = list(state.clients.values())
        records = 0
        going = self.brake.going
        for _ in range(min(LOOKED_AT_A_TICK_MAX, len(self._to_look_at) + len(going))):
            if records + len(self._sessions) >= RECORDS_A_TICK_MAX:
                break
            may_go = bool(going)
            client = state.clients.get(going.pop()) if may_go else self._to_look_at.pop()
            if client is not None:
                records += self._look(client, now_ms, may_go=may_go)

    def _look(self, client: RegisteredClient, now_ms: int, *, may_go: bool) -> int:
        """Check one client. Returns the number of records that this writes."""
        state = self._state
        state.at = client.key
        after_ms = self._after_ms(client)
        if client.session is not None or state.clients.get(client.key) is not client or not after_ms:
            return 0
        clocks = state.rules.clocks
        if not clocks.allows(after_ms):
            return 0
        if not client.last_seen_ms or client.last_seen_ms > now_ms + APART_MS_MAX:
            # Its session record is lost, or comes from a clock that was ahead: the time is unknown, so it begins now.
            client.last_seen_ms = now_ms
            state.changed[client] = None
            return 1
        if now_ms - client.last_seen_ms < after_ms:
            return 0
        if not may_go and client.registered and not self.brake.is_open(clocks, after_ms, now_ms):
            self.brake.found(client.key)
            return 0
        if may_go:
            self.brake.removed(now_ms)
        state.count("forgotten")
        return self.forget(client)

    def _after_ms(self, client: RegisteredClient) -> int:
        """Returns the time after which it is forgotten; 0: never."""
        after_ms = self._state.rules.forgotten_after_ms
        if client.kept and client.filters.protocol:
            if client.filters.expiry_s == EXPIRY_NEVER:
                return after_ms
            expiry_ms = max(client.filters.expiry_s * 1000, 1)
            return min(after_ms or expiry_ms, expiry_ms)
        if client.registered and not client.looks:
            return after_ms
        return min(after_ms or FLEETING_FORGOTTEN_AFTER_MS, FLEETING_FORGOTTEN_AFTER_MS)

    def forget_expired(self) -> None:
        """Forget clients whose kept sets have ended with their sessions. No clock is asked."""
        expired = self._state.expired
        for client in list(islice(expired, EXPIRED_A_STEP_MAX)):
            del expired[client]
            if client.session is None and self._state.clients.get(client.key) is client:
                self._state.count("forgotten")
                self.forget(client)

    def write_sessions(self) -> None:
        """Write the tombstones of their session records, once those of the registrations are durable."""
        state = self._state
        gone, self._sessions = self._sessions, []
        for client in gone:
            back = state.clients.get(client.key)
            if back is None or not back.session_stored:  # else it has come back within this very step
                self._outbox.write_last(null_of(state, state.rules.topics.sessions, client.key))

    def forget(self, client: RegisteredClient) -> int:
        """Unregister the client, which has no session, and keep nothing of it. Returns the number of tombstones.

        `write_sessions` follows in the same step, once the records of clients that came back within it are written.
        """
        state = self._state
        state.unreleased.drop_all(client)
        state.shares.forget(client, state.steady_ms)
        for obj in client.forget():
            state.forget_if_idle(obj)
        state.drop_client(client)  # a client without registrations disappears with its session
        state.changed.pop(client, None)
        state.dirty_cursors.pop(client, None)
        state.kept_cursors.written(client)
        state.expired.pop(client, None)
        state.wills.expire(client.key)
        self._sessions.append(client)
        for bucket in range(len(client.buckets)):
            self._outbox.write(null_of(state, state.rules.topics.registrations, f"{client.key}/{bucket}"))
        return len(client.buckets)
