"""What a run writes: a stop cuts short what Kafka does not take."""

import threading

import pytest
from coldnotify_common.kafka.cut_off_nodes import CUT_OFF
from coldnotify_common.stop import StopFlag
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_matcher.engine import ProducedRecord
from coldnotify_matcher.settings import MatcherSettings
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.errors import RunFailure
from coldnotify_streams.job_clock import JobClock
from coldnotify_streams.writer import FLUSH_SLICE_S, STOP_FLUSH_TIMEOUT_S, Writer
from coldnotify_testkit.kafka import free_port
from coldnotify_testkit.matcher_process import PARTITION
from coldnotify_testkit.raw_produce import RawProducer
from coldnotify_testkit.record_batches import Batch, BatchRecord, encoded

TOPICS = TopicNames()

PRODUCERS = 2_000
"""Numbers of producers on a broker that several tests have used."""


def test_a_flush_that_is_under_way_when_it_is_to_stop_is_cut_short() -> None:
    stop = StopFlag()
    writer = Writer(MatcherSettings(kafka=f"127.0.0.1:{free_port()}"), stop, JobClock())
    writer.write([ProducedRecord(TOPICS.sessions, PARTITION, b"key", b"value")])
    timer = threading.Timer(2 * FLUSH_SLICE_S, stop.set)
    timer.start()
    with pytest.raises(RunFailure, match=f"1 records within {STOP_FLUSH_TIMEOUT_S:g} s"):
        writer.flush()
    timer.join()
    writer.close()


def test_a_flush_ends_once_a_node_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(MatcherSettings(kafka=f"127.0.0.1:{free_port()}"), StopFlag(), JobClock())
    writer.write([ProducedRecord(TOPICS.sessions, PARTITION, b"key", b"value")])
    monkeypatch.setattr(CUT_OFF, "count", CUT_OFF.count + 1)
    with pytest.raises(RunFailure, match="a node of Kafka is cut off"):
        writer.flush()
    writer.close()


def write_as_others(kafka: str, epoch: int, sequence: int) -> None:
    """Two records in the name of whoever writes to the partition."""
    with RawProducer(kafka) as producer:
        for number in range(PRODUCERS):
            batch = Batch(
                [BatchRecord(), BatchRecord()], producer_id=number, producer_epoch=epoch, base_sequence=sequence
            )
            producer.produce(TOPICS.sessions, PARTITION, encoded(batch))


def write_on(writer: Writer) -> None:
    for _ in range(20):
        writer.write([ProducedRecord(TOPICS.sessions, PARTITION, b"key", b"behind")])
        writer.flush()


@pytest.mark.parametrize(("epoch", "sequence"), [(0, 1), (32_767, 0)], ids=["its next number", "a later epoch"])
def test_another_writer_of_its_name_ends_the_run_but_not_the_process(
    fresh_kafka: EmbeddedBroker, epoch: int, sequence: int
) -> None:
    settings, stop = MatcherSettings(kafka=fresh_kafka.bootstrap), StopFlag()
    writer = Writer(settings, stop, JobClock())
    writer.write([ProducedRecord(TOPICS.sessions, PARTITION, b"key", b"before")])
    writer.flush()
    write_as_others(fresh_kafka.bootstrap, epoch, sequence)
    with pytest.raises(RunFailure, match="writing to Kafka"):
        write_on(writer)
    writer.close()
