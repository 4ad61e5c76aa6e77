"""A slip in patches of descriptions breaks P9 in a random schedule.

Stands for: patching
"""

import sys

import pytest
from coldnotify_matcher.engine.objects.merged_patches import MergedPatches
from coldnotify_simulation.slips import Slip, find, run_alone

SLIPS = {
    "what is not read back yet is merged over": Slip(
        MergedPatches,
        "merge",
        "before = made or described\n",
        "before = described\n",
        28,
    ),
    "what was merged is not dated above what was there": Slip(
        MergedPatches,
        "merge",
        "self._made[place] = Made(merged, max(now_ms, version + 1), offset)\n",
        "self._made[place] = Made(merged, now_ms, offset)\n",
        69,
    ),
    "a record does not say its request": Slip(
        MergedPatches,
        "take_records",
        "headers = (request_header(self._descriptions.requests_epoch, made.request),)\n",
        "headers = ()\n",
        97,
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_found(slip: str) -> None:
    run_alone(__file__, slip)


if __name__ == "__main__":
    sys.exit(find(SLIPS, *sys.argv[1:]))
