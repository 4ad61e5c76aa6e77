"""The inbox: read from its end on, bounded, and what was removed unread is said."""

import threading
from collections.abc import Iterator, Sequence

import pytest
from coldnotify_gateway.inbox_reader import InboxReader, Mark
from coldnotify_gateway.settings import GatewaySettings
from coldnotify_gateway.testing import fan_out
from coldnotify_gateway.testing_process import wait_until
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.internal_pb2 import Inbox
from coldnotify_schemas.topics import NOTIFICATIONS
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

pytestmark = pytest.mark.kafka
GATEWAY = 0xC01D
INBOX = 5


class Reading:
    """A reader, and what it handed over; each batch is handled at once unless told otherwise."""

    def __init__(self, bootstrap: str) -> None:
        self.records: list[Inbox | Mark] = []
        self.batches = self.handled = 0
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

    def on_records(self, records: Sequence[Inbox | Mark]) -> None:
        self.records += records
        self.batches += 1
        if self.handling:
            self.handled += 1
            self.reader.handled()

    def write(self, *values: bytes | Inbox) -> None:
        for value in values:
            data = value if isinstance(value, bytes) else value.SerializeToString()
            self.producer.produce(NOTIFICATIONS, data, partition=INBOX)
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


def versions(number: int) -> Inbox:
    """Two of one object, to the same session."""
    fan_outs = [fan_out("a", version, version, 3) for version in (2 * number, 2 * number + 1)]
    return Inbox(format=1, gateway=GATEWAY, number=number, items=fan_outs)


def told(records: Sequence[Inbox | Mark]) -> list[int]:
    """The versions that are written to somebody."""
    items = [item.fan_out for record in records if isinstance(record, Inbox) for item in record.items]
    return [one.newest.version for one in items if one.sessions]


def ours(number: int) -> Inbox:
    return Inbox(format=1, gateway=GATEWAY, number=number)


def test_it_reads_from_the_end_as_of_its_start_and_skips_what_is_for_others(reading: Reading):
    reading.write(ours(1), ours(2))
    reading.start()
    takeover = Inbox(format=1, gateway=0, generation=4)
    reading.write(ours(3), Inbox(format=1, gateway=4711, number=9), takeover, b"\xff\xff", ours(4))
    wait_until(lambda: len(reading.records) == 4, "all of ours")
    assert reading.records == [ours(3), takeover, Mark.MALFORMED, ours(4)]
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
    wait_until(lambda: len(reading.records) == count, "the rest")
    assert reading.numbers == list(range(1, count + 1))


def test_only_while_it_is_behind_versions_that_are_outdone_are_not_handed_over(reading: Reading):
    reading.start()
    reading.write(*[versions(number) for number in range(1, 50)])
    wait_until(lambda: len(reading.records) == 49, "all of them")
    assert told(reading.records) == [version for number in range(1, 50) for version in (2 * number, 2 * number + 1)]
    assert reading.reader.deliveries_spared == 0

    reading.handling = False
    number = 49
    while reading.batches - reading.handled < 3:
        number += 1
        reading.write(versions(number))
    assert told(reading.records)[-1] == 2 * number + 1
    assert reading.reader.deliveries_spared > 0
    assert told(reading.records)[-2] != 2 * number
    assert reading.numbers == list(range(1, number + 1))


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
    partition = TopicPartition(NOTIFICATIONS, INBOX, -1)
    admin.delete_records([partition])[partition].result(60)
    reading.handling = True
    for _ in range(8):
        reading.reader.handled()
    wait_until(lambda: Mark.LOST in reading.records, "the loss is said")
    reading.write(ours(99))
    wait_until(lambda: reading.records[-1] == ours(99), "what comes after the loss")


def test_it_stops_while_nobody_handles_what_it_hands_over(reading: Reading):
    reading.handling = False
    reading.start()
    for number in range(1, 30):
        reading.write(ours(number))
    reading.reader.stop()
    assert not reading.reader._thread.is_alive()
