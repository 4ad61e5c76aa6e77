"""The experiment with two halves of everything, tiny: cut off from each other, and with some processes killed.

Stands for: split_merge, halves, half_clients
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from coldnotify_loadtest.bench import BenchRun, Progress
from coldnotify_loadtest.experiments import EXPERIMENTS
from coldnotify_testkit.networks import makes_networks

RowsOf = Callable[..., list[dict[str, Any]]]
"""The fixture's."""


def test_moments_that_do_not_rise_are_refused(tmp_path: Path) -> None:
    moments = {"start_s": 1.0, "cut_s": 9.0, "heal_s": 5.0, "end_s": 12.0}
    with pytest.raises(ValueError, match="start_s, cut_s, heal_s, end_s"):
        EXPERIMENTS["split_merge"].run(BenchRun(moments, tmp_path, Progress(1, "")))


@pytest.mark.kafka
@pytest.mark.timeout(900)
@pytest.mark.own_broker("stops nodes of three")
@pytest.mark.skipif(not makes_networks(), reason="makes networks: as root, by iproute2")
def test_the_half_without_a_majority_acknowledges_nothing_and_nothing_is_lost(rows_of: RowsOf) -> None:
    rows = rows_of("split_merge")
    (split,) = (row for row in rows if row["part"] == "case")
    (killed,) = (row for row in rows if row["part"] == "kill")
    assert (split["acknowledged_minority"], split["lost"], split["wrong"]) == (0, 0, 0)
    assert split["whole_s"] > 0
    assert (killed["lost"], killed["wrong"]) == (0, 0)
    assert killed["whole_s"] > 0
    assert sum(row["acknowledged_minority"] for row in rows if row["part"] == "second") > 0
