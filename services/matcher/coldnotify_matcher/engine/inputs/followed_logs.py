"""The channels of one partition: their logs, and the shell's calls about them."""

from collections.abc import Sequence
from itertools import chain

import msgspec
from coldnotify_schemas.channels import MessageHeaders, Retention
from coldnotify_schemas.matcher_state import CHANNEL_BUCKETS, FORMAT, ChannelsRecord
from coldnotify_schemas.message_places import MessagePlace
from coldnotify_schemas.records import InvalidRecord
from coldnotify_schemas.whole_numbers import whole_number

from coldnotify_matcher.engine.channel_logs.channel_log import BlockWaiter, ChannelLog
from coldnotify_matcher.engine.channel_logs.message_records import (
    Block,
    ChannelMessage,
    Home,
    MessageRecord,
    understand,
)
from coldnotify_matcher.engine.channels import filter_messages
from coldnotify_matcher.engine.channels.channel_paging import CatchingUp
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.inputs.arrivals import Door
from coldnotify_matcher.engine.outputs import ProducedRecord
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.shares.one_share import KnownShare
from coldnotify_matcher.engine.writing.outbox import EngineOutbox

WRITTEN_EVERY_MS = 1_000
"""Shortest time between two records about a log: a successor reads as much of the log again."""
WRITTEN_EVERY_MS_PER_BUCKET = 10
"""After many buckets the next ones wait longer: 100 records a second, whatever the number of channels."""
_LAST_BUCKET = 0
"""This bucket says up to which offset all of them are written: in the step after theirs, because Kafka may take one
record and not another."""
_encode = msgspec.json.Encoder().encode


class FollowedLogs:
    """Hands each input to its log."""

    def __init__(self, state: PartitionState, outbox: EngineOutbox, door: Door, catching_up: CatchingUp) -> None:
        self._state = state
        self._door = door
        self._outbox = outbox
        self._catching_up = catching_up
        self._loaded: dict[Retention, dict[int, ChannelsRecord]] = {}
        self._turns: dict[Retention, None] = {}
        """Logs, in the order of their turns to read a block."""
        self._home: Home | None = None
        self.commit_due = False
        """True if everything that is known of the logs is to be written with the next step."""

    # --- loading

    def load(self, key: str, record: ChannelsRecord) -> None:
        """Load one bucket of a predecessor's knowledge of a log, the winner among its key's records."""
        retention, _, bucket = key.partition("/")
        self._loaded.setdefault(Retention(retention), {})[int(bucket)] = record

    def start(self, retention: Retention, epoch: int, start: int, log_start: int) -> None:
        """Begin to follow a log: its records come through `on_message`, from `start` on.

        `start`: the committed offset, if it belongs to this log; else the log's beginning, which is `log_start`.
        Records of the REPEATS_KNOWN_OFFSETS before `start` come first, all that there are. The log's buckets are loaded
        before.
        """
        rules = self._state.rules
        log = self._state.channel_logs[retention] = ChannelLog(retention, epoch, rules.channel_bounds)
        self._turns[retention] = None
        known = {index: one for index, one in self._loaded.pop(retention, {}).items() if one.epoch == epoch}
        for index, record in known.items():
            if 0 <= index < CHANNEL_BUCKETS:
                log.last.load(index, record.last, record.forgotten)
        # If a predecessor died between two buckets, the others may be absent.
        through = known[_LAST_BUCKET].through if _LAST_BUCKET in known else 0
        log.start(start, log_start, through=through)

    # --- inputs

    def on_message(self, record: MessageRecord, now_ms: int) -> None:
        """Handle one record of a log, in the order of its offsets."""
        state = self._state
        log = state.channel_logs[record.retention]
        state.at = record.retention.topic(state.rules.topics), record.offset
        arrival = self._door.message(record, log.replay_from)
        known = log.last.knows(arrival.text)
        try:
            message, right = understand(record, self._at_home(), known=known)
        except InvalidRecord as error:
            log.on_end(record.offset + 1)
            arrival.reject(str(error))
            return
        headers = record.headers
        assert isinstance(headers, MessageHeaders)
        if right != state.partition:
            log.on_end(record.offset + 1)
            arrival.stray(right)
            return
        fresh = record.offset >= max(log.read, log.replay_from)
        if headers.id:
            state.wills.message_written(headers.id, MessagePlace(record.retention, record.offset))
        before = log.last.of(message.key)
        state.shares.on_message(message.key)
        if not log.take_in(message, headers):
            if fresh:
                state.count("messages_repeated")
            return
        if headers.id and (publisher := state.unreleased.written(headers.id)) is not None:
            state.dirty_cursors[publisher] = None
        if fresh:
            state.count("messages")
            domain = arrival.domain
            arrival.count(high=headers.high_priority)
            if headers.passed_over:
                state.count("properties_passed_over", headers.passed_over)
            message = self._with_priority(log, domain, message, headers)
            allowance = state.rules.allowances.of(domain)
            if allowance is not None and not message.high and not allowance.passes(now_ms):
                self._put_off(log, message)
                return
            if message.high:
                self._catching_up.tell_ahead(log, message, before, now_ms)
            told, missed = log.subscriptions.tell(message, state.expires_ms(now_ms), log.names.patterns_of(message.key))
            if state.filtered.any:
                told += filter_messages.tell_live(state, message, state.expires_ms(now_ms))
            state.deliver(domain, told, told * len(message.payload))
            if told:
                state.count("messages_told", told)
            if missed:
                state.count("missed:expired", missed)

    def _with_priority(
        self, log: ChannelLog, domain: str, message: ChannelMessage, headers: MessageHeaders
    ) -> ChannelMessage:
        high = self._state.rules.high_shares.may_be_high(domain, high=headers.high_priority)
        if not headers.high_priority:
            return message
        self._state.count("messages_urgent" if high else "messages_urgent_above_share")
        if not high:
            return message
        message = message._replace(high=True)
        log.tail.note_high(message)
        return message

    def _put_off(self, log: ChannelLog, message: ChannelMessage) -> None:
        """Make the message's sessions ask for pages, which wait for their turn: its tenant is above its agreement."""
        state = self._state
        by_filter = [
            (gateway, number)
            for gateway, numbers in state.filtered.channel_hearers(message.key).items()
            for number in numbers
        ]
        keys = (message.key, *log.names.patterns_of(message.key))
        for gateway, number in chain(*map(log.subscriptions.sessions, keys), by_filter):
            client = state.clients[gateway.sessions[number]]
            session = client.session
            if session is not None and (session.gateway, session.number) == (gateway, number):
                self._catching_up.put_off(log, client, session)

    def flush(self, now_ms: int) -> None:
        """Fill pages whose turn it is, as time passes."""
        self._catching_up.flush(now_ms)

    @property
    def unfinished(self) -> bool:
        """True if `flush` has pages to go on with at once."""
        return self._catching_up.unfinished

    def next_due_ms(self) -> int | None:
        """Returns the time at which `flush` has something to do; None: no page waits for its turn."""
        return self._catching_up.next_due_ms()

    def skip(self, retention: Retention, offset: int) -> None:
        """Skip the record at this offset, which is set aside."""
        self._state.channel_logs[retention].skip(offset)

    def on_end(self, retention: Retention, offset: int) -> None:
        """Note that the log was read up to `offset`."""
        self._state.channel_logs[retention].on_end(offset)

    def on_log_start(self, retention: Retention, log_start: int) -> None:
        """Note that Kafka has removed all below."""
        self._on_log_start(self._state.channel_logs[retention], log_start)

    def _on_log_start(self, log: ChannelLog, log_start: int) -> None:
        if not log.on_log_start(log_start):
            return
        # Live sessions have missed it, too: they are caught up again, and the pages say so.
        for client in self._state.clients.values():
            session = client.session
            if session is not None and session.channels is not None and self._state.log_of(client) is log:
                log.stop(client, session.channels)
                self._state.announce_anew(client, session)

    def on_block(self, block: Block, now_ms: int) -> None:
        """Handle a part of a log that sessions wait for."""
        log = self._state.channel_logs.get(block.retention)
        if log is None:
            return
        self._on_log_start(log, block.log_start)
        del self._turns[block.retention]
        self._turns[block.retention] = None  # behind all others
        log.read_block(block, self._at_home())
        served = log.take_served(block)
        self._state.count("blocks_served", len(served))
        self._on_served(log, served, now_ms)

    def _on_served(self, log: ChannelLog, served: Sequence[RegisteredClient | BlockWaiter], now_ms: int) -> None:
        clients: list[RegisteredClient] = []
        for one in served:
            if isinstance(one, KnownShare):
                one.served()
                self._state.shares.look_at(one)
            elif isinstance(one, RegisteredClient):
                clients.append(one)
        self._catching_up.on_block(log, clients, now_ms)

    def on_tick(self, now_ms: int) -> None:
        """Serve waits that are over, and clean up, as time passes."""
        for log in self._state.channel_logs.values():
            self._on_served(log, log.take_served(None), now_ms)
            self._catching_up.on_tick(log, now_ms)
            log.subscriptions.on_tick()
            log.names.on_tick(log.subscriptions.has)
            forgotten = log.forget_some()
            if forgotten:
                self._state.count("channels_forgotten", forgotten)

    def rewrite(self, key: str) -> None:
        """Write a bucket again: a null or a record of a lower generation was seen under this key of the topic of their
        state."""
        retention, _, text = key.partition("/")
        bucket = whole_number(text, CHANNEL_BUCKETS - 1)
        for log in self._state.channel_logs.values():
            if log.retention.value == retention and bucket is not None:
                log.last.changed[bucket] = None
                log.write_due_ms = 0
                self._state.count("state_repaired")

    # --- outputs

    @property
    def awaited_blocks(self) -> int:
        """Number of blocks that sessions wait for."""
        return sum(len(log.waiting) for log in self._state.channel_logs.values())

    def wanted_blocks(self) -> list[tuple[Retention, int]]:
        """Returns the next blocks by their first offset: logs in turns, each in its own order.

        A block stays wanted until an `on_block` that begins there has come, or no session waits for it any more.
        """
        logs = self._state.channel_logs
        return [(retention, start) for retention in self._turns for start in logs[retention].wanted()]

    def write(self, now_ms: int) -> None:
        """Write changes in what is known of the logs, if it is time."""
        state = self._state
        for log in state.channel_logs.values():
            if log.written_to is not None:
                # The step that wrote the others was taken.
                log.done, log.written_to = log.written_to, None
                self._write_bucket(log, _LAST_BUCKET, through=log.done)
            if not (self.commit_due or now_ms >= log.write_due_ms):
                continue
            if log.position > log.done or log.last.changed:
                log.written_to = log.position
            log.last.changed.pop(_LAST_BUCKET, None)
            buckets = log.last.take_changed()
            for index in buckets:
                self._write_bucket(log, index, through=log.position)
            log.write_due_ms = now_ms + max(WRITTEN_EVERY_MS, len(buckets) * WRITTEN_EVERY_MS_PER_BUCKET)
        self.commit_due = False

    def _write_bucket(self, log: ChannelLog, index: int, *, through: int) -> None:
        last, forgotten = log.last.bucket(index)
        record = ChannelsRecord(FORMAT, self._state.generation, log.epoch, through, forgotten, last)
        key = f"{log.retention.value}/{index}".encode()
        self._outbox.write(
            ProducedRecord(self._state.rules.topics.channels_state, self._state.partition, key, _encode(record))
        )

    def done(self, retention: Retention) -> int:
        """Returns the offset up to which the log may be committed."""
        return self._state.channel_logs[retention].done

    def _at_home(self) -> Home:
        state, rules = self._state, self._state.rules
        home = self._home
        if home is None or home.retentions is not rules.retentions:
            home = Home(state.partition, state.partitions, rules.retentions, rules.topics)
            self._home = home
        return home
