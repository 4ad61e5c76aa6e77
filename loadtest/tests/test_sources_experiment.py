"""The experiment with rows of PostgreSQL, tiny.

Stands for: sources
"""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_a_device_is_told_rows_in_a_time(rows_of: Callable[..., list[dict[str, Any]]]) -> None:
    *ways, burst, kill = rows_of("sources")
    assert [row["way"] for row in ways] == ["coldnotify auto", "asked each second"]
    assert all(0 < row["p50_ms"] <= row["p99_ms"] for row in ways)
    assert burst["rows"] == 50
    assert kill["again_s"] > 0
