"""Judges P12: publishes with a condition, and sets of several, by what writers were answered and clients were told.

A version that was asked for is *done* if its publisher was answered so, or if a client was told it, or the topic holds
it: a payload that only this call said shows that. So what the history knows of a call without an answer counts, too.
Let the payloads of an object's versions differ.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from coldnotify_checker.histories import (
    CaughtUp,
    Event,
    Publish,
    Record,
    Register,
    RegisterQuery,
    Started,
    Told,
    Unregister,
    Wire,
)
from coldnotify_checker.publishes import CheckedPublishes, Key, PublishCall, fingerprint
from coldnotify_checker.topic_contents import DumpedTopics
from coldnotify_checker.verdict import JudgeVerdict

UNSENT: Key = (-1, -1)
SetName = tuple[str, str]
"""A set's publisher and `atomic`."""


class _Look(NamedTuple):
    """A version as it was told, or as the topic holds it."""

    version: int
    deleted: bool
    content: bytes
    event: Told | Record


def judge_conditions(
    history: Iterable[Event], publishes: CheckedPublishes, topics: DumpedTopics, verdict: JudgeVerdict, skew_us: int
) -> None:
    """Adds a violation for each way in which P12 was broken. `history` in order of time."""
    calls = {
        object_: [call for alike in published.by_version.values() for call in alike]
        for object_, published in publishes.objects.items()
    }
    decided = {object_ for object_, of_it in calls.items() if any(map(_is_decided, of_it))}
    if not decided:
        return
    history = list(history)
    looks = _looks(history, topics, decided)
    judging = _Conditions(publishes, topics, verdict, skew_us)
    for object_ in sorted(decided):
        judging.judge(object_, calls[object_], looks[object_])
    judging.judge_sets()
    _Together(judging.sets, publishes, verdict, skew_us).judge(history)


def _is_decided(call: PublishCall) -> bool:
    begun = call.begun
    return has_condition(begun) or begun.atomic is not None


def has_condition(begun: Publish) -> bool:
    """Returns true if a publish names a condition."""
    return begun.if_version is not None or begun.if_absent or begun.if_changed


def _looks(history: Iterable[Event], topics: DumpedTopics, objects: set[str]) -> dict[str, list[_Look]]:
    looks: dict[str, list[_Look]] = defaultdict(list)
    for event in history:
        if isinstance(event, Told) and event.version is not None and event.object in objects:
            looks[event.object].append(_Look(event.version, event.deleted, fingerprint(event.payload), event))
    for object_ in objects:
        for held in topics.versions.get(object_, ()):
            value = held.record.value
            deleted, content = bool(value.get("deleted", False)), fingerprint(value.get("payload"))
            looks[object_].append(_Look(held.key[1], deleted, content, held.record))
    return looks


class _ByContent:
    """The calls of one object that may have been written, by what they say."""

    def __init__(self, calls: Iterable[PublishCall]) -> None:
        self._by: dict[tuple[bool, bytes], list[PublishCall]] = defaultdict(list)
        for call in calls:
            self._by[call.begun.deleted, fingerprint(call.begun.payload)].append(call)
            if call.begun.expires_at is not None:
                self._by[call.begun.deleted, b""].append(call)

    def of(self, look: _Look) -> list[PublishCall]:
        """Returns the calls that this look may be of. What has expired is told without its payload."""
        found = self._by.get((look.deleted, look.content), ())
        return [call for call in found if call.version in (None, look.version)]


class _Member(NamedTuple):
    call: PublishCall
    seen: _Look | None
    """A look that is surely of this call."""

    @property
    def version(self) -> int | None:
        return self.seen.version if self.seen is not None and self.call.version is None else self.call.version


class _Conditions:
    """The conditions of each object, and the members of each set."""

    def __init__(self, publishes: CheckedPublishes, topics: DumpedTopics, verdict: JudgeVerdict, skew_us: int) -> None:
        self._publishes = publishes
        self._topics = topics
        self._verdict = verdict
        self._skew_us = skew_us
        self.sets: dict[SetName, list[_Member]] = defaultdict(list)
        self._deletions: dict[str, list[PublishCall]] = {}
        """By object: those that may have been written."""

    def judge(self, object_: str, calls: list[PublishCall], looks: list[_Look]) -> None:
        """Judges the conditions of one object, and takes in the members that it was in sets."""
        self._deletions[object_] = [call for call in calls if call.begun.deleted and not call.failed]
        self._judge_lost(object_, calls, looks)
        seen = self._seen(object_, calls, looks)
        done = []
        for call in filter(_is_decided, calls):
            self._verdict.statistics.count_decided(answered=call.answer is not None)
            if call.begun.atomic is not None:
                self.sets[call.begun.publisher, call.begun.atomic].append(_Member(call, seen.get(id(call))))
            if (call.acknowledged or id(call) in seen) and not self._was_lost_with_topic(object_, call):
                done.append(call)
        self._judge_rivals(object_, done)
        for call in done:
            self._judge_newest(object_, call)
        for call in calls:
            self._judge_refusal(object_, call)

    def _judge_lost(self, object_: str, calls: list[PublishCall], looks: list[_Look]) -> None:
        """A publish that was refused is told to nobody, and is in no topic."""
        lost = [call for call in calls if call.answer is not None and call.answer.lost]
        for call in lost:
            if call.answer is not None and call.answer.outcome != "failed":
                self._add(f"a version of {object_} was refused, and is said to be {call.answer.outcome}", call)
        written, refused = _ByContent(call for call in calls if not call.failed), _ByContent(lost)
        for look in looks if lost else ():
            found = () if written.of(look) else refused.of(look)
            if found:
                call = found[0]
                where = f"{look.event.client} was told it" if isinstance(look.event, Told) else "is in the topic"
                self._add(f"version {look.version} of {object_} was refused, and {where}", call, look.event)
                return

    def _seen(self, object_: str, calls: list[PublishCall], looks: list[_Look]) -> dict[int, _Look]:
        """Returns a look of each call that surely is in force, by the call's identity. One call is one version."""
        seen: dict[int, _Look] = {}
        written = _ByContent(call for call in calls if not call.failed)
        for look in looks:
            fitting = written.of(look)
            if len(fitting) != 1 or not _is_decided(fitting[0]):
                continue
            call = fitting[0]
            before = seen.setdefault(id(call), look)
            if before.version != look.version and not self._was_lost_with_topic(object_, call):
                words = f"one publish of {object_} is version {before.version}, and version {look.version}"
                self._add(words, call, before.event, look.event)
        return seen

    def _judge_rivals(self, object_: str, done: list[PublishCall]) -> None:
        """Of those that name one version, at most one is done."""
        by_version: dict[Key, PublishCall] = {}
        absent: PublishCall | None = None
        for call in sorted(done, key=lambda one: one.begun.t):
            begun = call.begun
            if begun.if_version is not None:
                first = by_version.setdefault((begun.incarnation, begun.if_version), call)
                if first is not call:
                    self._add(f"two publishes of {object_} that name version {begun.if_version} are done", first, call)
            elif begun.if_absent:
                if absent is not None and not self._may_be_gone(object_, absent.begun.t, call):
                    self._add(f"{object_} was made twice, and nobody deleted it meanwhile", absent, call)
                absent = call

    def _judge_newest(self, object_: str, call: PublishCall) -> None:
        """The version that a publish names was the newest at its place."""
        begun = call.begun
        newest = self._publishes.newest(object_, begun.t - self._skew_us, in_place=True)
        there = newest is not None and not newest.begun.deleted
        if begun.if_absent and there and not self._may_be_gone(object_, 0, call):
            self._add(f"{object_} was there before, and nobody deleted it: `if_absent` is done", call, newest)
        if begun.if_version is None:
            return
        if (
            newest is not None
            and newest.begun.incarnation == begun.incarnation
            and newest.version is not None
            and newest.version > begun.if_version
        ):
            words = f"a publish of {object_} that names version {begun.if_version} is done behind {newest.version}"
            self._add(words, call, newest)
        ends = call.answer.t + self._skew_us if call.answer is not None else None
        named = any(
            one is not call and not one.failed and (ends is None or one.begun.t <= ends)
            for one in self._publishes.with_version(object_, begun.if_version)
        )
        held = any(one.key[1] == begun.if_version for one in self._topics.versions.get(object_, ()))
        if not named and not held:
            self._add(f"version {begun.if_version} of {object_}, which nobody published, is named and done", call)

    def _judge_refusal(self, object_: str, call: PublishCall) -> None:
        begun, answer = call.begun, call.answer
        if answer is None or not answer.lost or begun.if_version is None or answer.newest != begun.if_version:
            return
        if self._was_lost_with_topic(object_, call):
            return
        if begun.version is None or begun.version > begun.if_version:
            self._add(f"a publish of {object_} was refused, and {begun.if_version}, which it names, was newest", call)

    def judge_sets(self) -> None:
        """A set is done as a whole or not at all."""
        for (publisher, name), members in self.sets.items():
            of_set = f"the set {name} of {publisher}"
            if any(one.call.acknowledged for one in members) and any(one.call.failed for one in members):
                self._add_of(f"{of_set} is answered as done for some members alone", members)
                continue
            done = next((one for one in members if one.call.acknowledged or one.seen is not None), None)
            if done is None or self._topics.names.objects not in self._topics.dumped:
                continue
            lacking = [one for one in members if not self._is_held(one)]
            if lacking and len(lacking) < len(members):
                names = ", ".join(one.call.begun.object for one in lacking)
                self._add_of(f"{of_set} is done, and without {names}", [*lacking, done])

    def _is_held(self, member: _Member) -> bool:
        """Returns true if the topic has the member, or what came behind it."""
        begun = member.call.begun
        if self._was_lost_with_topic(begun.object, member.call) or self._publishes.was_removed(begun.object, 1 << 62):
            return True
        held = self._topics.newest.get(begun.object)
        if held is None:
            return begun.if_changed and begun.deleted
        if held.key[0] > begun.incarnation:
            return True
        if member.version is not None:
            return held.key[1] >= member.version
        return begun.if_version is None or held.key[1] > begun.if_version

    def _may_be_gone(self, object_: str, since: int, call: PublishCall) -> bool:
        """Returns true if the object may have been deleted or removed between this time and the end of the call."""
        ends = call.answer.t + self._skew_us if call.answer is not None else 1 << 62
        for one in self._deletions[object_]:
            answered = one.answer is not None and one.acknowledged and one.answer.t + self._skew_us < since
            if one.begun.t <= ends and not answered:
                return True
        return self._publishes.was_removed(object_, ends)

    def _was_lost_with_topic(self, object_: str, call: PublishCall) -> bool:
        ends = call.answer.t if call.answer is not None else 1 << 62
        return self._publishes.period_of(object_, 1 << 62) != self._publishes.period_of(
            object_, call.begun.t
        ) or self._publishes.period_of(object_, ends) != self._publishes.period_of(object_, call.begun.t)

    def _add(self, words: str, *evidence: PublishCall | Event | None) -> None:
        events: list[Event | None] = []
        for one in evidence:
            events += [one.begun, one.answer] if isinstance(one, PublishCall) else [one]
        self._verdict.add("P12", words, events)

    def _add_of(self, words: str, members: Iterable[_Member]) -> None:
        events: list[Event | None] = []
        for one in members:
            events += [one.call.begun, one.call.answer, None if one.seen is None else one.seen.event]
        self._verdict.add("P12", words, events)


class _Reader:
    """A client: since when it wants each object, when it was caught up last, and what it was sent of each."""

    def __init__(self) -> None:
        self.wanted: dict[str, int] = {}
        self.caught_up = -1
        self.together = False
        self.has: dict[str, Key] = {}
        self.sent: dict[str, Key] = {}
        """The same, by lines of the wire alone."""

    def start(self, *, together: bool) -> None:
        """A process begins. What it had before, its state file knows; without that it registers for all."""
        self.together, self.caught_up = together, -1

    def take(self, key: Key, object_: str) -> None:
        """It was sent a version of an object."""
        self.sent[object_] = max(key, self.sent.get(object_, key))

    def complete(self, since: int) -> None:
        """It was caught up in a connection that was begun at this time."""
        self.caught_up = since


class _Together:
    """Judges that an application is told a member only once its client has been sent the others. Needs `wire` lines,
    and `started` lines that say `together`."""

    def __init__(
        self,
        sets: dict[SetName, list[_Member]],
        publishes: CheckedPublishes,
        verdict: JudgeVerdict,
        skew_us: int,
    ) -> None:
        self._verdict = verdict
        self._skew_us = skew_us
        self._of: dict[tuple[str, int, int], list[_Member]] = {}
        """By object, incarnation and version: the members of the set that brought it."""
        for members in sets.values():
            if any(one.call.failed or one.version is None for one in members):
                continue
            for one in members:
                begun = one.call.begun
                assert one.version is not None
                others = publishes.with_version(begun.object, one.version)
                if any(not other.failed and other is not one.call for other in others):
                    continue  # another one may have brought it
                self._of[begun.object, begun.incarnation, one.version] = members
        self._readers: dict[str, _Reader] = defaultdict(_Reader)
        self._asks: set[str] = set()
        """Clients with queries: a member that was published again may come to them with a later page."""

    def judge(self, history: list[Event]) -> None:
        """Follows the clients."""
        if not self._of:
            return
        for event in history:
            match event:
                case Started():
                    self._readers[event.client].start(together=event.together)
                case Register():
                    self._readers[event.client].wanted.setdefault(event.object, event.t)
                case RegisterQuery():
                    self._asks.add(event.client)
                case Unregister():
                    self._readers[event.client].wanted.pop(event.object, None)
                case CaughtUp():
                    self._readers[event.client].complete(event.since)
                case Wire() if event.version is not None:
                    self._readers[event.client].take((event.incarnation, event.version), event.object)
                    self._note(event.client, event.object, (event.incarnation, event.version))
                case Told() if event.version is not None:
                    self._on_told(event)

    def _note(self, client: str, object_: str, key: Key) -> None:
        has = self._readers[client].has
        has[object_] = max(key, has.get(object_, key))

    def _on_told(self, told: Told) -> None:
        reader = self._readers[told.client]
        assert told.version is not None
        members = self._of.get((told.object, told.incarnation or 0, told.version), ())
        key = told.incarnation or 0, told.version
        self._note(told.client, told.object, key)
        # A connection that the proxy cannot read, as one of several clients, has no lines.
        judged = reader.together and told.client not in self._asks and reader.sent.get(told.object, UNSENT) >= key
        if not judged or not self._settled(reader, told.object):
            return
        for one in members:
            begun = one.call.begun
            key = begun.incarnation, one.version or 0
            if not self._settled(reader, begun.object) or begun.source == told.client.rpartition("/")[2]:
                continue
            if reader.has.get(begun.object, UNSENT) < key:
                words = (
                    f"{told.client} was told {told.object} of a set, before it was sent version {one.version} of "
                    f"{begun.object}, which came with it"
                )
                self._verdict.add("P12", words, (begun, one.call.answer, told))
                return

    def _settled(self, reader: _Reader, object_: str) -> bool:
        """Returns true if the client was surely registered when it was caught up last."""
        registered = reader.wanted.get(object_)
        return registered is not None and registered + self._skew_us < reader.caught_up
