"""The logs of channels of one partition, between shell and engine: their records, and their stored state."""

from collections.abc import Iterator, Mapping, Sequence

from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.channels import NO_HEADERS, Retention
from coldnotify_schemas.matcher_state import ChannelsRecord, SessionRecord
from coldnotify_schemas.share_state import ShareRecord
from coldnotify_streams.core import events
from coldnotify_streams.core.events import JobRecord
from coldnotify_streams.core.job import LogBounds

from coldnotify_matcher.engine import Block, Engine, MessageRecord
from coldnotify_matcher.engine.interests.kinds import channels_in, shares_in
from coldnotify_matcher.engine.streams.end_history import EndHistory
from coldnotify_matcher.run_topics import ChannelsLog
from coldnotify_matcher.state_records import OFFSET_MAX, retention_of

_READ_AHEAD_MAX = 1_000_000
"""A predecessor may have gone on reading a log for a while, behind the place that this matcher has read."""


class ChannelLogs:
    """The logs of the retentions that domains have; empty if Kafka has no topics for them."""

    def __init__(self, engine: Engine, logs: Sequence[ChannelsLog]) -> None:
        self._engine = engine
        self._retentions = engine.state.rules.retentions
        self._topics = {log.retention: log.retention.topic(engine.state.rules.topics) for log in logs}
        self._logs = {self._topics[log.retention]: log for log in logs}
        self._by_retention = {log.retention: log for log in logs}
        self._stored: dict[str, ChannelsRecord] = {}
        """By key, the winner among its records."""

    def __contains__(self, topic: str) -> bool:
        return topic in self._logs

    # ---- loading -------------------------------------------------------------------------------------------------

    def merge(self, key: str, record: ChannelsRecord | None) -> bool:
        """Keep the record with the higher (generation, through); a null ends them all. Returns false if this one is
        outdone."""
        if record is None:
            self._stored.pop(key, None)
            return True
        before = self._stored.get(key)
        if before is not None and (record.generation, record.through) < (before.generation, before.through):
            return False
        self._stored[key] = record
        return True

    def stored(self) -> Iterator[tuple[str, ChannelsRecord]]:
        """Yields the state of the present logs: another log's offsets say nothing about them."""
        for key, record in self._stored.items():
            log = self._by_retention.get(retention_of(key))
            if log is not None and record.epoch == log.epoch:
                yield key, record

    def share_beyond(self, key: str, record: ShareRecord) -> str | None:
        """Returns the reason why a share's record cannot belong to its log; None: it can."""
        log = self._engine.state.channel_logs.get(self._retentions.of(key.partition("/")[0]))
        if log is None or log.epoch != record.epoch:
            return None
        end = max(log.position, log.ends.newest) + _READ_AHEAD_MAX
        last = max(record.base, record.settled[-1] if record.settled else -1)
        last = max([last, *(one.offset for one in record.handed_out)])
        return f"base: has the offset {last}, and the log ends at {end}" if last >= end else None

    def beyond(self, key: str, record: ChannelsRecord, bounds: Mapping[str, LogBounds]) -> str | None:
        """Returns the reason why a record cannot belong to a log with these bounds; None: it can."""
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
        """Start the logs: their records come next, after those that `logs_before` adds."""
        for topic, log in self._logs.items():
            self._engine.channels.start(log.retention, log.epoch, bounds[topic].start, bounds[topic].log_start)

    def forget_stored(self) -> None:
        """Forget the stored state, which the engine has now."""
        self._stored = {}

    def is_beyond(self, client: str, session: SessionRecord, bounds: Mapping[str, LogBounds]) -> bool:
        """Returns true if the client, by its key, cannot have been so far in its channels."""
        log = self._by_retention.get(self._retentions.of(client.partition("/")[0]))
        if log is None or log.epoch != session.channels_epoch:
            return False
        return session.channels_cursor >= bounds[self._topics[log.retention]].end

    # ---- records -------------------------------------------------------------------------------------------------

    def on_record(self, record: JobRecord, now_ms: int) -> None:
        """Hand on one record of a log."""
        self._engine.channels.on_message(_message(self._logs[record.topic].retention, record), now_ms)

    def skip(self, record: JobRecord) -> None:
        """Skip one record that is set aside."""
        self._engine.channels.skip(self._logs[record.topic].retention, record.offset)

    def on_end(self, topic: str, offset: int) -> None:
        """Note that a log was read up to this offset."""
        self._engine.channels.on_end(self._logs[topic].retention, offset)

    def replay_from(self, topic: str) -> int:
        """Returns the first offset of a log at which no predecessor has rejected records."""
        return self._engine.state.channel_logs[self._logs[topic].retention].replay_from

    def ends(self, topic: str) -> EndHistory:
        """Returns where a log ended at times of the last minutes."""
        return self._engine.state.channel_logs[self._logs[topic].retention].ends

    def on_log_start(self, topic: str, log_start: int) -> None:
        """Note that a log begins at this offset now."""
        self._engine.channels.on_log_start(self._logs[topic].retention, log_start)

    def done(self, topic: str) -> int:
        """Returns the offset of a log up to which everything is done."""
        return self._engine.channels.done(self._logs[topic].retention)

    def wanted(self) -> list[tuple[str, int]]:
        """Returns the older places that are to be read: (topic, offset)."""
        return [(self._topics[retention], start) for retention, start in self._engine.channels.wanted_blocks()]

    def on_block(self, block: events.LogBlock, now_ms: int) -> None:
        """Hand on a block that was read there."""
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
        """Returns the log that the answer to a request promises to have been read to its end; None: there is none."""
        if not self._logs:
            return None
        body = request.WhichOneof("body")
        if body == "open":
            concerned = (
                request.open.HasField("kept")
                or bool(_channels(request))
                or any(one.HasField("epoch") for one in request.open.streams)
            )
        else:
            concerned = body == "stream_catch_up" or bool(_channels(request))
        return self._log_of(request) if concerned else None

    def times_of(self, request: internal_pb2.Request) -> list[tuple[str, int]]:
        """Returns the times in a request: (log, Unix ms)."""
        at = [channel.at for channel in _channels(request) if channel.since == wire_pb2.SINCE_TIME]
        topic = self._log_of(request) if at else None
        return [] if topic is None else [(topic, min(ms, OFFSET_MAX)) for ms in at]

    def at_offsets(self, request: internal_pb2.Request, offsets: Sequence[int]) -> internal_pb2.Request:
        """Returns the same request with offsets in place of times."""
        resolved = internal_pb2.Request.FromString(request.SerializeToString())
        of_time = (channel for channel in _channels(resolved) if channel.since == wire_pb2.SINCE_TIME)
        for channel, offset in zip(of_time, offsets, strict=True):
            channel.at = offset
        return resolved

    def _log_of(self, request: internal_pb2.Request) -> str | None:
        return self._topics.get(self._retentions.of(request.domain))


def _channels(request: internal_pb2.Request) -> Sequence[wire_pb2.Interest]:
    """Returns the channels, and shares of channels, that a request registers, or reports to be behind in."""
    match request.WhichOneof("body"):
        case "open":
            said = request.open.interests
        case "register":
            said = request.register.interests
        case "sync":
            said = request.sync.interests
        case _:
            return ()
    return [*channels_in(said), *shares_in(said)]


def _message(retention: Retention, record: JobRecord) -> MessageRecord:
    said = NO_HEADERS if record.said is None else record.said
    return MessageRecord(retention, record.key, record.value, said, record.offset, record.timestamp_ms)
