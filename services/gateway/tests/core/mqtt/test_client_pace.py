"""Clients that come back too soon: pauses that double, and are forgiven."""

from coldnotify_gateway.core.mqtt.client_pace import (
    CLIENTS_MAX,
    FORGIVEN_S,
    PAUSE_S_MAX,
    TAKEOVERS_S,
    ClientPace,
)


def test_pauses_double_up_to_a_minute_and_are_forgiven() -> None:
    pace, now_s = ClientPace(), 100.0
    found = []
    for _ in range(8):
        pace.wrong("a", now_s)
        found.append(pace.pause_s("a", now_s))
        now_s += found[-1]
        assert pace.pause_s("a", now_s) == 0
    assert found == [1, 2, 4, 8, 16, 32, 60, 60]
    assert pace.pause_s("b", now_s) == 0
    pace.wrong("a", now_s + FORGIVEN_S + PAUSE_S_MAX)
    assert pace.pause_s("a", now_s + FORGIVEN_S + PAUSE_S_MAX) == 1


def test_the_third_takeover_within_seconds_begins_them() -> None:
    pace = ClientPace()
    for now_s in (1.0, 2.0, 2.0 + TAKEOVERS_S, 3.0 + TAKEOVERS_S):
        pace.taken_over("a", now_s)
    assert pace.pause_s("a", 3.0 + TAKEOVERS_S) == 0, "not three within the time"
    pace.taken_over("a", 4.0 + TAKEOVERS_S)
    assert pace.pause_s("a", 4.0 + TAKEOVERS_S) == 1
    pace.taken_over("a", 5.0 + TAKEOVERS_S)
    assert pace.pause_s("a", 5.0 + TAKEOVERS_S) == 2


def test_clients_have_a_bound() -> None:
    pace = ClientPace()
    for number in range(CLIENTS_MAX + 1):
        pace.wrong(str(number), 1.0)
    assert (pace.pause_s("0", 1.0), pace.pause_s("1", 1.0)) == (0, 1)
