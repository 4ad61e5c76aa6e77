"""A number decides whether its noun is singular or plural."""

from coldnotify_common.plurals import number_of


def test_only_one_is_singular() -> None:
    assert number_of(0, "message") == "0 messages"
    assert number_of(1, "message") == "1 message"
    assert number_of(2, "message") == "2 messages"


def test_a_plural_that_does_not_end_in_s_alone_is_given() -> None:
    assert number_of(1, "copy", "copies") == "1 copy"
    assert number_of(3, "copy", "copies") == "3 copies"
