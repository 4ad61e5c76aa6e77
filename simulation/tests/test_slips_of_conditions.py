"""A slip in conditions breaks P12 in a random schedule.

Stands for: conditioning
"""

import sys

import pytest
from coldnotify_matcher.engine.inputs.intake import Intake
from coldnotify_matcher.engine.objects import condition_rule
from coldnotify_matcher.engine.objects.condition_rule import ConditionRule
from coldnotify_simulation.slips import Slip, find, run_alone

SLIPS = {
    "an older version is good enough": Slip(
        condition_rule,
        "_holds",
        "return obj.version == said.if_version\n",
        "return obj.version >= said.if_version\n",
        1,
        conditions=True,
    ),
    "an object that is there is taken for absent": Slip(
        condition_rule,
        "_holds",
        "return not obj.there\n",
        "return True\n",
        1,
        conditions=True,
    ),
    "a repeat is decided like a first one": Slip(
        ConditionRule,
        "decide",
        "first is not None and offset - first.offset <= REPEATS_OFFSETS_MAX",
        "first is not None and offset == first.offset",
        12,
        conditions=True,
    ),
    "nothing is decided at the end of a load": Slip(
        Intake,
        "decide_rest",
        "self._release_rest(now_ms)\n",
        "pass\n",
        1,
        conditions=True,
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_found(slip: str) -> None:
    run_alone(__file__, slip)


if __name__ == "__main__":
    sys.exit(find(SLIPS, sys.argv[1]))
