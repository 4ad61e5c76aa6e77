"""The consumers' threads: everything of a consumer in its own thread, nothing lost on a full queue, a clean end."""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from coldnotify_common.kafka.kafka_clients import KafkaUnavailable, consumer_config
from coldnotify_common.kafka.record_consumer import RecordConsumer
from coldnotify_common.settings import ServiceSettings
from coldnotify_matcher.record_headers import HeadersReader, SaidByHeaders
from coldnotify_matcher.run_topics import topics_of
from coldnotify_schemas.records import MOVED_HEADER
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.core.events import (
    Assigned,
    Began,
    Event,
    JobRecord,
    PartitionsRevoked,
    ReaderFailed,
    Records,
    UnreadableOffsets,
)
from coldnotify_streams.errors import RunFailure
from coldnotify_streams.readers import (
    RECORD_BYTES_MAX,
    REVOKE_TIMEOUT_S,
    LaneReader,
    RequestsReader,
    Revocation,
    begin_reading,
    hold_back,
    stop_reading,
)
from coldnotify_testkit import record_batches
from coldnotify_testkit.record_batches import Batch, Codec, bomb
from coldnotify_testkit.unreadable_batches import NO_UTF_8, loud, write
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

TOPICS = TopicNames()
JOB_TOPICS = topics_of(TOPICS)
headers_of = HeadersReader(TOPICS)

pytestmark = pytest.mark.kafka
PARTITIONS = 8
GROUP = "coldnotify-matcher"


@pytest.fixture
def start(bootstrap: str) -> Iterator[Callable[[LaneReader], LaneReader]]:
    started: list[LaneReader] = []

    def start(reader: LaneReader) -> LaneReader:
        started.append(reader)
        reader.start()
        return reader

    yield start
    for reader in started:
        reader.stop()
    for reader in started:
        reader.join(60)
        assert not reader.is_alive()


def reader(bootstrap: str, events: "queue.Queue[Event]") -> LaneReader:
    config = consumer_config(ServiceSettings(kafka=bootstrap), "state", enable_partition_eof=True)
    return LaneReader("compacted-reader", config, events, read_headers=headers_of)


def requests_reader(
    bootstrap: str,
    events: "queue.Queue[Event]",
    member: str = "a",
    check_topics: Callable[[], None] = lambda: None,
) -> RequestsReader:
    config = consumer_config(
        ServiceSettings(kafka=bootstrap),
        GROUP,
        group_instance_id=member,
        session_timeout_ms=6000,
        heartbeat_interval_ms=500,
        partition_assignment_strategy="cooperative-sticky",
    )
    return RequestsReader(config, events, AdminClient({"bootstrap.servers": bootstrap}), JOB_TOPICS, check_topics)


def produce(bootstrap: str, topic: str, *values: bytes | None, partition: int = 0, **more: object) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value, b"key", partition, **more)  # type: ignore[arg-type]
    assert producer.flush(60) == 0


def read(events: "queue.Queue[Event]", until: Callable[[JobRecord], object]) -> list[JobRecord]:
    """Records up to one for which `until` holds."""
    seen: list[JobRecord] = []
    while not (seen and until(seen[-1])):
        event = events.get(timeout=90)
        assert isinstance(event, Records), event
        seen += event.records
    return seen


def begin(one: LaneReader, partition: int, offset: int = 0) -> None:
    where = [TopicPartition(TOPICS.objects, partition, offset)]
    one.do(lambda consumer: consumer.incremental_assign(where))


def test_partitions_that_come_together_are_assigned_at_once_and_in_order_with_all_else(
    bootstrap: str, start: Callable[[LaneReader], LaneReader]
) -> None:
    """A fetch that has begun with the first of them is waited for by the others."""
    events: queue.Queue[Event] = queue.Queue()
    done: list[object] = []

    class Noting(RecordConsumer):
        def incremental_assign(self, partitions: list[TopicPartition]) -> None:
            done.append([tp.partition for tp in partitions])
            super().incremental_assign(partitions)

    one = reader(bootstrap, events)
    one.consumer.close()
    one.consumer = Noting(consumer_config(ServiceSettings(kafka=bootstrap), "state"))
    for number in (0, 1, 2):
        begin_reading(one, number, {TOPICS.registrations: 0, TOPICS.sessions: 0}, Began(number))
    one.do(lambda _: done.append("else"))
    begin_reading(one, 3, {TOPICS.registrations: 0}, Began(3))
    start(one)
    said = [events.get(timeout=60) for _ in range(4)]
    assert said == [Began(0), Began(1), Began(2), Began(3)]
    assert done == [[0, 0, 1, 1, 2, 2], "else", [3]]


def test_records_and_ends_come_in_order(bootstrap: str, start: Callable[[LaneReader], LaneReader]) -> None:
    events: queue.Queue[Event] = queue.Queue()
    produce(bootstrap, TOPICS.objects, b"a", None, b"c", timestamp=7, headers={MOVED_HEADER: b"1@2"})
    begin(start(reader(bootstrap, events)), 0)

    seen = read(events, lambda record: record.end)

    assert [(record.offset, record.value) for record in seen[:-1]] == [(0, b"a"), (1, None), (2, b"c")]
    assert seen[-1] == JobRecord(TOPICS.objects, 0, 3, end=True)
    assert seen[0] == JobRecord(TOPICS.objects, 0, 0, False, b"key", b"a", 7, SaidByHeaders(moved=True))


def test_unreadable_offsets_are_events_in_order_and_huge_values_are_truncated(
    bootstrap: str, start: Callable[[LaneReader], LaneReader]
) -> None:
    events: queue.Queue[Event] = queue.Queue()
    named = Batch([record_batches.BatchRecord(b"key", b"c", [NO_UTF_8])])
    write(bootstrap, TOPICS.objects, 0, [Batch(), loud(2), named, bomb(Codec.LZ4, 3)])
    begin(start(reader(bootstrap, events)), 0)

    seen: list[Event] = []
    while not (seen and isinstance(seen[-1], Records) and seen[-1].records[-1].end):
        seen.append(events.get(timeout=90))
    (gap,) = [event for event in seen if isinstance(event, UnreadableOffsets)]
    assert (gap.topic, gap.partition, gap.start, gap.next) == (TOPICS.objects, 0, 1, 3)
    before, *_, behind = [event for event in seen if isinstance(event, Records)]
    assert seen.index(before) < seen.index(gap) < seen.index(behind)
    _, named_record, huge, _ = [record for event in seen if isinstance(event, Records) for record in event.records]
    assert (named_record.offset, named_record.said) == (3, "headers: a name is not UTF-8")
    assert (huge.offset, len(huge.value or b"")) == (4, RECORD_BYTES_MAX)


def test_a_full_queue_loses_nothing(bootstrap: str, start: Callable[[LaneReader], LaneReader]) -> None:
    events: queue.Queue[Event] = queue.Queue(1)
    produce(bootstrap, TOPICS.objects, *(b"%d" % i for i in range(5000)))
    begin(start(reader(bootstrap, events)), 0)
    wait_for(events.full, "a full queue")

    seen = read(events, lambda record: record.end)

    assert [record.value for record in seen[:-1]] == [b"%d" % i for i in range(5000)]


def test_records_held_back_of_one_partition_come_later_and_others_meanwhile(
    bootstrap: str, start: Callable[[LaneReader], LaneReader]
) -> None:
    events: queue.Queue[Event] = queue.Queue()
    one = start(reader(bootstrap, events))
    for number in (0, 1):
        produce(bootstrap, TOPICS.objects, b"1", partition=number)
        begin_reading(one, number, {TOPICS.objects: 0}, Began(number))
    seen: set[tuple[int, int]] = set()

    def sees(*wanted: tuple[int, int]) -> None:
        while not seen.issuperset(wanted):
            event = events.get(timeout=90)
            if isinstance(event, Records):
                seen.update((record.partition, record.offset) for record in event.records if not record.end)

    sees((0, 0), (1, 0))
    paused = threading.Event()
    hold_back(one, 0, [TOPICS.objects], on=False)
    one.do(lambda _: paused.set())
    assert paused.wait(60)
    produce(bootstrap, TOPICS.objects, b"2", b"3", partition=0)
    produce(bootstrap, TOPICS.objects, b"2", partition=1)
    sees((1, 1))
    produce(bootstrap, TOPICS.objects, b"3", partition=1)
    sees((1, 2))
    assert not {(0, 1), (0, 2)} & seen
    hold_back(one, 0, [TOPICS.objects], on=True)
    sees((0, 1), (0, 2))
    hold_back(one, 0, [TOPICS.objects], on=False)
    hold_back(one, 0, [TOPICS.objects], on=True)
    stop_reading(one, 0, [TOPICS.objects])
    begin_reading(one, 0, {TOPICS.objects: 0}, Began(0))
    seen.clear()
    sees((0, 0), (0, 1), (0, 2))  # a partition that comes again is not held back


def test_an_event_put_after_an_assignment_precedes_its_records(
    bootstrap: str, start: Callable[[LaneReader], LaneReader]
) -> None:
    events: queue.Queue[Event] = queue.Queue()
    produce(bootstrap, TOPICS.objects, b"a", b"b")
    one = start(reader(bootstrap, events))
    begin(one, 0)
    read(events, lambda record: record.end)
    where = [TopicPartition(TOPICS.objects, 0, 0)]
    one.do(lambda consumer: consumer.incremental_unassign(where))
    one.do(lambda consumer: consumer.incremental_assign(where))
    one.do(lambda _consumer: one.put(Began(0)))

    assert events.get(timeout=90) == Began(0)
    assert [record.offset for record in read(events, lambda record: record.end)] == [0, 1, 2]


def test_a_failed_action_ends_the_reader_with_the_reason(
    bootstrap: str, start: Callable[[LaneReader], LaneReader]
) -> None:
    events: queue.Queue[Event] = queue.Queue()
    one = start(reader(bootstrap, events))
    one.do(lambda consumer: consumer.seek(TopicPartition(TOPICS.objects, 0, 0)))  # it is not assigned

    event = events.get(timeout=90)

    assert isinstance(event, ReaderFailed)
    assert isinstance(event.error, KafkaException)


def test_an_offset_that_does_not_exist_is_an_error_never_a_jump(
    bootstrap: str, start: Callable[[LaneReader], LaneReader]
) -> None:
    events: queue.Queue[Event] = queue.Queue()
    produce(bootstrap, TOPICS.objects, b"a")
    begin(start(reader(bootstrap, events)), 0, offset=50)

    assert isinstance(events.get(timeout=90), ReaderFailed)


def test_a_reader_stops_even_if_its_queue_is_full(bootstrap: str) -> None:
    events: queue.Queue[Event] = queue.Queue(1)
    produce(bootstrap, TOPICS.objects, *(b"x" for _ in range(3000)))
    one = reader(bootstrap, events)
    one.start()
    begin(one, 0)
    wait_for(events.full, "a full queue")

    one.stop()
    one.join(60)

    assert not one.is_alive()


# --- requests


def assignments(events: "queue.Queue[Event]", count: int) -> dict[int, Assigned]:
    found: dict[int, Assigned] = {}
    while len(found) < count:
        event = events.get(timeout=90)
        assert isinstance(event, Assigned), event
        found[event.partition] = event
    return found


def test_requests_of_a_partition_wait_until_it_is_served(
    bootstrap: str, start: Callable[[LaneReader], LaneReader]
) -> None:
    events: queue.Queue[Event] = queue.Queue()
    produce(bootstrap, TOPICS.requests, b"a", b"b")
    one = requests_reader(bootstrap, events)
    start(one)
    assigned = assignments(events, PARTITIONS)
    takeover = assigned[0].takeover
    assert (takeover.requests_start, takeover.table_committed) == (0, None)
    with pytest.raises(queue.Empty):
        events.get(timeout=1)

    one.serve(0, from_beginning=False)

    assert [record.value for record in read(events, lambda record: record.offset == 1)] == [b"a", b"b"]


def test_records_held_back_come_later_and_none_is_lost(
    bootstrap: str, start: Callable[[LaneReader], LaneReader]
) -> None:
    events: queue.Queue[Event] = queue.Queue()
    produce(bootstrap, TOPICS.requests, b"a", b"b")
    one = requests_reader(bootstrap, events)
    start(one)
    assignments(events, PARTITIONS)
    one.serve(0, from_beginning=False)
    one.serve(1, from_beginning=False)
    read(events, lambda record: record.offset == 1)

    one.hold_back(0)
    done = threading.Event()
    one.do(lambda _consumer: done.set())
    assert done.wait(60)
    produce(bootstrap, TOPICS.requests, b"c", b"d")
    produce(bootstrap, TOPICS.requests, b"other", partition=1)
    assert [record.value for record in read(events, lambda _: True)] == [b"other"]
    with pytest.raises(queue.Empty):
        events.get(timeout=1)
    one.serve(0, from_beginning=False)

    assert [record.value for record in read(events, lambda record: record.offset == 3)] == [b"c", b"d"]


def test_it_begins_where_the_group_had_committed(
    bootstrap: str, start: Callable[[LaneReader], LaneReader], tmp_path: Path
) -> None:
    produce(bootstrap, TOPICS.requests, b"a", b"b")
    produce(bootstrap, TOPICS.objects, b"x", b"y", b"z")
    first: queue.Queue[Event] = queue.Queue()
    one = requests_reader(bootstrap, first)
    one.start()
    assignments(first, PARTITIONS)
    one.final_offsets = [
        TopicPartition(TOPICS.requests, 0, 1, metadata="requests-id"),
        TopicPartition(TOPICS.objects, 0, 2, metadata="objects-id"),
        # Of topics that were made anew since:
        TopicPartition(TOPICS.requests, 2, 0, metadata="other-requests"),
        TopicPartition(TOPICS.objects, 2, 0, metadata="other-objects"),
        # Of an epoch that an operator has ended since:
        TopicPartition(TOPICS.objects, 3, 0, metadata="objects-id/0000beef"),
    ]
    one.stop()
    one.join(60)

    events: queue.Queue[Event] = queue.Queue()
    two = requests_reader(bootstrap, events)
    two.marks = {TOPICS.requests: "requests-id", TOPICS.objects: "objects-id"}
    start(two)
    assigned = assignments(events, PARTITIONS)

    of_0, of_1, of_2, of_3 = (assigned[number].takeover for number in range(4))
    assert (of_3.table_committed, of_3.table_in_epoch) == (0, False)
    assert of_0.table_in_epoch
    assert (of_0.requests_start, of_0.table_committed, of_0.requests_committed) == (1, 2, True)
    assert (of_1.requests_start, of_1.table_committed, of_1.requests_committed) == (0, None, False)
    assert (of_2.requests_start, of_2.table_committed, of_2.requests_committed) == (0, None, False)
    two.serve(0, from_beginning=False)
    assert [record.value for record in read(events, lambda _: True)] == [b"b"]


def test_a_commit_beyond_the_topics_end_is_ignored(bootstrap: str, start: Callable[[LaneReader], LaneReader]) -> None:
    first: queue.Queue[Event] = queue.Queue()
    one = requests_reader(bootstrap, first)
    one.start()
    assignments(first, PARTITIONS)
    one.final_offsets = [TopicPartition(TOPICS.requests, 0, 70), TopicPartition(TOPICS.objects, 0, 70)]
    one.stop()
    one.join(60)

    events: queue.Queue[Event] = queue.Queue()
    start(requests_reader(bootstrap, events))

    assigned = assignments(events, PARTITIONS)
    takeover = assigned[0].takeover
    assert (takeover.requests_start, takeover.table_committed) == (0, None)


def test_without_a_commit_it_begins_at_the_start(bootstrap: str, start: Callable[[LaneReader], LaneReader]) -> None:
    events: queue.Queue[Event] = queue.Queue()
    produce(bootstrap, TOPICS.requests, b"a", b"b")
    one = requests_reader(bootstrap, events)
    start(one)
    assignments(events, PARTITIONS)
    one.serve(0, from_beginning=True)

    assert [record.value for record in read(events, lambda record: record.offset == 1)] == [b"a", b"b"]


def test_a_recreated_topic_ends_the_reader_before_it_begins(
    bootstrap: str, start: Callable[[LaneReader], LaneReader]
) -> None:
    produce(bootstrap, TOPICS.requests, b"a")

    def others() -> None:
        raise RunFailure("a topic was recreated")

    events: queue.Queue[Event] = queue.Queue()
    start(requests_reader(bootstrap, events, check_topics=others))
    event = events.get(timeout=60)
    assert isinstance(event, ReaderFailed)
    assert isinstance(event.error, RunFailure)


def test_partitions_go_only_once_their_work_is_committed(
    bootstrap: str, start: Callable[[LaneReader], LaneReader]
) -> None:
    events: queue.Queue[Event] = queue.Queue()
    produce(bootstrap, TOPICS.requests, *(b"x" for _ in range(5)), partition=0)
    one = requests_reader(bootstrap, events)
    start(one)
    assignments(events, PARTITIONS)
    others: queue.Queue[Event] = queue.Queue()
    start(requests_reader(bootstrap, others, "b"))

    revoked = events.get(timeout=90)
    assert isinstance(revoked, Revocation)
    assert not revoked.lost
    assert len(revoked.partitions) == PARTITIONS // 2
    assert others.empty(), "they are not the other's before they are given up"
    number = revoked.partitions[0]
    produce(bootstrap, TOPICS.requests, *(b"x" for _ in range(5)), partition=number)
    revoked.let_go([TopicPartition(TOPICS.requests, number, 3)])

    assigned = assignments(others, len(revoked.partitions))
    assert assigned[number].takeover.requests_start == 3
    wait_for(lambda: one.assigned is not None and number not in one.assigned, "its own view")
    one.serve(number, from_beginning=True)  # too late: it does nothing, and ends nothing
    one.commit_soon([TopicPartition(TOPICS.requests, number, 1)])
    done = threading.Event()
    one.do(lambda _consumer: done.set())
    assert done.wait(60)
    assert one.is_alive()


def test_it_stops_even_if_revoked_work_is_never_finished(
    bootstrap: str, start: Callable[[LaneReader], LaneReader]
) -> None:
    events: queue.Queue[Event] = queue.Queue()
    one = requests_reader(bootstrap, events)
    one.start()
    assignments(events, PARTITIONS)
    start(requests_reader(bootstrap, queue.Queue(), "b"))
    assert isinstance(events.get(timeout=90), PartitionsRevoked)

    started_s = time.monotonic()
    one.stop()
    one.join(60)

    assert not one.is_alive()
    assert time.monotonic() - started_s < REVOKE_TIMEOUT_S / 2


def test_a_reader_without_a_start_offset_reports_why(bootstrap: str, start: Callable[[LaneReader], LaneReader]) -> None:
    events: queue.Queue[Event] = queue.Queue()
    one = requests_reader(bootstrap, events)

    def lost(consumer: Consumer, partitions: list[int]) -> list[Assigned]:
        raise KafkaUnavailable("Kafka does not say where partitions end")

    one._positions = lost  # type: ignore[method-assign]
    start(one)

    event = events.get(timeout=90)
    assert isinstance(event, ReaderFailed)
    assert isinstance(event.error, KafkaUnavailable)
    with pytest.raises(queue.Empty):
        events.get(timeout=2)
