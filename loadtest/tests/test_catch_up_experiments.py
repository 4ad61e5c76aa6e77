"""Experiments with clients that come back to channels, tiny.

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
    assert len(minute) == len(day) == 3
    assert not any(row["blocks"] for row in minute), "the tail is in memory"
    assert min(row["told"] for row in day) > 0
    assert max(row["blocks"] for row in day) > 0
    assert all(row["median_s"] <= row["seconds"] for row in told)


def test_each_way_of_reading_is_there_for_the_same_work(rows_of: RowsOf) -> None:
    messages = 8_000
    rows = rows_of("ways", f"messages={messages}")
    by_way = {way: [row for row in rows if row["way"] == way] for way in {row["way"] for row in rows}}
    assert {way: len(some) for way, some in by_way.items()} == {
        "blocks, as shipped": 24, "one reader a client": 24, "two caravans": 24,
    }  # fmt: skip
    assert all(row["turns_median"] <= row["turns"] for row in rows)
    most = max(by_way["one reader a client"], key=lambda row: int(row["decoded"]))
    assert most["decoded"] > 10 * messages, "each of 20 clients reads more than half of the log"
