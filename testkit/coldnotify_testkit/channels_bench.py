"""For tests: an engine that follows a log of channels in memory, with its stored state, and the items that it sends to
gateways.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from coldnotify_matcher.engine import Block, Engine, MessageRecord, ProducedRecord, Rules, Step
from coldnotify_matcher.engine.channel_logs import channel_log, kept_blocks, repeats
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.channels import NO_HEADERS, MessageHeaders, Retention
from coldnotify_schemas.digest import MODULUS
from coldnotify_schemas.interests import channel_hash, channel_text, expression_of
from coldnotify_schemas.matcher_state import (
    ChannelsRecord,
    RegistrationsRecord,
    SessionRecord,
    WillRecord,
    is_wills_key,
)
from coldnotify_schemas.protocol import REGISTRATIONS_MAX
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.core.partition_turns import NextTurn, endless

from coldnotify_testkit.engine_bench import DOMAIN, EPOCH, GATEWAY, GROUP, INBOX, INBOXES, PARTITION, PARTITIONS, PREFIX

TOPICS = TopicNames()

LOG_EPOCH = 5
KNOWN_OFFSETS_IN = (repeats, kept_blocks, channel_log)
"""Modules that know REPEATS_KNOWN_OFFSETS by name: tests set a smaller one there."""


@dataclass
class Logged:
    """A record of the log."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: MessageHeaders | str
    timestamp_ms: int


class ChannelsBench:
    """An engine over a log of channels that outlives it. Time stands still unless a test advances it."""

    retention = Retention.DAY

    def __init__(
        self, *, rules: Rules | None = None, registrations_max: int = REGISTRATIONS_MAX, block_records: int = 4
    ) -> None:
        self.rules = rules or Rules()
        self.registrations_max = registrations_max
        self.block_records = block_records
        self.now_ms = 1_700_000_000_000
        self.next_turn: NextTurn = endless
        self.log: list[Logged] = []
        self.log_start = 0
        self.end = 0
        self.epoch = LOG_EPOCH
        self.committed: int | None = None
        self.stored: dict[str, dict[str, bytes]] = defaultdict(dict)
        """The records that compaction would keep, by topic and key."""
        self.moved: list[ProducedRecord] = []
        self.rejected: list[ProducedRecord] = []
        self.told: dict[int, list[internal_pb2.Item]] = defaultdict(list)
        self.requests: list[internal_pb2.Request] = []
        self.handled = 0
        """The number of requests that are handled."""
        self.requests_committed = 0
        self.blocks_read: list[int] = []
        self.generation = 0
        self.engine: Engine
        self.take_over()

    # --- the matcher's life

    def take_over(self) -> None:
        """Replaces the engine by a new one, which loads the stored state and follows the log from the commit."""
        self.generation += 1
        engine = self.engine = Engine(PARTITION, PARTITIONS, EPOCH, registrations_max=self.registrations_max)
        engine.state.rules = self.rules
        engine.loading.start(None)
        for key, value in self.stored[TOPICS.registrations].items():
            if is_wills_key(key):
                engine.loading.load_will(key, msgspec.json.decode(value, type=WillRecord), applied_counts=True)
                continue
            engine.loading.load_registrations(
                key, msgspec.json.decode(value, type=RegistrationsRecord), applied_counts=True
            )
        for key, value in self.stored[TOPICS.sessions].items():
            engine.loading.load_session(
                key, msgspec.json.decode(value, type=SessionRecord), self.now_ms, applied_counts=True
            )
        for key, value in self.stored[TOPICS.channels_state].items():
            engine.channels.load(key, msgspec.json.decode(value, type=ChannelsRecord))
        start = max(self.log_start, self.committed if self.committed is not None else 0)
        engine.channels.start(self.retention, self.epoch, start, self.log_start)
        engine.finish_load(
            self.generation, INBOXES, self.now_ms, objects_committed=0, requests_start=self.requests_committed
        )
        self.handled = self.requests_committed
        self._now_s_at(engine)
        self.on_taken_over(engine)
        self.read_to = max(self.log_start, start - vars(channel_log)["REPEATS_KNOWN_OFFSETS"])

    def on_taken_over(self, engine: Engine) -> None:
        """The takeover's records are durable: what depends on that."""

    def _now_s_at(self, engine: Engine) -> None:
        engine.state.now_s = self.now_ms / 1000

    def read(self, records: int | None = None) -> None:
        """The log is followed: so many records, or all."""
        ready = [one for one in self.log if one.offset >= self.read_to]
        for one in ready[:records]:
            self.engine.channels.on_message(self._record(one), self.now_ms)
            self.read_to = one.offset + 1
        if records is None or records >= len(ready):
            self.read_to = self.end
            self.engine.channels.on_end(self.retention, self.end)

    def handle(self) -> None:
        """All requests are handled, behind all that the log has."""
        requests = list(enumerate(self.requests))[self.handled :]
        if requests:
            self.read()
            self.handled = len(self.requests)
            self._now_s_at(self.engine)
            while requests:
                del requests[: self.engine.on_requests(requests, self.now_ms, self.next_turn())]

    def read_blocks(self, number: int = 1000) -> int:
        """So many blocks that are waited for are read. How many there were."""
        read = 0
        while read < number:
            wanted = self.engine.channels.wanted_blocks()
            if not wanted:
                break
            self.read_block(wanted[0][1])
            read += 1
        return read

    def read_block(self, start: int, *, unreadable: bool = False) -> None:
        """The block that begins there."""
        self.blocks_read.append(start)
        records = [one for one in self.log if one.offset >= start][: self.block_records]
        next_ = records[-1].offset + 1 if len(records) == self.block_records else max(self.end, start + 1)
        found = [] if unreadable else [self._record(one) for one in records]
        self.engine.channels.on_block(
            Block(self.retention, start, next_, self.log_start, found, unreadable), self.now_ms
        )

    def step(self, *, writes_lost: slice | None = None, told_lost: bool = False) -> Step:
        """Carries out the engine's next step. Some writes may be lost, and the items for gateways with them."""
        while self.engine.unfinished:
            self.engine.flush(self.now_ms, self.next_turn())
        self._now_s_at(self.engine)
        step = self.engine.take_step(self.now_ms)
        writes = [*step.state, *step.seals, *step.tombstones]
        if writes_lost is not None:
            del writes[writes_lost]
        for write in writes:
            self._write(write)
        if writes_lost is not None or told_lost:
            return step
        if step.fence:
            self.engine.pass_fence()
        for inbox, record in step.inboxes:
            if record.gateway:
                assert INBOX[record.gateway] == inbox
                self.told[record.gateway] += record.items
        self.committed = self.engine.channels.done(self.retention)
        not_stored = self.engine.state.brief.first_offset
        self.requests_committed = self.handled if not_stored is None else min(self.handled, not_stored)
        return step

    def settle(self) -> None:
        """Reads, handles, delivers and stores everything."""
        while True:
            self.read()
            self.handle()
            self.engine.channels.commit_due = True
            self.step()
            if not self.read_blocks():
                break
        self.step()

    def tick(self, ms: int) -> None:
        """Time passes."""
        self.now_ms += ms
        self.engine.flush(self.now_ms)
        self.engine.on_tick(self.now_ms)
        self.step()

    def _write(self, write: ProducedRecord) -> None:
        if write.topic == TOPICS.rejected:
            self.rejected.append(write)
        elif write.topic in TOPICS.channels:
            self.moved.append(write)
        elif write.value is None:
            self.stored[write.topic].pop((write.key or b"").decode(), None)
        else:
            self.stored[write.topic][(write.key or b"").decode()] = write.value

    def _record(self, one: Logged) -> MessageRecord:
        return MessageRecord(self.retention, one.key, one.value, one.headers, one.offset, one.timestamp_ms)

    # --- publishers, retention

    def send(
        self,
        channel: str,
        payload: bytes | None = b"x",
        headers: MessageHeaders | str = NO_HEADERS,
        *,
        key: bytes | None = None,
        gap: int = 0,
    ) -> int:
        """A record at the log's end: its offset. `gap`: so many offsets before it hold no records."""
        offset = self.end + gap
        name = f"{PREFIX}{channel}".encode() if key is None else key
        self.log.append(Logged(offset, name, payload, headers, self.now_ms))
        self.end = offset + 1
        return offset

    def remove_below(self, log_start: int) -> None:
        """Removes what is below `log_start`, as retention does."""
        self.log_start = max(self.log_start, min(log_start, self.end))
        self.log = [one for one in self.log if one.offset >= self.log_start]

    # --- gateways

    def request(self, session: int = 1, client: str = "client-1", gateway: int = GATEWAY, **body: object) -> None:
        """A gateway's request."""
        of_gateway = "acks" in body or "beat" in body
        request = internal_pb2.Request(
            format=1,
            gateway=gateway,
            inbox=INBOX[gateway],
            session=0 if of_gateway else session,
            domain="" if of_gateway else DOMAIN,
            group="" if of_gateway else GROUP,
            client="" if of_gateway else client,
            **body,  # type: ignore[arg-type]
        )
        self.requests.append(request)

    def open(
        self,
        wanted: Iterable[str],
        channels: Iterable[wire_pb2.Interest] = (),
        *,
        session: int = 1,
        client: str = "client-1",
        gateway: int = GATEWAY,
        ask: int = 1,
        cursor: int | None = None,
        epoch: int | None = None,
        again: bool = False,
        acked: int | None = None,
        unregister: Iterable[int] = (),
        page_bytes: int = 0,
    ) -> None:
        """An Open of a client that wants these registrations of channels, by their texts, in the end."""
        stream = internal_pb2.OpenStream(
            epoch=epoch if cursor is None or epoch is not None else self.epoch, cursor=cursor, ask=ask, acked=acked
        )
        self.request(
            session,
            client,
            gateway,
            open=internal_pb2.Open(
                digest=sum(map(channel_hash, wanted)) % MODULUS,
                epoch=EPOCH,
                ask=ask,
                again=again,
                interests=channels,
                unregister_interests=unregister,
                streams=[stream],
                page_bytes=page_bytes,
            ),
        )

    def ask(
        self,
        ask: int,
        *,
        page: int = 0,
        cursor: int | None = None,
        paging: int = 0,
        session: int = 1,
        client: str = "client-1",
        gateway: int = GATEWAY,
        page_bytes: int = 0,
    ) -> None:
        """A CatchUp of channels."""
        catch_up = internal_pb2.CatchUp(
            cursor=cursor, ask=ask, page=page, epoch=self.epoch, page_bytes=page_bytes, paging=paging
        )
        self.request(session, client, gateway, stream_catch_up=catch_up)

    def take(self, gateway: int = GATEWAY) -> list[internal_pb2.Item]:
        """Returns the items that a gateway received since the last call."""
        items, self.told[gateway] = self.told[gateway], []
        return items


def channel(name: str, *attributes: str, since: wire_pb2.Since = wire_pb2.SINCE_NOW, at: int = 0) -> wire_pb2.Interest:
    """Returns a channel, or a pattern (`pattern_name`), as it is in a frame."""
    expression = expression_of(name)
    kind = wire_pb2.INTEREST_CHANNEL if expression is None else wire_pb2.INTEREST_PATTERN
    return wire_pb2.Interest(kind=kind, text=expression or name, attributes=attributes, since=since, at=at)


def text(name: str, *attributes: str) -> str:
    """The registration of a channel, as one text."""
    return channel_text(name, attributes)


def hash_of(name: str, *attributes: str) -> int:
    """Returns the hash that identifies the channel."""
    return channel_hash(channel_text(name, attributes))


def channel_pages(items: Iterable[internal_pb2.Item]) -> list[internal_pb2.Page]:
    """Returns the pages of channels among the items, without those that only make a live session ask again."""
    pages = [item.stream_page for item in items if item.WhichOneof("item") == "stream_page"]
    return [page for page in pages if page.kind in (internal_pb2.PAGE, internal_pb2.PAGE_AHEAD)]


def channel_fan_outs(items: Iterable[internal_pb2.Item]) -> list[internal_pb2.FanOut]:
    """Returns the fan-outs of channels among the items."""
    return [item.stream_fan_out for item in items if item.WhichOneof("item") == "stream_fan_out"]


def entry_of(entry: internal_pb2.Entry) -> tuple[object, ...]:
    """(offset, what lies before it is known from here) of a message; (reason, after, before) of a Missed."""
    if entry.HasField("message"):
        return entry.message.offset, entry.message.offset - entry.message.back
    missed = entry.missed
    return wire_pb2.Reason.Name(missed.reason), missed.after if missed.HasField("after") else None, missed.before
