"""The experiment with queries, tiny.

Stands for: query_values, query_changes, described_load
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
def test_the_experiment_measures_the_cost_of_queries(tmp_path: Path, rows_of: RowsOf) -> None:
    with pytest.raises(ValueError, match="parts: unknown value 'nothing'"):
        EXPERIMENTS["queries"].run(BenchRun({"parts": ("nothing",)}, tmp_path, Progress(1, "")))
    changes = "parts=distinct,changes,wire", "distinct_queries=1", "changes_conditions=range", "wire_queries=0,3"
    rows = rows_of("queries", *changes)
    by_part = {part: [row for row in rows if row["part"] == part] for part in ("distinct", "changes", "wire")}
    assert [(row["by"], row["deliveries"]) for row in by_part["distinct"]] == [
        (by, by_part["distinct"][0]["expected"]) for by in ("by name", "1 queries")
    ]
    assert by_part["distinct"][1]["to_names"]["mean"] > 0
    *values, difference = by_part["changes"]
    # On a busy machine some come behind the end.
    assert all(0 < row["deliveries"] <= row["expected"] for row in values)
    assert difference["wrong"] == 0
    assert difference["count"] == difference["told"] > 0, "each belongs to a change"
    down = {(row["queries"], row["when"]): row["down"] for row in by_part["wire"]}
    for when in ("before a takeover", "second after it"):
        assert down[0, when] < down[3, when]
    # A tag and 8 bytes.
    assert down[3, "first after it"] == down[3, "before a takeover"] + 9
    assert not any(row["asked"] for row in by_part["wire"])
