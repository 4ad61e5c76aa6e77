"""Requests of gateways about channels: parts of Open, Register, Unregister, SyncChunk and Acks, and its CatchUp."""

from collections.abc import Iterable, Sequence

from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.close_codes import CloseCode

from coldnotify_matcher.engine.channel_logs.channel_log import ChannelLog
from coldnotify_matcher.engine.channels.channel_paging import CatchingUp
from coldnotify_matcher.engine.channels.registering import RegisteredChannels, Registering
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.gateways.gateways import GatewayView
from coldnotify_matcher.engine.interests.by_channel import NO_EPOCH
from coldnotify_matcher.engine.interests.kinds import channel_text_of
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.streams.stream import NO_CURSOR, FollowedStage

_NONE = internal_pb2.OpenStream()


class ChannelRequests:
    """Handles these requests, for clients that have channels or name some."""

    def __init__(self, state: PartitionState, catching_up: CatchingUp) -> None:
        self._state = state
        self._registering = Registering(state)
        self._catching_up = catching_up

    def open(
        self,
        offset: int,
        client: RegisteredClient,
        session: EngineSession,
        request: internal_pb2.Open,
        said: Sequence[wire_pb2.Interest],
    ) -> tuple[list[wire_pb2.Refusal], list[wire_pb2.Position]]:
        """Handle an Open that names channels, or whose client has some. Returns (the refused ones, positions)."""
        log = self._state.log_of(client)
        if log is None:
            return [], []
        replayed = offset < client.registrations_applied
        self.pause(client, session)
        self.unregister(offset, client, session, request.unregister_interests)
        void = _is_void(log, _stream_in(request))
        registered = self._register(log, client, session, said, replayed=replayed, void=void)
        self._registering.begin_anew(log, client, registered, replayed=replayed, void=void)
        if not client.channels:
            session.leave_channels()
            if _stream_in(request).ask:
                # Its gateway waits for a page in any case, and accepts nothing of channels until that has come.
                self._remember(log, session, request)
            return registered.refused, []
        self._remember(log, session, request)
        self._note(session, registered)
        self._note_cursor(log, client, session, request)
        return registered.refused, registered.positions()

    def open_kept(
        self, client: RegisteredClient, session: EngineSession, request: internal_pb2.Open, *, begins: bool
    ) -> None:
        """Handle an Open of a client whose set is kept: its filters fit channels, too. `begins`: its gateway does not
        know its cursor."""
        log = self._state.log_of(client)
        if log is None:
            return
        self.pause(client, session)
        said, kept = _stream_in(request), client.filters
        known = said.HasField("cursor") and not _is_void(log, said)
        lost: Iterable[int] = ()
        if known and not begins:
            cursor = said.cursor
        elif kept.channels_epoch == log.epoch:
            cursor = min(kept.channels_cursor, log.position - 1)
            lost = [hash_ for hash_, one in kept.items() if one.missed is not None]
        elif not kept:
            cursor = log.position - 1  # it begins anew
        else:
            cursor, lost = log.log_start - 1, kept
            for one in kept.values():
                self._catching_up.miss(client, one, NO_CURSOR, cursor + 1, wire_pb2.LOST)
        self._remember(log, session, request)
        stream = session.follow_channels()
        stream.place(cursor)
        stream.positions.lose(lost)
        acked = min(said.acked, cursor) if known and said.HasField("acked") else cursor
        if kept.channels_epoch != log.epoch or acked > kept.channels_cursor:
            kept.place_channels(log.epoch, acked)

    def await_set(self, client: RegisteredClient, session: EngineSession, request: internal_pb2.Open) -> None:
        """Remember an Open whose digest differs: its channels count once the set is whole, which may contain some."""
        log = self._state.log_of(client)
        if log is not None and (session.channels is None or session.channels.ask != _stream_in(request).ask):
            # An earlier Open of this session may have been remembered: its client does not receive the answer to that.
            self._remember(log, session, request)

    def register(
        self,
        offset: int,
        client: RegisteredClient,
        session: EngineSession,
        said: Sequence[wire_pb2.Interest],
        answer: internal_pb2.Answered,
    ) -> None:
        """Handle a Register that names channels."""
        log = self._state.log_of(client)
        if log is None:
            return
        replayed = offset < client.registrations_applied
        registered = self._register(log, client, session, said, replayed=replayed, void=False)
        answer.refused.extend(registered.refused)
        if not registered.begins:
            return
        stream = session.follow_channels()
        self._note(session, registered)
        begun = answer.streams.add(log=log.number, positions=registered.positions())
        if stream.take_epoch():
            # It may know nothing of the log that its cursor belonged to: without channels it keeps no epoch.
            begun.epoch = log.epoch
        # Pages that are under way to it contain these.
        begun.catch_up = not stream.under_way

    def unregister(self, offset: int, client: RegisteredClient, session: EngineSession, hashes: Iterable[int]) -> None:
        """Remove channels of the client's registrations."""
        log = self._state.log_of(client)
        if log is None or offset < client.registrations_applied:
            return
        self._unregister(log, client, session, hashes)
        if not (client.channels or client.kept):
            self._drop(log, client, session)

    def _unregister(
        self, log: ChannelLog, client: RegisteredClient, session: EngineSession, hashes: Iterable[int]
    ) -> None:
        for hash_ in hashes:
            channel = client.channels.get(hash_)
            if channel is not None:
                client.unregister_channel(channel)
                self._catching_up.remove(log, session, channel)
                self._state.count("channels_unregistered")

    def sync(
        self, offset: int, client: RegisteredClient, session: EngineSession, said: Sequence[wire_pb2.Interest]
    ) -> tuple[list[wire_pb2.Refusal], list[wire_pb2.Position]]:
        """Take over the channels of a whole set. Returns (the refused ones, positions)."""
        log = self._state.log_of(client)
        if log is None:
            return [], []
        named = set(map(channel_text_of, said))
        replayed = offset < client.registrations_applied
        if not replayed:
            gone = [hash_ for hash_, one in client.channels.items() if one.text not in named]
            self._unregister(log, client, session, gone)
        void = session.channels is not None and session.channels.positions.void
        registered = self._register(log, client, session, said, replayed=replayed, void=False, void_begins=void)
        self._registering.begin_anew(log, client, registered, replayed=replayed, void=False)
        if session.channels is not None:
            session.channels.positions.said_whole_set()
        if client.channels:
            session.follow_channels().positions.said_anew()
            self._note(session, registered)
        return registered.refused, registered.positions()

    def tell_opened(
        self,
        client: RegisteredClient,
        session: EngineSession,
        opened: internal_pb2.Opened,
        positions: Sequence[wire_pb2.Position],
    ) -> None:
        """Add the stream of channels to an Opened, if its client has any."""
        log = self._state.log_of(client)
        if log is None:
            return
        opened.kinds |= wire_pb2.KINDS_CHANNELS
        stream = session.channels
        if stream is not None and (client.channels or client.kept):
            complete = stream.cursor if client.kept and stream.cursor != NO_CURSOR else None
            begun = opened.streams.add(log=log.number, positions=positions, complete=complete)
            if stream.take_epoch():
                begun.epoch = log.epoch

    def begin(self, client: RegisteredClient, session: EngineSession) -> None:
        """Begin to catch its channels up. If nothing is missing, the next Page says so."""
        log = self._state.log_of(client)
        stream = session.channels
        if log is None or stream is None or not (client.channels or client.kept):
            return
        after_page = stream.page
        self._catching_up.begin(log, client, session, after_page=after_page)
        if not after_page:
            # A Page answers for the first one only.
            self._catching_up.join_if_clean(log, client, session)

    def begin_pages(self, client: RegisteredClient, session: EngineSession, now_ms: int) -> None:
        """Begin the pages of channels: the Page, which does not contain them, is on its way, or has to wait."""
        log = self._state.log_of(client)
        stream = session.channels
        if log is None or stream is None or (stream.live and not stream.clean):
            return
        if not (client.channels or client.kept):
            # A page may be under way that an earlier set asked for.
            self._catching_up.stop(log, client, session)
            session.leave_channels()
            if stream.ask:
                _tell_nothing_lacks(session, stream.ask, after_page=stream.page)
            return
        if stream.clean:
            self._catching_up.begin(log, client, session)
        self._catching_up.next_page(log, client, session, now_ms)
        if stream.stage is FollowedStage.DUE:
            # Its gateway may hold it for live, if a predecessor had answered: then a Beat must not move its cursor.
            page = internal_pb2.Page(
                session=session.number, ask=stream.ask, page=stream.page + 1, kind=internal_pb2.PAGE_WORKING
            )
            session.gateway.tell(internal_pb2.Item(stream_page=page))

    def catch_up(
        self, client: RegisteredClient, session: EngineSession, request: internal_pb2.CatchUp, now_ms: int
    ) -> None:
        """Handle a CatchUp of channels."""
        log, stream = self._state.log_of(client), session.channels
        if log is None:
            return
        if stream is None:
            # Else a successor has begun, and its gateway opens the session again.
            if not (client.channels or client.kept):
                _tell_nothing_lacks(session, request.ask, after_page=request.page)
            return
        if stream.stage is FollowedStage.SENT and stream.is_next(request.ask, request.page, request.paging):
            stream.asked(request.ask, page_bytes=request.page_bytes, entries_max=request.entries_max)
            self._catching_up.next_page(log, client, session, now_ms)
            return
        void = request.HasField("epoch") and request.epoch != log.epoch
        if void or (request.HasField("cursor") and request.cursor >= log.position):
            reason = "its place in the log of its channels is not known"
            self._state.tell_closed(session.gateway, session.number, CloseCode.UNKNOWN_SESSION, reason)
            self._state.end_session(client)
            return
        if request.ask != stream.ask:
            stream.positions.taken_last()
        stream.asked(request.ask, page_bytes=request.page_bytes, entries_max=request.entries_max)
        stream.place(request.cursor if request.HasField("cursor") else NO_CURSOR)
        self._catching_up.begin(log, client, session, after_page=request.page)
        self._catching_up.next_page(log, client, session, now_ms)

    def pause(self, client: RegisteredClient, session: EngineSession) -> None:
        """Stop its pages, because the digests differ, until its set is whole. A page that the gateway waits for comes
        then."""
        log, stream = self._state.log_of(client), session.channels
        if log is not None and stream is not None:
            if stream.live:
                stream.begin_pages_anew()
            log.stop(client, stream)

    def asked(self, client: RegisteredClient, session: EngineSession, request: internal_pb2.CatchUp) -> None:
        """Remember a CatchUp while the digests differ: this page comes once the set is whole, which says where to
        begin.

        Another page would be stale to its gateway, which would go on from its cursor, and not from the place that the
        set names.
        """
        log = self._state.log_of(client)
        if log is None:
            return
        stream = session.channels
        if stream is None:
            stream = session.follow_channels()
            stream.know_epoch(known=request.HasField("epoch") and request.epoch == log.epoch)
        if request.ask != stream.ask:
            stream.positions.taken_last()
        stream.asked(
            request.ask, page_bytes=request.page_bytes, entries_max=request.entries_max, after_page=request.page
        )

    def complete(self, answer: internal_pb2.BeatAnswer) -> None:
        """Add the offsets up to which sessions with live channels have received everything."""
        for log in self._state.channel_logs.values():
            age_ms = log.ends.age_ms(log.position, self._state.now_s)
            complete = log.position - 1 if log.position else None
            answer.streams.add(log=log.number, complete=complete, age_ms=age_ms)

    def is_ours(self, client: RegisteredClient, said: internal_pb2.AckedStream | internal_pb2.CompleteStream) -> bool:
        """Returns true if it refers to the log that holds the client's channels now."""
        log = self._state.log_of(client)
        if log is None:
            return True
        return said.log in (internal_pb2.LOG_UNSAID, log.number) and (
            not said.HasField("epoch") or said.epoch == log.epoch
        )

    def acks(self, gateway: GatewayView, acks: internal_pb2.AckedStream, offset: int, now_ms: int) -> None:
        """Note the messages that clients have applied, as the request at this offset says."""
        for number, complete in zip(acks.sessions, acks.completes, strict=False):
            key = gateway.sessions.get(number)
            if key is not None:
                client = self._state.clients[key]
                self._state.see(client, now_ms)
                if not self.is_ours(client, acks):
                    continue
                self._state.acknowledge_channels(client, complete, offset)
                if client.session is not None and client.session.channels is not None:
                    client.session.channels.acknowledged(complete)

    def _register(
        self,
        log: ChannelLog,
        client: RegisteredClient,
        session: EngineSession,
        said: Iterable[wire_pb2.Interest],
        *,
        replayed: bool,
        void: bool,
        void_begins: bool = False,
    ) -> RegisteredChannels:
        registered = self._registering.register(
            log, client, said, replayed=replayed, void=void, void_begins=void_begins
        )
        for channel in registered.gone:
            self._catching_up.remove(log, session, channel)
        return registered

    def _note(self, session: EngineSession, registered: RegisteredChannels) -> None:
        assert session.channels is not None
        session.channels.positions.lose(channel.hash for channel in registered.lost)
        for channel, begin in registered.begins.items():
            self._catching_up.add(session, channel, begin)

    def _drop(self, log: ChannelLog, client: RegisteredClient, session: EngineSession) -> None:
        """End the channels of a client that has none any more. Its gateway's question is still answered: by a last page
        now, by the page that it asks for next, or once its client's set is whole."""
        stream = session.channels
        if stream is None:
            return
        if stream.stage is FollowedStage.DUE:
            self._catching_up.end(log, client, session)
        if stream.live:
            session.leave_channels()

    @staticmethod
    def _remember(log: ChannelLog, session: EngineSession, request: internal_pb2.Open) -> None:
        stream = session.follow_channels()
        said = _stream_in(request)
        void = _is_void(log, said)
        stream.asked(said.ask, page_bytes=request.page_bytes, after_page=0)
        stream.place(said.cursor if said.HasField("cursor") and not void else NO_CURSOR)
        stream.know_epoch(known=said.HasField("epoch") and not void)
        stream.positions.opened(void=void)

    @staticmethod
    def _note_cursor(
        log: ChannelLog, client: RegisteredClient, session: EngineSession, request: internal_pb2.Open
    ) -> None:
        """Note the cursor that the client reports; with `again`, the one that its gateway knows."""
        cursor = NO_CURSOR if session.channels is None else session.channels.cursor
        if request.again:
            said = _stream_in(request)
            cursor = min(cursor, said.acked) if said.HasField("acked") else NO_CURSOR
        client.channels.epoch = NO_EPOCH if cursor == NO_CURSOR else log.epoch
        client.channels.cursor = cursor


def _tell_nothing_lacks(session: EngineSession, ask: int, *, after_page: int = 0) -> None:
    """Send the last page that its gateway waits for, because its client has no channels."""
    page = internal_pb2.Page(session=session.number, ask=ask, page=after_page + 1, last=True)
    session.gateway.tell(internal_pb2.Item(stream_page=page))


def _stream_in(request: internal_pb2.Open) -> internal_pb2.OpenStream:
    """Returns the stream of channels that a session follows; an empty one if it follows none."""
    return request.streams[0] if request.streams else _NONE


def _is_void(log: ChannelLog, said: internal_pb2.OpenStream) -> bool:
    """Returns true if the offsets that a client names are those of another log."""
    says_epoch, says_cursor = said.HasField("epoch"), said.HasField("cursor")
    if says_epoch and said.epoch != log.epoch:
        return True
    return says_cursor and (not says_epoch or said.cursor >= log.position)
