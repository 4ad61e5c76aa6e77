"""Whatever a single record makes a handler raise: it is set aside, its partition goes on, and no other one notices."""

from collections.abc import Callable
from typing import Any

import pytest
from coldnotify_matcher.engine import Engine
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.gateways.gateways import GatewayView
from coldnotify_matcher.engine.inputs.loading import Loading
from coldnotify_matcher.engine.inputs.registering.name_registering import NameRegistering
from coldnotify_matcher.engine.objects.object_records import ObjectRecord
from coldnotify_matcher.engine.writing.client_records import ClientRecords
from coldnotify_matcher.worker import MatcherWorker
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import PLACE_HEADER, REASON_HEADER
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.core.faults import FAULTS_AT_ONCE_MAX, RETRY_FIRST_S, RETRY_MAX_S, Faults
from coldnotify_streams.core.job import Place
from coldnotify_testkit.matcher_process import (
    DOMAIN,
    GROUP,
    OTHER_GROUP,
    PARTITION,
    PARTITIONS,
    Player,
    records_of,
    registrations_of,
    worker_of,
)
from coldnotify_testkit.waiting import wait_for
from confluent_kafka.admin import AdminClient

TOPICS = TopicNames()

OTHER_PARTITION = partition_of(DOMAIN, OTHER_GROUP, PARTITIONS)
POISON = "poison"
REQUESTS, OBJECTS = TOPICS.requests, TOPICS.objects
ERROR = ValueError("by design")


class Thrown(Exception):
    """What a handler raises by design."""


# --- the policy


def note(
    faults: Faults, sure: Place | None = None, suspect: Place | str | None = None, at_s: float = 0.0, reached: int = 9
) -> float:
    positions = {REQUESTS: reached, OBJECTS: reached}
    return faults.note(ERROR, sure=sure, suspect=suspect, positions=positions, now_s=at_s)


def test_the_record_that_was_being_handled_is_set_aside_at_once() -> None:
    faults = Faults()

    assert note(faults, sure=(REQUESTS, 3), suspect="d/g/c") == 0

    assert faults.records == {(REQUESTS, 3): "handling it raised ValueError: by design"}
    assert (faults.stored, faults.careful) == ({}, False)


def test_after_a_failed_step_each_of_its_records_is_a_step_of_its_own() -> None:
    faults = Faults()
    assert note(faults, suspect="d/g/c") == 0
    assert (faults.records, faults.stored, faults.careful) == ({}, {}, True)

    faults.reached({REQUESTS: 8, OBJECTS: 9})
    assert faults.careful
    note(faults, sure=(REQUESTS, 8), suspect="d/g/c")
    assert list(faults.records) == [(REQUESTS, 8)]
    faults.reached({REQUESTS: 9, OBJECTS: 9})

    assert not faults.careful


@pytest.mark.parametrize("suspect", ["d/g/c", (OBJECTS, 4)])
def test_a_careful_step_that_fails_without_a_record_blames_the_loaded_state(suspect: Place | str) -> None:
    faults = Faults()
    for _ in range(2):
        assert note(faults, suspect=suspect) == 0

    assert [*faults.records, *faults.stored] == [suspect]


def test_the_wait_grows_while_nothing_can_be_blamed() -> None:
    faults = Faults()
    note(faults)

    waits = [note(faults) for _ in range(8)]

    assert waits[:3] == [RETRY_FIRST_S, 2 * RETRY_FIRST_S, 4 * RETRY_FIRST_S]
    assert waits[-1] == RETRY_MAX_S
    faults.reached({REQUESTS: 9, OBJECTS: 9})
    note(faults)
    assert note(faults) == RETRY_FIRST_S


def test_a_record_that_is_set_aside_and_fails_all_the_same_is_not_set_aside_for_ever() -> None:
    faults = Faults()
    waits = [note(faults, sure=(REQUESTS, 3)) for _ in range(4)]

    assert waits == [0, 0, RETRY_FIRST_S, 2 * RETRY_FIRST_S]


def test_one_record_after_the_other_makes_the_partition_wait_between() -> None:
    faults = Faults()
    waits = [note(faults, sure=(REQUESTS, n), at_s=n) for n in range(FAULTS_AT_ONCE_MAX + 2)]

    assert waits[:FAULTS_AT_ONCE_MAX] == [0] * FAULTS_AT_ONCE_MAX
    assert all(waits[FAULTS_AT_ONCE_MAX:])
    assert note(faults, sure=(OBJECTS, 1), at_s=1000.0) == 0


# --- over a real Kafka


def generation(worker: MatcherWorker, number: int) -> int:
    with worker.lock:
        one = worker.partitions.get(number)
        return one.engine.state.generation if one is not None else 0


def rejected(bootstrap: str) -> list[tuple[bytes | None, str, str]]:
    """(key, place, reason) of each."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    size = len(admin.list_topics(TOPICS.rejected, timeout=60).topics[TOPICS.rejected].partitions)
    found = [one for n in range(size) for one in records_of(bootstrap, TOPICS.rejected, n)]
    return [(key, h[PLACE_HEADER].decode(), h[REASON_HEADER].decode()) for key, _, h in found]


def in_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """The publish itself."""
    on_object = Engine.on_object

    def raising(self: Engine, record: ObjectRecord, now_ms: int) -> None:
        on_object(self, record, now_ms)
        if record.key is not None and record.key.endswith(POISON.encode()):
            raise Thrown

    monkeypatch.setattr(Engine, "on_object", raising)


def in_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Register, half done."""
    register = NameRegistering.register

    def raising(
        self: NameRegistering, offset: int, client: RegisteredClient, session: EngineSession, names: Any
    ) -> Any:
        names = list(names)
        done = register(self, offset, client, session, names)
        if POISON in names:
            raise Thrown
        return done

    monkeypatch.setattr(NameRegistering, "register", raising)


def in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows which record: what the Register led to cannot be written."""
    write = ClientRecords._write

    def raising(self: ClientRecords, client: RegisteredClient, now_ms: int) -> None:
        if any(obj.name == POISON for obj in client.objects()):
            raise Thrown
        write(self, client, now_ms)

    monkeypatch.setattr(ClientRecords, "_write", raising)


def in_produce(monkeypatch: pytest.MonkeyPatch) -> None:
    """An inbox record that Kafka's client refuses: its partition is no C integer."""
    take_records = GatewayView.take_records

    def raising(self: GatewayView, *about: int) -> list[tuple[int, internal_pb2.Inbox]]:
        records = take_records(self, *about)
        bad = any(new.name == POISON for _, r in records for item in r.items for new in item.answered.newest)
        return [(1 << 40, record) for _, record in records] if bad else records

    monkeypatch.setattr(GatewayView, "take_records", raising)


def in_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """An inbox record that is larger than Kafka takes."""
    take_records = GatewayView.take_records

    def growing(self: GatewayView, *about: int) -> list[tuple[int, internal_pb2.Inbox]]:
        records = take_records(self, *about)
        for _, record in records:
            for item in record.items:
                if any(new.name == POISON for new in item.answered.newest):
                    item.answered.refused.add(object="x" * 1_500_000)
        return records

    monkeypatch.setattr(GatewayView, "take_records", growing)


@pytest.mark.kafka
@pytest.mark.parametrize("plant", [in_object, in_request, in_step, in_produce, in_kafka])
def test_a_record_that_makes_its_handler_raise_is_set_aside_and_nobody_else_notices(
    bootstrap: str, player: Player, monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    plant(monkeypatch)
    with worker_of(bootstrap) as worker:
        player.open("camera")
        player.open("camera", session=2, group=OTHER_GROUP)
        player.wait_opened()
        player.wait_opened(2)
        others = generation(worker, OTHER_PARTITION)
        topic = OBJECTS if plant is in_object else REQUESTS

        if plant is in_object:
            player.version(POISON, 1)
        else:
            player.request(register=internal_pb2.Request().register.__class__(request=1, objects=[POISON]))
        player.version("camera", 7)
        player.version("camera", 8, group=OTHER_GROUP)

        player.wait(lambda _: player.told("camera").count(7) and player.told("camera").count(8), "both are served")
        wait_for(lambda: rejected(bootstrap), "the record set aside")
        (found,) = rejected(bootstrap)
        assert found[1].startswith(f"{topic}/{PARTITION}@")
        assert "raised" in found[2]
        assert generation(worker, OTHER_PARTITION) == others, "no other partition was loaded anew"
        assert 1 < generation(worker, PARTITION) <= 4
        assert worker.readiness() is None
        # A session of before is known, and so is one that comes now.
        player.open("camera", session=3, client="client-3")
        player.wait_opened(3)


@pytest.mark.kafka
def test_stored_state_that_cannot_be_handled_is_set_aside_and_its_client_registers_again(
    bootstrap: str, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    with worker_of(bootstrap):
        player.open("camera", client=POISON)
        player.wait_opened()
        player.open("camera", session=2)
        player.wait_opened(2)

    def raising(self: Loading, key: str, *more: Any, **others: Any) -> None:
        if POISON in key:
            raise Thrown
        load_registrations(self, key, *more, **others)

    load_registrations = Loading.load_registrations
    monkeypatch.setattr(Loading, "load_registrations", raising)
    with worker_of(bootstrap) as worker:
        wait_for(lambda: generation(worker, PARTITION) > 1, "the partition served")
        wait_for(lambda: rejected(bootstrap), "the client set aside")
        assert {key for key, _, _ in rejected(bootstrap)} == {
            f"{DOMAIN}/{GROUP}/{POISON}/0".encode(),
            f"{DOMAIN}/{GROUP}/{POISON}".encode(),
        }
        wait_for(lambda: f"{DOMAIN}/{GROUP}/{POISON}/0" not in registrations_of(bootstrap, PARTITION), "its end")
        with worker.lock:
            assert f"{DOMAIN}/{GROUP}/client-1" in worker.partitions[PARTITION].engine.state.clients
    monkeypatch.undo()
    with worker_of(bootstrap):
        player.open("camera", session=5, client=POISON)
        player.wait_opened(5)
        assert len(rejected(bootstrap)) == 2, "a clean start finds nothing any more"
