"""CPU and memory of processes."""

import os
import subprocess
import sys

from coldnotify_load.processes import Meter, per_delivery_us, usage

_BUSY = "import time; x = bytearray(50_000_000); t = time.process_time()\nwhile time.process_time() < t + 0.5: pass\n"
_BUSY += "print(flush=True); input()"


def test_a_busy_process_is_seen_and_one_that_is_gone_counts_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", _BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        meter = Meter({"idle": [os.getppid()], "busy": [process.pid]})
        process.stdout.readline()
        read = meter.read()
        assert 0 < read["busy"]["cpu_s"] < 5
        assert read["busy"]["memory_mib"] >= 40
        assert usage([process.pid]).cpu_s >= 0.5
        process.communicate(b"\n", timeout=60)
    assert usage([process.pid]).resident_bytes == 0


def test_cpu_is_divided_by_deliveries() -> None:
    assert per_delivery_us({"gateway": {"cpu_s": 2.0}}, 1_000_000) == {"gateway": 2.0}
    assert per_delivery_us({"gateway": {"cpu_s": 2.0}}, 0) == {"gateway": 2_000_000.0}
