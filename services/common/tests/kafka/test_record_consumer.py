"""A consumer that no record stops: gaps come in their place, all other partitions are read on, nothing is lost."""

import threading
import time
from collections.abc import Iterator
from typing import ClassVar

import pytest
from coldnotify_common.kafka.kafka_clients import consumer_config
from coldnotify_common.kafka.record_consumer import Gap, RecordConsumer, _Place
from coldnotify_common.kafka.unreadable_offsets import SEARCH_S_MAX, GapSearch
from coldnotify_common.settings import ServiceSettings
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.record_batches import Batch
from coldnotify_testkit.unreadable_batches import loud, misplaced, silent, write
from coldnotify_testkit.waiting import WAIT_S, wait_for
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

TOPICS = TopicNames()

pytestmark = pytest.mark.kafka
TOPIC = TOPICS.channels_1d
GOOD = Batch()
Seen = tuple[int, int, int]
"""Partition, first offset, offset behind."""


@pytest.fixture
def consumer(fresh_kafka: EmbeddedBroker) -> Iterator[RecordConsumer]:
    settings = ServiceSettings(kafka=fresh_kafka.bootstrap)
    one = RecordConsumer(consumer_config(settings, "reads", enable_partition_eof=True, fetch_wait_max_ms=50))
    yield one
    one.close()


def read(consumer: RecordConsumer, ends: dict[int, int]) -> tuple[list[Seen], list[Seen]]:
    """Records, and gaps, until each partition is read to its end. Gaps that touch are one: how many, answers decide."""
    records: list[Seen] = []
    gaps: list[Seen] = []
    left = dict(ends)
    deadline_s = time.monotonic() + WAIT_S
    while left:
        assert time.monotonic() < deadline_s, (records, gaps, left)
        for one in consumer.read(0.1, 100):
            if isinstance(one, Gap):
                touches = bool(gaps) and gaps[-1][0] == one.partition and gaps[-1][2] == one.start
                start = gaps.pop()[1] if touches else one.start
                gaps.append((one.partition, start, one.next))
            elif (end := end_of(one)) is not None:
                assert one.partition() is not None
                if end >= left.get(one.partition() or 0, 1 << 60):
                    del left[one.partition() or 0]
            else:
                records.append((one.partition() or 0, one.offset() or 0, (one.offset() or 0) + 1))
    return records, gaps


def end_of(message: Message) -> int | None:
    error = message.error()
    if error is None:
        return None
    assert error.code() == KafkaError._PARTITION_EOF, error
    return message.offset()


@pytest.mark.parametrize("begin", [0, OFFSET_BEGINNING], ids=["at an offset", "at the beginning"])
@pytest.mark.parametrize(
    "bad",
    [loud(), silent(), misplaced(2), misplaced(100), misplaced((1 << 31) - 1)],
    ids=["an error", "silence", "another's offset", "no offset yet", "no offset for long"],
)
def test_gaps_stand_where_records_cannot_be_read_and_all_others_are_read_once(
    fresh_kafka: EmbeddedBroker, consumer: RecordConsumer, bad: Batch, begin: int
) -> None:
    write(fresh_kafka.bootstrap, TOPIC, 1, [bad, GOOD, GOOD, bad, bad, GOOD, bad])
    write(fresh_kafka.bootstrap, TOPIC, 2, [GOOD, GOOD])
    consumer.assign([TopicPartition(TOPIC, 1, begin), TopicPartition(TOPIC, 2, begin)])
    records, gaps = read(consumer, {1: 7, 2: 2})
    assert sorted(records) == [(1, 1, 2), (1, 2, 3), (1, 5, 6), (2, 0, 1), (2, 1, 2)]
    assert gaps == [(1, 0, 1), (1, 3, 5), (1, 6, 7)]


class NeverClosed(Consumer):
    """Its `close` hangs, as librdkafka's does if Kafka answers "offset out of range" meanwhile."""

    over = threading.Event()

    def close(self) -> None:
        self.over.wait(WAIT_S)
        super().close()


def test_a_search_that_does_not_close_holds_up_no_reading(
    fresh_kafka: EmbeddedBroker, consumer: RecordConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coldnotify_common.kafka.unreadable_offsets.Consumer", NeverClosed)
    monkeypatch.setattr("coldnotify_common.kafka.consumer_close.CLOSE_S_MAX", 0.1)
    write(fresh_kafka.bootstrap, TOPIC, 1, [misplaced(2), GOOD, GOOD, misplaced(2), GOOD])
    consumer.assign([TopicPartition(TOPIC, 1, 0)])
    try:
        assert read(consumer, {1: 5}) == ([(1, 1, 2), (1, 2, 3), (1, 4, 5)], [(1, 0, 1), (1, 3, 4)])
    finally:
        NeverClosed.over.set()


class SlowSearch(GapSearch):
    """Answers nothing within a short limit, as on a machine that is overloaded."""

    limits_s: ClassVar[list[float]] = []

    def find(self, topic: str, partition: int, start: int, limit_s: float = SEARCH_S_MAX) -> Gap | None:
        self.limits_s.append(limit_s)
        return super().find(topic, partition, start, limit_s) if limit_s > 3 * SEARCH_S_MAX else None


def test_a_search_that_had_too_little_time_gets_more(
    fresh_kafka: EmbeddedBroker, consumer: RecordConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coldnotify_common.kafka.record_consumer.GapSearch", SlowSearch)
    monkeypatch.setattr(SlowSearch, "limits_s", [])
    write(fresh_kafka.bootstrap, TOPIC, 1, [misplaced(1), GOOD])
    consumer.assign([TopicPartition(TOPIC, 1, 0)])
    assert read(consumer, {1: 2}) == ([(1, 1, 2)], [(1, 0, 1)])
    assert SlowSearch.limits_s[:3] == [SEARCH_S_MAX, 2 * SEARCH_S_MAX, 4 * SEARCH_S_MAX]


@pytest.mark.parametrize("by", [-1, -2, -4])
def test_who_says_a_lower_offset_than_its_own_takes_nothing_with_it(
    fresh_kafka: EmbeddedBroker, consumer: RecordConsumer, by: int
) -> None:
    write(fresh_kafka.bootstrap, TOPIC, 1, [GOOD, GOOD, GOOD, GOOD, misplaced(by), GOOD])
    consumer.assign([TopicPartition(TOPIC, 1, 0)])
    assert read(consumer, {1: 6}) == ([(1, offset, offset + 1) for offset in (0, 1, 2, 3, 5)], [])


def test_who_says_the_offset_of_a_hole_is_the_one_that_is_not_believed(
    fresh_kafka: EmbeddedBroker, consumer: RecordConsumer
) -> None:
    """It may also be the record in between that says what it is not: that is looked at, and once only."""
    write(fresh_kafka.bootstrap, TOPIC, 1, [GOOD])
    producer = Producer({"bootstrap.servers": fresh_kafka.bootstrap, "transactional.id": "a-back-end"})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for _ in range(2):
        producer.produce(TOPIC, b"x", b"d/g/c", partition=1)
    assert producer.flush(WAIT_S) == 0
    producer.abort_transaction(WAIT_S)
    place = TopicPartition(TOPIC, 1)
    wait_for(lambda: consumer.get_watermark_offsets(place, WAIT_S)[1] == 4, "the marker behind it")
    write(fresh_kafka.bootstrap, TOPIC, 1, [GOOD, misplaced(-3), GOOD])
    consumer.assign([TopicPartition(TOPIC, 1, 0)])
    assert read(consumer, {1: 7}) == ([(1, 0, 1), (1, 4, 5), (1, 6, 7)], [])


@pytest.mark.parametrize(
    "bad", [loud(), silent(), misplaced(1), misplaced(100)], ids=["an error", "silence", "the next offset", "no offset"]
)
def test_what_is_written_later_is_read_behind_it_and_other_partitions_meanwhile(
    fresh_kafka: EmbeddedBroker, consumer: RecordConsumer, bad: Batch
) -> None:
    consumer.assign([TopicPartition(TOPIC, 1, 0), TopicPartition(TOPIC, 2, 0)])
    assert read(consumer, {1: 0, 2: 0}) == ([], [])
    write(fresh_kafka.bootstrap, TOPIC, 1, [bad])
    write(fresh_kafka.bootstrap, TOPIC, 2, [GOOD])
    seen = [one for one in read_until_records(consumer, 1) if not isinstance(one, Gap)]
    assert [(one.partition(), one.offset()) for one in seen] == [(2, 0)], "before anybody knows what is wrong with 1"
    write(fresh_kafka.bootstrap, TOPIC, 1, [GOOD])
    assert read(consumer, {1: 2}) == ([(1, 1, 2)], [(1, 0, 1)])


def read_until_records(consumer: RecordConsumer, count: int) -> list[Message | Gap]:
    found: list[Message | Gap] = []
    deadline_s = time.monotonic() + WAIT_S
    while len(found) < count:
        assert time.monotonic() < deadline_s
        found += [one for one in consumer.read(0.1, 100) if isinstance(one, Gap) or one.error() is None]
    return found


def test_a_transaction_that_is_open_is_waited_for_and_not_skipped(
    fresh_kafka: EmbeddedBroker, consumer: RecordConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka has more of the partition, too, and nothing comes."""
    monkeypatch.setattr("coldnotify_common.kafka.record_consumer.STALL_S", 0.1)
    looks: list[int] = []
    search = RecordConsumer._run_search

    def noted(self: RecordConsumer, where: tuple[str, int], place: object, start: int) -> None:
        search(self, where, place, start)  # type: ignore[arg-type]
        looks.append(start)

    monkeypatch.setattr(RecordConsumer, "_run_search", noted)
    producer = Producer({"bootstrap.servers": fresh_kafka.bootstrap, "transactional.id": "a-back-end"})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(TOPIC, b"x", b"d/g/c", partition=1)
    assert producer.flush(WAIT_S) == 0
    consumer.assign([TopicPartition(TOPIC, 1, 0)])
    deadline_s = time.monotonic() + WAIT_S
    while not looks:
        assert time.monotonic() < deadline_s, "it is looked at"
        assert not [one for one in consumer.read(0.05, 10) if isinstance(one, Gap) or one.error() is None]
    producer.commit_transaction(WAIT_S)
    assert read(consumer, {1: 2}) == ([(1, 0, 1)], [])


def test_what_is_paused_or_given_up_is_not_looked_at(
    fresh_kafka: EmbeddedBroker, consumer: RecordConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coldnotify_common.kafka.record_consumer.STALL_S", 0.1)
    write(fresh_kafka.bootstrap, TOPIC, 1, [loud(), GOOD])
    where = [TopicPartition(TOPIC, 1, 0)]
    consumer.incremental_assign(where)
    consumer.pause(where)
    until_s = time.monotonic() + 1
    while time.monotonic() < until_s:
        assert consumer.read(0.05, 10) == []
    consumer.resume(where)
    assert read(consumer, {1: 2}) == ([(1, 1, 2)], [(1, 0, 1)])
    consumer.incremental_unassign(where)
    assert consumer.read(0.05, 10) == []


def test_an_answer_that_comes_late_does_not_end_reading(fresh_kafka: EmbeddedBroker, consumer: RecordConsumer) -> None:
    """Kafka says that an offset of damaged bytes does not exist when the client has been sent elsewhere already."""
    write(fresh_kafka.bootstrap, TOPIC, 1, [GOOD])
    consumer.assign([TopicPartition(TOPIC, 1, 0)])
    assert read(consumer, {1: 1}) == ([(1, 0, 1)], [])
    Consumer.seek(consumer, TopicPartition(TOPIC, 1, 1000))
    write(fresh_kafka.bootstrap, TOPIC, 1, [GOOD])
    assert read(consumer, {1: 2}) == ([(1, 1, 2)], [])


def test_fetching_that_has_ended_without_a_word_goes_on(
    fresh_kafka: EmbeddedBroker, consumer: RecordConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client drops the error that ends it where it takes it for one of a place that it has left."""
    monkeypatch.setattr("coldnotify_common.kafka.record_consumer.STALL_S", 0.1)
    write(fresh_kafka.bootstrap, TOPIC, 1, [GOOD])
    consumer.assign([TopicPartition(TOPIC, 1, 0)])
    assert read(consumer, {1: 1}) == ([(1, 0, 1)], [])
    Consumer.seek(consumer, TopicPartition(TOPIC, 1, 1000))
    said = wait_for(lambda: consumer.poll(0.1), "the error that nobody hands on")
    assert said.error() is not None
    write(fresh_kafka.bootstrap, TOPIC, 1, [GOOD])
    assert read(consumer, {1: 2}) == ([(1, 1, 2)], [])


def test_fetching_that_has_ended_before_its_first_record_begins_again(
    fresh_kafka: EmbeddedBroker, consumer: RecordConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the consumer knows neither where it is nor where the partition ends."""
    monkeypatch.setattr("coldnotify_common.kafka.record_consumer.STALL_S", 0.1)
    write(fresh_kafka.bootstrap, TOPIC, 1, [GOOD])
    place = TopicPartition(TOPIC, 1, 1000)
    Consumer.assign(consumer, [place])
    said = wait_for(lambda: consumer.poll(0.1), "the error that nobody hands on")
    assert said.error() is not None
    consumer._places = consumer._begun([TopicPartition(TOPIC, 1, OFFSET_BEGINNING)])
    assert read(consumer, {1: 1}) == ([(1, 0, 1)], [])


def test_what_is_found_damaged_during_another_look_is_looked_at_behind_it(
    fresh_kafka: EmbeddedBroker, consumer: RecordConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coldnotify_common.kafka.record_consumer.STALL_S", 0.1)
    begun, go_on = threading.Event(), threading.Event()
    search = RecordConsumer._run_search

    def held(self: RecordConsumer, where: tuple[str, int], place: _Place, start: int) -> None:
        begun.set()
        go_on.wait(WAIT_S)
        search(self, where, place, start)

    monkeypatch.setattr(RecordConsumer, "_run_search", held)
    producer = Producer({"bootstrap.servers": fresh_kafka.bootstrap, "transactional.id": "a-back-end"})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(TOPIC, b"x", b"d/g/c", partition=1)
    assert producer.flush(WAIT_S) == 0
    consumer.assign([TopicPartition(TOPIC, 1, 0)])
    deadline_s = time.monotonic() + WAIT_S
    while not begun.is_set():
        assert time.monotonic() < deadline_s, "it is looked at"
        assert not [one for one in consumer.read(0.05, 10) if isinstance(one, Gap) or one.error() is None]
    producer.commit_transaction(WAIT_S)
    assert read(consumer, {1: 2}) == ([(1, 0, 1)], []), "its marker is the second offset"
    write(fresh_kafka.bootstrap, TOPIC, 1, [misplaced(100)])
    where = (TOPIC, 1)
    while not consumer._places[where].damaged or consumer._watermarks(where)[1] is not None:
        assert time.monotonic() < deadline_s, "the client asks for an offset that there is not"
        assert consumer.read(0.05, 10) == []
    go_on.set()
    write(fresh_kafka.bootstrap, TOPIC, 1, [GOOD])
    assert read(consumer, {1: 4}) == ([(1, 3, 4)], [(1, 2, 3)])
