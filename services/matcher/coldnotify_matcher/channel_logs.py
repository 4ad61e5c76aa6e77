"""The logs of channels of one partition, between shell and engine: their records, and what is stored of them."""

from collections.abc import Iterator, Mapping, Sequence

from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.channels import NO_HEADERS, Retention
from coldnotify_schemas.matcher_state import ChannelsRecord, SessionRecord
from coldnotify_streams.core import events
from coldnotify_streams.core.events import JobRecord
from coldnotify_streams.core.job import LogBounds

from coldnotify_matcher.engine import Block, Engine, MessageRecord
from coldnotify_matcher.run_topics import ChannelsLog
from coldnotify_matcher.state_records import OFFSET_MAX, retention_of


class ChannelLogs:
    """Those of the retentions that domains have; none where Kafka has no topics for them."""

    def __init__(self, engine: Engine, logs: Sequence[ChannelsLog]) -> None:
        self._engine = engine
        self._retentions = engine.rules.retentions
        self._topics = {log.retention: log.retention.topic(engine.rules.topics) for log in logs}
        self._logs = {self._topics[log.retention]: log for log in logs}
        self._by_retention = {log.retention: log for log in logs}
        self._stored: dict[str, ChannelsRecord] = {}
        """By key, the winner among its records."""

    def __contains__(self, topic: str) -> bool:
        return topic in self._logs

    # ---- loading -------------------------------------------------------------------------------------------------

    def merge(self, key: str, record: ChannelsRecord | None) -> bool:
        """Keep the record with the higher (generation, through); a null ends them all. False: this one is outdone."""
        if record is None:
            self._stored.pop(key, None)
            return True
        before = self._stored.get(key)
        if before is not None and (record.generation, record.through) < (before.generation, before.through):
            return False
        self._stored[key] = record
        return True

    def stored(self) -> Iterator[tuple[str, ChannelsRecord]]:
        """What there is of the logs as they are today: another log's offsets say nothing of this one."""
        for key, record in self._stored.items():
            log = self._by_retention.get(retention_of(key))
            if log is not None and record.epoch == log.epoch:
                yield key, record

    def beyond(self, key: str, record: ChannelsRecord, bounds: Mapping[str, LogBounds]) -> str | None:
        """What it says that cannot be of a log with these bounds; None: it can be."""
        end = bounds[self._topics[retention_of(key)]].end
        for field, offset in (
            ("through", record.through - 1),
            ("forgotten", record.forgotten),
            ("last", max(record.last.values(), default=-1)),
        ):
            if offset >= end:
                return f"{field}: has the offset {offset}, and the log ends at {end}"
        return None

    def start(self, bounds: Mapping[str, LogBounds]) -> None:
        """Their records will come, after those that `logs_before` says."""
        for topic, log in self._logs.items():
            self._engine.channels.start(log.retention, log.epoch, bounds[topic].start, bounds[topic].log_start)

    def forget_stored(self) -> None:
        """The engine has it."""
        self._stored = {}

    def is_beyond(self, client: str, session: SessionRecord, bounds: Mapping[str, LogBounds]) -> bool:
        """Whether the client, by its key, cannot have been so far in its channels."""
        log = self._by_retention.get(self._retentions.of(client.partition("/")[0]))
        if log is None or log.epoch != session.channels_epoch:
            return False
        return session.channels_cursor >= bounds[self._topics[log.retention]].end

    # ---- records -------------------------------------------------------------------------------------------------

    def on_record(self, record: JobRecord, now_ms: int) -> None:
        """One record of a log."""
        self._engine.channels.on_message(_message(self._logs[record.topic].retention, record), now_ms)

    def skip(self, record: JobRecord) -> None:
        """One record that is set aside."""
        self._engine.channels.skip(self._logs[record.topic].retention, record.offset)

    def on_end(self, topic: str, offset: int) -> None:
        """A log has been read up to there."""
        self._engine.channels.on_end(self._logs[topic].retention, offset)

    def replay_from(self, topic: str) -> int:
        """From which offset of a log nobody has rejected what is to be."""
        return self._engine.state.channel_logs[self._logs[topic].retention].replay_from

    def on_log_start(self, topic: str, log_start: int) -> None:
        """A log begins there by now."""
        self._engine.channels.on_log_start(self._logs[topic].retention, log_start)

    def done(self, topic: str) -> int:
        """Up to which offset of a log nothing is left to be done."""
        return self._engine.channels.done(self._logs[topic].retention)

    def wanted(self) -> list[tuple[str, int]]:
        """What lies behind and is to be read: (topic, offset)."""
        return [(self._topics[retention], start) for retention, start in self._engine.channels.wanted_blocks()]

    def on_block(self, block: events.LogBlock, now_ms: int) -> None:
        """What was read of that."""
        retention = self._logs[block.topic].retention
        records = [_message(retention, record) for record in block.records]
        count = self._engine.state.count
        count("blocks_unreadable" if block.unreadable else "blocks_read")
        count("block_bytes", sum(len(record.value or b"") for record in records))
        self._engine.channels.on_block(
            Block(retention, block.start, block.next, block.log_start, records, block.unreadable), now_ms
        )

    # ---- requests ------------------------------------------------------------------------------------------------

    def needed(self, request: internal_pb2.Request) -> str | None:
        """The log that the answer to a request promises to have been read to its end; None: none."""
        if not self._logs:
            return None
        body = request.WhichOneof("body")
        if body == "open":
            concerned = bool(request.open.channels) or request.open.HasField("channels_epoch")
        else:
            concerned = body == "catch_up_channels" or bool(_channels(request))
        return self._log_of(request) if concerned else None

    def times_of(self, request: internal_pb2.Request) -> list[tuple[str, int]]:
        """The times that a request says: (log, Unix ms)."""
        at = [channel.at for channel in _channels(request) if channel.since == wire_pb2.SINCE_TIME]
        topic = self._log_of(request) if at else None
        return [] if topic is None else [(topic, min(ms, OFFSET_MAX)) for ms in at]

    def at_offsets(self, request: internal_pb2.Request, offsets: Sequence[int]) -> internal_pb2.Request:
        """The same request with offsets in their place."""
        resolved = internal_pb2.Request.FromString(request.SerializeToString())
        of_time = (channel for channel in _channels(resolved) if channel.since == wire_pb2.SINCE_TIME)
        for channel, offset in zip(of_time, offsets, strict=True):
            channel.at = offset
        return resolved

    def _log_of(self, request: internal_pb2.Request) -> str | None:
        return self._topics.get(self._retentions.of(request.domain))


def _channels(request: internal_pb2.Request) -> Sequence[internal_pb2.Channel]:
    """Those that a request registers, or says to be behind."""
    match request.WhichOneof("body"):
        case "open":
            return request.open.channels
        case "register":
            return request.register.channels
        case "sync":
            return request.sync.channels
    return ()


def _message(retention: Retention, record: JobRecord) -> MessageRecord:
    said = NO_HEADERS if record.said is None else record.said
    return MessageRecord(retention, record.key, record.value, said, record.offset, record.timestamp_ms)
