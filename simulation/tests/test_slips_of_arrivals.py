"""A slip in versions by arrival breaks a promise in a random schedule.

`services/matcher/tests/engine/inputs/test_checkpoints.py` has what only a log shows that is compacted in part.

Stands for: arriving, arrived
"""

import sys

import pytest
from coldnotify_matcher.engine.inputs import intake
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_simulation.slips import Slip, find, run_alone

SLIPS = {
    "the timestamp alone is the version": Slip(
        intake,
        "_version_of",
        "return arrival_version(newest, record.timestamp_ms)",
        "return record.timestamp_ms",
        1,
    ),
    "numbers go on as times": Slip(
        intake,
        "_version_of",
        "return arrival_version(newest, record.timestamp_ms)",
        "return max(newest + 1, record.timestamp_ms)",
        1,
    ),
    "a version that is not the timestamp is not written again": Slip(
        Obj,
        "note_arrival",
        "self.checkpoint_due, self.checkpoint_offset = True, UNKNOWN",
        "self.checkpoint_due = False",
        18,
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_found(slip: str) -> None:
    run_alone(__file__, slip)


if __name__ == "__main__":
    sys.exit(find(SLIPS, *sys.argv[1:]))
