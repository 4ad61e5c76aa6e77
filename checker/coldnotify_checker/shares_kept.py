"""Judges P13: compares what members of shares had in hand with what was sent, with the records of shares, and with the
dead letters. Pure.

A message is *closed* once a member has settled it, or it is dying or dead, or it is said to be missing. What members
say is exact, as each of them writes its lines before it tells the service; and what the service decides is durable, in
a record of the share, before anybody hears of it. So the time of a record is not later than what follows from it.

A message is held while its member's own clock says so (`until`), unless the member settled it, gave it back, or was
told that the lease is lost.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.protocol import REPEATS_KNOWN_OFFSETS
from coldnotify_schemas.topics import TopicNames

from coldnotify_checker.histories import End, Event, LogTrimmed, Published, Record, Send, Topic, TopicLost
from coldnotify_checker.log_periods import LogPeriods
from coldnotify_checker.share_lines import (
    ShareBegun,
    ShareGivenBack,
    ShareHeld,
    ShareHolding,
    ShareJoined,
    ShareLeaseLost,
    ShareMissed,
    ShareSettled,
    ShareSettling,
)
from coldnotify_checker.share_records import BEGUN, DYING, ForgottenShare, SeenShare, seen_shares
from coldnotify_checker.verdict import JudgeVerdict

ATTEMPTS_MAX = 10
"""A message becomes a dead letter after so many attempts."""
NEVER = 1 << 62
NEEDS_A_DUMP = "what members said alone; the rest needs a dump of the topics of channels and of shares"
NEEDS_AN_END = "while members worked; that all is done needs --at-rest"
WAS_LOST = "not judged behind the loss of the topic of shares"


def judge_shares(history: Iterable[Event], verdict: JudgeVerdict, names: TopicNames, skew_us: int) -> None:
    """Adds a violation for each way in which P13 was broken. `history` in order of time."""
    history = list(history)
    joined: dict[str, list[ShareJoined]] = defaultdict(list)
    for event in history:
        if isinstance(event, ShareJoined):
            joined[_key(event)].append(event)
    if not joined:
        return
    if any(isinstance(event, TopicLost) and event.topic == names.shares for event in history):
        verdict.judged_in_part["P13"] = WAS_LOST
        return
    dumped = {event.topic: event for event in history if isinstance(event, Topic)}
    is_dumped = names.shares in dumped and set(names.channels) <= dumped.keys()
    ended = any(isinstance(event, End) for event in history)
    if not is_dumped or not ended:
        verdict.judged_in_part["P13"] = NEEDS_AN_END if is_dumped else NEEDS_A_DUMP
    in_dump = (one for one in history if isinstance(one, Record) and one.topic == names.shares and one.key in joined)
    states = seen_shares(in_dump if is_dumped else ())
    logs = _Logs(history, names, dumped)
    for key, of_share in joined.items():
        seen = states.get(key, [])
        if any(isinstance(one, ForgottenShare) for one in seen):
            continue
        known = [one for one in seen if isinstance(one, SeenShare)]
        judging = _OneShare(of_share, history, known, logs, verdict, skew_us)
        judging.judge(ended=ended and is_dumped)


def _key(event: ShareJoined) -> str:
    domain, group, channel = event.channel.split("/", 2)
    return f"{domain}/{group}/{event.share}/{channel}"


@dataclass(slots=True)
class _Message:
    """A message of a channel's log."""

    offset: int
    id: str | None = None
    key: str | None = None
    sends: list[Send] = field(default_factory=list)
    record: Record | None = None
    acknowledged: bool = False
    unanswered: bool = False
    """True if the record of some call that sent it may or may not exist."""

    def acknowledge(self) -> None:
        """Notes that a call that sent it was answered with its place."""
        self.acknowledged = True

    def take_sends(self, sends: list[Send], *, unanswered: bool) -> None:
        """Takes the calls that may have sent it."""
        self.sends, self.unanswered = sends, unanswered

    @property
    def expires_at(self) -> int | None:
        """Unix time in ms."""
        return self.sends[0].expires_at if self.sends else None


class _Logs:
    """The logs of channels: what was sent, what the dump has, and what was removed."""

    def __init__(self, history: list[Event], names: TopicNames, dumped: dict[str, Topic]) -> None:
        self._names = names
        self._dumped = dumped
        self.periods = LogPeriods(history, names)
        self._answers = {(one.publisher, one.id): one for one in history if isinstance(one, Published)}
        self._sends: dict[str, list[Send]] = defaultdict(list)
        self._records: dict[str, list[Record]] = defaultdict(list)
        self._trimmed: dict[str, list[LogTrimmed]] = defaultdict(list)
        for event in history:
            if isinstance(event, Send):
                self._sends[event.channel].append(event)
            elif isinstance(event, LogTrimmed):
                self._trimmed[event.topic].append(event)
            elif isinstance(event, Record) and event.topic in names.channels and self._is_in_place(event):
                self._records[event.key or ""].append(event)

    def _is_in_place(self, record: Record) -> bool:
        names, topic = (record.key or "").split("/", 2), self._dumped.get(record.topic)
        return topic is None or len(names) < 3 or partition_of(names[0], names[1], topic.partitions) == record.partition

    def records(self, channel: str) -> list[Record]:
        """Returns the records of a channel in the dump."""
        return self._records[channel]

    def messages(self, channel: str) -> dict[int, _Message]:
        """Returns the messages of a channel's last log, by offset, as the dump and its senders know them."""
        found = {
            one.offset: _Message(one.offset, one.headers.get("id"), one.headers.get("key"), record=one)
            for one in self._records[channel]
        }
        by_id: dict[str, list[Send]] = defaultdict(list)
        last = self.periods.last(channel)
        for send in self._sends[channel]:
            answer = self._answers.get((send.publisher, send.id))
            if answer is not None and answer.outcome == "failed":
                continue
            by_id[send.message].append(send)
            if answer is None or answer.outcome != "acknowledged" or answer.offset is None or send.path == "stray":
                continue
            if self.periods.within(channel, last, send.t, answer.t):
                found.setdefault(answer.offset, _Message(answer.offset, send.message, send.key)).acknowledge()
        for message in found.values():
            sends = by_id.get(message.id or "", [])
            message.take_sends(sends, unanswered=not all(map(self._is_placed, sends)))
        return {offset: found[offset] for offset in sorted(found)}

    def _is_placed(self, send: Send) -> bool:
        answer = self._answers.get((send.publisher, send.id))
        return answer is not None and answer.outcome == "acknowledged" and send.path != "stray"

    def trimmed_at(self, channel: str, offset: int) -> int:
        """Returns when retention may have removed what is at this offset, at the earliest; NEVER: it has not."""
        domain, group, _ = channel.split("/", 2)
        times = []
        for topic in self._names.channels:
            described = self._dumped.get(topic)
            partition = None if described is None else partition_of(domain, group, described.partitions)
            lines = [one for one in self._trimmed[topic] if partition in (None, one.partition)]
            times += [one.t for one in lines if offset < one.offset]
            starts = [] if described is None else described.starts
            is_below = partition is not None and partition < len(starts) and offset < starts[partition]
            if is_below and not lines and self._records_in(channel, topic):
                times.append(0)
        return min(times, default=NEVER)

    def _records_in(self, channel: str, topic: str) -> bool:
        """Returns true if this topic may be the channel's: it has records of it, or none has."""
        topics = {one.topic for one in self._records[channel]}
        return not topics or topic in topics


class _Place(NamedTuple):
    """A message of one of the channel's logs."""

    log: int
    """The number of the log, from 0, as far as records of the share tell them apart."""
    offset: int


class _OneShare:
    """One share."""

    def __init__(
        self,
        joined: list[ShareJoined],
        history: list[Event],
        states: list[SeenShare],
        logs: _Logs,
        verdict: JudgeVerdict,
        skew_us: int,
    ) -> None:
        self._joined = joined
        self._channel, self._share = joined[0].channel, joined[0].share
        self._states = states
        self._logs = logs
        self._verdict = verdict
        self._skew_us = skew_us
        self._epochs = list(dict.fromkeys(one.epoch for one in states)) or [0]
        self._numbers = self._first_numbers()
        self._lines: dict[_Place, list[ShareHeld]] = defaultdict(list)
        self._missed: list[ShareMissed] = []
        self._begun_first = NEVER
        for event in history:
            if isinstance(event, ShareHeld | ShareMissed):
                if (event.channel, event.share) != (self._channel, self._share):
                    continue
                if isinstance(event, ShareMissed):
                    self._missed.append(event)
                else:
                    self._lines[_Place(self._log_of(event.hand_out), event.offset)].append(event)
                if isinstance(event, ShareBegun):
                    self._begun_first = min(self._begun_first, event.t)
                    verdict.statistics.count_shared(begun=1)
                elif isinstance(event, ShareSettled):
                    verdict.statistics.count_shared(settled=1)
        self._now = len(self._epochs) - 1
        """The number of the last log."""
        self._messages = self._all_messages()
        letters = f"{self._channel}.{self._share}.dead"
        self._letters = [one for one in logs.records(letters) if "id" in one.headers]
        self._dying = self._times_of_dying()
        self._closes: dict[_Place, int] = {}

    def judge(self, *, ended: bool) -> None:
        """Adds what is wrong."""
        self._judge_records()
        self._judge_settling()
        self._judge_hands()
        for place in sorted(self._lines):
            self._judge_settled(place)
            self._judge_attempts(place)
        self._judge_keys()
        self._judge_letters()
        self._judge_reasons()
        if ended:
            self._judge_end()

    # --- what is known

    def _first_numbers(self) -> list[int]:
        """Returns, by log, the lowest number of a hand-out in it."""
        lowest = dict.fromkeys(self._epochs, NEVER)
        for state in self._states:
            for one in state.handed.values():
                if one.number:
                    lowest[state.epoch] = min(lowest[state.epoch], one.number)
        return [0, *(lowest[epoch] for epoch in self._epochs[1:])]

    def _log_of(self, number: int) -> int:
        return max(log for log, first in enumerate(self._numbers) if first <= number)

    def _all_messages(self) -> dict[_Place, _Message]:
        found = {_Place(self._now, offset): one for offset, one in self._logs.messages(self._channel).items()}
        for place, lines in self._lines.items():
            begun = next((one for one in lines if isinstance(one, ShareBegun)), None)
            if begun is not None:
                found.setdefault(place, _Message(place.offset, begun.message, begun.key))
        first: dict[tuple[int, str], int] = {}
        for place in sorted(found):
            one = found[place]
            if one.id is None:
                continue
            at = first.setdefault((place.log, one.id), place.offset)
            is_repeat = at != place.offset and place.offset - at <= REPEATS_KNOWN_OFFSETS
            if is_repeat and place not in self._lines:
                del found[place]  # nobody is handed it
        return found

    def _times_of_dying(self) -> dict[_Place, int]:
        """Returns when each message that dies was seen dying first, by the records of the share or by its letter."""
        times: dict[_Place, int] = {}
        for state in self._states:
            for one in state.handed.values():
                if one.state == DYING:
                    times.setdefault(_Place(self._epochs.index(state.epoch), one.offset), state.at_us)
        for letter in self._letters:
            place, t = self._place_of(letter), letter.timestamp * 1_000
            if place is not None:
                times[place] = min(t, times.get(place, t))
        return times

    def _place_of(self, letter: Record) -> _Place | None:
        """Returns the message of a dead letter: in the last log, or in one that was lost after its owner had sent the
        letter, which was written to the next log then. None: the letter does not say which message."""
        offset, until = _offset_of(letter), (letter.timestamp + 1) * 1_000 + self._skew_us
        if offset is None:
            return None
        places = [_Place(log, offset) for log in range(self._now, -1, -1)]
        return next((one for one in places if any(line.t <= until for line in self._lines.get(one, ()))), places[0])

    def _may_repeat(self, message: _Message) -> bool:
        """Returns true if it may repeat a record that is gone: nobody is handed it then."""
        return message.unanswered and self._logs.trimmed_at(self._channel, 0) < NEVER

    def _is_missed(self, offset: int) -> bool:
        return any((-1 if one.after is None else one.after) < offset < one.before for one in self._missed)

    def _of(self, place: _Place, kind: type[ShareHeld]) -> list[ShareHeld]:
        return [one for one in self._lines.get(place, ()) if isinstance(one, kind)]

    def _closed_at(self, place: _Place) -> int:
        """Returns when a message may have been closed, at the earliest; NEVER: it was not."""
        found = self._closes.get(place)
        if found is None:
            times = [one.t for one in self._of(place, ShareSettling)]
            times += [one.t for one in self._lines.get(place, ()) if _rejects(one)]
            times.append(self._dying.get(place, NEVER))
            times.append(self._logs.trimmed_at(self._channel, place.offset))
            message = self._messages.get(place)
            if message is not None and message.expires_at is not None:
                times.append(message.expires_at * 1_000)
            if self._is_missed(place.offset) or (message is not None and self._may_repeat(message)):
                times.append(0)
            found = self._closes[place] = min(times)
        return found

    # --- the records

    def _judge_records(self) -> None:
        """Each record follows from the one before."""
        members: dict[tuple[_Place, int], str] = {}
        for place, lines in self._lines.items():
            for line in lines:
                members.setdefault((place, line.hand_out), line.client.rpartition("/")[2])
        for state in self._states:
            log = self._epochs.index(state.epoch)
            for one in state.handed.values():
                if not one.in_hand:
                    continue
                holder = members.setdefault((_Place(log, one.offset), one.number), one.member)
                if holder != one.member:
                    self._add(f"one hand-out of {self._at(one.offset)} is {holder}'s and {one.member}'s", state.record)
        for before, after in pairwise(self._states):
            if before.epoch != after.epoch:
                continue
            if after.base < before.base:
                self._add(f"the base of {self._name} goes back to {after.base}", before.record, after.record)
            for one in after.handed.values():
                if before.is_settled(one.offset):
                    words = f"{self._at(one.offset)} was settled, and is handed out again"
                    self._add(words, before.record, after.record)
                elif one.offset in before.handed and one.number < before.handed[one.offset].number:
                    self._add(f"the hand-outs of {self._at(one.offset)} go back", before.record, after.record)
            for first, last in zip(before.firsts, before.lasts, strict=True):
                lost = [offset for offset in (first, last) if not after.is_settled(offset)]
                if lost and lost[0] not in after.handed:
                    words = f"{self._at(lost[0])} was settled, and is not any more"
                    self._add(words, before.record, after.record)

    def _judge_settling(self) -> None:
        """A message becomes settled by its latest holder, or as it is dead, or missing."""
        for before, after in pairwise(self._states):
            if before.epoch != after.epoch:
                continue
            for one in before.handed.values():
                place = _Place(self._epochs.index(before.epoch), one.offset)
                if one.offset in after.handed or not after.is_settled(one.offset) or one.reason:
                    continue
                if self._dying.get(place, NEVER) <= after.at_us + self._skew_us or self._is_missed(one.offset):
                    continue
                said = [one for one in self._of(place, ShareSettling) if one.t <= after.at_us + self._skew_us]
                if not any(line.hand_out >= one.number for line in said):
                    words = f"{self._at(one.offset)} is settled, and hand-out {one.number} of it was not"
                    self._add(words, *said, before.record, after.record)

    # --- hands

    def _judge_hands(self) -> None:
        """Nobody has what another one has."""
        taken: dict[_Place, dict[int, SeenShare]] = defaultdict(dict)
        for state in self._states:
            for one in state.handed.values():
                if one.in_hand:
                    place = _Place(self._epochs.index(state.epoch), one.offset)
                    taken[place].setdefault(one.number, state)
        for place, lines in self._lines.items():
            said: set[tuple[int, int]] = set()
            for line, end in self._holds(lines):
                for other in self._takers(line, lines):
                    pair = line.hand_out, other.hand_out
                    if line.t + self._skew_us < other.t < end - self._skew_us and pair not in said:
                        said.add(pair)
                        words = f"{other.client} has {self._at(place.offset)}, which {line.client} has"
                        self._add(words, line, other)
                for number, state in taken[place].items():
                    pair = line.hand_out, number
                    is_within = line.t + self._skew_us < state.at_us < end - self._skew_us
                    if number > line.hand_out and is_within and pair not in said:
                        said.add(pair)
                        words = f"{state.handed[place.offset].member} is handed {self._at(place.offset)}"
                        self._add(f"{words}, which {line.client} has", line, state.record)

    def _holds(self, lines: list[ShareHeld]) -> Iterator[tuple[ShareHeld, int]]:
        """Yields each line by which a member holds the message, with the time up to which it does."""
        for place, line in enumerate(lines):
            if not isinstance(line, ShareBegun | ShareHolding) or line.until is None:
                continue
            ends = (
                one.t
                for one in lines[place:]
                if isinstance(one, ShareSettling | ShareGivenBack | ShareLeaseLost)
                and (one.client, one.hand_out) == (line.client, line.hand_out)
            )
            yield line, min(line.until, next(ends, NEVER))

    @staticmethod
    def _takers(line: ShareHeld, lines: list[ShareHeld]) -> Iterator[ShareBegun]:
        """Yields the others that begin with it. One whose own lease is over as it begins was stopped until then."""
        for one in lines:
            if isinstance(one, ShareBegun) and one.hand_out != line.hand_out and not _was_stopped(one):
                yield one

    # --- settlements

    def _judge_settled(self, place: _Place) -> None:
        """A message that was answered as settled is handed to nobody again, and only its latest hand-out settles it."""
        lines = self._lines[place]
        begun = [one for one in lines if isinstance(one, ShareBegun)]
        for settled in self._of(place, ShareSettled):
            again = next(
                (
                    one
                    for one in begun
                    if one.t > settled.t + self._skew_us and one.hand_out >= settled.hand_out and not _was_stopped(one)
                ),
                None,
            )
            if again is not None:
                words = f"{self._at(place.offset)} was answered as settled, and {again.client} is handed it again"
                self._add(words, settled, again)
                return
            for state in (one for one in self._states if one.at_us > settled.t + self._skew_us):
                if self._epochs[place.log] == state.epoch and not state.is_settled(place.offset):
                    words = f"{self._at(place.offset)} was answered as settled, and is not"
                    self._add(words, settled, state.record)
                    return
            self._judge_latest(place, settled, begun)

    def _judge_latest(self, place: _Place, settled: ShareHeld, begun: list[ShareBegun]) -> None:
        said = self._of(place, ShareSettling)
        mine = [one for one in said if one.hand_out == settled.hand_out and one.t <= settled.t]
        asked = mine[-1].t if mine else settled.t
        later = [one for one in begun if one.hand_out > settled.hand_out and one.t + self._skew_us < asked]
        if not later or self._dying.get(place, NEVER) <= settled.t:
            return
        number = later[-1].hand_out
        if not any(one.hand_out >= number and one.t <= settled.t + self._skew_us for one in said):
            words = f"hand-out {settled.hand_out} has settled {self._at(place.offset)}, and {number} was the latest"
            self._add(words, later[-1], settled)

    def _begun_numbers(self, place: _Place) -> set[int]:
        """Returns the hand-outs whose callbacks have begun, by a member's word or by the record."""
        found = {one.hand_out for one in self._of(place, ShareBegun)}
        for state in self._states:
            one = state.handed.get(place.offset)
            if one is not None and one.state == BEGUN and state.epoch == self._epochs[place.log]:
                found.add(one.number)
        return found

    def _judge_attempts(self, place: _Place) -> None:
        """An attempt counts only when its callback has begun."""
        if not self._states:
            return
        counted = self._begun_numbers(place)
        for one in self._lines[place]:
            if isinstance(one, ShareBegun):
                known = sum(number < one.hand_out for number in counted)
                if one.attempts > known:
                    words = f"{self._at(place.offset)} has {one.attempts} attempts, and {known} callbacks had begun"
                    self._add(words, one)
                    return

    # --- keys

    def _judge_keys(self) -> None:
        """Of messages with one key none is handed out before those in front of it are closed."""
        queues: dict[tuple[int, str], list[_Place]] = defaultdict(list)
        for place in sorted(self._messages):
            key = self._messages[place].key
            if key:
                queues[place.log, key].append(place)
        firsts: dict[_Place, tuple[int, Event]] = {}
        for state in self._states:
            for one in state.handed.values():
                place = _Place(self._epochs.index(state.epoch), one.offset)
                if not one.reason:
                    firsts.setdefault(place, (state.at_us, state.record))
        for place in self._lines:
            for line in self._of(place, ShareBegun)[:1]:
                firsts[place] = min(firsts.get(place, (line.t, line)), (line.t, line), key=lambda one: one[0])
        for (_, key), places in queues.items():
            last = places[0]
            """The one of those before that is closed last."""
            for before, place in pairwise(places):
                last = max(last, before, key=self._closed_at)
                t, event = firsts.get(place, (NEVER, None))
                if event is not None and self._closed_at(last) > t + self._skew_us:
                    words = f"{self._at(place.offset)} is handed out before {last.offset} is closed, of key {key}"
                    self._add(words, event, *self._lines.get(last, ())[-1:])

    # --- dead letters

    def _judge_letters(self) -> None:
        """A dead letter is told once, had enough attempts or was rejected, and says what the message says."""
        by_id: dict[str, Record] = {}
        for letter in sorted(self._letters, key=lambda one: one.offset):
            id_, place = letter.headers["id"], self._place_of(letter)
            first = by_id.setdefault(id_, letter)
            if letter.offset - first.offset > REPEATS_KNOWN_OFFSETS:
                self._add(f"the dead letter {id_} is told twice", first, letter)
            if place is None:
                self._add(f"the dead letter {id_} does not say of which message it is", letter)
            elif first is letter:
                self._judge_letter(place, letter)
        self._verdict.statistics.count_shared(dead=len(by_id))

    def _judge_letter(self, place: _Place, letter: Record) -> None:
        lines, why, t = self._lines.get(place, []), letter.headers.get("why"), letter.timestamp * 1_000
        attempts = int(letter.headers.get("attempts", "0"))
        of = f"the dead letter of {self._at(place.offset)}"
        known = len(self._begun_numbers(place))
        if why == "attempts" and attempts < ATTEMPTS_MAX:
            self._add(f"{of} has {attempts} attempts, which are too few", *lines[-1:], letter)
        elif attempts > known and self._states:
            self._add(f"{of} has {attempts} attempts, and {known} callbacks had begun", *lines[-1:], letter)
        if why == "rejected" and not any(_rejects(one) and one.t <= t + self._skew_us + 1_000 for one in lines):
            self._add(f"{of} was rejected, and nobody has rejected it", letter)
        settled = next((one for one in self._of(place, ShareSettled) if one.t + self._skew_us < t), None)
        if settled is not None:
            self._add(f"{of} was written after it was settled", settled, letter)
        message = self._messages.get(place)
        record = None if message is None or why == "missed" else message.record
        if record is not None and record.value != letter.value:
            self._add(f"{of} says something else than the message", record, letter)

    # --- missing

    def _judge_reasons(self) -> None:
        """A reason for missing holds of each message between the offsets that was not closed otherwise."""
        if self._now or self._logs.periods.last(self._channel):
            return
        for missed in self._missed:
            after = -1 if missed.after is None else missed.after
            for place, message in self._messages.items():
                if not after < place.offset < missed.before or self._of(place, ShareSettling) or place in self._dying:
                    continue
                wrong = self._unreason(missed, message)
                if wrong:
                    self._add(f"{self._at(place.offset)} is said to be missing: {wrong}", *message.sends[:1], missed)

    def _unreason(self, missed: ShareMissed, message: _Message) -> str:
        """Returns why the reason does not hold; "": it does, or that is not known."""
        until = missed.t + self._skew_us
        if missed.reason == "expired":
            expires_at = message.expires_at
            is_known = bool(message.sends)
            return "it had not expired" if is_known and (expires_at is None or expires_at * 1_000 > until) else ""
        if missed.reason == "retention":
            held = self._logs.trimmed_at(self._channel, message.offset) > until
            return "it is still there" if held and message.record is not None else ""
        return f"{missed.reason} is not a reason that this history has" if message.acknowledged else ""

    # --- the end

    def _judge_end(self) -> None:
        """Each acknowledged message behind the share's beginning is settled, by a member, or dead, or missing."""
        last = self._states[-1] if self._states else None
        if last is not None and last.at_us < self._logs.periods.begun(self._channel, self._last_period()):
            last = None  # it is of the log that was lost
        closed = {one.id for place, one in self._messages.items() if place.log == self._now and self._is_done(place)}
        for place, message in self._messages.items():
            if place.log != self._now or not message.acknowledged or not self._is_owed(message):
                continue
            if last is None or not last.is_settled(place.offset):
                there = self._lines.get(place, [])
                words = f"{self._at(place.offset)} is neither settled nor dead nor missing at the end"
                self._add(words, *message.sends[:1], *there[-1:], None if last is None else last.record)
            elif message.id not in closed and not self._is_done(place):
                words = f"{self._at(place.offset)} counts as settled, and nobody has settled it"
                self._add(words, *message.sends[:1], *self._lines.get(place, ())[-1:], last.record)
        self._judge_lost_letters(last)

    def _judge_lost_letters(self, last: SeenShare | None) -> None:
        held = {_offset_of(one) for one in self._letters}
        for place in self._dying:
            is_there = self._logs.trimmed_at(self._channel, place.offset) == NEVER
            if place.log != self._now or place.offset in held or not is_there or self._is_missed(place.offset):
                continue
            if last is not None and last.is_settled(place.offset):
                self._add(f"{self._at(place.offset)} has died, and its dead letter is nowhere", last.record)

    def _last_period(self) -> int:
        return self._logs.periods.last(self._channel)

    def _is_done(self, place: _Place) -> bool:
        return bool(self._of(place, ShareSettling)) or place in self._dying or self._is_missed(place.offset)

    def _is_owed(self, message: _Message) -> bool:
        """Returns true if it surely lies behind the share's beginning, and is for its members."""
        to = message.sends[0].to if message.sends else []
        if to and set(to).isdisjoint(self._joined[0].attributes):
            return False
        if self._may_repeat(message):
            return False
        trimmed = self._logs.trimmed_at(self._channel, message.offset) < NEVER
        if self._joined[0].since == "oldest" and not trimmed:
            return True
        first = next((one for one in self._states if one.epoch == self._epochs[self._now]), None)
        if first is not None and first.pristine and message.offset > first.base:
            return True
        return bool(message.sends) and message.sends[0].t > self._begun_first

    # ---

    @property
    def _name(self) -> str:
        return f"the share {self._share} of {self._channel}"

    def _at(self, offset: int) -> str:
        return f"the message at {offset} of {self._channel} ({self._share})"

    def _add(self, words: str, *evidence: Event | None) -> None:
        self._verdict.add("P13", words, evidence)


def _rejects(line: ShareHeld) -> bool:
    return isinstance(line, ShareGivenBack) and line.how == "rejected"


def _was_stopped(line: ShareBegun) -> bool:
    """Returns true if its lease was over when its callback began: the process was stopped just before."""
    return line.until is not None and line.until <= line.t


def _offset_of(letter: Record) -> int | None:
    """Returns the offset of the message that a dead letter is of."""
    said = letter.headers.get("offset", "")
    return int(said) if said.isdecimal() else None
