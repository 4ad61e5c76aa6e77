"""A stream job of a few lines: it collects the offsets of requests by their key, stores them, then answers."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coldnotify_streams.core.events import JobRecord, LogBlock, Takeover, UnreadableOffsets
from coldnotify_streams.core.job import At, Ends, JobPartition, LogBounds, Outputs, RecordRefused
from coldnotify_streams.core.partition_progress import JobTopics, OwningPhase
from coldnotify_streams.errors import NewerFormat, TakenOver

REQUESTS, TABLE, STATE, ANSWERS, LOG = "requests", "table", "state", "answers", "log"
TOPICS = JobTopics(requests=REQUESTS, table=TABLE, state=(STATE,))
WITH_LOG = TOPICS._replace(logs=(LOG,), logs_before=2)
CLAIM = b"@claim"
NEW = Takeover(requests_start=0, requests_committed=True, table_committed=0, table_in_epoch=True)


class Written(NamedTuple):
    """One record to produce."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None


class OffsetTally(JobPartition):
    """Collects the offsets of requests, by their key. What it knows of a key is stored, then answered."""

    wants_ends = False
    wants_ends_of_requests = False
    waits = False

    def __init__(self, number: int, owner: str, topics: JobTopics = TOPICS) -> None:
        super().__init__(number, topics)
        self.owner = owner
        self.log_bounds: Mapping[str, LogBounds] = {}
        self.messages: list[int] = []
        """Offsets of the log's records, as they came."""
        self.done: int | None = None
        """The offset below which the log may be committed; None: everything that was read."""
        self.blocks: list[tuple[int, int, list[int], bool]] = []
        """(start, next, offsets, unreadable)."""
        self.wants: list[int] = []
        self.log_starts: list[int] = []
        self.ends: list[tuple[str, float, int]] = []
        self.sums: dict[str, list[int]] = {}
        self.handled: list[int] = []
        self.to_prepare: dict[int, int] = {}
        """The number of preparations before a record can be handled, by its offset."""
        self.aside: list[JobRecord] = []
        self.gaps: list[UnreadableOffsets] = []
        self.ticks = 0
        self._at: At = None
        self._position = 0
        self._claims: list[str] = []
        self._changed: set[str] = set()
        self._newer = False

    def on_load(self, takeover: Takeover) -> None:
        pass

    @property
    def requests_topic_changed(self) -> bool:
        return False

    def claim(self) -> Written:
        if self._newer:
            raise NewerFormat("a record of a later release")
        self.phase = OwningPhase.CLAIMING
        return Written(STATE, self.number, CLAIM, self.owner.encode())

    @property
    def claimed(self) -> bool:
        return self.phase is OwningPhase.CLAIMING and self._claims[-1:] == [self.owner]

    @property
    def must_claim_again(self) -> bool:
        return False

    def own(self, now_ms: int, ends: Ends) -> None:
        self.phase = OwningPhase.OWNED
        self.log_bounds = ends.logs

    def needs_log(self, request: Any) -> str | None:
        return LOG if request.get("log") else None

    def times_of(self, request: Any) -> Sequence[tuple[str, int]]:
        return [(LOG, ms) for ms in request.get("times", ())]

    def at_offsets(self, request: Any, offsets: Sequence[int]) -> Any:
        return request | {"at": list(offsets)}

    def log_done(self, topic: str) -> int:
        return self.positions[topic] if self.done is None else self.done

    def on_end_seen(self, topic: str, at_s: float, end: int) -> None:
        self.ends.append((topic, at_s, end))

    def on_log_start(self, topic: str, log_start: int) -> None:
        self.log_starts.append(log_start)

    def wanted_blocks(self) -> Sequence[tuple[str, int]]:
        return [(LOG, start) for start in self.wants]

    def on_block(self, block: LogBlock, now_ms: int) -> None:
        self._at = None
        for record in block.records:
            if record.value == b"raise":
                self._at = LOG, record.offset
                raise ValueError("by design")
            if record.value == b"raise without saying where":
                raise ValueError("by design")
        self.wants.remove(block.start)
        self.blocks.append((block.start, block.next, [one.offset for one in block.records], block.unreadable))

    @property
    def about(self) -> dict[str, object]:
        return {"sums": len(self.sums)}

    @property
    def at(self) -> At:
        return self._at

    @property
    def position(self) -> int:
        return self._position

    @property
    def table_done(self) -> int:
        return self._position

    def on_record(self, record: JobRecord, now_ms: int) -> None:
        if record.key == CLAIM:
            self._claims.append((record.value or b"").decode())
            if self.phase is OwningPhase.OWNED and self._claims[-1] != self.owner:
                raise TakenOver(f"{self._claims[-1]} took it over")
        elif record.topic == TABLE:
            self._position = record.offset + 1
            if record.value == b"raise":
                raise ValueError("by design")
        elif record.topic == LOG:
            if record.value == b"raise":
                raise ValueError("by design")
            self.messages.append(record.offset)
        else:
            self._newer = record.value == b"newer"
            if not self._newer and record.key and record.value:
                self.sums[record.key.decode()] = json.loads(record.value)
        self.note_progress(record.topic, record.offset + 1)

    def on_end(self, topic: str, offset: int) -> None:
        if topic == TABLE:
            self._position = max(self._position, offset)
        self.behind.discard(topic)
        self.note_progress(topic, offset)

    def skip(self, record: JobRecord, reason: str) -> None:
        self.aside.append(record)
        if record.topic == TABLE:
            self._position = record.offset + 1
        self.note_progress(record.topic, record.offset + 1)

    def on_unreadable(self, gap: UnreadableOffsets) -> None:
        self.gaps.append(gap)
        if gap.topic == TABLE:
            self._position = gap.next
        if gap.topic != REQUESTS:
            self.note_progress(gap.topic, gap.next)

    def request_of(self, record: JobRecord, now_ms: int) -> Any | None:
        return json.loads(record.value or b"") if record.value else None

    def needs_barrier(self, request: Any) -> bool:
        return bool(request.get("wait"))

    def prepare(self, record: JobRecord) -> bool:
        while self.to_prepare.get(record.offset, 0):
            if self.turn():
                return False
            self.to_prepare[record.offset] -= 1
        return True

    def on_requests(self, requests: Sequence[tuple[int, Any]], now_ms: int) -> int:
        handled = 0
        for offset, request in requests:
            if handled and self.turn():
                break
            handled += 1
            self._at = REQUESTS, offset
            if request.get("raise"):
                raise ValueError("by design")
            self.handled.append(offset)
            self.resolved = request.get("at")
            self.sums[request["key"]] = sorted({*self.sums.get(request["key"], ()), offset})
            self._changed.add(request["key"])
        self._at = None
        return handled

    def flush(self, now_ms: int) -> None:
        pass

    def next_due_ms(self) -> int | None:
        return None

    def on_tick(self, now_ms: int) -> None:
        self.ticks += 1

    def take_step(self, now_ms: int) -> Outputs:
        changed, self._changed = sorted(self._changed), set()
        if any(key == "step-raises" for key in changed):
            raise ValueError("by design")
        state = [Written(STATE, self.number, key.encode(), json.dumps(self.sums[key]).encode()) for key in changed]
        return Outputs(
            state, [Written(ANSWERS, None, key.encode(), json.dumps(self.sums[key]).encode()) for key in changed]
        )

    def take_counts(self) -> dict[str, int]:
        return {}


class TallyJob:
    """Two partitions of it."""

    partitions = 2
    marks: Mapping[str, str] = {REQUESTS: "requests-id", TABLE: "table-id"}
    puts_off = False

    def __init__(self, owner: str = "me", topics: JobTopics = TOPICS) -> None:
        self.owner = owner
        self.topics = topics

    def partition(self, number: int) -> OffsetTally:
        return OffsetTally(number, self.owner, self.topics)

    def owner_of(self, refused: RecordRefused) -> int | None:
        return refused.partition if refused.topic == STATE else None
