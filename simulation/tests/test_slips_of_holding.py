"""A slip in how many clients and registrations are counted, or in who may be refused, breaks P10 in a random schedule.

Stands for: holding
"""

import sys

import pytest
from coldnotify_matcher.engine.tenants.ceilings import Ceiling, DomainTally
from coldnotify_simulation.slips import Slip, find, run_alone

SLIPS = {
    "who has gone is counted on": Slip(
        DomainTally,
        "add_clients",
        "self.clients += more",
        "self.clients += max(more, 0)",
        73,
    ),
    "the last place is nobody's": Slip(
        Ceiling,
        "_why_not",
        "there_are < most",
        "there_are < most - 1",
        13,
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_found(slip: str) -> None:
    run_alone(__file__, slip)


if __name__ == "__main__":
    sys.exit(find(SLIPS, *sys.argv[1:]))
