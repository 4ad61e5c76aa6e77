"""What a run writes: a stop cuts short what Kafka does not take."""

import threading

import pytest
from coldnotify_common.stop import StopFlag
from coldnotify_matcher.engine import Write
from coldnotify_matcher.settings import MatcherSettings
from coldnotify_schemas import topics
from coldnotify_streams.errors import Failure
from coldnotify_streams.job_clock import JobClock
from coldnotify_streams.writer import FLUSH_SLICE_S, STOP_FLUSH_TIMEOUT_S, Writer
from coldnotify_testkit.kafka import free_port
from coldnotify_testkit.matcher_process import PARTITION


def test_a_flush_that_is_under_way_when_it_is_to_stop_is_cut_short() -> None:
    stop = StopFlag()
    writer = Writer(MatcherSettings(kafka=f"127.0.0.1:{free_port()}"), stop, JobClock())
    writer.write([Write(topics.SESSIONS, PARTITION, b"key", b"value")])
    timer = threading.Timer(2 * FLUSH_SLICE_S, stop.set)
    timer.start()
    with pytest.raises(Failure, match=f"1 records within {STOP_FLUSH_TIMEOUT_S:g} s"):
        writer.flush()
    timer.join()
    writer.close()
