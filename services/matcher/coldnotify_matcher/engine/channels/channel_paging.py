"""Catches a session up with its channels: missing messages in the order of the log, page by page, from blocks and tail.

Each channel has its own position in a row of pages: it may have been registered long ago, or just now, from the log's
beginning. A page begins at the lowest offset that any channel lacks, and goes on from there. The part in the tail is
the last page, and in the step that makes it the session joins the subscriptions: no message can come between the two.

A channel that lacks a message of high priority in the tail comes before others, with all that it lacks. The cursor
stays at the position of the others. If a page is on its way when such a message comes, the message is sent at once,
with the missing ones before it, ahead of the waiting rest of that page: it moves no position, and comes again in the
next page.

A page that waits for blocks is filled up, but only for a short time: its gateway ends a session that it hears nothing
of. A page that takes longer than its partition's turn, because its client has thousands of channels, goes on in the
next one.

A page of a tenant that is above its agreement waits for its turn (`page_turns`). Live sessions wait, too, once a
message comes that may not be sent: they are asked to ask for pages. No message is dropped or sent out of order.
"""

from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from itertools import chain
from typing import cast

from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.internal_protocol import PAGE_BYTES_MAX
from coldnotify_schemas.matcher_state import StoredMissed

from coldnotify_matcher.engine.channel_logs.channel_log import ChannelLog
from coldnotify_matcher.engine.channel_logs.kept_blocks import KeptMessages
from coldnotify_matcher.engine.channel_logs.message_records import ChannelMessage
from coldnotify_matcher.engine.channel_logs.subscriptions import missed_between
from coldnotify_matcher.engine.channels import filter_messages, registered_reads
from coldnotify_matcher.engine.channels.page_turns import PageTurns
from coldnotify_matcher.engine.channels.registered_reads import MANY
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.interests.by_channel import ClientChannel, channel_mark
from coldnotify_matcher.engine.interests.by_filter import RegisteredFilter
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.streams.message_stream import MessageStream
from coldnotify_matcher.engine.streams.positions import Positions
from coldnotify_matcher.engine.streams.row import RowStage as RowStage
from coldnotify_matcher.engine.streams.stream import NO_CURSOR, FollowedStage
from coldnotify_matcher.engine.telling.paging import page_bytes_of

FILLED_MS_MAX = 500
"""A page that has an entry leaves after this: a client that waits for the first message must not wait for the page's
last."""
TURN_MS_MAX = 30_000
"""A page that waits for its tenant's turn leaves empty after this, half of the time after which its gateway asks again.
With less, ten thousand sessions of one tenant would ask for pages thousands of times a second."""
URGENT_BYTES_MAX = PAGE_BYTES_MAX
"""Size of messages that come before others in a row of pages. If a link is cut again and again, the next row begins at
the cursor: with a larger bound, it might never reach the others."""
EMPTY_MS_MAX = 3_000
"""An empty page leaves after this with the position it has reached: a gateway asks again, or ends the session, after 10
s."""


class CatchingUp:
    """Makes the pages of all sessions of one partition."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state
        self._turns = PageTurns(state)
        self._unfinished: dict[RegisteredClient, ChannelLog] = {}
        """Clients whose pages go on in the partition's next turn."""

    def begin(self, log: ChannelLog, client: RegisteredClient, session: EngineSession, *, after_page: int = 0) -> None:
        """Begin a row of pages, from the place that its client named, or else from the session's cursor."""
        stream = _of(session)
        self.stop(log, client, session)
        cursor = stream.cursor
        at = {hash_: max(cursor, one.position) for hash_, one in client.channels.items()}
        stream.positions.begin(dict.fromkeys(client.filters, cursor) if client.kept else at)
        stream.begin_row(self._state.next_paging(), after_page)

    def join_if_clean(self, log: ChannelLog, client: RegisteredClient, session: EngineSession) -> bool:
        """Make its channels live if they lack nothing, and the log has a position to report. Returns true if it did."""
        stream = _of(session)
        if stream.positions.lost_untold or not log.position or self._lacks(log, client, stream):
            return False
        stream.join(log.position)
        self._subscribe(log, client, session)
        return True

    def next_page(self, log: ChannelLog, client: RegisteredClient, session: EngineSession, now_ms: int) -> None:
        """Begin the next page of the row, which the gateway has asked for."""
        stream = _of(session)
        stream.next_page()
        stream.row.open(session.number, now_ms)
        self.go_on(log, client, session, now_ms)

    def put_off(self, log: ChannelLog, client: RegisteredClient, session: EngineSession) -> None:
        """End the live state of its channels, because a message has come that its tenant may not receive now."""
        stream = _of(session)
        if not stream.live:
            return
        self._state.count("channel_sessions_put_off")
        self.stop(log, client, session)
        page = internal_pb2.Page(session=session.number, ask=stream.ask, kind=internal_pb2.PAGE_ASK_ANEW)
        session.gateway.tell(internal_pb2.Item(stream_page=page))

    def flush(self, now_ms: int) -> None:
        """Go on with the pages whose turn it is."""
        for log, client, due in self._turns.take_due(now_ms):
            self._fill_up(log, client, due, now_ms)
        for client in list(self._unfinished):
            log = self._unfinished.pop(client)
            session = client.session
            if session is None or session.channels is None or session.channels.row.stage is not RowStage.OPEN:
                continue
            if session.channels.row.waited_for_long(now_ms, FILLED_MS_MAX, EMPTY_MS_MAX):
                self._send(log, client, session, last=False)
            else:
                self.go_on(log, client, session, now_ms)
            if self._state.spent():
                return

    @property
    def unfinished(self) -> bool:
        """True if `flush` has pages to go on with at once."""
        return bool(self._unfinished)

    def next_due_ms(self) -> int | None:
        """Returns the time at which `flush` has something to do; None: no page waits for its turn."""
        return self._turns.next_due_ms()

    def add(self, session: EngineSession, channel: ClientChannel, begin: int) -> None:
        """Add a channel, which is sent from `begin` on: with the next page of the current row, or of the next row."""
        stream = _of(session)
        stream.positions.add(channel.hash, begin, under_way=stream.under_way)

    def remove(self, log: ChannelLog, session: EngineSession, channel: ClientChannel) -> None:
        """Remove a channel, which is not sent any more."""
        if session.channels is not None and session.channels.positions.remove(channel.hash):
            log.subscriptions.unsubscribe(channel, session)

    def end(self, log: ChannelLog, client: RegisteredClient, session: EngineSession) -> None:
        """Send the page that is being assembled as the last one, because its client has no channels any more."""
        row = _of(session).row
        if row.stage is RowStage.WAITING:
            log.wait_no_more(client, row.waits_for)
            row.served()
        self._send(log, client, session, last=True)

    def stop(self, log: ChannelLog, client: RegisteredClient, session: EngineSession) -> None:
        """End its row of pages, or prepare a new one."""
        if session.channels is None:
            return
        self._turns.forget(client)
        self._unfinished.pop(client, None)
        log.stop(client, session.channels)

    def on_block(self, log: ChannelLog, served: Iterable[RegisteredClient], now_ms: int) -> None:
        """Go on with these sessions, whose block has come."""
        for client in served:
            session = client.session
            if session is not None and session.channels is not None:
                session.channels.row.served()
                if self._state.spent():
                    self._unfinished[client] = log
                else:
                    self.go_on(log, client, session, now_ms)

    def on_tick(self, log: ChannelLog, now_ms: int) -> None:
        """Send pages that have waited for long, with what they have."""
        log.paged = {client: None for client in log.paged if _is_paged(client)}
        for clients in list(log.waiting.values()):
            for client in [one for one in clients if isinstance(one, RegisteredClient)]:
                session = client.session
                if session is None or session.channels is None or session.channels.row.stage is not RowStage.WAITING:
                    continue
                row = session.channels.row
                if row.waited_for_long(now_ms, FILLED_MS_MAX, EMPTY_MS_MAX):
                    log.wait_no_more(client, row.waits_for)
                    row.served()
                    self._send(log, client, session, last=False)
        for _, client, session in self._turns.take_waiting(log, now_ms - TURN_MS_MAX):
            self._send(log, client, session, last=False)

    def go_on(self, log: ChannelLog, client: RegisteredClient, session: EngineSession, now_ms: int) -> None:
        """Fill the page from the known part of the log, if it is its tenant's turn."""
        stream = _of(session)
        if self._lacks(log, client, stream) and self._turns.has_to_wait(log, client, stream.row, now_ms):
            return
        self._fill_up(log, client, session, now_ms)

    def _fill_up(self, log: ChannelLog, client: RegisteredClient, session: EngineSession, now_ms: int) -> None:
        stream = _of(session)
        allowance = self._state.rules.allowances.of(client.key.partition("/")[0])
        stream.row.limit(stream.entries_max, None if allowance is None else allowance.at_once)
        if stream.positions.lost_untold and not self._tell_lost(log, client, session):
            self._send(log, client, session, last=False)
            return
        if client.kept:
            self._fill_by_filters(log, client, session, now_ms)
            return
        positions, last_of = stream.positions.at, log.last_of
        all_lacking = {
            hash_: (one, last) for hash_, one in client.channels.items() if (last := last_of(one)) > positions[hash_]
        }
        begun = False
        while True:
            all_lacking = {hash_: one for hash_, one in all_lacking.items() if one[1] > positions[hash_]}
            if not all_lacking:
                self._send(log, client, session, last=True)
                return
            if begun and self._state.spent():
                self._unfinished[client] = log
                return
            begun = True
            lacking = {hash_: one[0] for hash_, one in all_lacking.items()}
            urgent = self._urgent(log, session, lacking)
            if urgent:
                lacking = urgent
                stream.row.hurry(urgent)
            low = min(map(positions.__getitem__, lacking)) + 1
            if low < log.oldest:
                if not self._tell_retention(log, lacking, session):
                    break
                continue
            if low >= log.tail.start:
                messages = _from_tail(log, client, lacking, positions, low)
                if not self._fill(log, lacking, session, messages, log.position, now_ms):
                    break
                continue
            kept = log.blocks.kept_at(low)
            if kept is not None:
                if not self._fill_from(kept, log, client, lacking, session, now_ms):
                    break
                continue
            marks = registered_reads.marks_of(log, lacking.values())
            nothing_before = log.blocks.nothing_of(marks, low, self._state.spent)
            if nothing_before > low:
                stream.positions.move_on(lacking, nothing_before - 1)
                continue
            if log.pages_bytes > log.bounds.pages_bytes_max and stream.row.size_bytes:
                break
            stream.row.wait_for(low)
            log.wait(client, low)
            return
        self._send(log, client, session, last=False)

    @staticmethod
    def _urgent(
        log: ChannelLog, session: EngineSession, lacking: Mapping[int, ClientChannel]
    ) -> dict[int, ClientChannel]:
        """Returns the channels among them that come before the others."""
        stream = _of(session)
        if not log.tail.any_high or session.channels_in_order or stream.row.urgent_bytes >= URGENT_BYTES_MAX:
            return {}
        positions = stream.positions.at
        return {hash_: one for hash_, one in lacking.items() if registered_reads.high_above(log, one, positions[hash_])}

    def tell_ahead(self, log: ChannelLog, message: ChannelMessage, before: int, now_ms: int) -> None:
        """Send a message of high priority at once to sessions that have a page on its way. Before it the last message
        of its channel was at `before`."""
        for client in list(log.paged):
            session = client.session
            if session is None or not _is_paged(client):
                del log.paged[client]
                continue
            if session.channels_in_order:
                continue
            for channel in registered_reads.registered_for(log, client.channels.by_key, message.key):
                self._tell_one_ahead(log, client, channel, session, message, before, now_ms)

    def _tell_one_ahead(
        self,
        log: ChannelLog,
        client: RegisteredClient,
        channel: ClientChannel,
        session: EngineSession,
        message: ChannelMessage,
        before: int,
        now_ms: int,
    ) -> None:
        stream = _of(session)
        positions, row = stream.positions, stream.row
        if channel.hash in positions.lost_untold or not message.is_for(channel.attributes):
            return
        told = row.ahead.get(channel.hash, positions.told[channel.hash])
        position = max(positions.at[channel.hash], told)
        in_memory_from = log.tail.start - 1
        # Of a pattern it is not known where its last message was before this one.
        if position < (min(before, in_memory_from) if channel.expression is None else in_memory_from):
            return  # some of the missing ones have left memory
        page = internal_pb2.Page(
            session=session.number,
            ask=stream.ask,
            page=stream.page,
            paging=stream.paging,
            kind=internal_pb2.PAGE_AHEAD,
        )
        lacking = list(registered_reads.in_tail(log, channel, position))
        for one in lacking:
            one.fill_in(page.entries.add().message, channel.hash, told, named=channel.expression is not None)
            told = one.offset
        whole = told == message.offset and not any(one.expired(self._state.expires_ms(now_ms)) for one in lacking)
        page_bytes = page.ByteSize()
        if whole and row.ahead_bytes + page_bytes <= page_bytes_of(stream.page_bytes):
            row.tell_ahead(channel.hash, told, page_bytes)
            self._state.count("messages_ahead", len(lacking))
            size = sum(len(one.payload) for one in lacking)
            self._state.deliver(client.key.partition("/")[0], len(lacking), size)
            session.gateway.tell(internal_pb2.Item(stream_page=page))

    def miss(
        self, client: RegisteredClient, one: RegisteredFilter, after: int, before: int, reason: int
    ) -> StoredMissed:
        """Have the client told that messages of a filter may be missing, however many connections that takes. Returns
        what it is told."""
        missed = one.miss(after, before, reason)
        client.changed.add(one.bucket)
        self._state.changed[client] = None
        return missed

    def _tell_lost(self, log: ChannelLog, client: RegisteredClient, session: EngineSession) -> bool:
        positions = _of(session).positions
        for hash_ in list(positions.lost_untold):
            entry = internal_pb2.Entry()
            if client.kept:
                one = client.filters.get(hash_)
                if one is None or one.missed is None:
                    positions.tell_lost(hash_)
                    continue
                _say_missed(entry, hash_, one.missed)
            else:
                missed_between(entry.missed, hash_, None, positions.at[hash_] + 1, wire_pb2.LOST)
            if not self._put(log, session, entry):
                return False
            positions.tell_lost(hash_)
        return True

    def _tell_retention(self, log: ChannelLog, lacking: Mapping[int, ClientChannel], session: EngineSession) -> bool:
        positions, oldest = _of(session).positions, log.oldest
        for hash_ in lacking:
            if positions.at[hash_] + 1 >= oldest:
                continue
            entry = internal_pb2.Entry()
            missed_between(entry.missed, hash_, positions.told[hash_], oldest, wire_pb2.RETENTION)
            if not self._put(log, session, entry):
                return False
            positions.tell(hash_, oldest - 1)
        return True

    def _fill_from(
        self,
        kept: KeptMessages,
        log: ChannelLog,
        client: RegisteredClient,
        lacking: Mapping[int, ClientChannel],
        session: EngineSession,
        now_ms: int,
    ) -> bool:
        positions = _of(session).positions
        if not kept.unreadable:
            messages = _from_block(log, kept, client, lacking, positions.at)
            return self._fill(log, lacking, session, messages, kept.next, now_ms)
        for hash_ in lacking:
            if positions.at[hash_] >= kept.next - 1:
                continue
            entry = internal_pb2.Entry()
            # Its position may have moved on over blocks without a message for it, which the client does not know.
            missed_between(entry.missed, hash_, positions.told[hash_], kept.next, wire_pb2.UNREADABLE)
            if not self._put(log, session, entry):
                return False
            positions.tell(hash_, kept.next - 1)
        return True

    def _fill(
        self,
        log: ChannelLog,
        lacking: Mapping[int, ClientChannel],
        session: EngineSession,
        messages: Iterable[tuple[int, int, ChannelMessage]],
        next_: int,
        now_ms: int,
    ) -> bool:
        """Put in (offset, hash, message), ordered by offset: all messages below `next_`. Returns false if the page is
        full."""
        stream, expires_ms = _of(session), self._state.expires_ms(now_ms)
        positions = stream.positions
        expired: dict[int, wire_pb2.Missed] = {}
        for offset, hash_, message in messages:
            entry = internal_pb2.Entry()
            if message.expired(expires_ms):
                before = expired.get(hash_)
                if before is not None:
                    before.before = offset + 1
                    positions.tell(hash_, offset)
                    continue
                missed_between(entry.missed, hash_, positions.told[hash_], offset + 1, wire_pb2.EXPIRED)
            else:
                named = lacking[hash_].expression is not None
                message.fill_in(entry.message, hash_, positions.told[hash_], named=named)
                expired.pop(hash_, None)
            if not self._put(log, session, entry):
                positions.move_on(lacking, offset - 1)
                return False
            positions.tell(hash_, offset)
            if entry.HasField("missed"):
                expired[hash_] = stream.row.opened().entries[-1].missed
        positions.move_on(lacking, next_ - 1)
        return True

    def _put(self, log: ChannelLog, session: EngineSession, entry: internal_pb2.Entry) -> bool:
        """Put an entry in. Returns false if the page is full."""
        stream = _of(session)
        size = stream.row.put(entry, page_bytes_of(stream.page_bytes))
        log.fill_pages(size)
        return size > 0

    def _send(self, log: ChannelLog, client: RegisteredClient, session: EngineSession, *, last: bool) -> None:
        stream = _of(session)
        positions, row = stream.positions, stream.row
        page = row.opened()
        log.fill_pages(-row.close())
        self._turns.forget(client)
        self._unfinished.pop(client, None)
        state = self._state
        state.count("channel_pages")
        told = [len(entry.message.payload) for entry in page.entries if not entry.HasField("missed")]
        if told:
            row.had_its_turn()
            state.count("messages_paged", len(told))
            state.deliver(client.key.partition("/")[0], len(told), sum(told))
        for entry in page.entries:
            if entry.HasField("missed"):
                state.count("missed:" + wire_pb2.Reason.Name(entry.missed.reason).lower())
        if last:
            page.last = True
            page.page = stream.send_last(log.position)
            self._subscribe(log, client, session)
        else:
            log.paged[client] = None
            row.begin_ahead()
            if not positions.lost_untold and not client.kept:
                lacking = (positions.at[hash_] for hash_, _ in _lacking(log, client, positions))
                stream.cover(min(lacking, default=log.position - 1))
            page.page = stream.send(whole=True)
        page.ask, page.paging = stream.ask, stream.paging
        if stream.complete != NO_CURSOR:
            page.complete = stream.complete
        session.gateway.tell(internal_pb2.Item(stream_page=page))

    def _lacks(self, log: ChannelLog, client: RegisteredClient, stream: MessageStream) -> bool:
        if client.kept:
            return bool(
                filter_messages.lacking(log, client, stream.cursor)
                or filter_messages.forgotten_by(log, client, stream.cursor)
            )
        return any(_lacking(log, client, stream.positions))

    def _fill_by_filters(self, log: ChannelLog, client: RegisteredClient, session: EngineSession, now_ms: int) -> None:
        """Fill the page of a session that has its channels by filters."""
        stream, begun = _of(session), False
        while True:
            keys = filter_messages.lacking(log, client, stream.cursor)
            forgotten = filter_messages.forgotten_by(log, client, stream.cursor)
            if not (keys or forgotten):
                self._send(log, client, session, last=True)
                return
            if begun and self._state.spent():
                self._unfinished[client] = log
                return
            begun = True
            low = stream.cursor + 1
            if low < log.oldest:
                missing = {**dict.fromkeys(filter_messages.filters_of(client, keys)), **dict.fromkeys(forgotten)}
                if not self._miss_by_filters(log, client, session, missing, log.oldest, wire_pb2.RETENTION):
                    break
                continue
            if low >= log.tail.start:
                messages = filter_messages.from_tail(log, keys, stream.cursor)
                if not self._put_by_filters(log, client, session, messages, log.position, now_ms):
                    break
                continue
            kept = log.blocks.kept_at(low)
            if kept is not None and kept.unreadable:
                missing = dict.fromkeys(filter_messages.filters_of(client, keys))
                if not self._miss_by_filters(log, client, session, missing, kept.next, wire_pb2.UNREADABLE):
                    break
                continue
            if kept is not None:
                messages = filter_messages.from_block(kept, keys, stream.cursor)
                if not self._put_by_filters(log, client, session, messages, kept.next, now_ms):
                    break
                continue
            nothing_before = log.blocks.nothing_of(frozenset(map(channel_mark, keys)), low, self._state.spent)
            if nothing_before > low:
                stream.cover(nothing_before - 1)
                continue
            if log.pages_bytes > log.bounds.pages_bytes_max and stream.row.size_bytes:
                break
            stream.row.wait_for(low)
            log.wait(client, low)
            return
        self._send(log, client, session, last=False)

    def _miss_by_filters(
        self,
        log: ChannelLog,
        client: RegisteredClient,
        session: EngineSession,
        hashes: Iterable[int],
        before: int,
        reason: wire_pb2.Reason,
    ) -> bool:
        """Say of each of these filters that messages up to here may be missing. Returns false if the page is full."""
        stream = _of(session)
        for hash_ in hashes:
            if stream.positions.at.get(hash_, NO_CURSOR) >= before - 1:
                continue
            entry = internal_pb2.Entry()
            _say_missed(entry, hash_, self.miss(client, client.filters[hash_], stream.cursor, before, reason))
            if not self._put(log, session, entry):
                return False
            stream.positions.tell(hash_, before - 1)
        stream.cover(before - 1)
        return True

    def _put_by_filters(
        self,
        log: ChannelLog,
        client: RegisteredClient,
        session: EngineSession,
        messages: Iterable[ChannelMessage],
        next_: int,
        now_ms: int,
    ) -> bool:
        """Put in all of these messages, below `next_`. Returns false if the page is full."""
        stream = _of(session)
        for offset, entry in filter_messages.entries(client, messages, self._state.expires_ms(now_ms)):
            if entry is not None and not self._put(log, session, entry):
                stream.cover(offset - 1)
                return False
        stream.cover(next_ - 1)
        return True

    def _subscribe(self, log: ChannelLog, client: RegisteredClient, session: EngineSession) -> None:
        """Make the session's channels live."""
        positions = _of(session).positions
        positions.sent_last()
        if client.filters:
            self._state.filtered.hear_channels(client)
        for hash_, channel in client.channels.items():
            if positions.join(hash_):
                log.subscriptions.subscribe(channel, session, log.last_of(channel))


def _say_missed(entry: internal_pb2.Entry, hash_: int, missed: StoredMissed) -> None:
    missed_between(entry.missed, hash_, missed.after, missed.before, cast("wire_pb2.Reason", missed.reason))


def _of(session: EngineSession) -> MessageStream:
    assert session.channels is not None
    return session.channels


def _is_paged(client: RegisteredClient) -> bool:
    session = client.session
    return session is not None and session.channels is not None and session.channels.stage is FollowedStage.SENT


def _lacking(log: ChannelLog, client: RegisteredClient, positions: Positions) -> Iterator[tuple[int, ClientChannel]]:
    at, last_of = positions.at, log.last_of
    for hash_, channel in client.channels.items():
        if last_of(channel) > at[hash_]:
            yield hash_, channel


def _from_tail(
    log: ChannelLog,
    client: RegisteredClient,
    lacking: Mapping[int, ClientChannel],
    positions: Mapping[int, int],
    low: int,
) -> Iterable[tuple[int, int, ChannelMessage]]:
    """Returns the missing messages. `low`: none of the channels lacks anything before."""
    if len(lacking) > MANY:
        return _of_many(log, log.tail.since(low), client, lacking, positions)
    return merge(*(_row(registered_reads.in_tail(log, one, positions[one.hash]), one) for one in lacking.values()))


def _row(messages: Iterable[ChannelMessage], channel: ClientChannel) -> Iterator[tuple[int, int, ChannelMessage]]:
    return ((message.offset, channel.hash, message) for message in messages)


def _from_block(
    log: ChannelLog,
    kept: KeptMessages,
    client: RegisteredClient,
    lacking: Mapping[int, ClientChannel],
    positions: Mapping[int, int],
) -> Iterable[tuple[int, int, ChannelMessage]]:
    if len(lacking) > MANY:
        return sorted(_of_many(log, chain.from_iterable(kept.by_channel.values()), client, lacking, positions))
    rows = (registered_reads.in_block(log, kept, one, positions[one.hash]) for one in lacking.values())
    return merge(*map(_row, rows, lacking.values()))


def _of_many(
    log: ChannelLog,
    messages: Iterable[ChannelMessage],
    client: RegisteredClient,
    lacking: Mapping[int, ClientChannel],
    positions: Mapping[int, int],
) -> Iterator[tuple[int, int, ChannelMessage]]:
    """Yields the missing messages of a client with thousands of channels, in the order of the messages."""
    by_key = client.channels.by_key
    for message in messages:
        for channel in registered_reads.registered_for(log, by_key, message.key):
            if channel.hash not in lacking or message.offset <= positions[channel.hash]:
                continue
            if message.is_for(channel.attributes):
                yield message.offset, channel.hash, message
