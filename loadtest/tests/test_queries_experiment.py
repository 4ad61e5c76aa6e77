"""The experiment with queries, tiny.

Stands for: query_values, query_changes, query_system, described_load
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from coldnotify_loadtest.bench import Bench, Progress
from coldnotify_loadtest.experiments import EXPERIMENTS

RowsOf = Callable[..., list[dict[str, Any]]]
"""The fixture's."""


@pytest.mark.kafka
def test_what_registering_by_queries_costs(tmp_path: Path, rows_of: RowsOf) -> None:
    with pytest.raises(ValueError, match="parts: 'nothing'"):
        EXPERIMENTS["queries"].run(Bench({"parts": ("nothing",)}, tmp_path, Progress(1, "")))
    changes = "parts=broker,changes,wire", "broker_subscribers=2", "changes_conditions=range", "wire_queries=0,3"
    rows = rows_of("queries", *changes)
    by_part = {part: [row for row in rows if row["part"] == part] for part in ("broker", "changes", "wire")}
    assert [(row["by"], row["deliveries"]) for row in by_part["broker"]] == [
        (by, by_part["broker"][0]["expected"]) for by in ("by name", "1 query")
    ]
    assert by_part["broker"][1]["to_names"]["mean"] > 0
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


@pytest.mark.kafka
def test_values_of_the_whole_system_while_descriptions_change(rows_of: RowsOf) -> None:
    still, values, differences = rows_of("queries", "parts=system")
    assert (still["changed"], values["changed"]) == ("nothing", "each every 5 s")
    assert min(still["deliveries"], values["deliveries"], differences["told"]) > 0
    assert differences["count"] == differences["told"], "each belongs to a change"


@pytest.mark.kafka
def test_a_takeover_behind_a_log_of_descriptions(rows_of: RowsOf) -> None:
    rows = rows_of("queries", "parts=behind")
    assert [(row["case"], row["changes"], row["right_before"], row["wrong"]) for row in rows] == [
        ("cold", 400, True, 0),
        ("standby", 400, True, 0),
    ]
