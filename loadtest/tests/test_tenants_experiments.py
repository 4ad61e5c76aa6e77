"""Experiments with a tenant that floods, and with strangers, tiny.

Stands for: flood, isolation, strangers
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from coldnotify_loadtest.bench import BenchRun, Progress
from coldnotify_loadtest.experiments import EXPERIMENTS

RowsOf = Callable[..., list[dict[str, Any]]]
"""The fixture's."""


@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_a_flooding_publisher_is_refused_each_time_and_everything_arrives_in_the_end(
    tmp_path: Path, rows_of: RowsOf
) -> None:
    with pytest.raises(ValueError, match="ways: unknown value 'pigeon'"):
        EXPERIMENTS["flood"].run(BenchRun({"ways": ("pigeon",)}, tmp_path, Progress(1, "")))
    rows = rows_of("flood")
    assert [(row["way"], row["flow"]) for row in rows] == [
        (way, flow) for way in ("kafka", "http") for flow in ("on", "off")
    ]
    for row in rows:
        assert row["accepted"] > 0
        assert (row["failed"], row["not_answered"], row["ended"], row["lost"]) == (0, 0, 0, 0)
        assert min(row["memory_mib"].values()) > 0
        assert row["back_s"] >= 0


@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_a_tenant_beside_a_loud_one(tmp_path: Path, rows_of: RowsOf) -> None:
    for name, wrong in (("parts", "halves"), ("ways", "pigeon")):
        with pytest.raises(ValueError, match=f"{name}: unknown value '{wrong}'"):
            EXPERIMENTS["isolation"].run(BenchRun({"parts": (), "ways": (), name: (wrong,)}, tmp_path, Progress(1, "")))
    rows = rows_of("isolation")
    assert [row.get("way") for row in rows] == ["http", "session", "kafka-user", "kafka", None]
    *pairs, uneven = rows
    for row in pairs:
        assert row["off"]["delivered"] > 0
        assert row["on"]["delivered"] > 0
        assert row["b_not_told"] == 0
    assert (uneven["nodes"], uneven["not_told"]) == (3, 0)
    assert uneven["at_one_per_s"] > 0


@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_a_device_beside_strangers_who_ask_for_dear_things(tmp_path: Path, rows_of: RowsOf) -> None:
    with pytest.raises(ValueError, match="parts: unknown value 'cheap'"):
        EXPERIMENTS["strangers"].run(BenchRun({"parts": ("cheap",)}, tmp_path, Progress(1, "")))
    rows = rows_of("strangers")
    assert [row["part"] for row in rows] == ["like", "changes", "explanations", "find", "channels"]
    for row in rows:
        # On a busy machine a version is passed over where a newer one is there already.
        for when in ("before", "during", "after"):
            assert row[when]["count"] > row[when]["not_told"] >= 0
        assert row["asked"] > 0
