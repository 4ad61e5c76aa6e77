"""Somebody who means harm writes to all topics, while everything runs: a short run of `make fuzz-records`."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.kafka

COMMAND = Path(__file__).parents[1] / "fuzz" / "records.py"
RECORDS = 3_000
LATE_S = 60
"""An honest publish takes a second or two, on a busy machine 9. A client that a stranger ended may cost this once."""
LIMIT_S = 840


@pytest.mark.timeout(900)
def test_no_record_of_any_topic_ends_a_process_or_leaves_an_honest_client_unserved() -> None:
    argv = [
        sys.executable,
        str(COMMAND),
        f"--records={RECORDS}",
        "--seed=3",
        f"--late-s={LATE_S}",
        f"--seconds={LIMIT_S}",
    ]
    run = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    print(run.stdout)

    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{RECORDS} hostile records" in run.stdout
