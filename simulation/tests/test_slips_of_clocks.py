"""A slip in what is believed of clocks breaks a promise in a random schedule: something is gone before its time.

That each clock is looked at `test_regressions_of_clocks` has scripted.

Stands for: clock_faults
"""

import sys

import pytest
from coldnotify_common.clocks import Clocks
from coldnotify_matcher.engine.upkeep.retention import RetentionTurns
from coldnotify_simulation.slips import Slip, find, run_alone

SLIPS = {
    "objects are removed by a clock that nobody has looked at": Slip(
        RetentionTurns,
        "_look",
        "if not clocks.allows(period_ms):",
        "if False:",
        530,
    ),
    "all that clocks say allows it": Slip(
        Clocks,
        "allows",
        "return self._agreed_for(min(period_ms / 1000, needed_s))",
        "return needed_s > 0",
        335,
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_found(slip: str) -> None:
    run_alone(__file__, slip)


if __name__ == "__main__":
    sys.exit(find(SLIPS, *sys.argv[1:]))
