"""The table is whole: every state is reached, left, and can come to be live."""

from coldnotify_gateway.core.states import TABLE, Event, State


def reached(start: State) -> set[State]:
    found, new = set(), {start}
    while new:
        found |= new
        new = {after for state in new for after in TABLE[state].values()} - found
    return found


def test_every_state_is_in_the_table_and_leads_to_every_other():
    assert set(TABLE) == set(State)
    for state in State:
        assert reached(state) == set(State)


def test_only_a_last_page_makes_a_session_live():
    live_by = {(state, event) for state, row in TABLE.items() for event, after in row.items() if after is State.LIVE}
    assert live_by == {(State.CATCHING, Event.LAST_PAGE)}


def test_a_slow_session_asks_before_it_gets_anything():
    assert set(TABLE[State.SLOW].values()) <= {State.SLOW, State.CATCHING, State.OPENING, State.UNSYNCED}
