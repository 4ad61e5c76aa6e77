"""Rest between rounds: a share of what the last one took, bounded, and none for what comes later."""

from coldnotify_common.rest import Rest


def test_the_first_round_does_not_wait() -> None:
    assert Rest(2.0, 0.010).left_s(0.0) == 0.0


def test_a_rest_is_a_share_of_what_the_round_took_and_what_comes_after_it_does_not_wait() -> None:
    rest = Rest(2.0, 0.010)
    rest.begin(100.0, 100.002)
    assert abs(rest.left_s(100.002) - 0.004) < 1e-9
    assert abs(rest.left_s(100.004) - 0.002) < 1e-9
    assert rest.left_s(100.006) == rest.left_s(200.0) == 0.0


def test_a_long_round_is_followed_by_the_longest_rest_and_no_longer_one() -> None:
    rest = Rest(2.0, 0.010)
    rest.begin(100.0, 103.0)
    assert abs(rest.left_s(103.0) - 0.010) < 1e-9


def test_what_is_too_short_to_sleep_for_is_no_rest() -> None:
    rest = Rest(2.0, 0.010)
    rest.begin(100.0, 100.000_02)
    assert rest.left_s(100.000_02) == 0.0
