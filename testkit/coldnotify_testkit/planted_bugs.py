"""For tests: a small service in memory that plays a random history under a seed, with a bug planted if wanted."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from coldnotify_checker.clients import REPEATS_AFTER_REGISTER
from coldnotify_checker.histories import (
    Calm,
    CaughtUp,
    Connecting,
    End,
    Event,
    Fault,
    Healed,
    Killed,
    Ledger,
    Publish,
    Published,
    Record,
    Register,
    RegisterQuery,
    Sleep,
    Started,
    Stopped,
    Told,
    Topic,
    TopicLost,
    Unregister,
    Wire,
)
from coldnotify_checker.judging import OFFLINE_RECORDS_MAX
from coldnotify_checker.publishes import Key
from coldnotify_checker.verdict import Promise
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames

TOPICS = TopicNames()

PARTITIONS = 8
_DOMAIN, _GROUP = "animal.observer", "region-1"
_SCOPE = f"{_DOMAIN}/{_GROUP}"
_OBJECTS = [f"{_SCOPE}/{name}" for name in ("camera", "release", "data/humidity", "weiß")]
_NAMES = ["one", "two", "three"]
_STEPS = 250
_QUERY = "HAS nothing"
"""It has no members. With the bug about queries, each client is registered for it."""

BUGS: dict[str, Promise] = {
    "loses an acknowledged version": "P1",
    "compaction leaves an older version": "P1",
    "loses an acknowledged version, and tells a later one that was not acknowledged": "P1",
    "a wake misses a version": "P2",
    "a client is never told the last version": "P2",
    "what was written without an acknowledgement is not told": "P2",
    "a client that was wiped is not told again": "P2",
    "a client that was wiped is spared what it published": "P2",
    "everybody is spared what somebody published": "P2",
    "goes backwards over a reconnect": "P3",
    "goes backwards after a wipe": "P3",
    "goes back to the incarnation before": "P3",
    "forgets that an object is known": "P3",
    "tells a version twice": "P4",
    "tells a version again after an orderly stop": "P4",
    "tells a version that nobody published": "P4",
    "tells a version before it is published": "P4",
    "tells another payload": "P4",
    "tells a deletion as a version": "P4",
    "tells a publish that failed": "P4",
    "loses a registration": "P5",
    "loses a registration of a client that is away": "P5",
    "drops a registered query of a client that is away": "P5",
    "keeps what was unregistered": "P5",
    "a matcher of before wins": "P5",
    "a record for each publish while offline": "P6",
    "the ledger takes what was told for applied": "P2",
    "the ledger takes what a callback raised on for applied": "P2",
}
"""The bugs that can be planted, with the promise that each breaks."""


@dataclass(frozen=True, slots=True)
class _Version:
    key: Key
    payload: Any = None
    deleted: bool = False
    source: str | None = None
    sure: bool = False
    """Acknowledged."""


@dataclass(slots=True)
class _Device:
    """A client with its library, and the notes of the application that uses it."""

    name: str
    life: int = 0
    running: bool = False
    connected: bool = False
    since: int = 0
    caught_up: bool = False
    wanted: dict[str, int] = field(default_factory=dict)
    """Object -> when it was registered."""
    pending: set[str] = field(default_factory=set)
    floors: dict[str, Key] = field(default_factory=dict)
    saved: dict[str, Key] = field(default_factory=dict)
    ever: dict[str, _Version] = field(default_factory=dict)
    """The newest versions that the application ever received, whatever happened to its state."""
    held_back: str | None = None
    """The object that the bug withholds from it."""


@dataclass(slots=True)
class _Call:
    begun: Publish
    version: _Version


class Double:
    """One run. `events` is the history, `planted` whether the bug came to bear."""

    def __init__(self, seed: int, bug: str | None = None, *, incarnations_told: bool = True) -> None:
        assert bug is None or bug in BUGS, bug
        self.events: list[Event] = []
        self.planted = False
        self._bug = bug
        self._queries = [_QUERY] if bug is not None and "query" in bug else []
        self._incarnations_told = incarnations_told
        self._random = Random(seed)
        self._t = 1_700_000_000_000_000
        self._devices = [_Device(f"{_SCOPE}/{name}") for name in _NAMES]
        self._open: list[_Call] = []
        self._calls = 0
        self._log: list[Record] = []
        self._newest: dict[str, _Version] = {}
        self._ever: dict[str, list[_Version]] = {object_: [] for object_ in _OBJECTS}
        """All versions that were written, in order, since the topic was lost last."""
        self._next: dict[str, Key] = dict.fromkeys(_OBJECTS, (0, 0))
        self._state: list[Record] = []
        self._registered: dict[str, list[str]] = {}
        self._applied = 0
        self._silenced: list[tuple[_Device, str, int]] = []
        """Whom the bug did not tell again, of what, and by which registration."""
        self._spared: list[tuple[_Device, str, int, _Version]] = []
        """Likewise, and the version that the bug spares it."""
        self._cost: dict[str, int] = {}
        """Records that the bug wrote for a client since it left."""

    def play(self) -> list[Event]:
        """The whole history."""
        steps: list[Callable[[], object]] = [
            *[self._begin_publish] * 6,
            *[self._end_publish] * 6,
            *[self._deliver] * 12,
            *[self._come] * 3,
            *[self._leave] * 2,
            *[self._want] * 3,
            *[self._look_into_the_ledger] * (6 if "ledger" in (self._bug or "") else 1),
            self._want_no_more,
            self._break_something,
        ]
        loses_topic = self._bug is None and self._random.random() < 0.3
        for step in range(_STEPS):
            self._random.choice(steps)()
            if loses_topic and step == _STEPS // 2:
                self._lose_objects()
        self._finish()
        return self.events

    # Noting

    def _now(self) -> int:
        self._t += self._random.randint(1, 400_000)
        return self._t

    def _note(self, event: Event) -> None:
        self.events.append(event)

    def _is(self, bug: str) -> bool:
        assert bug in BUGS, bug
        return self._bug == bug

    # Publishing

    def _begin_publish(self, object_: str | None = None, **said: Any) -> _Call:
        object_ = object_ or self._random.choice(_OBJECTS)
        incarnation, version = self._next[object_]
        chance = self._random.random()
        if chance < 0.04:
            incarnation, version = incarnation + 1, self._random.randint(0, 2)
        elif chance < 0.1:
            version = max(0, version - self._random.randint(1, 3))  # a publisher that lags behind
        else:
            version += self._random.randint(1, 2)
        if chance >= 0.2:  # else another publisher takes the same one
            self._next[object_] = max(self._next[object_], (incarnation, version))
        self._calls += 1
        payload = self._random.choice(
            [None, {"n": self._calls}, f"payload {self._calls}", {"n": self._calls, "a": [1]}]
        )
        sources = 0.6 if self._is("a client that was wiped is spared what it published") else 0.1
        fields: dict[str, Any] = {
            "payload": payload,
            "deleted": self._random.random() < 0.1,
            "source": self._random.choice(_NAMES) if self._random.random() < sources else None,
            **said,
        }
        begun = Publish(
            t=self._now(),
            publisher=self._random.choice(["a", "b"]),
            id=self._calls,
            object=object_,
            version=version,
            incarnation=incarnation,
            **fields,
        )
        self._note(begun)
        call = _Call(begun, _Version((incarnation, version), fields["payload"], fields["deleted"], fields["source"]))
        self._open.append(call)
        return call

    def _end_publish(self) -> None:
        if not self._open:
            return
        call = self._open.pop(self._random.randrange(len(self._open)))
        outcome = self._random.choices(["acknowledged", "failed", "unknown", None], [8, 1, 1, 1])[0]
        if outcome == "acknowledged":
            self._write(call, sure=True)
        elif outcome != "failed" and self._random.random() < 0.5:
            self._write(call)
        elif outcome == "failed" and self._is("tells a publish that failed") and not call.version.deleted:
            for device in self._connected():
                if call.begun.object in device.wanted and call.version.key > device.floors.get(
                    call.begun.object, _NONE
                ):
                    self._tell(device, call.begun.object, call.version)
                    self.planted |= self._nobody_else_published(call)
        if outcome is not None:
            self._answer(call, outcome)

    def _answer(self, call: _Call, outcome: Any) -> None:
        self._note(Published(t=self._now(), publisher=call.begun.publisher, id=call.begun.id, outcome=outcome))

    def _nobody_else_published(self, call: _Call) -> bool:
        same = [
            event
            for event in self.events
            if isinstance(event, Publish) and event.object == call.begun.object and event.version == call.begun.version
        ]
        return len(same) == 1

    def _write(self, call: _Call, *, sure: bool = False) -> None:
        object_, version = call.begun.object, call.version
        version = _Version(version.key, version.payload, version.deleted, version.source, sure)
        self._append(object_, version)
        self._ever[object_].append(version)
        newest = self._newest.get(object_)
        if newest is None or version.key > newest.key:
            self._newest[object_] = version
        elif version.key == newest.key and sure:
            self._newest[object_] = _Version(newest.key, newest.payload, newest.deleted, newest.source, True)
        if self._is("a record for each publish while offline"):
            for device in self._devices:
                if not device.connected and device.life:
                    for _ in range(3):
                        self._write_session(device)
                    self._cost[device.name] = self._cost.get(device.name, 0) + 3
                    self.planted |= self._cost[device.name] > OFFLINE_RECORDS_MAX + 1

    def _append(self, object_: str, version: _Version) -> None:
        incarnation, number = version.key
        value: dict[str, Any] = {"version": number}
        if any(key.key[0] for key in self._ever[object_]) or incarnation:
            value["incarnation"] = incarnation
        if version.payload is not None:
            value["payload"] = version.payload
        if version.deleted:
            value["deleted"] = True
        if version.source:
            value["source"] = version.source
        partition = partition_of(_DOMAIN, _GROUP, PARTITIONS)
        if self._random.random() < 0.05:
            partition = (partition + 1) % PARTITIONS  # a stray; its copy follows
            value.setdefault("incarnation", incarnation)
        self._log.append(
            Record(
                topic=TOPICS.objects,
                partition=partition,
                offset=len(self._log),
                timestamp=self._t // 1000,
                key=object_,
                value=value,
            )
        )

    # Clients

    def _connected(self) -> list[_Device]:
        return [device for device in self._devices if device.connected]

    def _come(self, device: _Device | None = None) -> None:
        device = device or self._random.choice(self._devices)
        if device.connected:
            return
        if not device.running:
            wiped = 0.6 if self._bug is not None and self._bug.startswith("a client that was wiped") else 0.2
            if not device.life or self._random.random() < wiped:
                self._begin_life(device)
            self._note(Started(t=self._now(), client=device.name, life=device.life))
            device.running = True
            for text in self._queries:
                self._note(RegisterQuery(t=self._now(), client=device.name, query=text))
        self._note(connecting := Connecting(t=self._now(), client=device.name))
        device.connected, device.caught_up, device.since = True, False, connecting.t
        self._write_session(device)
        self._plant_at_a_wake(device)

    def _begin_life(self, device: _Device) -> None:
        device.life += 1
        device.wanted, device.pending, device.floors, device.saved = {}, set(), {}, {}

    def _plant_at_a_wake(self, device: _Device) -> None:
        objects = list(device.wanted)
        self._random.shuffle(objects)
        for object_ in objects:
            newest, floor = self._newest.get(object_), device.floors.get(object_)
            told = device.ever.get(object_)
            if (
                self._is("a wake misses a version")
                and newest is not None
                and not self._may_have_caused(device, object_)
                and (newest.sure and self._lacks(device, object_) and (floor or _NONE) < newest.key)
            ):
                device.held_back = object_
                return
            if self._is("goes backwards over a reconnect") and floor is not None and told is not None:
                older = [version for version in self._ever[object_] if version.key < told.key]
                if older and told.key == floor:
                    self._tell(device, object_, self._random.choice(older))
                    self.planted = True
                    return
            if (
                self._is("tells a version again after an orderly stop")
                and self._stopped_last(device)
                and told is not None
                and told.key == floor
                and device.saved.get(object_) == floor
                and not self._registered_again(device, object_)
            ):
                for _ in range(REPEATS_AFTER_REGISTER + 1):
                    self._tell(device, object_, told)
                self.planted = True
                return

    def _may_have_caused(self, device: _Device, object_: str) -> bool:
        source = device.name.rpartition("/")[2]
        return any(
            event.object == object_ and event.source == source for event in self.events if isinstance(event, Publish)
        )

    def _published_before(self, device: _Device, object_: str, t: int) -> bool:
        """Returns true if the newest version is its own, was acknowledged before, and no other publish of its own has
        begun since.
        """
        newest, own = self._newest[object_], device.name.rpartition("/")[2]
        if newest.source != own or not newest.sure:
            return False
        calls = [one for one in self.events if isinstance(one, Publish) and one.object == object_ and one.source == own]
        answers = {(one.publisher, one.id): one for one in self.events if isinstance(one, Published)}
        for call in calls:
            answer = answers.get((call.publisher, call.id))
            newer = call.incarnation, call.version or 0
            if newer >= newest.key and (answer is None or answer.outcome != "acknowledged" or answer.t >= t):
                return False
        return True

    def _told_since(self, device: _Device, object_: str, t: int) -> bool:
        return any(
            event.client == device.name and event.object == object_ and event.t > t
            for event in self.events
            if isinstance(event, Told)
        )

    def _stopped_last(self, device: _Device) -> bool:
        ends = [
            event
            for event in self.events
            if isinstance(event, Stopped | Killed | Sleep) and event.client == device.name
        ]
        return bool(ends) and not isinstance(ends[-1], Killed)

    def _registered_again(self, device: _Device, object_: str) -> bool:
        times = [
            event
            for event in self.events
            if isinstance(event, Register) and event.client == device.name and event.object == object_
        ]
        return len(times) > 1

    def _leave(self) -> None:
        device = self._random.choice(self._devices)
        if not device.connected:
            return
        device.connected = False
        self._cost[device.name] = 0
        kind = self._random.choice([Stopped, Sleep, Killed])
        if kind is Killed:
            device.floors = dict(device.saved)
        else:
            device.saved = dict(device.floors)
        device.running = kind is Sleep
        self._note(kind(t=self._now(), client=device.name))
        self._write_session(device)

    def _want(self) -> None:
        device, object_ = self._random.choice(self._devices), self._random.choice(_OBJECTS)
        if not device.running:
            return
        self._note(Register(t=self._now(), client=device.name, object=object_))
        if object_ not in device.wanted:
            device.wanted[object_] = self._t
            device.pending.add(object_)

    def _want_no_more(self) -> None:
        device = self._random.choice(self._devices)
        if not device.running or not device.wanted:
            return
        object_ = self._random.choice(list(device.wanted))
        self._note(Unregister(t=self._now(), client=device.name, object=object_))
        del device.wanted[object_]
        device.pending.discard(object_)
        device.floors.pop(object_, None)
        device.saved.pop(object_, None)
        if self._random.random() < 0.2 and device.connected and object_ in self._newest:
            # Its callback was about to be entered.
            version = self._newest[object_]
            if version.key >= device.ever.get(object_, _Version(_NONE)).key:
                self._tell(device, object_, version)
                device.floors.pop(object_, None)

    def _lacks(self, device: _Device, object_: str) -> bool:
        newest = self._newest.get(object_)
        if object_ in device.pending:
            return True
        if newest is None or newest.source == device.name.rpartition("/")[2]:
            return False
        if newest.source is not None and self._is("everybody is spared what somebody published"):
            return False
        return newest.key > device.floors.get(object_, _NONE)

    def _deliver(self, device: _Device | None = None) -> None:
        connected = self._connected()
        if device is None:
            if not connected:
                return
            device = self._random.choice(connected)
        self._write_registrations(device)
        lacking = [name for name in device.wanted if self._lacks(device, name) and name != device.held_back]
        if lacking:
            self._deliver_one(device, self._random.choice(lacking))
        elif not device.caught_up:
            self._note(CaughtUp(t=self._now(), client=device.name, since=device.since))
            device.caught_up = True
            held_back, device.held_back = device.held_back, None
            told_since = held_back is not None and self._told_since(device, held_back, device.since)
            if held_back is not None and not told_since and device.wanted.get(held_back, self._t) < device.since:
                self.planted = True
        elif self._random.random() < 0.3:
            device.saved = dict(device.floors)

    def _deliver_one(self, device: _Device, object_: str) -> None:
        newest, floor = self._newest.get(object_), device.floors.get(object_, _NONE)
        device.pending.discard(object_)
        if newest is None:
            self._note(Told(t=self._now(), client=device.name, object=object_, version=None))
            return
        self._note(
            Wire(t=self._now(), client=device.name, object=object_, version=newest.key[1], incarnation=newest.key[0])
        )
        if newest.key <= floor:
            return
        if not self.planted and self._plant_in_delivery(device, object_, newest):
            self.planted = True
            return
        if device.floors.get(object_) == newest.key:
            return  # the bug says that it knows
        often = self._is("the ledger takes what a callback raised on for applied")
        failed = self._random.random() < (0.4 if often else 0.05)
        self._tell(device, object_, newest, failed=failed)
        if self._is("tells a version twice") and not failed and not self._registered_again(device, object_):
            for _ in range(REPEATS_AFTER_REGISTER + 1):
                self._tell(device, object_, newest)
            self.planted = True

    def _plant_in_delivery(self, device: _Device, object_: str, newest: _Version) -> bool:
        told = device.ever.get(object_)
        if self._is("tells a version that nobody published"):
            self._tell(device, object_, _Version((newest.key[0], newest.key[1] + 1000), newest.payload, newest.deleted))
            return True
        if self._is("tells another payload"):
            self._tell(device, object_, _Version(newest.key, {"other": 1}, newest.deleted))
            return True
        if self._is("tells a deletion as a version") and newest.deleted:
            version = _Version(newest.key, newest.payload)
            same = [one for one in self._ever[object_] if one.key == newest.key]
            self._tell(device, object_, version)
            return len(same) == 1 and self._published_once(object_, newest.key)
        if self._is("tells a version before it is published"):
            key = (newest.key[0], newest.key[1] + 500)
            self._tell(device, object_, _Version(key))
            self._calls += 1
            self._note(
                Publish(
                    t=self._now(), publisher="late", id=self._calls, object=object_, version=key[1], incarnation=key[0]
                )
            )
            return True
        if (
            self._is("a client that was wiped is spared what it published")
            and (device.life > 1 and object_ not in device.floors)
            and self._published_before(device, object_, device.wanted[object_])
        ):
            device.floors[object_] = newest.key
            self._spared.append((device, object_, device.wanted[object_], newest))
        if told is None or told.key > newest.key:
            return False
        older = [version for version in self._ever[object_] if version.key < told.key]
        if self._is("goes backwards after a wipe") and older and device.life > 1 and object_ not in device.floors:
            self._tell(device, object_, self._random.choice(older))
            return True
        if self._is("goes back to the incarnation before") and older and older[0].key[0] < told.key[0]:
            self._tell(device, object_, older[0])
            return True
        if self._is("forgets that an object is known"):
            self._note(Told(t=self._now(), client=device.name, object=object_, version=None))
            return True
        if self._is("a client that was wiped is not told again") and device.life > 1 and told.key == newest.key:
            device.floors[object_] = newest.key
            self._silenced.append((device, object_, device.wanted[object_]))
        return False

    def _published_once(self, object_: str, key: Key) -> bool:
        same = [
            event
            for event in self.events
            if isinstance(event, Publish) and event.object == object_ and (event.incarnation, event.version) == key
        ]
        return len(same) == 1

    def _tell(self, device: _Device, object_: str, version: _Version, *, failed: bool = False) -> None:
        self._note(
            Told(
                t=self._now(),
                client=device.name,
                object=object_,
                version=version.key[1],
                incarnation=version.key[0] if self._incarnations_told else None,
                deleted=version.deleted,
                payload=version.payload,
                failed=failed,
            )
        )
        if not failed:
            device.floors[object_] = version.key
        if version.key >= device.ever.get(object_, _Version(_NONE)).key:
            device.ever[object_] = version

    def _look_into_the_ledger(self) -> None:
        object_ = self._random.choice(_OBJECTS)
        newest = self._newest.get(object_)
        if newest is None:
            return
        asked, lacking = self._now(), []
        raised = self._is("the ledger takes what a callback raised on for applied")
        for device in self._devices:
            told = [
                one
                for one in self.events
                if isinstance(one, Told) and (one.client, one.object) == (device.name, object_)
            ]
            taken = [one for one in told if not one.failed and ((one.incarnation or 0), one.version or 0) >= newest.key]
            if object_ not in device.wanted or taken or self._may_have_caused(device, object_):
                continue
            since = [one for one in told if one.t >= device.wanted[object_] and object_ in self._confirmed(device)]
            failed = [one for one in since if one.failed and one.version == newest.key[1]]
            if since and (failed if raised else self._is("the ledger takes what was told for applied")):
                self.planted |= self._incarnations_told
            else:
                lacking.append(device.name)
        incarnation, version = newest.key
        self._note(
            Ledger(
                t=self._now(), asked=asked, object=object_, version=version, incarnation=incarnation, lacking=lacking
            )
        )

    # The service's state

    def _write_session(self, device: _Device) -> None:
        self._applied += 1
        self._keep(
            TOPICS.sessions, device.name, {"generation": 1, "applied": self._applied, "online": device.connected}
        )

    def _write_registrations(self, device: _Device) -> None:
        wanted = sorted(name.removeprefix(f"{_SCOPE}/") for name in device.wanted)
        if self._registered.get(device.name, None if self._queries else []) == wanted:
            return
        before = self._registered.get(device.name, [])
        self._registered[device.name] = wanted
        self._applied += 1
        key = f"{device.name}/0"
        kinds = {"queries": self._queries} if self._queries else {}
        self._keep(TOPICS.registrations, key, {"generation": 2, "applied": self._applied, "objects": wanted, **kinds})
        if self._random.random() < 0.2:
            # A matcher that was thought dead writes what it knows: it loses the merge.
            self._keep(TOPICS.registrations, key, {"generation": 1, "applied": self._applied + 50, "objects": before})

    def _keep(self, topic: str, key: str, value: dict[str, Any]) -> None:
        offset = len(self._state)
        timestamp = self._t // 1000
        self._state.append(
            Record(topic=topic, partition=0, offset=offset, timestamp=timestamp, key=key, value={"format": 1, **value})
        )

    # The run

    def _break_something(self) -> None:
        kind = self._random.choice(["kill matcher", "cut"])
        self._note(Fault(t=self._now(), kind=kind, target="0"))
        if kind == "cut":
            self._deliver()
            self._note(Healed(t=self._now(), kind=kind, target="0"))

    def _lose_objects(self) -> None:
        """The topic is deleted, and publishers begin low: floors hide from clients what they know."""
        self._log, self._newest = [], {}
        self._ever = {object_: [] for object_ in _OBJECTS}
        self._next = {object_: (incarnation, 0) for object_, (incarnation, _) in self._next.items()}
        self._note(TopicLost(t=self._now(), topic=TOPICS.objects))

    def _finish(self) -> None:
        while self._open:
            self._end_publish()
        for device in self._devices:
            if self._random.random() < 0.8:
                self._come(device)
                if not device.wanted:
                    object_ = self._random.choice(_OBJECTS)
                    self._note(Register(t=self._now(), client=device.name, object=object_))
                    device.wanted[object_] = self._t
                    device.pending.add(object_)
        self._settle()
        self._plant_at_the_end()
        self._note(Calm(t=self._now()))
        self._note(End(t=self._now(), connected=[device.name for device in self._connected()]))
        self._dump()

    def _settle(self) -> None:
        for device in self._connected():
            while not device.caught_up or any(self._lacks(device, object_) for object_ in device.wanted):
                self._deliver(device)
            self._write_registrations(device)

    def _plant_at_the_end(self) -> None:
        told = [(device, object_) for device in self._connected() for object_ in device.wanted]
        if not told:
            return
        device, object_ = self._random.choice(told)
        above = (max((*self._next[object_], *(known.key[1] for known in self._ever[object_])))) + 5
        self._next[object_] = (max(self._next[object_][0], 3), above)
        if self._is("a client is never told the last version"):
            call = self._begin_publish(object_, source=None)
            self._write(call, sure=True)
            self._answer(call, "acknowledged")
            self.planted = self._newest[object_].key == call.version.key
        elif self._is("what was written without an acknowledgement is not told"):
            call = self._begin_publish(object_, source=None)
            self._write(call)
            self.planted = self._newest[object_].key == call.version.key
        elif self._is("loses an acknowledged version, and tells a later one that was not acknowledged"):
            lost = self._begin_publish(object_, source=None)
            self._answer(lost, "acknowledged")
            later = self._begin_publish(object_, source=None)
            newest = self._newest.get(object_)
            if later.version.key > lost.version.key > (newest.key if newest else _NONE):
                self._tell(device, object_, later.version)
                self.planted = True

    def _dump(self) -> None:
        state = list(self._state)
        for device, object_, registered in self._silenced:
            kept = device.connected and device.wanted.get(object_) == registered
            told_since = self._told_since(device, object_, registered)
            self.planted |= kept and not told_since and not self._may_have_caused(device, object_)
        for device, object_, registered, version in self._spared:
            kept = device.connected and device.wanted.get(object_) == registered and self._newest[object_] == version
            told_since = self._told_since(device, object_, registered)
            self.planted |= kept and not told_since and self._published_before(device, object_, registered)
        if self._is("everybody is spared what somebody published"):
            self.planted = any(
                self._was_spared(device, object_) for device in self._connected() for object_ in device.wanted
            )
        sure = [object_ for object_, newest in self._newest.items() if newest.sure]
        if sure and self._is("loses an acknowledged version"):
            self._lose(self._random.choice(sure))
        elif sure and self._is("compaction leaves an older version"):
            object_ = self._random.choice(sure)
            older = [version for version in self._ever[object_] if version.key < self._newest[object_].key]
            if older:
                self._log = [record for record in self._log if record.key != object_]
                self._append(object_, older[-1])
                self.planted = True
        self._plant_in_registrations(state)
        if self._is("drops a registered query of a client that is away"):
            self._plant_in_queries(state)
        for topic, records in ((TOPICS.objects, self._log), (TOPICS.registrations, state), (TOPICS.sessions, state)):
            for record in records:
                if record.topic == topic:
                    self._note(record)
            self._note(Topic(topic=topic, partitions=PARTITIONS))

    def _was_spared(self, device: _Device, object_: str) -> bool:
        """Returns true if it should have received the newest version, which has a source, but did not receive it as
        new.
        """
        newest = self._newest.get(object_)
        if newest is None or newest.source is None or not newest.sure or self._may_have_caused(device, object_):
            return False
        return device.ever.get(object_, _Version(_NONE)).key < newest.key and not any(
            isinstance(event, Told)
            and (event.client, event.object, event.version) == (device.name, object_, newest.key[1])
            for event in self.events
        )

    def _lose(self, object_: str) -> None:
        key = self._newest[object_].key
        kept = [
            record
            for record in self._log
            if record.key != object_ or (record.value.get("incarnation", 0), record.value["version"]) != key
        ]
        self.planted = len(kept) < len(self._log)
        self._log = kept

    def _plant_in_registrations(self, state: list[Record]) -> None:
        away = self._is("loses a registration of a client that is away")
        for device in self._devices:
            if device.connected == away:
                continue
            confirmed = self._confirmed(device) if away else set()
            if away and not confirmed:
                continue
            names = [*sorted(confirmed), *sorted(device.wanted.keys() - confirmed)]
            wanted = [name.removeprefix(f"{_SCOPE}/") for name in names]
            key = f"{device.name}/0"
            value: dict[str, Any] = {"format": 1, "generation": 2, "applied": self._applied + 100}
            record: dict[str, Any] = {"topic": TOPICS.registrations, "partition": 0, "timestamp": self._t // 1000}
            if not wanted:
                continue
            if self._is("loses a registration") or away:
                value["objects"] = wanted[1:]
            elif self._is("keeps what was unregistered"):
                value["objects"] = [*wanted, "camera 2"]
            elif self._is("a matcher of before wins"):
                # It claimed no generation of its own: what it writes counts, though it is of before.
                value |= {"generation": 3, "applied": 0, "objects": []}
            else:
                return
            state.append(Record(offset=len(state), key=key, value=value, **record))
            self.planted = True

    def _plant_in_queries(self, state: list[Record]) -> None:
        """Somebody needed the room that they had."""
        for device in self._devices:
            registered = [e for e in self.events if isinstance(e, RegisterQuery) and e.client == device.name]
            wakes = [e for e in self.events if isinstance(e, CaughtUp) and e.client == device.name]
            if device.connected or not registered or not wakes or wakes[-1].since < registered[-1].t:
                continue
            value: dict[str, Any] = {"format": 1, "generation": 2, "applied": self._applied + 100}
            value |= {"objects": self._registered.get(device.name, [])}
            about: dict[str, Any] = {"topic": TOPICS.registrations, "partition": 0, "timestamp": self._t // 1000}
            state.append(Record(offset=len(state), key=f"{device.name}/0", value=value, **about))
            self.planted = True

    def _confirmed(self, device: _Device) -> set[str]:
        """Returns the names for which it is registered according to its last wake."""
        wakes = (event for event in self.events if isinstance(event, CaughtUp) and event.client == device.name)
        since = max((event.since for event in wakes), default=0)
        return {name for name, at in device.wanted.items() if at < since}


_NONE: Key = (-1, -1)


def play(seed: int, bug: str | None = None, *, incarnations_told: bool = True) -> list[Event]:
    """The history of one run."""
    return Double(seed, bug, incarnations_told=incarnations_told).play()
