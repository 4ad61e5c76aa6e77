"""A slip in retention breaks a promise in a random schedule: P1 where it removes too much, P9 where it forgets to tell.

Each is a bug that somebody could well write: in what is removed, in how a null is read, or in what is written again.

Stands for: removing
"""

import sys

import pytest
from coldnotify_matcher.engine.inputs.removal_intake import RemovalIntake
from coldnotify_matcher.engine.upkeep.retention import RetentionTurns
from coldnotify_schemas.removals import Removal
from coldnotify_simulation.slips import Slip, find, run_alone

SLIPS = {
    "one version too new is removed": Slip(
        RetentionTurns,
        "_remove",
        "nulls.append(self._null(key, obj.incarnation, obj.version, read_to))",
        "nulls.append(self._null(key, obj.incarnation, obj.version + 1, self._state.position + 9))",
        94,
    ),
    "a null removes without a look at its version": Slip(
        Removal,
        "removes",
        "if (incarnation, version) > (self.incarnation, self.version):",
        "if incarnation > version > self.version > incarnation:",
        20,
    ),
    "a null removes what was said since its owner looked": Slip(
        Removal,
        "removes",
        "last_offset <= self.read_to",
        "last_offset >= 0",
        846,
    ),
    "what a null does not remove is not written again": Slip(
        RemovalIntake,
        "on_object",
        "self._repairs.look_at(obj)",
        "pass",
        62,
    ),
    "the description is forgotten": Slip(
        RemovalIntake,
        "on_description",
        "state.descriptions.forget(group, name)",
        "pass",
        7,
    ),
    "who has it by a query is not told that it is gone": Slip(
        RemovalIntake,
        "on_object",
        "changes = state.members.published(group, obj, before, offset)",
        "changes = []",
        7,
    ),
    "what was described lately is removed": Slip(
        RetentionTurns,
        "_look",
        "due_ms = max(due_ms, self._since(described.version, now_ms) + period_ms)",
        "due_ms = due_ms or self._since(described.version, now_ms) + period_ms",
        2,
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_found(slip: str) -> None:
    run_alone(__file__, slip)


if __name__ == "__main__":
    sys.exit(find(SLIPS, *sys.argv[1:]))
