"""The inbox: read from its end on, bounded, and what was removed unread is said."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from coldnotify_common.kafka.cut_off_nodes import CUT_OFF
from coldnotify_gateway.inbox_reader import InboxMark, InboxReader, Read
from coldnotify_gateway.inbox_records import Aside
from coldnotify_gateway.settings import GatewaySettings
from coldnotify_kafka.broker import EmbeddedBroker, EmbeddedCluster
from coldnotify_schemas.internal_pb2 import Inbox
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.unreadable_batches import loud, silent, write
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from structlog.testing import capture_logs

TOPICS = TopicNames()

pytestmark = pytest.mark.kafka
GATEWAY = 0xC01D
INBOX = 5


class Reading:
    """A reader, and what it handed over; each batch is handled at once unless told otherwise."""

    def __init__(self, bootstrap: str) -> None:
        self.records: list[Read] = []
        self.batches = 0
        self.handling = True
        self.assigned = threading.Event()
        self.reader = InboxReader(
            GatewaySettings(kafka=bootstrap),
            GATEWAY,
            INBOX,
            on_assigned=self.assigned.set,
            on_records=self.on_records,
        )
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})

    def on_records(self, records: Sequence[Read]) -> None:
        self.records += records
        self.batches += 1
        if self.handling:
            self.reader.handled()

    def write(self, *values: bytes | Inbox) -> None:
        for value in values:
            data = value if isinstance(value, bytes) else value.SerializeToString()
            self.producer.produce(TOPICS.notifications, data, partition=INBOX)
        assert self.producer.flush(60) == 0

    def start(self) -> None:
        self.reader.start()
        assert self.assigned.wait(60)

    @property
    def numbers(self) -> list[int]:
        return [record.number for record in self.records if isinstance(record, Inbox)]


@pytest.fixture
def reading(fresh_kafka: EmbeddedBroker) -> Iterator[Reading]:
    made = Reading(fresh_kafka.bootstrap)
    yield made
    made.reader.stop()


def ours(number: int) -> Inbox:
    return Inbox(format=1, gateway=GATEWAY, number=number)


def test_what_nobody_can_read_is_set_aside_by_its_offset_and_the_next_is_read(
    reading: Reading, fresh_kafka: EmbeddedBroker
):
    reading.start()
    reading.write(ours(1))
    first, second = write(fresh_kafka.bootstrap, TOPICS.notifications, INBOX, [loud(2), silent()])
    reading.write(ours(2))
    wait_for(lambda: reading.numbers == [1, 2], "what comes behind it")
    (aside,) = [record for record in reading.records if isinstance(record, Aside)]
    assert (aside.inbox, aside.offset, second) == (INBOX, first, first + 2)
    assert aside.reason.startswith("cannot be read: ")


def test_it_reads_from_the_end_as_of_its_start_and_skips_what_is_for_others(reading: Reading):
    reading.write(ours(1), ours(2))
    reading.start()
    takeover = Inbox(format=1, gateway=0, generation=4)
    reading.write(ours(3), Inbox(format=1, gateway=4711, number=9), takeover, b"\xff\xff", ours(4))
    wait_for(lambda: len(reading.records) == 4, "all of ours")
    first, second, aside, last = reading.records
    assert [first, second, last] == [ours(3), takeover, ours(4)]
    assert isinstance(aside, Aside)
    assert (aside.value, aside.inbox, aside.offset is not None) == (b"\xff\xff", INBOX, True)
    assert reading.reader.foreign_records == 1


def test_it_waits_when_nobody_handles_what_it_hands_over(reading: Reading):
    reading.handling = False
    reading.start()
    count = 0
    while reading.batches < 8:
        count += 1
        reading.write(ours(count))
    for _ in range(300):
        count += 1
        reading.write(ours(count))
    assert reading.batches == 8
    reading.handling = True
    for _ in range(8):
        reading.reader.handled()
    wait_for(lambda: len(reading.records) == count, "the rest")
    assert reading.numbers == list(range(1, count + 1))


def test_records_removed_before_they_were_read_are_a_loss_and_the_reading_goes_on(
    reading: Reading, fresh_kafka: EmbeddedBroker
):
    reading.handling = False
    reading.start()
    count = 0
    while reading.batches < 8:
        count += 1
        reading.write(ours(count))
    # The reader waits now. More than it has fetched ahead comes, and is removed.
    reading.write(*[ours(count + i) for i in range(1, 11)], *[b"x" * 500_000 for _ in range(64)])
    admin = AdminClient({"bootstrap.servers": fresh_kafka.bootstrap})
    partition = TopicPartition(TOPICS.notifications, INBOX, -1)
    admin.delete_records([partition])[partition].result(60)
    reading.handling = True
    for _ in range(8):
        reading.reader.handled()
    wait_for(lambda: InboxMark.LOST in reading.records, "the loss is said")
    reading.write(ours(99))
    wait_for(lambda: reading.records[-1] == ours(99), "what comes after the loss")


def test_it_stops_while_nobody_handles_what_it_hands_over(reading: Reading):
    reading.handling = False
    reading.start()
    for number in range(1, 30):
        reading.write(ours(number))
    reading.reader.stop()
    assert not reading.reader._thread.is_alive()


@pytest.mark.timeout(400)
@pytest.mark.own_broker("stops nodes of three")
def test_an_inbox_without_a_leader_is_read_once_it_has_one(tmp_path: Path):
    """As after all brokers of a cluster died at once: they come back one by one."""
    with EmbeddedCluster(tmp_path) as cluster:
        topic = NewTopic(TOPICS.notifications, num_partitions=INBOX + 1, replication_factor=1)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([topic])[TOPICS.notifications].result(60)
        cluster.wait_in_sync(60)
        node = cluster.leader(TOPICS.notifications, INBOX)
        assert node is not None
        cluster.kill_node(node)
        wait_for(lambda: cluster.leader(TOPICS.notifications, INBOX) is None, "no leader")
        reading = Reading(cluster.bootstrap)
        with capture_logs() as logs:
            reading.reader.start()
            wait_for(lambda: any("not known yet" in line["event"] for line in logs), "the end cannot be said")
        try:
            cluster.start_node(node)
            assert reading.assigned.wait(120)
            reading.write(ours(1))
            wait_for(lambda: reading.numbers == [1], "what came since")
        finally:
            reading.reader.stop()


def test_a_node_that_is_cut_off_makes_it_read_on_by_another_consumer(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading.start()
    for number in range(1, 41):
        reading.write(ours(number))
        if number % 10 == 0:
            monkeypatch.setattr(CUT_OFF, "count", CUT_OFF.count + 1)
    wait_for(lambda: len(reading.numbers) >= 40, "all are read")
    assert reading.numbers == list(range(1, 41))
