"""Judges P9: compares the members that clients with queries were told with what was published about these objects.

An object's properties follow from its descriptions and its publishes, and from the answers to these calls. While calls
are in progress several states are possible; a client may hold what follows from any of them. Once a client has reported
that it is caught up, it holds nothing else. At the end the objects topic itself shows each object's state.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from coldnotify_checker.histories import (
    CaughtUp,
    Describe,
    Event,
    Fresh,
    Members,
    Published,
    RegisterQuery,
    Told,
)
from coldnotify_checker.in_force import InForce, SaidCall
from coldnotify_checker.patched_descriptions import PatchedObjects
from coldnotify_checker.publishes import CheckedPublishes, PublishCall
from coldnotify_checker.queries import Matches, NotUnderstood, read_query
from coldnotify_checker.topic_contents import DumpedTopics
from coldnotify_checker.verdict import JudgeVerdict, Promise

T = TypeVar("T")

_NAMED_MAX = 5
"""Objects that a violation names."""


@dataclass(slots=True)
class HeldQuery:
    """One query of one client, with what its application was told."""

    register: RegisterQuery
    matches: Matches | None
    """None: the checker does not understand the query, and does not judge it."""
    members: dict[str, Members] = field(default_factory=dict)
    """By name: the call that told it."""
    perhaps: set[str] = field(default_factory=set)
    """Names in calls that failed: the application may know these."""
    failed: bool = False
    """The last call did. What fails too often waits for another contact, and versions do not wait for it."""
    ahead: set[str] = field(default_factory=set)
    """Names whose versions were told meanwhile."""
    open: dict[str, None] = field(default_factory=dict)
    """Names with news since they were last found to be right."""
    before: dict[str, Members] | None = None
    """The members before it was registered again; None: that is surely saved."""
    instead: dict[str, Members] | None = None
    """The members if a power cut has undone that it was registered again; None: none has."""

    def has(self, name: str) -> bool:
        """Returns true if the application may have been told that the object is a member."""
        return name in self.members or name in self.perhaps or (self.instead is not None and name in self.instead)

    def saved(self) -> None:
        """Notes that the registration is surely saved."""
        self.before = None

    def cut_off(self) -> None:
        """Notes a power cut: the client may go on with the members that it had before it registered again."""
        if self.before is not None:
            self.before, self.instead = None, self.before

    def tell(self, event: Members) -> None:
        """Notes what the application was told."""
        for members in (self.members, self.instead):
            if members is not None:
                members.update({name: event for name in event.added if name not in members})
                for name in event.removed:
                    members.pop(name, None)

    def decide(self, fits: Mapping[str, set[bool]]) -> None:
        """Finds out whether a power cut has undone that it was registered again. `fits`: whether objects are members,
        as far as that is known.
        """
        if self.instead is None:
            return
        wrong, wrong_instead = (
            any((name in members) not in possible for name, possible in fits.items())
            for members in (self.members, self.instead)
        )
        if wrong and not wrong_instead:
            self.members = self.instead
        if wrong or wrong_instead:
            self.instead = None


@dataclass(frozen=True, slots=True)
class _Unregistered:
    """One query that a client has unregistered."""

    t: int
    members: dict[str, Members]
    cut_off: bool
    """True if a power cut has come since, before that was surely saved."""


class DescribedObjects:
    """All calls about each object: descriptions, publishes, deletions."""

    def __init__(self, events: Iterable[Event], publishes: CheckedPublishes) -> None:
        self._publishes = publishes
        self.described: dict[str, InForce[dict[str, Any] | None]] = {}
        self.published: dict[str, InForce[bool]] = {}
        """True: it is there."""
        self.patched = PatchedObjects(events, publishes)
        self.calls: dict[str, list[Describe | PublishCall]] = {}
        """All calls by object, for evidence."""
        self.names: dict[str, dict[str, None]] = {}
        """The objects of each domain/group."""
        self.news: list[tuple[int, str]] = []
        """By time: when a call that may concern queries began or was answered, and its object."""
        answers: dict[tuple[str, int | str], Published] = {}
        begun: list[Describe] = []
        for event in events:
            if isinstance(event, Published):
                answers[event.publisher, event.id] = event
            elif isinstance(event, Describe) and event.object not in self.patched:
                begun.append(event)
        for event in begun:
            answer = answers.get((event.publisher, event.id))
            if answer is not None and answer.outcome == "failed":
                continue
            said = SaidCall(event.t, _in_place(event.path, answer), event.timestamp, event.description)
            self.described.setdefault(event.object, InForce()).add(said)
            self._note(event.object, event, event.t, answer)
        for patch, answered in self.patched.all:
            group, name = _split(patch.object)
            self.names.setdefault(group, {})[name] = None
            self.news += [(t, patch.object) for t in (patch.t, answered) if t is not None]
            if isinstance(patch, Describe):
                self.calls.setdefault(patch.object, []).append(patch)
        for object_, of in publishes.objects.items():
            calls = [call for same in of.by_version.values() for call in same if not call.failed]
            for call in calls:
                said_it = SaidCall(
                    call.begun.t, _in_place(call.begun.path, call.answer), call.key, not call.begun.deleted
                )
                self.published.setdefault(object_, InForce()).add(said_it)
                self._note(object_, call, call.begun.t, call.answer)
        for object_, described in self.described.items():
            described.freeze(partial(publishes.period_of, object_, described=True))
        for object_, published in self.published.items():
            published.freeze(partial(publishes.period_of, object_))
        self.news.sort()

    def _note(self, object_: str, call: Describe | PublishCall, begun: int, answer: Published | None) -> None:
        group, name = _split(object_)
        self.names.setdefault(group, {})[name] = None
        self.calls.setdefault(object_, []).append(call)
        self.news.append((begun, object_))
        if answer is not None:
            self.news.append((answer.t, object_))

    def fits(self, matches: Matches, object_: str, since: int, until: int) -> set[bool]:
        """Returns whether it may have matched at some moment from `since` to `until`, and whether it may have not."""
        period, name = self._publishes.period_of(object_, until), _split(object_)[1]
        of_description = self._publishes.period_of(object_, until, described=True)
        published, described = self.published.get(object_), self.described.get(object_)
        there = {None if one is None else one.what for one in _between(published, since, until, period)}
        found: set[bool] = set()
        if False in there:
            found.add(False)
        if there == {False}:
            return found
        if object_ in self.patched:
            patched = self.patched.of(object_)
            possible = None if patched is None else patched.possible(since, until, of_description)
            if possible is None:
                return {True, False}
            # One without keys may be described by none, or not at all.
            descriptions: Iterable[dict[str, Any] | None] = [*possible, *([None] if {} in possible else [])]
        else:
            between = _between(described, since, until, of_description)
            descriptions = (None if said is None else said.what for said in between)
        for description in descriptions:
            if description is not None or True in there:
                found.add(matches(name, description or {}))
            if description is None and None in there:
                found.add(False)
            if len(found) == 2:
                break
        return found

    def allows(self, object_: str, said: dict[str, Any] | None, since: int, until: int) -> bool:
        """Returns true if it may have been described so at some moment from `since` to `until`; None: it was not
        described.
        """
        if object_ not in self.patched:
            return said in self._descriptions(object_, since, until)
        patched = self.patched.of(object_)
        period = self._publishes.period_of(object_, until, described=True)
        return patched is None or patched.allows(said, since, until, period)

    def is_settled(self, object_: str, since: int, until: int) -> bool:
        """Returns true if it was described in one way at all moments from `since` to `until`."""
        if object_ not in self.patched:
            return len(self._descriptions(object_, since, until)) == 1
        patched = self.patched.of(object_)
        period = self._publishes.period_of(object_, until, described=True)
        possible = None if patched is None else patched.possible(since, until, period)
        return possible is not None and len(possible) == 1

    def _descriptions(self, object_: str, since: int, until: int) -> list[dict[str, Any] | None]:
        period = self._publishes.period_of(object_, until, described=True)
        found: list[dict[str, Any] | None] = []
        for said in _between(self.described.get(object_), since, until, period):
            description = None if said is None else said.what
            if description not in found:
                found.append(description)
        return found


class CheckedMemberships:
    """The queries of all clients, followed event by event."""

    def __init__(
        self,
        events: Iterable[Event],
        publishes: CheckedPublishes,
        topics: DumpedTopics,
        verdict: JudgeVerdict,
        clock_skew_us: int,
    ) -> None:
        self._publishes = publishes
        self._topics = topics
        self._verdict = verdict
        self._skew_us = clock_skew_us
        self._objects = DescribedObjects(events, publishes)
        self.held: dict[str, dict[str, HeldQuery]] = {}
        """By client and text of the query."""
        self._in_group: dict[str, list[HeldQuery]] = {}
        self._news = iter(self._objects.news)
        self._next_news = next(self._news, None)
        self._unregistered: dict[str, dict[str, _Unregistered]] = {}
        """By client and text of the query: those that it has unregistered, unless that is surely saved."""
        self._late: dict[str, set[str]] = {}
        """By client: queries that it has unregistered, by name; their callbacks may be on their way."""
        self._descriptions: dict[tuple[str, str], Told] = {}
        """By client and object: the last event with its description."""
        self._forgot: set[str] = set()
        """Clients that have unregistered a query since they last reported to be caught up: its results may still be
        told.
        """

    def on_time(self, t: int) -> None:
        """Takes in all calls about objects up to this time."""
        while self._next_news is not None and self._next_news[0] <= t:
            group, name = _split(self._next_news[1])
            for held in self._in_group.get(group, ()):
                held.open[name] = None
            self._next_news = next(self._news, None)

    # What clients do

    def register(self, event: RegisterQuery) -> None:
        """A client wants a query from here on."""
        queries = self.held.setdefault(event.client, {})
        if event.query in queries:
            return
        try:
            matches = read_query(event.query)
        except NotUnderstood:
            matches = None
        group = _group(event.client)
        earlier = self._unregistered.get(event.client, {}).pop(event.query, None)
        held = HeldQuery(
            event,
            matches,
            open=dict.fromkeys(self._objects.names.get(group, ())),
            before=earlier.members if earlier is not None and not earlier.cut_off else None,
            instead=earlier.members if earlier is not None and earlier.cut_off else None,
        )
        queries[event.query] = held
        self._in_group.setdefault(group, []).append(held)

    def forget(self, client: str, query: str, t: int) -> set[str]:
        """A client wants a query no more, from `t` on. Returns the query's members."""
        held = self.held.get(client, {}).pop(query, None)
        if held is None:
            return set()
        self._in_group[_group(client)].remove(held)
        names = {*held.members, *(held.instead or ())}
        self._late.setdefault(client, set()).update(names, held.perhaps)
        self._forgot.add(client)
        unsaved = next(members for members in (held.before, held.instead, held.members) if members is not None)
        self._unregistered.setdefault(client, {})[query] = _Unregistered(t, unsaved, cut_off=False)
        return names

    def forget_all(self, client: str, t: int) -> set[str]:
        """A client has lost its state, by `t`. Returns all members of all its queries."""
        names = {name for query in list(self.held.get(client, ())) for name in self.forget(client, query, t)}
        self._unregistered.pop(client, None)
        self._late.pop(client, None)
        self._descriptions = {place: told for place, told in self._descriptions.items() if place[0] != client}
        return names

    def on_ended(self, client: str, *, cut_off: bool) -> None:
        """A client's process has ended. `cut_off`: it may not have saved that it registered for queries again, and then
        goes on with the members that it had before.
        """
        for held in self.held.get(client, {}).values():
            if cut_off:
                held.cut_off()
            held.saved()
        unregistered = self._unregistered.pop(client, {})
        if cut_off:
            self._unregistered[client] = {query: replace(one, cut_off=True) for query, one in unregistered.items()}

    def on_members(self, event: Members) -> None:
        """A client's application is told of members."""
        held = self.held.get(event.client, {}).get(event.query)
        if held is None:
            return
        statistics = self._verdict.statistics
        statistics.entered += len(event.added)
        statistics.left += len(event.removed)
        for name in (*event.added, *event.removed):
            held.open[name] = None
        held.failed = event.failed
        held.saved()  # else nobody would be told
        if event.failed:
            held.perhaps.update(event.added)
            return
        held.perhaps.clear()
        held.ahead.difference_update(event.added)
        held.tell(event)

    def members(self, client: str) -> Iterator[tuple[str, Members]]:
        """Yields the members' names, each with the call that told it."""
        for held in self.held.get(client, {}).values():
            yield from held.members.items()

    def has(self, client: str, name: str) -> bool:
        """Returns true if its application may have been told that the object is a member of one of its queries."""
        of = self.held.get(client, {}).values()
        return any(held.has(name) or name in held.ahead for held in of)

    # P9

    def on_told(self, event: Told, since: int, *, overtakes: bool) -> None:
        """A version is told to a client that has the object by queries only. `since`: when it can have been published.

        `overtakes`: it is of high priority, so it may come before the client is told that the object has left.
        """
        name = _split(event.object)[1]
        queries = self.held.get(event.client, {})
        late = self._late.get(event.client, set())
        of = [held for held in queries.values() if held.has(name)]
        if not of:
            if failing := [held for held in queries.values() if held.failed]:
                for held in failing:
                    held.ahead.add(name)
                return
            if name in late:
                late.discard(name)
            elif queries:
                self._verdict.add(
                    "P9",
                    f"{event.client} was told a version of {event.object}, and not that it is a member of a query",
                    (*self._said(event.object, event.t), event),
                )
            return
        # What has left, and was deleted then, is told as deleted before it is told as left.
        if (
            event.deleted
            or overtakes
            or event.client in self._forgot
            or self._publishes.period(since) != self._publishes.period(event.t)
        ):
            return
        judged = [held for held in of if held.matches is not None]
        if len(judged) == len(of) and not any(
            True in self._objects.fits(held.matches, event.object, since - self._skew_us, event.t + self._skew_us)
            for held in judged
            if held.matches is not None
        ):
            self._verdict.add(
                "P9",
                f"{event.client} was told version {event.version} of {event.object}, which was a member no more when "
                "that was published",
                (of[0].members.get(name), *self._said(event.object, event.t), event),
            )

    def on_told_description(self, event: Told) -> None:
        """A version is told together with its object's description: behind the patch that it was published with."""
        if event.described and not event.failed:
            self._descriptions[event.client, event.object] = event
            for held in self.held.get(event.client, {}).values():
                if held.register.descriptions:
                    held.open[_split(event.object)[1]] = None
        first = self._objects.patched.told_first(event)
        if not event.described or first is None or self._publishes.period(first) != self._publishes.period(event.t):
            return
        until = event.t + self._skew_us
        if not self._objects.allows(event.object, event.description, first + 1 - self._skew_us, until):
            self._verdict.add(
                "P9",
                f"{event.client} was told version {event.version} of {event.object} without the patch that it was "
                "published with",
                (*self._said(event.object, event.t), event),
            )

    def may_have_come_back(self, event: Told, since: int) -> bool:
        """Returns true if the object, told again, may have left one of the client's queries and entered it again since:
        what was told to others meanwhile is then told because of that query.
        """
        return any(
            held.matches is not None
            and len(self._objects.fits(held.matches, event.object, since - self._skew_us, event.t + self._skew_us)) == 2
            for held in self.held.get(event.client, {}).values()
        )

    def on_caught_up(self, event: CaughtUp) -> None:
        """Judges that the client holds the queries' result at some moment of the wake."""
        self._forgot.discard(event.client)
        unregistered = self._unregistered.get(event.client, {})
        for query in [query for query, one in unregistered.items() if one.t < event.since and not one.cut_off]:
            del unregistered[query]
        for held in self.held.get(event.client, {}).values():
            if held.register.t < event.since:
                held.saved()
        if self._publishes.period(event.since) != self._publishes.period(event.t):
            return
        for held in self.held.get(event.client, {}).values():
            if held.matches is None or held.register.t >= event.since or held.failed:
                continue
            self._verdict.statistics.sets += 1
            self._judge_held(held, event, event.since - self._skew_us, "P9", "said it was caught up")

    def registered(self, client: str) -> Iterator[RegisterQuery]:
        """Yields the events that registered the client's queries."""
        for held in self.held.get(client, {}).values():
            yield held.register

    def told_by(self, client: str) -> Iterator[tuple[RegisterQuery, Members]]:
        """Yields the calls that told the client's members, each with the event that registered its query."""
        for held in self.held.get(client, {}).values():
            for told in held.members.values():
                yield held.register, told

    def judge_fresh(self, event: Fresh, by: int, is_settled: Callable[[HeldQuery], bool]) -> None:
        """P11: the client holds the result of its settled queries at some moment since then."""
        if self._publishes.period(by) != self._publishes.period(event.t):
            return
        for held in self.held.get(event.client, {}).values():
            if held.matches is not None and not held.failed and is_settled(held):
                self._judge_held(held, event, by, "P11", "said that it was fresh")

    def _judge_held(self, held: HeldQuery, event: CaughtUp | Fresh, since: int, promise: Promise, when: str) -> None:
        group, until = _group(event.client), event.t + self._skew_us
        assert held.matches is not None
        found = {name: self._objects.fits(held.matches, f"{group}/{name}", since, until) for name in held.open}
        held.decide(found)
        for name, fits in found.items():
            if (name in held.members) not in fits:
                self._violated(event.client, held, name, when, event, promise)
            settled = len(fits) == 1
            if held.register.descriptions and name in held.members and settled:
                if name in event.parked:
                    continue  # its callbacks have failed too often: how it is described is still to be told
                settled = self._judge_description(held, f"{group}/{name}", event, since, promise, when)
            if settled:
                del held.open[name]

    def _judge_description(
        self, held: HeldQuery, object_: str, event: CaughtUp | Fresh, since: int, promise: Promise, when: str
    ) -> bool:
        """Judges that the description the client was told was in force since then. Returns true if only one was."""
        until = event.t + self._skew_us
        told = self._descriptions.get((event.client, object_))
        self._verdict.statistics.descriptions += 1
        if told is None or not self._objects.allows(object_, told.description, since, until):
            was = "never" if told is None else f"last as {told.description}"
            self._verdict.add(
                promise,
                f"{event.client} {when} and was told {was} how {object_} is described, a member of "
                f"{held.register.query!r}",
                (held.register, told, *self._said(object_, event.t), event),
            )
        return self._objects.is_settled(object_, since, until)

    def at_end(self, client: str, end: Event) -> None:
        """Judges that the client holds the queries' result for the contents of the objects topic."""
        group = _group(client)
        dumped = self._topics.names.objects in self._topics.dumped
        contents = self._topics.group(group) if dumped else {}
        for held in self.held.get(client, {}).values():
            if held.matches is None:
                continue
            found: dict[str, set[bool]] = {}
            for name in sorted({*contents, *held.members, *(held.instead or ()), *self._objects.names.get(group, ())}):
                if dumped:
                    description = contents.get(name)
                    found[name] = {description is not None and held.matches(name, description)}
                else:
                    found[name] = self._objects.fits(held.matches, f"{group}/{name}", end.t, end.t)
            held.decide(found)
            for name, fits in found.items():
                if (name in held.members) not in fits:
                    self._violated(client, held, name, "is connected at the end", end)

    def judge_lost(self) -> None:
        """P1: of each object the topic holds the description that was acknowledged with the highest timestamp."""
        topic = self._topics.names.objects
        if topic not in self._topics.dumped:
            return
        for object_ in self._objects.patched:
            held = self._topics.described.get(object_)
            said = None if held is None else held.value["description"]
            if not self._objects.allows(object_, said, 1 << 63, 1 << 63):
                self._verdict.add(
                    "P1",
                    f"{object_} is not described as its patches say, in the order of their answers; {topic} has {said}",
                    (*self._said(object_, 1 << 63), held),
                )
        for object_, described in self._objects.described.items():
            period = self._publishes.period_of(object_, 1 << 63, described=True)
            sure = described.sure(1 << 63, period)
            if sure is None:
                continue
            held = self._topics.described.get(object_)
            if held is None or held.timestamp < sure.order:
                there = "none" if held is None else f"as the newest one of {held.timestamp} ms"
                self._verdict.add(
                    "P1",
                    f"a description of {object_} of {sure.order} ms was acknowledged; {topic} has {there}",
                    (*self._said(object_, 1 << 63), held),
                )

    def _violated(
        self, client: str, held: HeldQuery, name: str, when: str, event: Event, promise: Promise = "P9"
    ) -> None:
        object_ = f"{_group(client)}/{name}"
        which = "holds" if name in held.members else "does not hold"
        self._verdict.add(
            promise,
            f"{client} {when} and {which} {object_} as a member of {held.register.query!r}",
            (held.register, held.members.get(name), *self._said(object_, event.t), event),
        )

    def _said(self, object_: str, until: int) -> list[Event]:
        calls: list[Event] = [
            one if isinstance(one, Describe) else one.begun for one in self._objects.calls.get(object_, ())
        ]
        return sorted((one for one in calls if one.t <= until), key=lambda one: one.t)[-_NAMED_MAX:]


def _between(kept: InForce[T] | None, since: int, until: int, period: int) -> Iterable[SaidCall[T] | None]:
    return (None,) if kept is None else kept.between(since, until, period)


def _in_place(path: str, answer: Published | None) -> int | None:
    """Returns when it surely was in its own partition. A plain producer's record may be elsewhere until the owner moves
    it.
    """
    return answer.t if answer is not None and answer.outcome == "acknowledged" and path != "raw" else None


def _group(client: str) -> str:
    return client.rpartition("/")[0]


def _split(object_: str) -> tuple[str, str]:
    domain, group, name = object_.split("/", 2)
    return f"{domain}/{group}", name
