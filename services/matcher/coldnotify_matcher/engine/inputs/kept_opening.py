"""Opens of clients whose sets are kept here: what was kept counts, and not what the gateway says.

Present is a set that was kept and is whole. What is not whole, or has expired, is forgotten as a whole: its client
hears that nothing is present, and registers from nothing. It never goes on with a part.
"""

from coldnotify_schemas import internal_pb2
from coldnotify_schemas.matcher_state import EXPIRY_NEVER

from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.inputs.receiving import unreleased_of
from coldnotify_matcher.engine.inputs.registering.filter_registering import FilterRegistering
from coldnotify_matcher.engine.inputs.registering.share_registering import ShareRegistering
from coldnotify_matcher.engine.interests.by_channel import NO_EPOCH
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.streams.stream import NO_CURSOR

NATIVE = "registered by the device protocol: forget it first"
KEPT = "registered with a set that the service keeps: forget it first"
_PROTOCOL = "unsaid"
"""The protocol of a gateway that names none."""


def why_not_allowed(client: RegisteredClient, request: internal_pb2.Open) -> str:
    """Returns the reason why this client may not open such a session, because it has a set of the other kind; "": it
    may."""
    if request.HasField("kept"):
        return NATIVE if not client.kept and client.registered else ""
    return KEPT if client.kept and (client.registered or client.session_stored) else ""


class KeptOpening:
    """Begins sessions of such clients."""

    def __init__(self, state: PartitionState, filters: FilterRegistering) -> None:
        self._state = state
        self._filters = filters
        self._shares = ShareRegistering(state)

    def has_expired(self, client: RegisteredClient, *, displaced: bool, now_ms: int) -> bool:
        """Returns true if the client's set has ended, and is not forgotten yet. `displaced`: its session ends now."""
        expiry_s = client.filters.expiry_s
        if not client.kept or expiry_s == EXPIRY_NEVER or not client.filters.protocol:
            return False
        if client.session is not None:
            return displaced and not expiry_s
        trust = self._state.rules.clocks
        return not expiry_s or (trust.allows(expiry_s * 1000) and now_ms - client.last_seen_ms >= expiry_s * 1000)

    def begin(
        self,
        offset: int,
        client: RegisteredClient,
        session: EngineSession,
        kept: internal_pb2.Kept,
        *,
        ended: bool,
        known: bool,
    ) -> None:
        """Begin a session with what is kept. `ended`: that has expired, or its client does not want it. `known`: its
        record is here, of a matcher that began it: its client may have heard what was present."""
        state = self._state
        replayed = offset < client.registrations_applied
        there = client.registered or client.session_stored
        present = client.kept and client.filters.whole and there and not ended and session.was_present
        if not present and (ended or not known):
            session.begins_anew()
            if not replayed:
                self._shares.unregister(offset, client, list(client.shares))
                self._filters.unregister(offset, client, session, list(client.filters))
                state.unreleased.drop_all(client, offset)
                client.place(state.position - 1)
                client.keep()
                client.filters.place_channels(NO_EPOCH, NO_CURSOR)
            if there and not ended:
                client.filters.lose()
            else:
                client.filters.make_whole()
        will = kept.will if kept.HasField("will") else None
        state.wills.begin(client.key, session.gateway.id, session.number, will, offset, goes_on=not ended)
        self.go_on(offset, client, session, kept)

    def has_lost_its_will(
        self, client: RegisteredClient, gateway: int, number: int, request: internal_pb2.Open
    ) -> bool:
        """Returns true if an Open announces a session whose will is over: its client must hear so, and say that it is
        there."""
        if not request.kept.HasField("will") or not request.again or request.never_opened:
            return False
        return self._state.wills.is_over(client.key, gateway, number)

    def go_on(self, offset: int, client: RegisteredClient, session: EngineSession, kept: internal_pb2.Kept) -> None:
        """Note how long the set is kept, and owe the session what was not acknowledged."""
        self._state.wills.resume(client.key, session.gateway.id, session.number, offset)
        client.keep(kept.protocol or _PROTOCOL, kept.expiry_s)
        session.takes_packets(kept.packet_bytes_max)
        self._state.expired.pop(client, None)
        answers = session.filter_answers
        for one in client.filters.values():
            if one.owed and one.hash not in answers.owed and one.hash not in answers.ended:
                answers.owe(one.hash)

    def said(self, client: RegisteredClient, session: EngineSession) -> internal_pb2.KeptSet:
        """Returns what is kept, for the gateway. One that knows no shares would take them for filters."""
        shares = client.shares.values() if session.shares else ()
        return internal_pb2.KeptSet(
            present=session.was_present,
            filters=[*(one.said() for one in client.filters.values()), *(one.said() for one in shares)],
            complete=client.cursor if client.cursor >= 0 else None,
            unreleased=map(unreleased_of, client.filters.unreleased.values()),
        )
