"""Follows what each client wants and was told; judges P2 (wakes), P3 and P4 on the way."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from coldnotify_checker.catching_up import CatchUps
from coldnotify_checker.histories import (
    CaughtUp,
    Connecting,
    Event,
    Killed,
    Members,
    QueryRefused,
    Refused,
    Register,
    RegisterQuery,
    Sleep,
    Started,
    Stopped,
    Told,
    Unregister,
    UnregisterQuery,
    Wire,
)
from coldnotify_checker.memberships import CheckedMemberships
from coldnotify_checker.mqtt.payload_contents import EMPTY, content
from coldnotify_checker.publishes import CheckedPublishes, Key, PublishCall, fingerprint
from coldnotify_checker.topic_contents import DumpedTopics
from coldnotify_checker.verdict import JudgeVerdict

REPEATS_AFTER_REGISTER = 2
"""The answer, and a callback that was on its way when the object was unregistered and registered again."""


@dataclass(slots=True)
class Knowledge:
    """The versions of one object that a client was told."""

    floor: Key | None = None
    """The lowest version that it was last told (its incarnation may be unknown). Survives restarts
    and registrations.
    """
    known: Key | None = None
    """The highest version that it can have been told since it registered."""
    known_before: Key | None = None
    """The value of `known` at its last registration."""
    last: Told | None = None
    """Outlives all, as `floor`."""
    registered: int = 0
    """The time of its last registration: the answer includes what it published before. 0: perhaps it was not saved."""
    registered_before: int = 0
    """The value of `registered` at its last registration: the service need not hear of one that is undone at once."""
    phase: int = 0
    """The client's phase when it was last told the object."""
    repeats_allowed: int = 0


@dataclass(slots=True)
class CheckedClient:
    """One client."""

    name: str
    life: int = 0
    running: bool = False
    started: int = 0
    """The start of its process."""
    connected: bool = False
    wanted: dict[str, Register] = field(default_factory=dict)
    """The event that registered it, by object."""
    told: dict[str, Knowledge] = field(default_factory=dict)
    unregistered: dict[str, int] = field(default_factory=dict)
    """The time of unregistration, by object, until the client has come and caught up: versions may still be on their
    way.
    """
    behind: dict[str, None] = field(default_factory=dict)
    """The wanted objects whose newest version it may not know. It knows that of all others."""
    registered_since_start: list[str] = field(default_factory=list)
    agreed: int = 0
    """`since` of its last wake: earlier registrations are acknowledged."""
    ends: list[bool] = field(default_factory=list)
    """For each phase (from a start to its end): true if a power cut ended it and its latest state was not saved."""
    left: Event | None = None
    absences: list[tuple[Event, Event | None]] = field(default_factory=list)
    """The times from leaving to the next connecting; None: until the end."""

    def knows(self, object_: str) -> Key | None:
        """Returns the highest version that it was told since it registered."""
        knowledge = self.told.get(object_)
        return knowledge.known if knowledge else None

    def caused(self, publishes: CheckedPublishes, object_: str, key: Key, by: int, clock_skew_us: int) -> bool:
        """Returns true if it may be the source of this version, or of a newer one begun until `by`, and so is not owed
        it.

        It is owed what it published before it registered. A wiped client has to register again.
        """
        knowledge = self.told.get(object_)
        since = knowledge.registered - clock_skew_us if knowledge is not None else 0
        return publishes.caused(object_, self.name.rpartition("/")[2], key, by, since=since)


class Clients:
    """All clients of a history, followed event by event."""

    def __init__(
        self,
        publishes: CheckedPublishes,
        topics: DumpedTopics,
        verdict: JudgeVerdict,
        catch_ups: CatchUps,
        memberships: CheckedMemberships,
        clock_skew_us: int,
        by_devices: Collection[tuple[str, bytes]] = (),
    ) -> None:
        """`by_devices`: what MQTT devices published, as `said_by_devices` gives it."""
        self._by_devices = by_devices
        self.by_name: dict[str, CheckedClient] = {}
        self._publishes = publishes
        self._topics = topics
        self._verdict = verdict
        self._catch_ups = catch_ups
        self._memberships = memberships
        self._skew_us = clock_skew_us
        self._on_wire: dict[tuple[str, str], Key] = {}
        self._level: dict[str, dict[str, CheckedClient]] = {}
        """By object, then by name: the clients that want it and know its newest version."""
        self._news = iter(publishes.news)
        self._next_news = next(self._news, None)

    def of(self, name: str) -> CheckedClient:
        """The client of this name."""
        client = self.by_name.get(name)
        if client is None:
            client = self.by_name[name] = CheckedClient(name)
        return client

    def on_event(self, event: Event) -> None:
        """The next event, by time. What does not concern a client is ignored."""
        while self._next_news is not None and self._next_news[0] <= event.t:
            object_ = self._next_news[1]
            for client in self._level.pop(object_, {}).values():
                client.behind[object_] = None
            self._next_news = next(self._news, None)
        self._memberships.on_time(event.t)
        match event:
            case Told():
                self._memberships.on_told_description(event)
                self._on_told(event)
            case Started():
                self._on_started(event)
            case Stopped() | Sleep() | Killed():
                self._on_left(self.of(event.client), event)
            case Connecting():
                self._on_connecting(event)
            case CaughtUp():
                self._on_caught_up(event)
            case Register():
                self._on_register(event)
            case Unregister() | Refused():
                client = self.of(event.client)
                client.unregistered[event.object] = event.t
                client.wanted.pop(event.object, None)
                self._want_no_more(client, event.object)
                knowledge = client.told.get(event.object)
                if knowledge is not None:
                    knowledge.registered = knowledge.registered_before
                    if knowledge.known is None and self._is_wanted(client, event.object):
                        knowledge.known = knowledge.known_before  # it was a member before, and is one still
            case RegisterQuery():
                self._memberships.register(event)
            case UnregisterQuery() | QueryRefused():
                self._leave(self.of(event.client), self._memberships.forget(event.client, event.query, event.t))
            case Members():
                self._on_members(event)
            case Wire():
                self._on_wire_frame(event)
            case _:
                pass

    def lacking(self, client: CheckedClient, t: int) -> list[str]:
        """Returns the objects whose newest version at `t` it may not know; `t` is not before the last event."""
        for object_ in list(client.behind):
            newest, known = self._publishes.newest(object_, t + 1), client.knows(object_)
            if newest is None or (known is not None and known >= newest.sure_key):
                del client.behind[object_]
                self._level.setdefault(object_, {})[client.name] = client
        return list(client.behind)

    def wanted(self, client: CheckedClient) -> Iterator[tuple[str, Register | Members]]:
        """Yields the objects whose newest version it must know, some of them twice, each with the event that requires
        it.
        """
        yield from client.wanted.items()
        scope = client.name.rpartition("/")[0]
        for name, told in self._memberships.members(client.name):
            if f"{scope}/{name}" not in client.wanted:
                yield f"{scope}/{name}", told

    def _is_wanted(self, client: CheckedClient, object_: str) -> bool:
        return object_ in client.wanted or self._memberships.has(client.name, object_.split("/", 2)[2])

    def _want_no_more(self, client: CheckedClient, object_: str) -> None:
        if not self._is_wanted(client, object_):
            client.behind.pop(object_, None)
            self._level.get(object_, {}).pop(client.name, None)
            self._catch_ups.forget(client.name, object_)

    def _leave(self, client: CheckedClient, names: Iterable[str]) -> None:
        scope = client.name.rpartition("/")[0]
        for name in names:
            self._want_no_more(client, f"{scope}/{name}")

    def _on_members(self, event: Members) -> None:
        client = self.of(event.client)
        scope = client.name.rpartition("/")[0]
        for name in event.added:
            object_ = f"{scope}/{name}"
            knowledge = client.told.setdefault(object_, Knowledge())
            knowledge.repeats_allowed = REPEATS_AFTER_REGISTER
            if not self._is_wanted(client, object_):
                client.behind[object_] = None
                knowledge.known, knowledge.known_before = None, knowledge.known or knowledge.known_before
        self._memberships.on_members(event)
        if not event.failed:
            self._leave(client, event.removed)

    # Comings and goings

    def _on_started(self, event: Started) -> None:
        client = self.of(event.client)
        if client.running:
            # Nobody said how it ended, so nobody knows what it saved.
            self._on_ended(client, cut_off=True)
        client.running = True
        client.started = event.t
        if event.life != client.life:
            client.life = event.life
            forgotten = [*client.wanted]
            client.wanted.clear()
            self._leave(client, self._memberships.forget_all(event.client, event.t))
            for object_ in forgotten:
                self._want_no_more(client, object_)
            self._catch_ups.forget(event.client)

    def _on_left(self, client: CheckedClient, event: Stopped | Sleep | Killed) -> None:
        self._on_ended(client, cut_off=isinstance(event, Killed))
        client.running = isinstance(event, Sleep)
        client.connected = False
        if client.left is None:
            client.left = event
        self._catch_ups.forget(client.name)

    def _on_ended(self, client: CheckedClient, *, cut_off: bool) -> None:
        client.ends.append(cut_off)
        self._memberships.on_ended(client.name, cut_off=cut_off)
        if cut_off:
            # It may not have saved that it registers anew, and go on with what it knew.
            for object_ in client.registered_since_start:
                knowledge = client.told[object_]
                knowledge.registered = 0
                if knowledge.known is None:
                    knowledge.known = knowledge.known_before
        client.registered_since_start.clear()

    def _on_connecting(self, event: Connecting) -> None:
        client = self.of(event.client)
        client.running = client.connected = True
        if client.left is not None:
            client.absences.append((client.left, event))
            client.left = None

    def _on_register(self, event: Register) -> None:
        client = self.of(event.client)
        if event.object in client.wanted:
            return
        client.wanted[event.object] = event
        client.behind[event.object] = None
        client.registered_since_start.append(event.object)
        knowledge = client.told.setdefault(event.object, Knowledge())
        knowledge.known, knowledge.known_before = None, knowledge.known or knowledge.known_before
        knowledge.repeats_allowed = REPEATS_AFTER_REGISTER
        knowledge.registered, knowledge.registered_before = event.t, knowledge.registered

    # P2: a wake

    def _on_caught_up(self, event: CaughtUp) -> None:
        self._verdict.statistics.wakes += 1
        client = self.of(event.client)
        client.agreed = event.since
        client.unregistered = {name: t for name, t in client.unregistered.items() if t >= event.since}
        if self._publishes.period(event.since) != self._publishes.period(event.t):
            return
        self._memberships.on_caught_up(event)
        wanted = dict(self.wanted(client))
        for object_ in self.lacking(client, event.t):
            register = wanted.get(object_)
            if register is None:
                continue  # the callback that says that it is a member has failed: it is not told before that returns
            owed = self._publishes.newest(object_, event.since - self._skew_us, in_place=True)
            if (
                owed is None
                or (isinstance(register, Register) and register.t >= event.since)
                or client.caused(self._publishes, object_, owed.sure_key, event.t, self._skew_us)
                or self._publishes.period_of(object_, event.since - self._skew_us)
                != self._publishes.period_of(object_, event.t + self._skew_us)
            ):
                continue
            known = client.knows(object_)
            if known is None or known < owed.sure_key:
                self._verdict.add(
                    "P2",
                    f"{client.name} said it was caught up without {version_words(owed.sure_key)} of {object_}, "
                    f"acknowledged before the wake began; it knew {version_words(known)}",
                    (owed.begun, owed.answer, register, client.told[object_].last, event),
                )

    # P3, P4: what is told

    def _on_told(self, event: Told) -> None:
        self._verdict.statistics.told += 1
        client = self.of(event.client)
        knowledge = client.told.setdefault(event.object, Knowledge())
        last = knowledge.last
        if last is not None and self._publishes.period(last.t) != self._publishes.period(event.t):
            # The topic was lost between: its versions may begin anew.
            knowledge.floor = knowledge.last = last = None
        if last is not None and self._publishes.was_removed(event.object, event.t + self._skew_us):
            if event.version is None:
                return
            # Who has lost its state, or did not want the object for a while, does not know either what was there once.
            knowledge.floor = knowledge.last = last = None
        if event.version is None:
            if knowledge.floor is not None:
                self._verdict.add(
                    "P3",
                    f"{client.name} was told that {event.object} is unknown after {version_words(knowledge.floor)}",
                    (last, event),
                )
            return
        if event.object not in client.wanted and event.object not in client.unregistered:
            self._memberships.on_told(event, self._begun(event), overtakes=self._may_overtake(event))
        possible = self._possible(event)
        if not possible:
            return
        if self._was_under_way(event):
            self._know(client, knowledge, event, possible)
            return
        floor = knowledge.floor
        key = min((key for key in possible if floor is None or key >= floor), default=max(possible))
        if floor is not None and key < floor:
            self._verdict.add(
                "P3",
                f"{client.name} was told {version_words(key)} of {event.object} after {version_words(floor)}",
                (last, event),
            )
            return
        if key == floor and last is not None:
            self._on_repeat(client, knowledge, last, event)
        knowledge.floor, knowledge.last, knowledge.phase = key, event, len(client.ends)
        self._know(client, knowledge, event, possible)

    def _know(self, client: CheckedClient, knowledge: Knowledge, event: Told, possible: set[Key]) -> None:
        if self._is_wanted(client, event.object):
            knowledge.known = max(*possible, knowledge.known or (-1, -1))
            self._catch_ups.told(client.name, event.object, knowledge.known, event.t)

    def _on_repeat(self, client: CheckedClient, knowledge: Knowledge, last: Told, event: Told) -> None:
        cut_off = knowledge.phase < len(client.ends) and client.ends[knowledge.phase]
        if last.failed or cut_off:
            return
        # A new process does not know whether the description that it has stored was the one told last.
        same = last.described and last.description == event.description and last.t >= client.started
        if event.described and not same:
            return  # it is told again for that
        if knowledge.repeats_allowed:
            knowledge.repeats_allowed -= 1
            return
        if self._memberships.may_have_come_back(event, self._begun(event)):
            return
        assert knowledge.floor is not None
        self._verdict.add(
            "P4", f"{client.name} was told {version_words(knowledge.floor)} of {event.object} again", (last, event)
        )

    def _begun(self, event: Told) -> int:
        """Returns when the first publish began that this event can tell."""
        assert event.version is not None
        calls = self._publishes.with_version(event.object, event.version)
        return min((one.begun.t for one in calls if event.incarnation in (None, one.begun.incarnation)), default=0)

    def _may_overtake(self, event: Told) -> bool:
        """Returns true if this can be a publish of high priority."""
        assert event.version is not None
        calls = self._publishes.with_version(event.object, event.version)
        return any(one.begun.priority and event.incarnation in (None, one.begun.incarnation) for one in calls)

    def _was_under_way(self, event: Told) -> bool:
        """Returns true if it was published only before the objects topic was lost, and told after that.

        Nothing follows from it for later versions, whose numbers may have begun again meanwhile.
        """
        assert event.version is not None
        now = self._publishes.period(event.t)
        calls = [
            call
            for call in self._publishes.with_version(event.object, event.version)
            if event.incarnation in (None, call.begun.incarnation) and call.begun.t <= event.t + self._skew_us
        ]
        return bool(calls) and all(self._publishes.period(call.begun.t) != now for call in calls if not call.failed)

    def _possible(self, event: Told) -> set[Key]:
        """Returns the keys that the told version can have; if there are none, it has noted a violation."""
        assert event.version is not None
        calls = [
            call
            for call in self._publishes.with_version(event.object, event.version)
            if event.incarnation is None or call.begun.incarnation == event.incarnation
        ]
        written = [call for call in calls if not call.failed]
        in_time = [call for call in written if call.begun.t <= event.t + self._skew_us]
        told = fingerprint(event.payload)
        possible = {(call.begun.incarnation, event.version) for call in in_time if _says(call, event, told)}
        if possible:
            return possible
        if event.object not in self._publishes.objects:
            # Somebody published who keeps no history; the topic itself is what remains to compare with.
            possible = {
                held.key for held in self._topics.versions.get(event.object, ()) if held.key[1] == event.version
            }
            if event.incarnation is not None:
                possible &= {(event.incarnation, event.version)}
            if possible:
                return possible
        if (event.object, EMPTY if event.deleted else content(event.payload)) in self._by_devices:
            return {(event.incarnation or 0, event.version)}
        if in_time:
            why = "with another payload, or as deleted, than it was published"
        elif written:
            why = "before it was published"
        elif calls:
            why = "although its publish failed before anything was written"
        else:
            why = "which nobody published"
        self._verdict.add(
            "P4",
            f"{event.client} was told version {event.version} of {event.object} {why}",
            (*(fact for call in calls[:3] for fact in (call.begun, call.answer)), event),
        )
        return set()

    # The wire

    def _on_wire_frame(self, event: Wire) -> None:
        statistics = self._verdict.statistics
        statistics.wire += 1
        if event.version is None:
            return
        key = (event.incarnation, event.version)
        before = self._on_wire.get((event.client, event.object))
        if before is not None and key <= before:
            statistics.wire_duplicates += 1
        else:
            self._on_wire[event.client, event.object] = key


def _says(call: PublishCall, event: Told, told: bytes) -> bool:
    """Returns true if the event tells this publish. A payload that expires may be missing."""
    if call.begun.deleted != event.deleted:
        return False
    return fingerprint(call.begun.payload) == told or (call.begun.expires_at is not None and event.payload is None)


def version_words(key: Key | None) -> str:
    """Returns the words for a version; None: the client knows none."""
    if key is None:
        return "no version"
    incarnation, version = key
    return f"version {version} (incarnation {incarnation})" if incarnation else f"version {version}"
