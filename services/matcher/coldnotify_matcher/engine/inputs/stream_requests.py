"""Requests about a session's streams: their beginning, pages, acknowledgements, and Beats, which move live ones on."""

from collections.abc import Iterable

from coldnotify_schemas import internal_pb2

from coldnotify_matcher.engine.channels.channel_requests import ChannelRequests
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import NO_ASK, EngineSession
from coldnotify_matcher.engine.gateways.gateways import GatewayView
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.streams.stream import NO_CURSOR
from coldnotify_matcher.engine.telling.conflation import Conflation
from coldnotify_matcher.engine.telling.paging import Paging

DISAGREES_MS_MAX = 45_000
"""A gateway whose Beats do not agree announces its sessions after ten seconds, and those Opens wait for Kafka. Sessions
that it has not announced after this time do not exist there: a slow one that is ended in vain comes back at once."""


class StreamRequests:
    """Handles these requests."""

    def __init__(
        self, state: PartitionState, paging: Paging, conflation: Conflation, channels: ChannelRequests
    ) -> None:
        self._state = state
        self._paging = paging
        self._conflation = conflation
        self._channels = channels

    def begin(
        self, client: RegisteredClient, session: EngineSession, cursor: int, owed: Iterable[Obj], now_ms: int
    ) -> None:
        """Begin to catch both streams up, because the digests are the same: objects from `cursor` on, with these
        answers.

        If channels lack nothing, the page of objects says so.
        """
        self._channels.begin(client, session)
        self._paging.begin(client, session, cursor, owed, now_ms)
        self._channels.begin_pages(client, session, now_ms)

    def catch_up(
        self, client: RegisteredClient, session: EngineSession, request: internal_pb2.CatchUp, offset: int, now_ms: int
    ) -> None:
        """Send a page of objects, which the gateway asks for at this offset."""
        if not session.in_sync:
            self._open_again(client, session)
            return
        stream = session.objects
        # A gateway of release 0.1.0 does not name the row.
        is_next = stream.is_next(request.ask, request.page, request.paging or stream.paging)
        stream.asked(request.ask, page_bytes=request.page_bytes, entries_max=request.entries_max)
        if is_next:
            self._paging.next_page(client, session, offset, now_ms)
            return
        cursor_counts = (
            request.HasField("cursor")
            and request.cursor < self._state.position
            and (not request.HasField("epoch") or request.epoch == self._state.epoch)
        )
        # A client that keeps nothing has what is kept for it.
        cursor = request.cursor if cursor_counts else client.cursor if client.kept else NO_CURSOR
        # If we did not send this page above 0, a predecessor did: the next one goes on from there.
        self._paging.begin(client, session, cursor, session.answers.objects, now_ms, after_page=request.page)

    def catch_up_channels(
        self, client: RegisteredClient, session: EngineSession, request: internal_pb2.CatchUp, now_ms: int
    ) -> None:
        """Send a page of channels, which the gateway asks for."""
        if session.in_sync:
            self._channels.catch_up(client, session, request, now_ms)
            return
        self._channels.asked(client, session, request)
        if session.objects.ask == NO_ASK:
            self._open_again(client, session)

    def on_acks(self, gateway: GatewayView, acks: internal_pb2.Acks, offset: int, now_ms: int) -> None:
        """Note the offsets that clients have applied, as the request at this offset says."""
        for number, complete in zip(acks.sessions, acks.completes, strict=False):
            key = gateway.sessions.get(number)
            if key is not None:
                client = self._state.clients[key]
                self._state.see(client, now_ms)
                if self._is_ours(acks):
                    self._state.acknowledge(client, complete, offset)
        for stream in acks.streams[:1]:
            self._channels.acks(gateway, stream, offset, now_ms)

    def on_leave(self, client: RegisteredClient, leave: internal_pb2.Leave, offset: int) -> None:
        """End the session; the request, at this offset, contains its client's cursors."""
        if leave.HasField("complete") and self._is_ours(leave):
            self._state.acknowledge(client, leave.complete, offset)
        for stream in leave.streams[:1]:
            if self._channels.is_ours(client, stream):
                self._state.acknowledge_channels(client, stream.complete, offset)
        if client.kept and leave.HasField("expiry_s"):
            client.keep(client.filters.protocol, leave.expiry_s)
        if leave.bye:
            self._state.shares.give_back_all(client, offset, self._state.steady_ms)
        self._state.end_session(client, leave.will)

    def on_beat(self, gateway: GatewayView, beat: internal_pb2.Beat, now_ms: int) -> None:
        """Compare a gateway's sessions with ours, and answer with the offset up to which live ones have received
        everything."""
        self._state.generation_heard = max(self._state.generation_heard, beat.generation)
        agreed = gateway.agrees(beat.sessions, beat.checksum, now_ms)
        since_ms = gateway.disagrees_since_ms
        if since_ms is not None and now_ms - since_ms >= DISAGREES_MS_MAX:
            self._end_what_is_not_announced(gateway, since_ms)
            gateway.doubt_anew(now_ms)
        # For sessions that only the gateway knows the offset would be wrong.
        done = self._conflation.floor
        complete = done - 1 if agreed and done else None
        age_ms = self._state.ends.age_ms(self._state.position, self._state.now_s) if agreed else None
        answer = internal_pb2.BeatAnswer(agreed=agreed, complete=complete, serial=beat.serial, age_ms=age_ms)
        if agreed:
            self._say_held(answer)
            self._channels.complete(answer)
        gateway.tell(internal_pb2.Item(beat=answer))

    def _say_held(self, answer: internal_pb2.BeatAnswer) -> None:
        state = self._state
        if not answer.HasField("age_ms"):
            return
        for domain, offset in self._conflation.held_domains():
            answer.held.add(domain=domain, age_ms=state.ends.age_ms(offset, state.now_s))

    def _open_again(self, client: RegisteredClient, session: EngineSession) -> None:
        """Answer a request for pages of a paused session: its gateway missed the notice, or ignored it because the
        session was slow. Without an answer it would wait, and its client would receive nothing meanwhile."""
        self._state.announce_anew(client, session)

    def _is_ours(self, said: internal_pb2.Acks | internal_pb2.Leave) -> bool:
        """Returns true if its cursors belong to this epoch. A request from an earlier one is handled again by the
        present owner."""
        return not said.HasField("epoch") or said.epoch == self._state.epoch

    def _end_what_is_not_announced(self, gateway: GatewayView, since_ms: int) -> None:
        """End sessions that the gateway has not announced. It has announced all that it has, so it never had these, or
        lost them."""
        for client in self._state.clients_of(gateway):
            if client.session is not None and client.session.announced_ms < since_ms:
                self._state.count("never_announced")
                self._state.end_session(client)
