"""Requests about registrations: Register, Unregister, whole sets, and reports of unsettled registrations.

A frame contains one list of interests. Kinds are registered one after the other, in the order of the frames' lists.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.wire_pb2 import INTEREST_FILTER, INTEREST_SHARE

from coldnotify_matcher.engine.channels.channel_requests import ChannelRequests
from coldnotify_matcher.engine.clients import unsettled_registrations
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.half_sets import Packed
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.inputs.opened_answers import OpenedAnswers
from coldnotify_matcher.engine.inputs.registering.filter_registering import FilterRegistering
from coldnotify_matcher.engine.inputs.registering.name_registering import NameRegistering
from coldnotify_matcher.engine.inputs.registering.query_registering import QueryRegistering
from coldnotify_matcher.engine.inputs.registering.share_registering import ShareRegistering
from coldnotify_matcher.engine.inputs.stream_requests import StreamRequests
from coldnotify_matcher.engine.interests.kinds import (
    KINDS,
    channels_in,
    filters_in,
    hashes_of,
    packed,
    queries_in,
    shares_in,
)
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.streams.stream import NO_CURSOR
from coldnotify_matcher.engine.telling.index import Index
from coldnotify_matcher.engine.telling.paging import PAGE_BYTES_MAX

REFUSALS_MAX = 500
"""Refusals named in one Welcome, which must not be too large a frame for a client. The next reg-sync names the
others."""


@dataclass(slots=True)
class HelloOutcome:
    """The outcome of registering the interests in a Hello."""

    hashes: list[int]
    """The hashes of its queries and channels."""
    registered: list[Obj]
    """Objects in it that the client is registered for now."""
    refused: list[wire_pb2.Refusal]
    positions: list[wire_pb2.Position]


class RegistrationRequests:
    """Handles these requests."""

    def __init__(
        self,
        state: PartitionState,
        index: Index,
        channels: ChannelRequests,
        opened: OpenedAnswers,
        streams: StreamRequests,
        filters: FilterRegistering,
    ) -> None:
        self._shares = ShareRegistering(state)
        self._state = state
        self._channels = channels
        self._opened = opened
        self._streams = streams
        self._names = NameRegistering(state, index)
        self._queries = QueryRegistering(state)
        self._filters = filters

    def open(
        self, offset: int, client: RegisteredClient, session: EngineSession, request: internal_pb2.Open
    ) -> HelloOutcome:
        """Register the interests in an Open, and unregister others."""
        outcome = HelloOutcome([], [], [], [])
        names, said, gone = request.register, request.interests, request.unregister_interests
        if client.kept:
            return self._open_kept(offset, client, session, request)
        others = bool(said or gone or client.channels or request.streams)
        if not (names or request.unregister or others):
            self._state.note_registrations(offset, client)
            return outcome
        if request.unregister or gone:
            self._names.unregister(offset, client, session, request.unregister)
        # A slice: iteration over the wire's own list ends with an exception that it raises, which takes a microsecond.
        outcome.registered, outcome.refused = self._names.register(offset, client, session, names[:])
        if not others:
            return outcome
        outcome.hashes = hashes_of(said)
        queries, channels = queries_in(said), channels_in(said)
        if queries or gone:
            self._queries.unregister(offset, client, gone)
            # The reached part refers to an offset, which belongs to this log only in its epoch.
            goes_on = request.epoch == self._state.epoch
            outcome.refused += self._queries.register(offset, client, session, queries, goes_on=goes_on)
        if client.channels or channels or gone or request.streams:
            refused, outcome.positions = self._channels.open(offset, client, session, request, channels)
            outcome.refused += refused
            self._state.note_registrations(offset, client)
        if filters := filters_in(said):
            outcome.refused += self._filters.register(offset, client, session, filters).refused
        self._shares.unregister(offset, client, gone)
        if shares := shares_in(said):
            outcome.refused += self._shares.register(offset, client, shares)
        return outcome

    def _open_kept(
        self, offset: int, client: RegisteredClient, session: EngineSession, request: internal_pb2.Open
    ) -> HelloOutcome:
        said = request.interests[:]
        self._shares.unregister(offset, client, request.unregister_interests)
        refused = self._shares.register(offset, client, shares_in(said))
        self._filters.unregister(offset, client, session, request.unregister_interests)
        outcome = self._filters.register(offset, client, session, filters_in(said))
        return HelloOutcome([], [], [*refused, *outcome.refused, *_others_refused(request.register, said)], [])

    def on_said_in_hello(
        self, offset: int, client: RegisteredClient, request: internal_pb2.Open, outcome: HelloOutcome, now_ms: int
    ) -> None:
        """Note an Open's report of registrations that its client's application has not taken."""
        if offset < client.registrations_applied:
            return  # later requests of the client are handled already
        pending = unsettled_registrations.asked_for(client, outcome.registered, outcome.hashes)
        if request.all_unsettled:
            unsettled_registrations.tells(client, can=True)
            unsettled_registrations.say_all(client, pending, now_ms)
        elif pending:
            # Its library is an older one now, or its gateway is. So also in an Open again, which has some only if no
            # Opened came: the first one may be lost.
            unsettled_registrations.tells(client, can=False)
        self._state.note_registrations(offset, client)

    def on_unsettled(
        self, offset: int, client: RegisteredClient, session: EngineSession, said: wire_pb2.Unsettled, now_ms: int
    ) -> None:
        """Handle an Unsettled frame."""
        if offset >= client.registrations_applied:
            unsettled_registrations.tells(client, can=True)
            unsettled_registrations.on_frame(client, self._state.objects, said, now_ms)
            self._state.note_registrations(offset, client)
        answer = internal_pb2.Answered(session=session.number, request=said.request, digest=client.digest)
        session.gateway.tell(internal_pb2.Item(answered=answer))

    def on_register(
        self, offset: int, client: RegisteredClient, session: EngineSession, request: wire_pb2.Register, now_ms: int
    ) -> None:
        """Handle a Register. The answer contains newest versions of objects, or tells the gateway to ask for pages."""
        said = request.interests[:]
        if client.kept:
            self._register_filters(offset, client, session, request)
            return
        queries, channels = queries_in(said), channels_in(said)
        registered, refused = self._names.register(offset, client, session, request.objects[:])
        if queries:
            # A session without a cursor receives all answers unasked: one may have begun, perhaps by a predecessor.
            goes_on = session.objects.complete != NO_CURSOR
            refused += self._queries.register(offset, client, session, queries, goes_on=goes_on)
        if filters := filters_in(said):
            refused += self._filters.register(offset, client, session, filters).refused
        shares = shares_in(said)
        if shares:
            refused += self._shares.register(offset, client, shares)
        answer = internal_pb2.Answered(
            session=session.number, request=request.request, refused=refused, digest=client.digest
        )
        if shares:
            answer.kinds = self._kinds(client, session)
        if queries:
            answer.kinds = self._kinds(client, session)
            # Pages that are under way to it contain the answers. A predecessor's are asked for again in any case.
            answer.catch_up = bool(session.answers.owed) and not session.objects.under_way
        if channels:
            answer.kinds = self._kinds(client, session)
            self._channels.register(offset, client, session, channels, answer)
            self._state.note_registrations(offset, client)
            answer.digest = client.digest
        if client.tells_unsettled and offset >= client.registrations_applied:
            asked_for = unsettled_registrations.asked_for(client, registered, hashes_of(said))
            unsettled_registrations.put(client, asked_for, now_ms)
            self._state.note_registrations(offset, client)
        size = 0
        for obj in registered:
            newest = obj.newest(self._state.expires_ms(now_ms), answer=True)
            newest_bytes = newest.ByteSize()
            if size and size + newest_bytes > PAGE_BYTES_MAX:
                session.gateway.tell(internal_pb2.Item(answered=answer))
                answer = internal_pb2.Answered(session=session.number, digest=client.digest)
                size = 0
            answer.newest.append(newest)
            size += newest_bytes
        session.gateway.tell(internal_pb2.Item(answered=answer))

    def _register_filters(
        self, offset: int, client: RegisteredClient, session: EngineSession, request: wire_pb2.Register
    ) -> None:
        said = request.interests[:]
        if not session.was_present:
            client.filters.begin_anew()
        shares = shares_in(said)
        there = [hash_ for hash_ in hashes_of(shares) if hash_ in client.shares]
        refused = self._shares.register(offset, client, shares)
        outcome = self._filters.register(offset, client, session, filters_in(said))
        answer = internal_pb2.Answered(
            session=session.number,
            request=request.request,
            refused=[*refused, *outcome.refused, *_others_refused(request.objects, said)],
            there=[*outcome.there, *there],
            digest=client.digest,
            kinds=self._kinds(client, session),
            # Pages that are under way to it contain the answers, as for queries.
            catch_up=bool(session.filter_answers.owed) and not session.objects.under_way,
        )
        session.gateway.tell(internal_pb2.Item(answered=answer))

    def on_unregister(
        self, offset: int, client: RegisteredClient, session: EngineSession, request: wire_pb2.Unregister
    ) -> None:
        """Handle an Unregister."""
        self._names.unregister(offset, client, session, request.objects)
        # A hash does not show its kind.
        self._queries.unregister(offset, client, request.interests)
        shared = {hash_ for hash_ in request.interests if hash_ in client.shares}
        self._shares.unregister(offset, client, request.interests)
        if request.interests:
            self._channels.unregister(offset, client, session, request.interests)
            self._state.note_registrations(offset, client)
        absent = self._filters.unregister(offset, client, session, request.interests) if client.kept else ()
        session.gateway.tell(
            internal_pb2.Item(
                answered=internal_pb2.Answered(
                    session=session.number,
                    request=request.request,
                    unregistered=True,
                    digest=client.digest,
                    there=[hash_ for hash_ in absent if hash_ not in shared],
                )
            )
        )

    def on_sync(
        self, offset: int, client: RegisteredClient, session: EngineSession, chunk: wire_pb2.SyncChunk, now_ms: int
    ) -> None:
        """Handle a part of a whole set. After the last one the client is registered for the contents of the set, and
        nothing else."""
        half_sets = self._state.half_sets
        if chunk.index == 0:
            half_sets.forget(session)
        in_order = chunk.index == half_sets.chunks(session)
        if not in_order:
            # The parts before were dropped, or went to a matcher that is gone, or the client began twice.
            half_sets.forget(session)
            if chunk.last:
                session.disagree()
                self._opened.tell(client, session, in_sync=False, client_epoch=self._state.epoch)
            return
        room = self._state.registrations_max + REFUSALS_MAX - len(half_sets.said(session))
        said: list[Packed] = [*chunk.objects]
        said += map(packed, chunk.interests)
        del said[max(room, 0) :]
        if not chunk.last:
            dropped = half_sets.add(session, said, self._state.rules.half_sets_bytes_max, now_ms)
            if dropped:
                self._state.count("half_sets_dropped", dropped)
            return
        wanted = dict.fromkeys([*half_sets.forget(session), *said])
        names = [one for one in wanted if isinstance(one, str)]
        interests = [wire_pb2.Interest.FromString(one) for one in wanted if isinstance(one, bytes)]
        if client.kept:
            self._sync_filters(offset, client, session, names, interests, now_ms)
            return
        queries, channels = queries_in(interests), channels_in(interests)
        self._names.keep(offset, client, session, names)
        before = set(client.registrations()) if client.tells_unsettled else None
        _, refused = self._names.register(offset, client, session, names)
        self._queries.unregister(offset, client, client.queries.keys() - set(hashes_of(queries)))
        refused += self._queries.register(offset, client, session, queries, goes_on=False)
        refused += self._filters.register(offset, client, session, filters_in(interests)).refused
        shares = shares_in(interests)
        self._shares.unregister(offset, client, client.shares.keys() - set(hashes_of(shares)))
        refused += self._shares.register(offset, client, shares)
        positions: list[wire_pb2.Position] = []
        if client.channels or channels or session.channels is not None:
            refused_channels, positions = self._channels.sync(offset, client, session, channels)
            refused += refused_channels
            self._state.note_registrations(offset, client)
        if before is not None and offset >= client.registrations_applied:
            unsettled_registrations.put(client, [one for one in client.registrations() if one not in before], now_ms)
            self._state.note_registrations(offset, client)
        self._state.count("syncs")
        self._opened.tell(
            client, session, in_sync=True, client_epoch=self._state.epoch, refused=refused, positions=positions
        )
        self._streams.begin(client, session, NO_CURSOR, client.objects(), now_ms)

    def _sync_filters(
        self,
        offset: int,
        client: RegisteredClient,
        session: EngineSession,
        names: Sequence[str],
        said: Sequence[wire_pb2.Interest],
        now_ms: int,
    ) -> None:
        """Take over a whole set of a client that keeps none: its gateway has it. It goes on at the session's place."""
        filters, shares = filters_in(said), shares_in(said)
        self._shares.unregister(offset, client, client.shares.keys() - set(hashes_of(shares)))
        refused = self._shares.register(offset, client, shares)
        self._filters.unregister(offset, client, session, client.filters.keys() - set(hashes_of(filters)))
        outcome = self._filters.register(offset, client, session, filters, restored=True)
        client.filters.make_whole()
        self._state.count("syncs")
        refused += [*outcome.refused, *_others_refused(names, said)]
        self._opened.tell(client, session, in_sync=True, client_epoch=self._state.epoch, refused=refused)
        self._streams.begin(client, session, session.objects.cursor, (), now_ms)

    def _kinds(self, client: RegisteredClient, session: EngineSession) -> int:
        if self._state.log_of(client) is None:
            return KINDS
        shares = wire_pb2.KINDS_SHARES if session.shares and self._state.shares.offered else 0
        return KINDS | wire_pb2.KINDS_CHANNELS | shares


def _others_refused(names: Iterable[str], said: Iterable[wire_pb2.Interest]) -> list[wire_pb2.Refusal]:
    """Returns refusals of what is no filter, for a client whose set is kept."""
    reason = "only filters and shares are registered in a set that the service keeps"
    others = hashes_of(one for one in said if one.kind not in (INTEREST_FILTER, INTEREST_SHARE))
    return [
        *(wire_pb2.Refusal(object=name, reason=reason) for name in names),
        *(wire_pb2.Refusal(interest=hash_, reason=reason) for hash_ in others),
    ]
