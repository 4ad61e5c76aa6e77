"""Answers to filters: how far each is, and when it is acknowledged."""

from coldnotify_matcher.engine.streams.filter_answers import NOWHERE, FilterAnswers


def ended() -> FilterAnswers:
    """One answer that has ended at 9."""
    answers = FilterAnswers()
    answers.owe(1)
    answers.tell(7)
    answers.end(9)
    return answers


def test_an_answer_is_acknowledged_by_the_next_page_that_is_asked_for() -> None:
    answers = ended()
    assert (answers.owed, answers.told_up_to(1), answers.told_up_to(2)) == ({}, 9, NOWHERE)
    assert answers.acknowledge_page() == {1: 9}
    assert (answers.any, answers.acknowledge_page()) == (False, {})


def test_or_by_a_cursor_above_its_end() -> None:
    answers = ended()
    assert answers.acknowledge(9) == {}
    assert answers.acknowledge(10) == {1: 9}


def test_a_new_row_of_pages_begins_behind_what_was_acknowledged() -> None:
    answers = FilterAnswers()
    answers.owe(1)
    answers.tell(3)
    answers.acknowledge_page()
    answers.tell(6)
    answers.begin()
    assert answers.owed[1].at == 3
    answers.end(9)
    answers.begin()
    assert answers.owed[1].at == 3
    assert answers.acknowledge(100) == {}


def test_a_filter_that_is_registered_again_is_answered_from_the_beginning() -> None:
    answers = ended()
    answers.owe(1)
    assert answers.owed[1].at == NOWHERE
    assert answers.ended == {}
    answers.drop(1)
    answers.drop(1)
    assert not answers.any
