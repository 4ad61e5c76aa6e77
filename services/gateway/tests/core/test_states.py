"""The table is whole: every phase is reached and left, and every stage of a stream is shown."""

from coldnotify_gateway.core.states import BEFORE_SYNC, IN_SYNC, TABLE, SessionPhase, SessionState
from coldnotify_gateway.core.stream import Stage


def reached(start: SessionPhase) -> set[SessionPhase]:
    found, new = set(), {start}
    while new:
        found |= new
        new = {after for phase in new for after in TABLE[phase].values()} - found
    return found


def test_every_phase_is_in_the_table_and_leads_to_every_other():
    assert set(TABLE) == set(SessionPhase)
    for phase in SessionPhase:
        assert reached(phase) == set(SessionPhase)


def test_every_phase_and_stage_is_shown_as_a_state():
    assert {*BEFORE_SYNC, SessionPhase.IN_SYNC} == set(SessionPhase)
    assert set(IN_SYNC) == set(Stage)
    assert {*BEFORE_SYNC.values(), *IN_SYNC.values()} == set(SessionState)
