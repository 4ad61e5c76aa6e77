"""A slip in sets breaks P12 in a random schedule.

Stands for: atomic_sets_drawn
"""

import sys

import pytest
from coldnotify._core.session.members_together import MembersTogether
from coldnotify_matcher.engine.inputs.set_intake import SetIntake
from coldnotify_matcher.engine.objects.set_rule import SetRule
from coldnotify_matcher.engine.telling.conflation import Conflation
from coldnotify_matcher.engine.telling.index import Index
from coldnotify_matcher.engine.telling.paging import Paging
from coldnotify_simulation.slips import Slip, find, run_alone

SLIPS = {
    "a member that comes first is told at once": Slip(
        MembersTogether,
        "take",
        "notification.more and",
        "False and",
        32,
        conditions=True,
    ),
    "the others do without one that does not hold": Slip(
        SetRule,
        "decide",
        "if not faults:",
        "if len(faults) < len(versions):",
        1,
        conditions=True,
    ),
    "a set is decided as it is loaded, and not behind what is undecided before it": Slip(
        SetIntake,
        "on_arrival",
        "if self._state.live:",
        "if True:",
        4,
        conditions=True,
    ),
    "a set that is repeated is decided like a first one": Slip(
        SetRule,
        "decide",
        "first is not None and offset - first.offset <= REPEATS_OFFSETS_MAX",
        "first is not None and offset == first.offset",
        30,
        conditions=True,
    ),
    "a successor writes nothing down that its predecessor has begun": Slip(
        SetIntake,
        "finish_load",
        "if decided is not None:",
        "if False:",
        4,
        conditions=True,
    ),
    "one member is not told": Slip(
        Conflation,
        "publish_set",
        "for obj, changes in members]",
        "for obj, changes in members[1:]]",
        1,
        conditions=True,
    ),
    "all members say that nothing follows": Slip(
        Index,
        "_send",
        "if more:",
        "if False:",
        32,
        conditions=True,
    ),
    "a page says of none of a set that others follow": Slip(
        Paging,
        "_fill",
        "say_completeness(entries, group.begin, group.end)",
        "pass",
        95,
        conditions=True,
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_found(slip: str) -> None:
    run_alone(__file__, slip)


if __name__ == "__main__":
    sys.exit(find(SLIPS, sys.argv[1]))
