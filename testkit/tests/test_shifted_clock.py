"""A process has the clock that it is given, its monotonic clock is ours, and librdkafka waits no longer for it."""

import os
import subprocess
import sys
import time
from pathlib import Path

from coldnotify_testkit.shifted_clock import ShiftedClock

WATCH = """
import sys, threading, time
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 100, "log_level": 0})
start_s = time.monotonic()
for _ in sys.stdin:
    threading.Event().wait(0.01)
    producer.produce("t", b"v")
    assert producer.flush(30) == 0
    print(time.time(), time.time_ns() / 1e9, time.monotonic() - start_s, flush=True)
"""


def test_the_wall_clock_moves_while_the_process_runs_and_the_monotonic_one_does_not(tmp_path: Path) -> None:
    clock = ShiftedClock(tmp_path, by_s=-7200)
    environ = {**os.environ, **clock.environ}
    argv = [sys.executable, "-c", WATCH]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for by_s in (-7200, 0, 10 * 365 * 86400):
            clock.shift(by_s)
            begin_s = time.time()
            child.stdin.write("\n")
            child.stdin.flush()
            wall_s, wall_too_s, since_s = map(float, child.stdout.readline().split())
            assert begin_s <= wall_s - by_s <= time.time()
            assert begin_s <= wall_too_s - by_s <= time.time()
            assert since_s < 3600
        child.stdin.close()
