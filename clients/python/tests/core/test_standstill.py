"""When a program has stood still."""

from coldnotify._core.session.standstill import LOOK_S, STOOD_STILL_S, Standstill


def test_looks_in_time_and_a_little_late_find_nothing():
    standstill = Standstill(100.0)
    assert standstill.deadline() == 100.0 + LOOK_S
    assert standstill.look(105.0) == 0
    assert standstill.look(105.0) == 0
    assert standstill.look(105.0 + STOOD_STILL_S) == 0


def test_a_standstill_is_reported_once():
    standstill = Standstill(100.0)
    assert standstill.look(300.0) == 200.0
    assert standstill.look(301.0) == 0
    assert standstill.deadline() == 301.0 + LOOK_S
