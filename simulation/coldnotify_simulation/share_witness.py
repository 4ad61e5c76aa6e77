"""Judges P13 from outside: by what workers say and are sent, by what their callbacks see, and by the topics.

It knows the log of channels, which requests have reached Kafka, and when each frame left and came, in true time. It
counts each lease itself: from when the Hold left that the hand-out, or the grant, names, by the worker's own clock, and
5% less than its length. It never asks the matcher or the library who has what.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from coldnotify._core.driver import ShareJob
from coldnotify._core.interests.interests import ShareInterest
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.channels import OFFSET_HEADER, WHY_HEADER
from coldnotify_schemas.frames import FrameBuffer, parse_client_frame, parse_gateway_frame
from coldnotify_schemas.interests import Kind, share_hash
from coldnotify_schemas.internal_pb2 import Request
from coldnotify_schemas.matcher_state import RegistrationsRecord, is_wills_key
from coldnotify_schemas.protocol import CLIENT_FRAME_BYTES_MAX, GATEWAY_FRAME_BYTES_MAX
from coldnotify_schemas.share_names import DEAD_LETTERS_SUFFIX
from coldnotify_schemas.topics import TopicNames
from google.protobuf.message import DecodeError

from coldnotify_simulation.kafka import LogEntry, PartitionLog
from coldnotify_simulation.link import SimulatedLink
from coldnotify_simulation.messages import SimulatedMessage
from coldnotify_simulation.promises import Broken, group_partition
from coldnotify_simulation.share_worker import SimulatedWorker
from coldnotify_simulation.world import DOMAIN, World

TOPICS = TopicNames()

SOONER = 0.95
"""A member gives a lease up when this part of it is over: clocks differ in speed by less."""
_LOOK_S = 0.25
_OVERDUE_LOOKS = 3
"""A worker that goes on without a lease is seen so often before that breaks a promise: it may have just resumed."""
_REASONS: dict[int, str] = {wire.RETENTION: "retention", wire.EXPIRED: "expired", wire.UNREADABLE: "unreadable"}
_EXPIRES_SOONER_MS = 1_000


class LeasedPlace(NamedTuple):
    """A message, or the first one that a notice says to be missing, of a share."""

    group: str
    share: int
    """The hash of the share's registration."""
    offset: int


@dataclass(slots=True)
class DrawnShare:
    """A share of a group's channel."""

    group: str
    interest: ShareInterest
    oldest: bool
    """It begins with the oldest message that there is; else with those that come."""
    begins: int | None = None
    """Behind this offset all is owed; None: nobody is registered yet."""
    handed: bool = False
    """Something of it was handed out: it exists."""

    @property
    def key(self) -> str:
        """The key of its channel."""
        return f"{DOMAIN}/{self.group}/{self.interest.channel}"

    def exists(self) -> None:
        """Note that something of it was handed out."""
        self.handed = True

    def begin(self, position: int) -> None:
        """A registration says that it begins behind this offset."""
        if not self.handed:
            self.begins = position if self.begins is None else max(self.begins, position)


@dataclass(slots=True)
class _Held:
    """A lease, as its holder has to count it."""

    worker: SimulatedWorker
    number: int
    lease_s: float
    ends_s: float

    def extend(self, ends_s: float) -> None:
        self.ends_s = max(self.ends_s, ends_s)

    @property
    def goes_on(self) -> bool:
        return self.ends_s > self.worker.clock.now_s


class _SentHold(NamedTuple):
    at_s: float
    lease_s: dict[int, int]
    named: dict[LeasedPlace, tuple[int, int]]
    """By place: the hand-out's number, and what was said of it."""


@dataclass(slots=True)
class _Connection:
    """The frames of one connection, each way."""

    up: FrameBuffer = field(default_factory=lambda: FrameBuffer(CLIENT_FRAME_BYTES_MAX))
    down: FrameBuffer = field(default_factory=lambda: FrameBuffer(GATEWAY_FRAME_BYTES_MAX))
    holds: dict[int, _SentHold] = field(default_factory=dict)
    is_over: bool = False
    """The worker has said Bye, which gives back all, also what still comes."""

    def end(self) -> None:
        """Note that."""
        self.is_over = True


class _Working(NamedTuple):
    """The callback that a worker is in."""

    life: int
    place: LeasedPlace
    number: int


class ShareWitness:
    """share_worker.WorkersJudge, and who looks at all records."""

    def __init__(self, world: World, shares: Iterable[DrawnShare], attempts_max: int) -> None:
        self._world = world
        self._attempts_max = attempts_max
        self.shares = {(one.group, one.interest.hash): one for one in shares}
        self.counts: Counter[str] = Counter()
        self._connections: dict[SimulatedLink, _Connection] = {}
        self._held: defaultdict[LeasedPlace, dict[str, _Held]] = defaultdict(dict)
        """By worker."""
        self._numbers: dict[LeasedPlace, int] = {}
        """The highest number of a hand-out that came."""
        self._ended: dict[tuple[str, int, LeasedPlace], int] = {}
        """By worker, its life, and place: the latest hand-out that is over for it, so that copies count for nothing."""
        self._said: set[tuple[LeasedPlace, int]] = set()
        """The hand-outs whose callbacks were said to begin."""
        self._settled: dict[LeasedPlace, int] = {}
        """The hand-outs that were answered as settled."""
        self._begun: defaultdict[LeasedPlace, set[int]] = defaultdict(set)
        """The same of requests that have reached Kafka."""
        self._done: defaultdict[LeasedPlace, set[int]] = defaultdict(set)
        self._rejected: set[LeasedPlace] = set()
        self._notices: dict[tuple[LeasedPlace, int], int] = {}
        """By hand-out: the last offset that it says to be missing."""
        self._letters: set[LeasedPlace] = set()
        self._working: dict[str, _Working] = {}
        self._overdue: Counter[str] = Counter()

    def holders(self) -> list[SimulatedWorker]:
        """Returns the workers that hold something."""
        held = (one for by_worker in self._held.values() for one in by_worker.values() if one.goes_on)
        return sorted({one.worker.key: one.worker for one in held}.values(), key=lambda worker: worker.key)

    # ---- the log

    def _log(self, group: str) -> PartitionLog:
        return self._world.kafka.log(TOPICS.channels_1d, group_partition(group))

    def _messages(self, share: DrawnShare, before: int) -> Iterator[SimulatedMessage]:
        """Yields the messages that the share owes to somebody, below an offset."""
        if share.begins is None:
            return
        attributes = frozenset(share.interest.attributes)
        for one in self._world.messages.log.between(share.key, share.begins, before):
            if one.repeats is None and one.is_for(attributes):
                yield one

    def on_record(self, topic: str, partition: int, entry: LogEntry) -> None:
        """A record was written. Raises Broken."""
        if topic == TOPICS.requests:
            self._on_request(entry)
        elif topic == TOPICS.registrations and entry.value is not None:
            self._on_registrations(entry)
        elif topic == TOPICS.channels_1d and (entry.key or b"").endswith(DEAD_LETTERS_SUFFIX.encode()):
            self._on_letter(entry)

    def _on_request(self, entry: LogEntry) -> None:
        try:
            request = Request.FromString(entry.value or b"")
        except DecodeError:
            return
        if not request.HasField("hold"):
            return
        for said in request.hold.shares:
            for one in said.messages:
                place = LeasedPlace(request.group, said.share, one.offset)
                if one.state == wire.HELD_BEGUN:
                    self._begun[place].add(one.hand_out)
                elif one.state == wire.HELD_DONE:
                    self._done[place].add(one.hand_out)
                elif one.state == wire.HELD_REJECTED:
                    self._rejected.add(place)

    def _on_registrations(self, entry: LogEntry) -> None:
        key = (entry.key or b"").decode()
        group = key.split("/")[1] if key.count("/") else ""
        if not any(group == one for one, _ in self.shares) or is_wills_key(key):
            return
        record = msgspec.json.decode(entry.value or b"", type=RegistrationsRecord)
        for one in record.of_kind(Kind.SHARE):
            share = self.shares[group, share_hash(one.text)]
            log = self._log(group)
            share.begin(one.position)
            if one.position > log.end - 1 or (share.oldest and one.position > log.start - 1):
                raise Broken(f"P13: {share.interest.title} begins behind {one.position} of {log.start} to {log.end}")

    def _on_letter(self, entry: LogEntry) -> None:
        headers = dict(entry.headers)
        group = (entry.key or b"").decode().split("/")[1]
        name, _, offset = headers["id"].decode().partition("/")
        share = next((one for (of, _), one in self.shares.items() if of == group and one.interest.share == name), None)
        if share is None:
            return
        place = LeasedPlace(group, share.interest.hash, int(offset))
        self._world.trace("judge", "sees a dead letter of", place, headers)
        self.counts["dead letters"] += place not in self._letters
        self._letters.add(place)
        attempts = len(self._begun[place])
        right = {
            b"rejected": place in self._rejected,
            b"attempts": attempts >= self._attempts_max,
            b"missed": any(noticed == place for noticed, _ in self._notices),
        }[headers[WHY_HEADER]]
        if not right or int(headers[OFFSET_HEADER]) != place.offset or int(headers["attempts"]) > attempts:
            raise Broken(f"P13: the letter of {place} says {headers}, and it had {attempts} attempts")

    # ---- frames

    def on_sent(self, worker: SimulatedWorker, link: SimulatedLink, data: bytes) -> None:
        """It sends these bytes."""
        connection = self._connections.setdefault(link, _Connection())
        for body in connection.up.feed(data):
            frame = parse_client_frame(body)
            if frame.HasField("hold"):
                self._on_hold(worker, connection, frame.hold)
            elif frame.HasField("bye"):
                connection.end()
                self._end_all(worker, None)

    def _on_hold(self, worker: SimulatedWorker, connection: _Connection, hold: wire.Hold) -> None:
        named: dict[LeasedPlace, tuple[int, int]] = {}
        for said in hold.shares:
            for one in said.messages:
                place = LeasedPlace(worker.identity.group, said.share, one.offset)
                named[place] = one.hand_out, one.state
                if one.state == wire.HELD_BEGUN:
                    self._said.add((place, one.hand_out))
                elif one.state != wire.HELD_WAITS:
                    self._end(worker, place, one.hand_out)
        lengths = {said.share: said.lease_s for said in hold.shares if said.lease_s}
        connection.holds[hold.number] = _SentHold(worker.clock.now_s, lengths, named)

    def _end(self, worker: SimulatedWorker, place: LeasedPlace, number: int) -> None:
        """A hand-out is over for its holder."""
        held = self._held[place].get(worker.key)
        if held is not None and held.number <= number:
            del self._held[place][worker.key]
        mark = worker.key, worker.life, place
        self._ended[mark] = max(number, self._ended.get(mark, 0))

    def _end_all(self, worker: SimulatedWorker, share: int | None) -> None:
        """It gives back all that it holds of this share, or of all."""
        for place in [one for one in self._held if one.group == worker.identity.group and share in (None, one.share)]:
            self._held[place].pop(worker.key, None)
        working = self._working.get(worker.key)
        if working is not None and share in (None, working.place.share):
            del self._working[worker.key]

    def on_leaves(self, worker: SimulatedWorker, interest: ShareInterest) -> None:
        """It is a member no more."""
        self._end_all(worker, interest.hash)

    def on_received(self, worker: SimulatedWorker, link: SimulatedLink, data: bytes) -> None:
        """These bytes have come. Raises Broken."""
        connection = self._connections.setdefault(link, _Connection())
        group = worker.identity.group
        for body in connection.down.feed(data):
            frame = parse_gateway_frame(body)
            if frame.HasField("message") and frame.message.hand_out:
                said = frame.message
                place = LeasedPlace(group, said.channel, said.offset)
                self._on_handed(worker, connection, place, said, None)
            elif frame.HasField("missed") and frame.missed.hand_out:
                missed = frame.missed
                place = LeasedPlace(group, missed.channel, missed.after + 1 if missed.HasField("after") else 0)
                self._on_handed(worker, connection, place, missed, missed.before - 1)
            elif frame.HasField("leases") and frame.leases.number:
                self._on_answer(worker, connection, frame.leases)

    def _on_handed(
        self,
        worker: SimulatedWorker,
        connection: _Connection,
        place: LeasedPlace,
        said: wire.Message | wire.Missed,
        through: int | None,
    ) -> None:
        number, hold, share = said.hand_out, connection.holds.get(said.hold), self.shares[place.group, place.share]
        if hold is None or place.share not in hold.lease_s or connection.is_over:
            return
        self.counts["handed"] += 1
        if number > self._settled.get(place, number):
            raise Broken(f"P13: {worker.name} is handed {place} ({number}), which {self._settled[place]} has settled")
        self._numbers[place] = max(number, self._numbers.get(place, 0))
        if said.attempts > len(self._begun[place]):
            raise Broken(f"P13: {place} comes with {said.attempts} attempts, {len(self._begun[place])} have begun")
        if isinstance(said, wire.Missed):
            assert through is not None
            self._check_notice(share, place, through, said.reason)
            self._notices[place, number] = through
        now_s, lease_s = worker.clock.now_s, hold.lease_s[place.share]
        ends_s = hold.at_s + SOONER * lease_s
        if number <= self._ended.get((worker.key, worker.life, place), 0) or ends_s <= now_s:
            return  # a copy, or it comes too late
        for other in self._held[place].values():
            if other.worker is not worker and other.goes_on:
                left_s = other.ends_s - other.worker.clock.now_s
                raise Broken(
                    f"P13: {worker.name} is handed {place} ({number}), which {other.worker.name} has ({other.number}) "
                    f"for {left_s:.3f} s"
                )
        if through is None:
            self._check_key(share, place)
        mine = self._held[place].get(worker.key)
        if mine is None or mine.number < number:
            mine = self._held[place][worker.key] = _Held(worker, number, lease_s, ends_s)
        elif mine.number == number:
            mine.extend(ends_s)
        share.exists()
        prefetch = worker.wish_shares[share.interest].prefetch if share.interest in worker.wish_shares else None
        has = [one for one in self._of_worker(worker, place) if one.goes_on]
        if prefetch is not None and len(has) > prefetch:
            raise Broken(
                f"P13: {worker.name} has {len(has)} messages of {share.interest.title}, and asked for {prefetch}"
            )

    def _of_worker(self, worker: SimulatedWorker, place: LeasedPlace) -> Iterator[_Held]:
        for one, by_worker in self._held.items():
            if one[:2] == place[:2] and worker.key in by_worker:
                yield by_worker[worker.key]

    def _check_notice(self, share: DrawnShare, place: LeasedPlace, through: int, reason: int) -> None:
        log = self._log(place.group)
        kind = _REASONS.get(reason)
        self.counts[f"missed {kind}"] += 1
        if kind == "retention":
            holds = through < log.start
        elif kind == "expired":
            holds = through == place.offset and self._is_expired(share, place.offset)
        else:
            holds = kind is not None and any(place.offset <= one <= through for one in log.unreadable)
        if not holds:
            raise Broken(f"P13: {place} to {through} is missing because of {kind}, and the log begins at {log.start}")

    def _is_expired(self, share: DrawnShare, offset: int) -> bool:
        one = self._world.messages.log.at(share.key, offset)
        expires_at = None if one is None else one.headers.expires_at
        return expires_at is not None and expires_at - _EXPIRES_SOONER_MS <= self._world.clock.now_ms

    def _check_key(self, share: DrawnShare, place: LeasedPlace) -> None:
        """Nothing with its key is in front of a message that is handed out, but what is settled, dead or missing."""
        message = self._world.messages.log.at(share.key, place.offset)
        if message is None:
            raise Broken(f"P13: {place} is handed out, which nobody has sent")
        if not message.headers.key:
            return
        for one in self._messages(share, place.offset):
            if one.headers.key == message.headers.key and not self._is_over(share, place._replace(offset=one.offset)):
                raise Broken(f"P13: {place} is handed out before {one.offset}, which has its key")
        self.counts["keys judged"] += 1

    def _is_over(self, share: DrawnShare, place: LeasedPlace) -> bool:
        """Returns true if it is settled, as far as requests say, or dead, or missing."""
        latest = self._numbers.get(place, 0)
        if place in self._letters or any(number >= latest for number in self._done[place]):
            return True
        return place.offset < self._log(place.group).start or self._is_expired(share, place.offset)

    def _on_answer(self, worker: SimulatedWorker, connection: _Connection, leases: wire.Leases) -> None:
        hold = connection.holds.get(leases.number)
        if hold is None:
            return
        group = worker.identity.group
        lost = {LeasedPlace(group, one.share, offset) for one in leases.lost for offset in one.offsets}
        for place, (number, state) in hold.named.items():
            held = self._held[place].get(worker.key)
            if place in lost:
                self.counts["lost"] += 1
                self._end(worker, place, number)
            elif state == wire.HELD_DONE:
                self._note_settled(worker, place, number)
            elif state in (wire.HELD_WAITS, wire.HELD_BEGUN) and held is not None and held.number == number:
                held.extend(hold.at_s + SOONER * held.lease_s)

    def _note_settled(self, worker: SimulatedWorker, place: LeasedPlace, number: int) -> None:
        if place in self._settled:
            return
        self.counts["settled"] += 1
        # What is over is answered as settled, whoever asks.
        if self._numbers.get(place, number) > number and not self._is_over(self.shares[place[:2]], place):
            raise Broken(
                f"P13: {worker.name} has settled {place} by {number}, and {self._numbers[place]} was handed out"
            )
        self._settled[place] = number

    # ---- callbacks

    def on_begins(self, worker: SimulatedWorker, job: ShareJob) -> None:
        """A callback is entered. Raises Broken."""
        place, number = LeasedPlace(worker.identity.group, *job.lease.key), job.lease.hand_out
        self._world.trace(worker.name, "works at", place.offset, "hand-out", number, job.message)
        self.counts["begun"] += 1
        if place in self._settled:
            raise Broken(f"P13: {worker.name} works at {place} ({number}), which is settled")
        held = self._held[place].get(worker.key)
        left = place.share not in {one.hash for one in worker.wish_shares}
        if not left and (held is None or held.number != number or not held.goes_on):
            raise Broken(f"P13: {worker.name} begins with {place} ({number}), and does not hold it")
        if (place, number) not in self._said:
            raise Broken(f"P13: {worker.name} begins with {place} ({number}), and has not said so")
        if not left:
            self._working[worker.key] = _Working(worker.life, place, number)

    def on_returns(self, worker: SimulatedWorker, job: ShareJob) -> None:
        """A callback has returned, or raised."""
        self._working.pop(worker.key, None)

    def on_settled(self, worker: SimulatedWorker, job: ShareJob) -> None:
        """The application is told that its message is settled for certain."""
        self.counts["settled in callbacks"] += 1
        self._note_settled(worker, LeasedPlace(worker.identity.group, *job.lease.key), job.lease.hand_out)

    def on_lost(self, worker: SimulatedWorker, job: ShareJob) -> None:
        """The application is told that a lease is lost."""
        self.counts["told lost"] += 1
        self._world.trace(worker.name, "hears that it has lost", job.lease.key.offset)
        self._working.pop(worker.key, None)

    def look_again(self) -> None:
        """Looks at callbacks now and then: none goes on for long without a lease, unless its worker was told. Raises
        Broken."""
        self._world.clock.later(_LOOK_S, self.look_again)
        for key, working in list(self._working.items()):
            worker = next((one.worker for one in self._held[working.place].values() if one.worker.key == key), None)
            if worker is None or worker.stopped or worker.life != working.life:
                self._overdue.pop(key, None)
                continue
            held = self._held[working.place][key]
            if held.goes_on or held.number != working.number:
                self._overdue.pop(key, None)
                continue
            self._overdue[key] += 1
            if self._overdue[key] >= _OVERDUE_LOOKS:
                raise Broken(f"P13: {key} works at {working.place} ({working.number}) without a lease, and is not told")

    # ---- the end

    def at_rest(self) -> list[str]:
        """Returns what is wrong once all that was sent should be over."""
        found = []
        for (group, hash_), share in self.shares.items():
            missing = [
                (place.offset, through)
                for (place, number), through in self._notices.items()
                if place[:2] == (group, hash_) and number in self._done[place]
            ]
            for one in self._messages(share, self._log(group).end):
                place = LeasedPlace(group, hash_, one.offset)
                latest = self._numbers.get(place, 0)
                is_over = place in self._letters or any(number >= latest for number in self._done[place])
                if not is_over and not any(first <= one.offset <= last for first, last in missing):
                    found.append(f"P13: {share.interest.title} of {group} has not done {one.offset}")
        return found[:3]
