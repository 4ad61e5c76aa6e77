"""The experiment with clients that come back to channels, tiny.

Stands for: channel_catch_up
"""

from collections.abc import Callable
from typing import Any

import pytest

RowsOf = Callable[..., list[dict[str, Any]]]
"""The fixture's."""


@pytest.mark.kafka
def test_clients_that_come_back_are_told_all_they_lack(rows_of: RowsOf) -> None:
    told = rows_of("catch-up")
    assert [(row["told"], row["gaps"]) for row in told] == [(row["expected"], 0) for row in told]
    minute, day = ([row for row in told if row["behind_min"] == minutes] for minutes in (1, 1440))
    assert len(minute) == len(day) == 4
    assert not any(row["blocks"] for row in minute), "the tail is in memory"
    assert min(row["told"] for row in day) > 0
    assert max(row["blocks"] for row in day) > 0
    assert all(row["median_s"] <= row["seconds"] for row in told)
