"""The promises at random, with queries and descriptions: what a device holds as members is what the log says.

Stands for: by_query, groups, lacking, memberships, query_answers
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec
import pytest
from coldnotify_matcher.engine.inputs.registering import registration_requests
from coldnotify_matcher.engine.interests.by_query import sets
from coldnotify_matcher.engine.interests.by_query.query import query_of
from coldnotify_matcher.engine.telling import paging
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.descriptions import Description, parse_description_record
from coldnotify_schemas.digest import MODULUS, digest, sets_digest
from coldnotify_schemas.interests import query_hash
from coldnotify_schemas.records import InvalidRecord
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import GATEWAY, OTHER_GATEWAY, PREFIX, query_interest
from coldnotify_testkit.examples import examples
from coldnotify_testkit.promises_machine import (
    CLIENTS,
    NONE,
    OBJECTS,
    PAGE_BYTES,
    UNKNOWN,
    Machine,
    MachineDevice,
    MachineSession,
)
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

TOPICS = TopicNames()

QUERIES = ["Room = 1", "Room=1", "Kind = lamp AND Room = 1", "NAME STARTS WITH 'o'", "NOT has Room", "NAME = 'o1'"]
"""The first two are one in canonical form."""
DESCRIBED = CLIENTS[:-1]
"""Devices that ask how members are described."""
BY_HASH = {query_hash(text): query_of(text) for text in QUERIES}
WHAT = ("whole", "differences", "redescribed")
"""What must have come to pass for a run to mean anything."""
ROUNDS_EXAMPLES_MAX = 750
"""Of all rounds together, until that is so."""
VALUES = [
    b'{"description":{"Room":1}}', b'{"description":{"Room":1,"Kind":"lamp"}}', b'{"description":{"Room":2}}',
    b'{"description":{"Kind":"lamp"}}', b'{"description":{}}', b'{"description":null}', b"nonsense",
]  # fmt: skip


@dataclass
class Held:
    """One query of a device."""

    members: set[str] = field(default_factory=set)
    answer: set[str] | None = None
    """What has come of an answer that has begun."""
    reached: tuple[str, int] | None = None
    """How far that need not come again."""
    pending: bool = True
    said: bool = False
    """The service has it, and will answer."""
    in_doubt: bool = False
    """Pending because not all differences were known: `held` is said."""
    crossing: bool = False
    """Registered while pages come: they may go on with an answer to a registration before this one."""


class Querying(Machine):
    """Devices have queries besides."""

    counted: ClassVar[Counter[str]] = Counter()
    """Of all runs: what came to pass."""

    def __init__(self) -> None:
        super().__init__()
        self.queries: dict[str, dict[int, Held]] = {name: {} for name in CLIENTS}
        self.unregistering: dict[str, set[int]] = {name: set() for name in CLIENTS}
        self.descriptions: dict[str, dict[str, object]] = {name: {} for name in CLIENTS}
        """By device: what it was told last of how objects are described."""
        self.time_ms = 10
        self._groups: dict[int, dict[str, Description]] = {}

    # --- publishers

    @rule(name=st.sampled_from(OBJECTS), value=st.sampled_from(VALUES), back_ms=st.sampled_from([0, 0, 0, 3]))
    def describe(self, name: str, value: bytes, back_ms: int) -> None:
        self.time_ms += 1
        self.bench.describe(name, value, timestamp_ms=self.time_ms - back_ms)

    @rule(name=st.sampled_from(OBJECTS), version=st.integers(0, 6))
    def delete(self, name: str, version: int) -> None:
        self.bench.publish(name, b'{"version":%d,"deleted":true}' % version)
        self.note_published()

    def group_at(self, end: int) -> dict[str, Description]:
        """The group's objects and their descriptions, as the log says it below this offset."""
        if end in self._groups:
            return self._groups[end]
        newest: dict[str, tuple[tuple[int, int], bool]] = {}
        described: dict[str, tuple[int, Description | None]] = {}
        for record in self.bench.log.records[TOPICS.objects]:
            if record.offset >= end:
                break
            key = (record.key or b"").decode()
            if key.startswith("describe:"):
                name = key.removeprefix(f"describe:{PREFIX}")
                try:
                    said = parse_description_record(record.value)
                except InvalidRecord:
                    continue
                if record.timestamp_ms >= described.get(name, (-1, None))[0]:
                    described[name] = record.timestamp_ms, said
                continue
            name = key.removeprefix(PREFIX)
            try:
                value = msgspec.json.decode(record.value or b"")
                version = value["version"]
            except (msgspec.DecodeError, KeyError):
                continue
            before = newest.get(name, (UNKNOWN, False))
            rank = value.get("incarnation", max(before[0][0], 0)), version
            if rank >= before[0]:
                newest[name] = rank, value.get("deleted", False)
        found = {name: description for name, (_, description) in described.items() if description is not None}
        for name, (_, deleted) in newest.items():
            if deleted:
                found.pop(name, None)
            else:
                found.setdefault(name, {})
        self._groups[end] = found
        return found

    def members_at(self, hash_: int, end: int) -> set[str]:
        matches = BY_HASH[hash_].matches
        return {name for name, description in self.group_at(end).items() if matches(name, description)}

    # --- devices

    def digest_of(self, device: MachineDevice) -> int:
        return (digest(device.wanted) + sum(self.queries[device.name])) % MODULUS

    @rule(client=st.sampled_from(CLIENTS), name=st.sampled_from(OBJECTS))
    def unregister(self, client: str, name: str) -> None:
        device = self.devices[client]
        floor = device.floors.get(name)
        super().unregister(client, name)
        if floor is not None and self.wants(device, name):
            device.floors[name] = floor

    @rule(client=st.sampled_from(CLIENTS), text=st.sampled_from(QUERIES))
    def register_query(self, client: str, text: str) -> None:
        session = self.devices[client].session
        held = Held(crossing=session is not None and session.state == "catching")
        self.queries[client].setdefault(query_hash(text), held)
        self.unregistering[client].discard(query_hash(text))
        self.ask_for_operations(self.devices[client])

    @rule(client=st.sampled_from(CLIENTS), text=st.sampled_from(QUERIES))
    def unregister_query(self, client: str, text: str) -> None:
        if self.queries[client].pop(query_hash(text), None) is not None:
            self.unregistering[client].add(query_hash(text))
            self.ask_for_operations(self.devices[client])

    @rule(client=st.sampled_from(CLIENTS))
    def wipe(self, client: str) -> None:
        super().wipe(client)
        self.queries[client] = {hash_: Held() for hash_ in self.queries[client]}
        self.descriptions[client].clear()

    @rule(client=st.sampled_from(CLIENTS), frames=st.integers(0, 6))
    def wake_without_cursor(self, client: str, frames: int) -> None:
        for held in self.queries[client].values():
            held.answer = held.reached = None
        super().wake_without_cursor(client, frames)

    def said(self, held: Held, hash_: int) -> wire_pb2.Interest:
        (text,) = (text for text in QUERIES if query_hash(text) == hash_)
        if held.in_doubt or held.reached is None:
            held.answer = held.reached = None
            return query_interest(text, held=digest(held.members) if held.in_doubt else None)
        self.counted["reached"] += 1
        name, at = held.reached
        return query_interest(text, reached=name, reached_at=at)

    @rule(client=st.sampled_from(CLIENTS), gateway=st.sampled_from([GATEWAY, OTHER_GATEWAY]), leaves=st.booleans())
    def connect(self, client: str, gateway: int, leaves: bool) -> None:
        if leaves:
            self.hang_up(client, leaves=True)
        for held in self.queries[client].values():
            held.said = False
            if held.reached is None:
                held.answer = None
        super().connect(client, gateway, leaves=False)

    def describes(self, device: MachineDevice) -> bool:
        return device.name in DESCRIBED

    def more_operations(self, session: MachineSession) -> dict[str, object]:
        name = session.device.name
        if session.welcomed or session.device.session is not session:
            return {"descriptions": self.describes(session.device)}
        return {
            "descriptions": self.describes(session.device),
            "interests": [self.said(held, hash_) for hash_, held in self.queries[name].items() if held.pending],
            "unregister_interests": sorted(self.unregistering[name]),
        }

    def on_operations_durable(self, session: MachineSession) -> None:
        name = session.device.name
        for held in self.queries[name].values():
            held.said = True
        self.unregistering[name].clear()

    def queries_to_sync(self, session: MachineSession) -> list[str]:
        for held in self.queries[session.device.name].values():
            held.pending, held.said, held.in_doubt, held.answer, held.reached = True, True, False, None, None
        return [self.said(held, hash_).text for hash_, held in self.queries[session.device.name].items()]

    def on_set_durable(self, session: MachineSession) -> None:
        self.unregistering[session.device.name].clear()

    def ask_for_operations(self, device: MachineDevice) -> None:
        super().ask_for_operations(device)
        session = device.session
        if session is None or session.state not in ("live", "catching") or not session.welcomed:
            return
        owed = {
            hash_: held
            for hash_, held in self.queries[device.name].items()
            if held.pending and not held.said and (session.state == "live" or not held.in_doubt)
        }
        if owed:
            for held in owed.values():
                held.said = True
            said = wire_pb2.Register(request=9, interests=[self.said(held, hash_) for hash_, held in owed.items()])
            described = self.describes(device)
            self.bench.request(session.number, device.name, session.gateway, register=said, descriptions=described)
        if self.unregistering[device.name]:
            gone = wire_pb2.Unregister(request=9, interests=sorted(self.unregistering[device.name]))
            self.bench.request(session.number, device.name, session.gateway, unregister=gone)

    def ask_for_queries(self, session: MachineSession) -> bool:
        queries = self.queries[session.device.name].values()
        if not any(held.pending for held in queries) and not self.unregistering[session.device.name]:
            return False
        for held in queries:
            held.said = False
        self.ask_for_operations(session.device)
        return True

    def on_answered(self, gateway: int, answered: internal_pb2.Answered) -> None:
        super().on_answered(gateway, answered)
        session = self.sessions.get((gateway, answered.session))
        if session is None:
            return
        assert not answered.refused
        if answered.unregistered and session.device.session is session:
            self.unregistering[session.device.name].clear()
        if answered.catch_up and session.state == "live":
            self.catch_up(session)

    def notify(self, session: MachineSession, newest: internal_pb2.Newest) -> None:
        device = session.device
        if device.session is not session:
            return
        queries = self.queries[device.name]
        if newest.HasField("description"):
            assert self.describes(device), "nobody else pays for descriptions"
            self.counted["redescribed"] += not (newest.entered or newest.left or newest.answer)
            self.descriptions[device.name][newest.name] = msgspec.json.decode(newest.description or b"{}")
        if newest.left:
            self.tell_version(device, newest)
        for hash_ in newest.entered:
            held = queries.get(hash_)
            if held is not None:
                if not newest.answer:
                    held.members.add(newest.name)
                if held.answer is not None:
                    held.answer.add(newest.name)
        if not newest.left:
            self.tell_version(device, newest)
        for hash_ in newest.left:
            held = queries.get(hash_)
            if held is not None:
                held.members.discard(newest.name)
                if held.answer is not None:
                    held.answer.discard(newest.name)
        self.counted["differences"] += bool((newest.entered or newest.left) and not newest.answer)
        if not self.wants(device, newest.name):
            device.floors.pop(newest.name, None)
        if not newest.answer:
            device.cursor = max(device.cursor, newest.offset - newest.behind)

    def wants(self, device: MachineDevice, name: str) -> bool:
        held = self.queries[device.name].values()
        return name in device.wanted or any(name in one.members or name in (one.answer or ()) for one in held)

    def tell_version(self, device: MachineDevice, newest: internal_pb2.Newest) -> None:
        if newest.HasField("version") or not (newest.entered or newest.left):
            name = newest.name
            if newest.HasField("version"):
                version = newest.incarnation, newest.version
                assert version in self.published[name], "P4: only what was published"
                if self.wants(device, name):
                    assert version >= device.floors.get(name, UNKNOWN), "P3: never backwards"
                    device.floors[name] = version
            if device.registering.get(name):
                del device.registering[name]

    def on_page(self, gateway: int, page: internal_pb2.Page) -> None:
        session = self.sessions.get((gateway, page.session))
        if session is not None and session.device.session is session and self.is_due(session, page):
            for hash_ in page.begun:
                held = self.queries[session.device.name].get(hash_)
                if held is not None:
                    held.answer, held.reached = set(), None
        super().on_page(gateway, page)

    def on_answers(self, session: MachineSession, page: internal_pb2.Page) -> None:
        device = session.device
        if device.session is not session:
            return
        queries = self.queries[device.name]
        assert not page.refused
        for hash_ in (*page.answered, *page.unchanged):
            held = queries.get(hash_)
            if held is not None:
                if hash_ in page.answered:
                    if held.answer is None:
                        assert held.crossing, "an answer has a beginning"
                        continue
                    self.counted["whole"] += 1
                    held.members, held.answer, held.reached = held.answer, None, None
                else:
                    self.counted["unchanged"] += 1
                held.pending = held.in_doubt = False

    def on_page_of_queries(self, session: MachineSession, page: internal_pb2.Page) -> None:
        device = session.device
        if device.session is not session:
            return
        queries = self.queries[device.name]
        answered = queries.get(page.query) if page.HasField("query") else None
        if answered is not None and answered.answer is not None:
            answered.reached = page.reached, page.reached_at
        fits = page.sets_digest == sets_digest((hash_, digest(held.members)) for hash_, held in queries.items())
        if page.sets_unknown or (page.HasField("sets_digest") and not fits):
            self.counted["doubts"] += 1
            for held in queries.values():
                if not held.pending:
                    held.pending = held.in_doubt = True
                    held.said, held.answer, held.reached = False, None, None
        elif page.HasField("sets_digest"):
            for held in queries.values():
                if held.in_doubt:
                    held.pending = held.in_doubt = False
        if page.last:
            for held in queries.values():
                held.said = held.said and not held.pending
                held.crossing = False
        self.ask_for_operations(device)

    # --- what must hold

    def cursors_are_true(self) -> None:
        super().cursors_are_true()
        end = self.bench.log.end(TOPICS.objects)
        for device in self.devices.values():
            if device.cursor == NONE:
                continue
            for hash_, held in self.queries[device.name].items():
                if held.pending:
                    continue
                then = self.members_at(hash_, device.cursor + 1)
                since: set[str] = set()
                was, group = then, self.group_at(device.cursor + 1)
                described_since: set[str] = set()
                for offset in range(device.cursor + 1, end):
                    now = self.members_at(hash_, offset + 1)
                    since |= was ^ now
                    was = now
                    after = self.group_at(offset + 1)
                    described_since |= {name for name in then if after.get(name) != group.get(name)}
                wrong = (held.members ^ then) - since
                assert not wrong, f"P9: {device.name} at {device.cursor} holds {held.members} of {then}, {wrong}"
                for name in held.members - since:
                    due = self.newest(name, device.cursor)
                    floor = device.floors.get(name, UNKNOWN)
                    is_to_come = self.newest(name) > due
                    assert floor >= due or is_to_come, f"P9: {device.name} at {device.cursor} lacks {name} {due}"
                    if device.name in DESCRIBED and name not in described_since:
                        told = self.descriptions[device.name].get(name)
                        assert told == group[name], f"P9: {device.name} at {device.cursor} holds {told} for {name}"

    def teardown(self) -> None:
        super().teardown()
        end = self.bench.log.end(TOPICS.objects)
        for device in self.devices.values():
            if device.session is None:
                continue
            for hash_, held in self.queries[device.name].items():
                assert not held.pending
                assert held.members == self.members_at(hash_, end), "P9"
                for name in held.members:
                    assert device.floors.get(name, UNKNOWN) == self.newest(name), f"P2: {device.name} lacks {name}"
                    if device.name in DESCRIBED:
                        assert self.descriptions[device.name].get(name) == self.group_at(end)[name], "P9"


class Both(Querying):
    """All want everything by name from the start, and come to want it by queries, too."""

    def __init__(self) -> None:
        super().__init__()
        self.all_want_everything()

    @rule(client=st.sampled_from(CLIENTS), texts=st.lists(st.sampled_from(QUERIES), min_size=1, unique=True))
    def register_queries(self, client: str, texts: list[str]) -> None:
        for text in texts:
            self.register_query(client, text)
        self.commit()
        for gateway in (GATEWAY, OTHER_GATEWAY):
            self.hand_over(gateway, 10_000)

    @rule(client=st.sampled_from(DESCRIBED), name=st.sampled_from(OBJECTS))
    def redescribe(self, client: str, name: str) -> None:
        """A member stays a member while its description changes, which single steps seldom reach."""
        self.register_query(client, "NAME STARTS WITH 'o'")
        if self.devices[client].session is None:
            self.connect(client, GATEWAY, leaves=False)
        self.come_to_rest()
        for value in VALUES[:2]:
            self.describe(name, value, 0)
        self.step()
        for gateway in (GATEWAY, OTHER_GATEWAY):
            self.hand_over(gateway, 10_000)


class Asleep(Querying):
    """All want everything by queries from the start."""

    def __init__(self) -> None:
        super().__init__()
        for client in CLIENTS:
            for text in QUERIES[1:4]:
                self.register_query(client, text)
            self.connect(client, GATEWAY, leaves=False)
        self.come_to_rest()

    @rule(names=st.lists(st.sampled_from(OBJECTS), min_size=1, max_size=6), value=st.sampled_from(VALUES[:6]))
    def move(self, names: list[str], value: bytes) -> None:
        """Descriptions change, and all that leaves at once arrives."""
        for name in names:
            self.describe(name, value, 0)
        self.step()
        for gateway in (GATEWAY, OTHER_GATEWAY):
            self.hand_over(gateway, 10_000)


@pytest.mark.parametrize("machine", [Both, Asleep])
def test_the_promises_hold_with_queries(machine: type[Querying], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (paging, registration_requests):
        monkeypatch.setattr(module, "PAGE_BYTES_MAX", PAGE_BYTES)
    monkeypatch.setattr(sets, "CHANGES_KEPT", 2)
    machine.counted = Counter()
    # What is seldom drawn may be missing in one round, and once in millions in all of them.
    for _ in range(ROUNDS_EXAMPLES_MAX // examples(1.5)):
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples(1.5),
                stateful_step_count=40,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
        if all(machine.counted[what] for what in WHAT):
            break
    assert all(machine.counted[what] for what in WHAT), machine.counted
