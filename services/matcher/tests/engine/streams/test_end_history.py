"""An offset of a log has an age, by where the log ended at times of the last minutes."""

from coldnotify_matcher.engine.streams.end_history import KEPT_S, EndHistory


def test_an_offset_is_as_old_as_the_newest_time_whose_end_it_reaches() -> None:
    ends = EndHistory()
    for at_s, end in ((100.0, 10), (101.0, 12), (102.0, 12), (103.0, 20)):
        ends.seen(at_s, end)
    assert ends.age_ms(20, 103.5) == 500
    assert ends.age_ms(19, 103.5) == 1_500
    assert ends.age_ms(11, 103.5) == 3_500


def test_an_offset_below_all_ends_has_no_age_and_neither_has_an_unknown_log() -> None:
    ends = EndHistory()
    assert ends.age_ms(5, 100.0) is None
    ends.seen(100.0, 10)
    assert ends.age_ms(9, 100.0) is None


def test_an_age_is_rounded_up() -> None:
    ends = EndHistory()
    ends.seen(100.0, 1)
    assert ends.age_ms(1, 100.0001) == 1


def test_old_ends_are_forgotten() -> None:
    ends = EndHistory()
    for second in range(200):
        ends.seen(1000.0 + second, second)
    assert ends.age_ms(199 - int(KEPT_S), 1199.0) == KEPT_S * 1000
    assert ends.age_ms(198 - int(KEPT_S), 1199.0) is None


def test_a_lower_end_that_comes_later_undoes_nothing() -> None:
    """A node of Kafka that was deposed may still answer."""
    ends = EndHistory()
    ends.seen(100.0, 10)
    ends.seen(101.0, 8)
    assert ends.age_ms(9, 101.0) is None
    assert ends.age_ms(10, 101.0) == 0
    ends.seen(100.5, 30)
    assert ends.age_ms(10, 101.0) == 0, "an answer that was overtaken is dropped"
