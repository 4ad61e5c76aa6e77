"""Arrivals: a record's key is parsed once, and what cannot be handled or belongs elsewhere is written, once."""

from types import SimpleNamespace
from typing import Any

import pytest
from coldnotify_matcher.engine.channel_logs.message_records import MessageRecord
from coldnotify_matcher.engine.inputs.arrivals import Arrival, ArrivalKind, Door
from coldnotify_matcher.engine.objects.history import History
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.writing.outbox import EngineOutbox
from coldnotify_matcher.engine.writing.strays import Strays
from coldnotify_matcher.record_headers import HeadedObjectRecord
from coldnotify_schemas.arrival_versions import arrival_header
from coldnotify_schemas.channels import NO_HEADERS, Retention
from coldnotify_schemas.names import OBJECT_BYTES_MAX
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import InvalidRecord, parse_public_record
from coldnotify_testkit.engine_bench import DOMAIN, EPOCH, GROUP, PARTITION, PARTITIONS, PREFIX

VALUE = b'{"version":1}'


def door(replay_from: int = 0) -> tuple[Door, PartitionState, EngineOutbox]:
    state = PartitionState(PARTITION, PARTITIONS, EPOCH, registrations_max=10)
    state.replay_from = replay_from
    outbox = EngineOutbox(state)
    return Door(state, outbox, History(), Strays(state, outbox)), state, outbox


def record(key: bytes | None, value: bytes | None = VALUE, **said: Any) -> HeadedObjectRecord:
    fields = {"offset": 5, "timestamp_ms": 1, "moved": False, "traceparent": "", "since": b"", "removes": b""}
    return HeadedObjectRecord(key=key, value=value, **{"urgent": False, **fields, **said})


def elsewhere() -> bytes:
    group = next(name for name in map(str, range(99)) if partition_of(DOMAIN, name, PARTITIONS) != PARTITION)
    return f"{DOMAIN}/{group}/o".encode()


@pytest.mark.parametrize(("prefix", "kind"), [("", ArrivalKind.OBJECT), ("describe:", ArrivalKind.DESCRIPTION)])
def test_objects_and_their_descriptions_come_through_one_door(prefix: str, kind: ArrivalKind) -> None:
    arrival = Arrival(door()[0], record(f"{prefix}{PREFIX}a/b".encode()))
    assert (arrival.kind, arrival.group_key, arrival.name) == (kind, f"{DOMAIN}/{GROUP}", "a/b")
    assert (arrival.text, arrival.home, arrival.why_invalid()) == (f"{PREFIX}a/b", PARTITION, "")


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (None, "key: is missing (domain/group/object)"),
        (b"a/b", "key: b'a/b' is not domain/group/object"),
        (b"\xff", "key: is not valid UTF-8"),
        (f"{PREFIX}\xff".encode("latin-1"), "key: is not valid UTF-8"),
        (b"/b/c", "domain: "),
        (f"{PREFIX}".encode(), "object: "),
        (PREFIX.encode() + b"x" * (OBJECT_BYTES_MAX + 1), "object: "),
        (b"describe:a/b", "key: b'a/b' is not domain/group/object"),
    ],
)
def test_a_key_that_names_no_object_says_why(key: bytes | None, reason: str) -> None:
    assert Arrival(door()[0], record(key)).why_invalid().startswith(reason)


def test_a_publish_is_counted_where_it_is_at_home_once_and_not_when_it_is_written_down_again() -> None:
    the_door, state, _ = door()
    key = f"{PREFIX}a".encode()
    for one in (record(key), record(elsewhere()), record(key, since=b"1"), record(key, None), record(None)):
        Arrival(the_door, one).count()
    message = MessageRecord(Retention.DAY, f"{PREFIX}ä".encode(), b"xy", NO_HEADERS, 5, 1)
    the_door.message(message, 0).count(high=False)
    used = state.use[DOMAIN]
    assert (used.publishes, used.bytes) == (2, len(key) + len(VALUE) + len(PREFIX) + 3)


@pytest.mark.parametrize(("replay_from", "written"), [(5, 1), (6, 0)])
def test_what_a_predecessor_has_rejected_is_not_rejected_again(replay_from: int, written: int) -> None:
    the_door, state, outbox = door(replay_from)
    Arrival(the_door, record(b"x")).reject("key: is none")
    message = MessageRecord(Retention.DAY, b"x", b"", NO_HEADERS, 5, 1)
    the_door.message(message, replay_from).reject("key: is none")
    the_door.message(message, replay_from).stray(3)
    assert len(outbox.take(0).state) == 3 * written
    counted = {"rejected:key": 1, "messages_rejected:key": 1, "messages_moved": 1}
    assert state.counts == (counted if written else {})


def test_a_stray_is_moved_once_if_it_can_be_understood() -> None:
    the_door, state, outbox = door()
    Arrival(the_door, record(elsewhere())).stray(parse_public_record)
    the_door.strays.write()
    moved, tombstone = (step := outbox.take(0)).state[0], step.tombstones[0]
    assert (moved.partition != PARTITION, moved.value, tombstone.value) == (True, VALUE, None)
    for one in (record(elsewhere(), moved=True), record(elsewhere(), b"{")):
        Arrival(the_door, one).stray(parse_public_record)
    assert state.counts == {"moved": 1, "rejected:key": 1, "rejected:record": 1}


def test_a_stray_by_arrival_gets_its_version_in_its_own_partition() -> None:
    the_door, _, outbox = door()
    Arrival(the_door, record(elsewhere(), b"{}", arrival=b"")).stray(parse_public_record)
    the_door.strays.write()
    assert arrival_header() in outbox.take(0).state[0].headers


def test_a_null_of_another_partition_is_the_tombstone_of_a_stray() -> None:
    the_door, _, outbox = door(replay_from=6)
    Arrival(the_door, record(elsewhere())).stray(parse_public_record)
    Arrival(the_door, record(elsewhere(), None, offset=6)).stray(_never)
    the_door.strays.write()
    assert outbox.take(0).state == []


def _never(_: bytes) -> SimpleNamespace:
    raise InvalidRecord("record: is not looked at")
