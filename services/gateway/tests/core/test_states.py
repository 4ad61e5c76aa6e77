"""The table is whole: every phase is reached and left, and every stage of a stream is shown."""

from coldnotify_gateway.core.states import BEFORE_SYNC, IN_SYNC, TABLE, Phase, State
from coldnotify_gateway.core.stream import Stage


def reached(start: Phase) -> set[Phase]:
    found, new = set(), {start}
    while new:
        found |= new
        new = {after for phase in new for after in TABLE[phase].values()} - found
    return found


def test_every_phase_is_in_the_table_and_leads_to_every_other():
    assert set(TABLE) == set(Phase)
    for phase in Phase:
        assert reached(phase) == set(Phase)


def test_every_phase_and_stage_is_shown_as_a_state():
    assert {*BEFORE_SYNC, Phase.IN_SYNC} == set(Phase)
    assert set(IN_SYNC) == set(Stage)
    assert {*BEFORE_SYNC.values(), *IN_SYNC.values()} == set(State)
