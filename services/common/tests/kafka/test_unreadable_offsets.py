"""What cannot be read is found to the very offset: nothing that can be read is skipped, and nothing else stops it."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from coldnotify_common.kafka.kafka_clients import consumer_config
from coldnotify_common.kafka.unreadable_offsets import BAD_TIMES, Gap, GapSearch, is_of_offset
from coldnotify_common.settings import ServiceSettings
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.record_batches import Batch, BatchRecord, Codec, bomb
from coldnotify_testkit.unreadable_batches import loud, misplaced, silent, write
from coldnotify_testkit.waiting import WAIT_S, wait_for
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

TOPICS = TopicNames()

TOPIC = TOPICS.channels_1d
GOOD = Batch()
(NULL_TO_KAFKA,) = silent().records


def test_errors_of_an_offset_are_told_from_those_of_the_connection() -> None:
    assert is_of_offset(KafkaError(KafkaError._BAD_COMPRESSION))
    assert not is_of_offset(KafkaError(KafkaError._TRANSPORT))
    assert not is_of_offset(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))


@pytest.fixture
def search(fresh_kafka: EmbeddedBroker) -> Iterator[GapSearch]:
    one = GapSearch(consumer_config(ServiceSettings(kafka=fresh_kafka.bootstrap), "search"), lambda: False)
    yield one
    one.close()


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("batches", "start", "unreadable"),
    [
        ([GOOD, GOOD], 0, None),
        ([GOOD, loud(1), GOOD], 1, (1, 2)),
        ([loud(7), GOOD], 0, (0, 7)),
        ([loud(7), GOOD], 4, (4, 7)),
        ([loud(3), loud(2), GOOD, loud(1)], 0, (0, 5)),
        ([loud(5)], 0, (0, 5)),
        ([bomb(Codec.ZSTD, 20), GOOD], 0, (0, 1)),
        ([bomb(Codec.ZSTD, 4), GOOD], 0, None),
        ([silent(), GOOD], 0, (0, 1)),
        ([Batch([BatchRecord(), NULL_TO_KAFKA, NULL_TO_KAFKA, BatchRecord()]), GOOD], 1, (1, 3)),
        ([silent(), loud(3), silent(), silent(), GOOD], 0, (0, 6)),
        ([GOOD, silent()], 1, (1, 2)),
        ([GOOD, GOOD], 2, None),
        ([GOOD, misplaced(1), GOOD], 1, (1, 2)),
        ([GOOD, misplaced(99), misplaced(99), GOOD], 1, (1, 3)),
        ([misplaced(1), silent(), misplaced(5)], 0, (0, 3)),
    ],
)
def test_a_gap_ends_with_the_last_record_that_cannot_be_read(
    fresh_kafka: EmbeddedBroker,
    search: GapSearch,
    batches: list[Batch],
    start: int,
    unreadable: tuple[int, int] | None,
) -> None:
    write(fresh_kafka.bootstrap, TOPIC, 1, batches)
    gap = search.find(TOPIC, 1, start, WAIT_S)
    assert (gap and (gap.start, gap.next)) == unreadable
    if gap is not None:
        assert gap == Gap(TOPIC, 1, gap.start, gap.next, gap.reason)
        assert gap.reason.startswith("cannot be read: ")


class CountingSearch(GapSearch):
    """Counts the bytes of all answers."""

    received = 0

    def _on_statistics(self, text: str) -> None:
        super()._on_statistics(text)
        self.received = max(self.received, sum(broker["rxbytes"] for broker in json.loads(text)["brokers"].values()))


@pytest.mark.kafka
def test_batches_behind_the_damage_are_not_fetched_with_it(fresh_kafka: EmbeddedBroker) -> None:
    long = Batch([BatchRecord(value=bytes(900_000))])
    write(fresh_kafka.bootstrap, TOPIC, 1, [misplaced(1), GOOD, *[long] * 20])
    search = CountingSearch(consumer_config(ServiceSettings(kafka=fresh_kafka.bootstrap), "search"), lambda: False)
    try:
        gap = search.find(TOPIC, 1, 0)
        assert gap is not None
        assert gap.next == 1
        assert 0 < search.received < 4_000_000
    finally:
        search.close()


@pytest.mark.kafka
def test_a_record_that_lies_is_no_proof_of_itself(fresh_kafka: EmbeddedBroker) -> None:
    """Who begins anew at the first record, where an offset does not exist, finds the same record again."""
    config = consumer_config(ServiceSettings(kafka=fresh_kafka.bootstrap), "search")
    search = GapSearch({**config, "auto.offset.reset": "earliest"}, lambda: False)
    try:
        write(fresh_kafka.bootstrap, TOPIC, 1, [misplaced((1 << 31) - 1)])
        gap = search.find(TOPIC, 1, 0)
        assert gap is not None
        assert (gap.start, gap.next) == (0, 1)
    finally:
        search.close()


class AnsweredLate(Consumer):
    """Of two assignments one hears first what Kafka says of an offset that was asked for before: there is none."""

    late = True

    def assign(self, partitions: list[TopicPartition]) -> None:
        super().assign(partitions)
        if self.late:
            (where,) = partitions
            wait_for(lambda: is_sent_to(self, TopicPartition(where.topic, where.partition, 1000)), "it is fetched from")
        self.late = not self.late


def is_sent_to(consumer: Consumer, place: TopicPartition) -> bool:
    """Not before it is assigned."""
    with suppress(KafkaException):
        consumer.seek(place)
        return True
    return False


@pytest.mark.kafka
@pytest.mark.parametrize("first", [True, False], ids=["first", "second"])
def test_an_answer_that_comes_late_says_nothing_of_where_is_looked_now(
    fresh_kafka: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """The client ends fetching with it, and an offset that is there has not become another record's."""
    monkeypatch.setattr("coldnotify_common.kafka.unreadable_offsets.Consumer", AnsweredLate)
    monkeypatch.setattr(AnsweredLate, "late", first)
    producer = Producer({"bootstrap.servers": fresh_kafka.bootstrap, "transactional.id": "a-back-end"})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(TOPIC, b"x", partition=1)
    producer.commit_transaction(WAIT_S)
    search = GapSearch(consumer_config(ServiceSettings(kafka=fresh_kafka.bootstrap), "search"), lambda: False)
    try:
        marker = TopicPartition(TOPIC, 1)
        wait_for(lambda: search._consumer.get_watermark_offsets(marker, WAIT_S)[1] == 2, "it is a hole for who reads")
        write(fresh_kafka.bootstrap, TOPIC, 1, [GOOD, loud(), GOOD])
        assert search.find(TOPIC, 1, 1) is None
        gap = search.find(TOPIC, 1, 3)
        assert gap is not None
        assert (gap.start, gap.next) == (3, 4)
    finally:
        search.close()


class CountedLate(Consumer):
    """Before it is sent from offset 0 to 1, it counts answers to the former query; they are told before the record."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._tell = config["stats_cb"]
        self._counts: list[str] = []
        self._held: list[Message | None] = []
        super().__init__({**config, "stats_cb": self._counts.append})

    def _rise(self) -> int:
        super().poll(0.01)
        counted = [sum(one["rxpartial"] for one in json.loads(text)["brokers"].values()) for text in self._counts]
        return counted[-1] - counted[0] if counted else 0

    def assign(self, partitions: list[TopicPartition]) -> None:
        late = partitions[0].offset == 1
        if late:
            wait_for(lambda: self._rise() > 2 * BAD_TIMES, "further answers to the former query")
        super().assign(partitions)
        if late:
            self._held = [None]

    def poll(self, timeout: float = -1) -> Message | None:
        message = self._held.pop() if self._held else super().poll(timeout)
        while self._counts:
            self._tell(self._counts.pop(0))
        return message


@pytest.mark.kafka
def test_answers_to_the_former_query_do_not_make_a_record_unreadable(
    fresh_kafka: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They wait in the client's queue while the machine is busy, and the record comes later."""
    monkeypatch.setattr("coldnotify_common.kafka.unreadable_offsets.Consumer", CountedLate)
    search = GapSearch(consumer_config(ServiceSettings(kafka=fresh_kafka.bootstrap), "search"), lambda: False)
    try:
        write(fresh_kafka.bootstrap, TOPIC, 1, [silent(), GOOD])
        gap = search.find(TOPIC, 1, 0)
        assert gap is not None
        assert (gap.start, gap.next) == (0, 1)
    finally:
        search.close()


@pytest.mark.kafka
def test_who_does_not_answer_has_no_gap(search: GapSearch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify_common.kafka.unreadable_offsets.SEARCH_S_MAX", 0.5)
    assert search.find("no-such-topic", 0, 0) is None
