"""The experiment with work queues, tiny.

Stands for: queues, queue_workers
"""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_tasks_begin_in_a_time(rows_of: Callable[..., list[dict[str, Any]]]) -> None:
    rows = [row for row in rows_of("queues") if row["queue"] == "ColdNotify"]
    assert [row["case"] for row in rows] == ["all work", "one is stuck", "the matcher is killed"]
    assert all(0 < row["p50_ms"] <= row["p99_ms"] for row in rows)
    assert all(row["begun_twice"] == 0 for row in rows)
