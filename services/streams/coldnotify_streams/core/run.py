"""One run of a job, from joining the group until it is stopped or something fails. Pure.

Theory of operation
-------------------
`Run.step` takes the events since the last step and the time, and is a generator
of actions (actions.py), which the shell executes in order. A question suspends the step: the shell sends the answer, or
throws an error. So every order that must be kept is defined here, in one place, and whoever executes the actions (a
shell over Kafka, a simulation) cannot change it. A step ends before the next one begins.

A step: (1) loads assigned partitions, hands on records, and parks requests whose answers promise the newest records of
the table until the table is read up to where it ended when they arrived (their *barrier*, which may include a log); (2)
claims loaded partitions; takes over claimed ones once the ends of their inputs are known; handles the requests whose
barriers are reached; ticks; (3) makes the results durable; (4) reloads partitions whose wait is over; has the next
block read; commits; releases revoked partitions; takes in a few records for the standby.

The order in (3) must not be changed. The `state` of all partitions is written and flushed; then their `seals`, which
say that the state is durable; then their `rest`, which promises both or depends on them. A part that is empty costs no
flush. Only then their offsets are noted, of all inputs together, and only noted offsets are ever committed. So
everything committed is durable, and what is durable but not committed is handled twice: every handler must give the
same result then. A failed delivery ends the run (Failure), and records that were written behind it may be durable.

A partition goes from FOLLOWING (another member owns it) through LOADING and CLAIMING to OWNED. A claim is a record in a
state topic: once it comes back, everything that precedes it has been read, and later records of lower generations do
not count. A member that reads another's claim above its own drops that partition alone (TakenOver) and claims it again
if the group still assigns it to this member after a while. A claim that Kafka refuses is written again after a pause
(claims.py). The load of a takeover is short if the standby followed the partition: then only the table is read again,
from the predecessor's committed offset.

Logs are read from the takeover on, from the predecessor's committed offset or from their present beginning: the job's
state topics hold what it must know of earlier records. So the standby needs no logs. Older parts of a log are read in
blocks, beside all that (blocks.py).

An exception from a record's handler ends only the current load of its partition (reloads.py): its state is dropped, its
noted offsets stay, and it is reloaded without the record that is to blame. If that record is not known, each record
becomes a step of its own (*careful*). A record of a later release parks its partition for longer.

Most of a step's cost does not depend on its size: two flushes, a question to Kafka, a fetch by each reader of what it
has written. So after a step that answered requests the run rests for a share of its duration (`rest_share`), and the
next step takes everything that has arrived meanwhile. An event that arrives after the rest does not wait. A step that
only handled records of the table is followed by no rest, and a record of the table ends one, because its readers should
get it soon.

Unreadable offsets (UnreadableOffsets) count as read, and as nothing else: no request waits for them, no load stops at
them, and commits pass them.

Whoever writes a record or a request determines its cost. So each partition has its turn in a step (partition_turns.py),
and the remaining work waits for the next step: records in `unread`, requests in `pending`. A record of the table that
takes longer than a turn is prepared in several, and handled once it is ready: its effect is never visible in part.

Memory is bounded: if more than `pending_requests_max` requests of a partition wait for the table, the reader leaves
further ones in Kafka until half are handled. A barrier that is not reached in time is investigated: a table that is no
longer read ends the run; one that an open transaction holds up is waited for.
"""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from coldnotify_common.rest import Rest

from coldnotify_streams.core.actions import (
    AskBounds,
    AskEnds,
    Commit,
    Doing,
    Drop,
    Flush,
    HoldBack,
    LoadsAnew,
    LookedAtPartitions,
    Offset,
    Read,
    ReadLogs,
    ReadOn,
    Release,
    Rewind,
    Say,
    Serve,
    TakeFollowed,
    TakenIn,
    TookOver,
    WriteRecords,
)
from coldnotify_streams.core.agenda import Agenda
from coldnotify_streams.core.barriers import Barriers, Requests, is_reached
from coldnotify_streams.core.blocks import RunBlocks, place_of, without
from coldnotify_streams.core.claims import Claims
from coldnotify_streams.core.commits import Commits
from coldnotify_streams.core.durable_steps import DurableSteps
from coldnotify_streams.core.events import (
    Assigned,
    Began,
    EndsSeen,
    Event,
    JobRecord,
    LogBlock,
    LogsBegan,
    LogStarts,
    NotCommitted,
    Now,
    Offsets,
    PartitionsRevoked,
    ReaderFailed,
    Records,
    Rewound,
    Takeover,
    UnreadableOffsets,
)
from coldnotify_streams.core.following import FollowedPartitions
from coldnotify_streams.core.job import Ends, Job, JobPartition, JobProduced, LogBounds, Place
from coldnotify_streams.core.partition_progress import OwningPhase
from coldnotify_streams.core.partition_turns import NextTurn, endless
from coldnotify_streams.core.reloads import Reloads, WaitingReload
from coldnotify_streams.core.seen_ends import SeenEnds
from coldnotify_streams.errors import RunFailure

TICK_S = 1.0
CAREFUL_A_STEP_MAX = 20
"""How many careful steps of a partition one step of the run may contain: all others wait meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """The limits and waiting times of a run."""

    pending_requests_max: int = 20_000
    """Limit on requests of a partition that wait for the table: a second's worth at a rate for which no job is made.
    Above it the reader leaves further ones in Kafka until half are done, so that a stuck topic costs time and not
    memory.
    """
    unread_max: int = 5_000
    """Limit on records of a partition that wait for its turns: a few turns handle that many ordinary ones."""
    unread_bytes_max: int = 8 * 2**20
    """Limit on the total size of their values."""
    barrier_timeout_s: float = 60.0
    """A reader of the table that does not reach, for so long, where it ended then is stuck."""
    taken_over_retry_s: float = 3.0
    """A partition that another member has claimed is claimed again after this time, if the group still assigns it to
    this member. A member that was removed from the group knows so by then: it asks once a second.
    """
    newer_retry_s: float = 30.0
    """When to retry a partition that has a record of a later release: somebody may have overwritten the record."""
    rest_share: float = 2.0
    """The length of a rest, as a multiple of the step before it: steps take a third of the time, however little each
    handles. At 500 wakes a second this makes 80 steps of 300.
    """
    blocks_share: float = 0.2
    """The largest share of the time spent on blocks: live readers do not wait for those that catch up."""
    rest_max_s: float = 0.008
    """The longest rest. A longer one would delay more than it saves, because a step that takes long handles much."""


class JobRun:
    """Holds the partitions that the group assigns to this member, and those of others that it follows."""

    def __init__(self, job: Job, *, standby: bool, limits: RunLimits, next_turn: NextTurn = endless) -> None:
        """`next_turn` begins the turn of a partition: work left at its end waits."""
        self.partitions: dict[int, JobPartition] = {}
        self.commits = Commits(job.topics, job.marks)
        self.following = FollowedPartitions(job) if standby else None
        self.blocks = RunBlocks(limits.blocks_share)
        self._job = job
        self._limits = limits
        self._next_turn = next_turn
        self._topics = job.topics
        self._agenda = Agenda()
        self._barriers = Barriers(
            job.topics,
            self.partitions,
            self._agenda,
            timeout_s=limits.barrier_timeout_s,
            pending_max=limits.pending_requests_max,
        )
        self._reloads = Reloads(
            job,
            self.partitions,
            self.commits,
            self._agenda,
            taken_over_retry_s=limits.taken_over_retry_s,
            newer_retry_s=limits.newer_retry_s,
        )
        self._steps = DurableSteps(self.partitions, self.commits, self._reloads, self._agenda)
        self.claims = Claims(job, self._agenda)
        self._ends = SeenEnds(job.topics, self.partitions, self._agenda)
        self._loading_since_s: dict[int, float] = {}
        self._ticked_at_s = 0.0
        self._rest = Rest(limits.rest_share, limits.rest_max_s)
        self._answered = False
        """True if this step has handled requests."""
        self._stepping = False
        self.unfinished: set[int] = set()
        """The partitions whose last turn ended before their work was done."""
        self._left_before = False
        """True if such a partition had its turn in the previous step."""

    @property
    def waiting(self) -> Mapping[int, WaitingReload]:
        """Partitions that cannot be served and are retried."""
        return self._reloads.waiting

    @property
    def followed(self) -> Mapping[int, JobPartition]:
        """The partitions of others that the warm standby follows."""
        return {} if self.following is None else self.following.partitions

    @property
    def careful(self) -> bool:
        """True if the next step has something to do at once."""
        return bool(self._reloads.careful)

    @property
    def all_owned(self) -> bool:
        """True if every partition of this member that can be served is served."""
        return not [partition for partition in self.partitions.values() if partition.phase is not OwningPhase.OWNED]

    def next_due_ms(self) -> int | None:
        """Returns when postponed work is due (Unix ms); None if nothing is postponed."""
        if not self._job.puts_off:
            return None
        return min((due for p in self.partitions.values() if (due := p.next_due_ms()) is not None), default=None)

    def rest_s(self, now_s: float) -> float:
        """Returns for how many seconds the next step must wait, unless an event `ends_rest`; 0: it may begin."""
        return 0.0 if self.careful else self._rest.left_s(now_s)

    def ends_rest(self, event: Event) -> bool:
        """Returns true if the event holds records of the table, which clients wait for without having asked."""
        table = self._topics.table
        return isinstance(event, Records) and any(record.topic == table and not record.end for record in event.records)

    def on_stepped(self, now_s: float) -> None:
        """Notes that the step has ended, and that all its actions are executed."""
        if self._answered:
            self._rest.begin(self._agenda.now.s, now_s)
        self.blocks.on_stepped(self._agenda.now.s, now_s)

    def last_offsets(self) -> list[Offset]:
        """Returns the offsets to commit at a clean end."""
        return self.commits.last_of(self.partitions)

    def step(self, events: Sequence[Event], now: Now, assigned: Collection[int] | None) -> Doing[None]:
        """Takes in events, handles them, and makes the outcome durable. Raises Failure, which ends the run.

        `assigned`: the partitions that the group assigns to this member; None: not known yet.
        """
        assert not self._stepping, "the step before has not ended"
        self._stepping = True
        self._agenda.now = now
        self._answered = False
        try:
            yield from self._step(events, assigned)
            yield from self._agenda.done()
        finally:
            self._stepping = False
        self.commits.check()

    def _step(self, events: Sequence[Event], assigned: Collection[int] | None) -> Doing[None]:
        revoked: list[PartitionsRevoked] = []
        touched: set[int] = set()
        bounds = yield from self._bounds([event.partition for event in events if isinstance(event, Assigned)])
        for event in events:
            if isinstance(event, Records):
                touched |= yield from self._on_records(event.records)
            elif isinstance(event, UnreadableOffsets):
                touched |= self._on_unreadable(event)
            elif isinstance(event, LogBlock):
                self._on_block(event)
                touched.add(event.partition)
            elif isinstance(event, LogStarts):
                self._on_log_starts(event.starts)
                touched |= {number for _, number in event.starts}
            elif isinstance(event, EndsSeen):
                self._ends.on_seen(event)
            elif isinstance(event, Assigned):
                self._load(event.partition, event.takeover, bounds)
            elif isinstance(event, Began):
                if event.partition in self.partitions:
                    self.partitions[event.partition].reading = True
            elif isinstance(event, LogsBegan):
                partition = self.partitions.get(event.partition)
                # Those of an earlier assignment may be on the way, too. From the same offsets on they are as good.
                if partition is not None and partition.logs_from == event.offsets:
                    partition.logs_reading = True
            elif isinstance(event, Rewound):
                if event.partition in self.partitions:
                    self.partitions[event.partition].requests_reading = True
            elif isinstance(event, NotCommitted):
                self.commits.on_refused(event)
                self._agenda.do(Say("warning", "commit refused, retrying", {"error": event.reason}))
            elif isinstance(event, ReaderFailed):
                raise RunFailure(f"reading from Kafka: {event.error}") from event.error
            else:
                revoked.append(event)
        touched, waits = self._whose_turn(touched)
        for number in sorted(touched):
            if number in self.partitions and self.partitions[number].unread.records:
                yield from self._read_on(self.partitions[number])
        settled, tick = self.all_owned, self._tick_due()
        if not settled:
            yield from self._claim()
        look_at_all = tick or not settled
        concerned = list(self.partitions.values()) if look_at_all else self._concerned(touched, waits)
        ends = yield from self._ends_of([partition for partition in concerned if partition.claimed])
        for partition in concerned:
            with self._reloads.fault_of(partition):
                yield from self._advance(partition, ends, tick=tick)
        yield TakenIn()
        owned = [partition for partition in concerned if self._serves(partition)]
        yield from self._steps.make_durable(owned)
        yield from self._load_what_waited(assigned or ())
        if self._topics.logs:
            self.blocks.look_at(partition for partition in concerned if self._serves(partition))
            if (block := self.blocks.next(self.partitions, self._agenda.now.s)) is not None:
                self._agenda.do(block)
        if tick:
            self._ends.on_tick()
        if look_at_all:
            self._agenda.do(LookedAtPartitions(owned, len(self.waiting) + len(self.claims.refused), tick))
        if due := self.commits.take_due(self._agenda.now.s):
            self._agenda.do(Commit(due))
        for event in revoked:
            self._on_revoked(event)
        if self.following is not None and self.all_owned:
            if tick and assigned is not None:
                others = set(range(self._job.partitions)) - self.partitions.keys() - set(assigned)
                self._agenda.do(*self.following.follow(others, self._agenda.now.s))
            followed = yield from self._agenda.ask(TakeFollowed())
            if followed is not None:
                self._agenda.do(*self.following.on_event(followed, *self._agenda.now))

    def _whose_turn(self, fresh: set[int]) -> tuple[set[int], set[int]]:
        """Returns the partitions that have a turn in this step, and those that must wait for the next one.

        Partitions with work left over alternate with those that have new records: so new records wait for one such
        turn, and not for two.
        """
        left = {number for number in self.unfinished if number in self.partitions}
        if self._job.puts_off:
            left |= {number for number, partition in self.partitions.items() if partition.next_due_ms() == 0}
        others = fresh - left
        if others and left and self._left_before:
            self._left_before = False
            self.unfinished = left
            return others, left
        self._left_before = bool(left)
        self.unfinished = set()
        return fresh | left, set()

    def _concerned(self, touched: set[int], waits: set[int]) -> list[JobPartition]:
        """Returns the partitions that have something to do between two ticks. Checking all eight took as long as a
        publish.
        """
        if self._job.puts_off:
            touched |= {n for n, p in self.partitions.items() if p.next_due_ms() is not None} - waits
        touched |= self._reloads.careful
        return [self.partitions[number] for number in sorted(touched) if number in self.partitions]

    def _tick_due(self) -> bool:
        if self._agenda.now.s - self._ticked_at_s < TICK_S:
            return False
        self._ticked_at_s = self._agenda.now.s
        return True

    # ---- assignment ----------------------------------------------------------------------------------------------

    def _bounds(self, numbers: Iterable[int]) -> Doing[tuple[Offsets, Offsets]]:
        """Asks where the compacted topics of assigned partitions begin and end."""
        places = [(topic, number) for number in numbers for topic in self._topics.compacted]
        if not places:
            return {}, {}
        # Where they begin is asked for, too: told "at the beginning" librdkafka waits half a second before it asks.
        bounds: tuple[Offsets, Offsets] = yield from self._agenda.ask(AskBounds(places))
        return bounds

    def _load_what_waited(self, assigned: Container[int]) -> Doing[None]:
        """Begins to reload the partitions whose wait is over."""
        due = self._reloads.due(assigned)
        bounds = yield from self._bounds(due)
        for number, takeover in due.items():
            self._load(number, takeover, bounds)

    def _load(self, number: int, takeover: Takeover, bounds: tuple[Offsets, Offsets]) -> None:
        again = self._reloads.waiting.pop(number, None) is not None
        self.claims.forget(number)
        compacted = self._topics.compacted
        starts, ends = ({topic: offsets[topic, number] for topic in compacted} for offsets in bounds)
        partition = None
        if self.following is not None:
            partition, actions = self.following.take(number)
            self._agenda.do(*actions)
        if partition is None or not partition.can_load_on(starts, ends, takeover):
            partition = self._job.partition(number)
        offsets = partition.load(starts, ends, takeover)
        partition.requests_reading = not again
        self.partitions[number] = partition
        self._loading_since_s[number] = self._agenda.now.s
        if again:
            self._agenda.do(LoadsAnew(number), Rewind(number, takeover.requests_start))
        records = sum(ends.values()) - sum(offsets.values())
        about = {"partition": number, "followed": partition.warm, "records_to_load_max": records}
        self._agenda.do(Read(number, offsets), Say("info", "partition assigned", about))

    def _on_revoked(self, event: PartitionsRevoked) -> None:
        gone = [number for number in event.partitions if number in self.partitions or number in self.waiting]
        for number in gone:
            self.partitions.pop(number, None)
            self._reloads.forget(number)
            self.claims.forget(number)
        offsets = [] if event.lost else self.commits.last_of(gone)
        self.commits.forget(gone)
        self._agenda.do(*(Drop(number) for number in gone))
        self._agenda.do(Say("info", "partitions given up", {"partitions": event.partitions, "lost": event.lost}))
        self._agenda.do(Release(event, offsets))

    def _claim(self) -> Doing[None]:
        claims: list[JobProduced] = []
        claimed: list[JobPartition] = []
        for partition in self.claims.due(self.partitions):
            with self._reloads.fault_of(partition):
                claims.append(partition.claim())
                claimed.append(partition)
        if claims:
            yield from self._agenda.ask(WriteRecords(claims))
            self.claims.on_answer(claimed, (yield from self._agenda.ask(Flush())))

    def _ends_of(self, claimed: list[JobPartition]) -> Doing[dict[int, Ends]]:
        """Asks where the inputs of these partitions end now; everything a predecessor wrote is below."""
        if not claimed:
            return {}
        requests, table = self._topics.requests, self._topics.table
        places = [(topic, partition.number) for partition in claimed for topic in (requests, table)]
        ends = yield from self._agenda.ask(AskEnds(places, uncommitted=True))
        bounds: tuple[Offsets, Offsets] = {}, {}
        if self._topics.logs:
            logs = [(topic, partition.number) for partition in claimed for topic in self._topics.logs]
            bounds = yield from self._agenda.ask(AskBounds(logs))
        return {
            p.number: Ends(ends[requests, p.number], ends[table, p.number], self._log_bounds(p, *bounds))
            for p in claimed
        }

    def _log_bounds(self, partition: JobPartition, starts: Offsets, ends: Offsets) -> dict[str, LogBounds]:
        """Returns where handling of its logs begins: within what each log still has."""
        found = {}
        committed = {} if partition.takeover is None else partition.takeover.logs_committed
        for topic in self._topics.logs:
            first, end = starts[topic, partition.number], ends[topic, partition.number]
            start = min(max(first, committed.get(topic, first)), end)
            found[topic] = LogBounds(start, first, end)
        return found

    def _take_over(self, partition: JobPartition, ends: Ends) -> None:
        number = partition.number
        partition.own(self._agenda.now.ms, ends)
        if ends.logs:
            before = self._topics.logs_before
            offsets = {topic: max(log.log_start, log.start - before) for topic, log in ends.logs.items()}
            partition.positions |= offsets
            partition.logs_from = offsets
            self._agenda.do(ReadLogs(number, offsets))
        self._agenda.do(Serve(number, from_beginning=partition.requests_topic_changed))
        self._agenda.do(TookOver(partition, self._loading_since_s[number]))

    # ---- input ---------------------------------------------------------------------------------------------------

    def _on_records(self, records: Iterable[JobRecord]) -> Doing[set[int]]:
        """Hands on records. Returns the numbers of the partitions that they concern."""
        touched: set[int] = set()
        requests: Requests = {}
        topic_of_requests, logs = self._topics.requests, self._topics.logs
        for record in records:
            number = record.partition
            partition = self.partitions.get(number)
            if partition is None:
                continue  # given up meanwhile
            if record.topic == topic_of_requests:
                if not partition.requests_reading:
                    continue  # it comes again, from where the partition is loaded anew
            elif not (partition.logs_reading if record.topic in logs else partition.reading):
                continue  # of an earlier assignment: what this one loads begins at the beginning
            if record.end and not partition.unread.records and _is_known(partition, record):
                continue
            touched.add(number)
            if record.topic == topic_of_requests:
                self._on_request(partition, record, requests)
            elif partition.phase is OwningPhase.OWNED:
                partition.unread.add(record)
            elif self._on_record(partition, record):
                yield from self._be_careful(partition, (record.topic, record.offset))
            if self.partitions.get(number) is not partition:
                requests.pop(number, None)
        yield from self._barriers.wait_for_inputs(requests)
        return touched

    def _on_unreadable(self, gap: UnreadableOffsets) -> set[int]:
        """Skips unreadable offsets: they count as read, and as nothing else. Barriers and commits pass them."""
        number, topic = gap.partition, gap.topic
        partition = self.partitions.get(number)
        if partition is None or not self._is_of_this_load(partition, topic):
            return set()
        if topic == self._topics.requests:
            partition.requests_position = max(partition.requests_read, gap.next)
        elif partition.phase is OwningPhase.OWNED:
            partition.unread.add(gap)  # behind the records in front of it
            return {number}
        self._pass_over(partition, gap)
        return {number}

    def _pass_over(self, partition: JobPartition, gap: UnreadableOffsets) -> None:
        try:
            partition.on_unreadable(gap)
        except RunFailure:
            raise
        except Exception as error:
            self._reloads.on_fault(partition, error, sure=None)

    def _is_of_this_load(self, partition: JobPartition, topic: str) -> bool:
        """Returns true if records of this topic belong to the partition's current load. If not, they will be read
        again.
        """
        if topic == self._topics.requests:
            return partition.requests_reading
        return partition.logs_reading if topic in self._topics.logs else partition.reading

    def _on_request(self, partition: JobPartition, record: JobRecord, requests: Requests) -> None:
        try:
            if self._reloads.faults and self._reloads.is_set_aside(partition, record):
                return
            partition.requests_position = record.offset + 1
            request = partition.request_of(record, self._agenda.now.ms)
            if request is not None:
                requests.setdefault(partition.number, []).append((record.offset, request))
        except RunFailure:
            raise
        except Exception as error:
            self._reloads.on_fault(partition, error, sure=(record.topic, record.offset))

    def _on_record(self, partition: JobPartition, record: JobRecord) -> bool:
        """Hands on a record that is not a request. Returns true if its step may fail because of it (`_be_careful`)."""
        try:
            if record.end:
                partition.on_end(record.topic, record.offset)
            elif not (self._reloads.faults and self._reloads.is_set_aside(partition, record)):
                partition.on_record(record, self._agenda.now.ms)
                return bool(self._reloads.faults) and record.topic in (self._topics.table, *self._topics.logs)
        except RunFailure:
            raise
        except Exception as error:
            self._reloads.on_fault(partition, error, sure=(record.topic, record.offset))
        return False

    def _read_on(self, partition: JobPartition) -> Doing[None]:
        """Hands on a partition's waiting records, as long as its turn lasts."""
        unread, partition.turn = partition.unread, self._next_turn()
        while unread.records:
            record = unread.records[0]
            if isinstance(record, UnreadableOffsets):
                self._pass_over(partition, record)
                if not self._serves(partition):
                    return
                unread.remove_first()
                continue
            with self._reloads.fault_of(partition, (record.topic, record.offset)):
                if not record.end and not partition.prepare(record):
                    break
            if self._serves(partition) and self._on_record(partition, record):
                yield from self._be_careful(partition, (record.topic, record.offset))
            if not self._serves(partition):
                return
            unread.remove_first()
            if partition.turn():
                break
        self._bound_unread(partition)
        if unread.records:
            self.unfinished.add(partition.number)

    def _bound_unread(self, partition: JobPartition) -> None:
        unread, limits = partition.unread, self._limits
        fill = max(len(unread.records) / limits.unread_max, unread.size_bytes / limits.unread_bytes_max)
        if not unread.held_back and fill > 1:
            unread.held_back = True
            self._agenda.do(HoldBack(partition.number))
        elif unread.held_back and fill <= 0.5:
            unread.held_back = False
            self._agenda.do(ReadOn(partition.number))

    def _on_block(self, block: LogBlock) -> None:
        """Hands on a block to the partition that wanted it, unless the partition was dropped since."""
        partition = self.blocks.take(block)
        if partition is None or not self._serves(partition):
            return
        if block.next <= block.start:
            return  # Kafka did not answer, and it is asked for again
        faults = self._reloads.faults.get(partition.number)
        read = block if faults is None else without(block, faults.records)
        try:
            partition.on_block(read, self._agenda.now.ms)
        except RunFailure:
            raise
        except Exception as error:
            at = partition.at
            of_block = isinstance(at, tuple) and at[0] == block.topic and block.start <= at[1] < block.next
            self._reloads.on_fault(partition, error, sure=at if of_block and isinstance(at, tuple) else place_of(block))

    def _on_log_starts(self, starts: Offsets) -> None:
        for (topic, number), log_start in starts.items():
            partition = self.partitions.get(number)
            if partition is not None and partition.phase is OwningPhase.OWNED:
                with self._reloads.fault_of(partition):
                    partition.on_log_start(topic, log_start)

    def _advance(self, partition: JobPartition, ends: Mapping[int, Ends], *, tick: bool) -> Doing[None]:
        """Has the partition do everything it can with what it has."""
        if partition.number in ends:
            self._take_over(partition, ends[partition.number])
        if partition.phase is not OwningPhase.OWNED:
            return
        now_ms, pending = self._agenda.now.ms, partition.pending
        partition.begin_turn(self._next_turn(), self._agenda.now.s)
        partition.flush(now_ms)
        while pending and not partition.waits and is_reached(partition, pending[0]):
            if self._reloads.is_careful(partition.number):
                served = yield from self._handle_carefully(partition)
                if not served:
                    return
                break
            batch = pending[0].requests
            del batch[: partition.on_requests(batch, now_ms)]
            self._answered = True
            if not batch:
                pending.popleft()
            if partition.turn():
                break
        if pending and is_reached(partition, pending[0]):
            if not partition.waits:
                self.unfinished.add(partition.number)
        elif pending:
            yield from self._barriers.look_at(partition)
        self._barriers.bound(partition)
        if tick:
            partition.on_tick(now_ms)

    def _serves(self, partition: JobPartition) -> bool:
        return partition.phase is OwningPhase.OWNED and self.partitions.get(partition.number) is partition

    def _be_careful(self, partition: JobPartition, record: Place) -> Doing[None]:
        """Makes a record of the table a step of its own, if it may be the one that a step failed of."""
        if self._reloads.is_careful(partition.number) and partition.phase is OwningPhase.OWNED:
            yield from self._steps.write([partition], record)

    def _handle_carefully(self, partition: JobPartition) -> Doing[bool]:
        """Handles some requests, each as a step of its own. Returns false if one failed."""
        yield from self._steps.write([partition], None)  # so that what follows is to blame for what it says alone
        for _ in range(CAREFUL_A_STEP_MAX):
            if not partition.pending or not is_reached(partition, partition.pending[0]):
                break
            batch = partition.pending[0].requests
            offset, request = batch.pop(0)
            if not batch:
                partition.pending.popleft()
            place = (self._topics.requests, offset)
            with self._reloads.fault_of(partition, place):
                partition.on_requests([(offset, request)], self._agenda.now.ms)
                yield from self._steps.write([partition], place)
            if not self._serves(partition):
                return False
        return True


def _is_known(partition: JobPartition, end: JobRecord) -> bool:
    """Returns true if the partition has already read up to this end.

    Kafka reports the end of one partition together with a record of another. At a few publishes a second, two
    partitions would have a turn in each step, one of them for nothing.
    """
    return partition.phase is OwningPhase.OWNED and partition.positions.get(end.topic) == end.offset
