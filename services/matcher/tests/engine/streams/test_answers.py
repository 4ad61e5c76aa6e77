"""Answers that a session is owed: told in order, told again where pages are lost, and what is not known of sets."""

import pytest
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.engine.streams.answers import TABLE, Answer, Answers, AnswersEvent, AnswerStage


def telling(*names: str, at: int = 7) -> Answer:
    answer = Answer(new=True)
    answer.date(at)
    answer.begin(names)
    return answer


def test_members_are_told_in_order_and_known_once_they_are() -> None:
    answer = telling("b", "a", "c")
    answer.pass_on()
    answer.pass_on()
    assert (answer.reached, answer.names) == ("b", ["c"])
    assert answer.knows("a", 7)
    assert not answer.knows("c", 7)
    assert not answer.knows("a", 8), "it became one since, and comes behind the answer"


def test_an_answer_goes_on_behind_what_its_client_has_reached() -> None:
    answer = Answer(new=False, reached="b", at=3)
    answer.date(9)
    answer.begin(["a", "b", "c"])
    assert (answer.names, answer.at) == (["c"], 3)


def test_where_pages_may_be_lost_it_is_told_again_from_its_first_member() -> None:
    answer = telling("a", "b")
    answer.pass_on()
    answer.lose()
    assert (answer.stage, answer.reached, answer.at) == (AnswerStage.OWED, "", None)


def test_what_its_client_says_to_have_reached_survives_a_row_in_which_nothing_of_it_was_told() -> None:
    answer = Answer(new=False, reached="b", at=3)
    answer.lose()
    assert (answer.reached, answer.at) == ("b", 3)


@pytest.mark.parametrize("stage", AnswerStage)
@pytest.mark.parametrize("event", AnswersEvent)
def test_any_other_transition_raises_key_error(stage: AnswerStage, event: AnswersEvent) -> None:
    answer = Answer(new=False, stage=stage)
    act = {
        AnswersEvent.BEGUN: lambda: answer.begin([]),
        AnswersEvent.LOST: answer.lose,
        AnswersEvent.ENDED: answer.end,
    }[event]
    if event in TABLE[stage]:
        act()
        assert answer.stage is TABLE[stage][event]
    else:
        with pytest.raises(KeyError):
            act()


def test_what_has_changed_since_an_answer_began_is_told_behind_it() -> None:
    answers = Answers()
    answers.begin([])
    answers.owe(1, telling("a", at=7))
    answers.end(1)
    assert (list(answers.owed), answers.known_up_to(1, 3), answers.known_up_to(2, 3)) == ([], 7, 3)
    answers.told_up_to(9)
    assert answers.known_up_to(1, 3) == 9
    answers.told_changes()
    assert answers.known_up_to(1, 3) == 3


def test_a_row_begins_with_what_it_is_given_and_with_answers_that_are_still_owed() -> None:
    obj = Obj("d/g/o")
    answers = Answers()
    answers.owe(1, telling("a"))
    answers.note_unknown([2])
    answers.begin([obj])
    assert (list(answers.objects), list(answers.owed), answers.owed[1].begun) == ([obj], [1], False)
    assert (answers.unsaid, answers.says_sets) == (False, False)
    answers.told(obj)
    assert not answers.objects


def test_all_are_owed_where_the_client_knows_nothing_but_what_was_said_of_one_counts() -> None:
    answers = Answers()
    said = Answer(new=False, held=5)
    answers.owe(1, said)
    answers.owe_all([1, 2])
    assert answers.owed[1] is said
    assert list(answers.owed) == [1, 2]


def test_that_nobody_knows_what_has_changed_is_said_once_until_the_query_is_answered() -> None:
    answers = Answers()
    answers.note_unknown([1])
    assert (answers.unsaid, answers.says_sets) == (True, True)
    answers.say_unknown([1, 2])
    assert (answers.unsaid, answers.known_up_to(1, 3)) == (False, None)
    answers.note_unknown([1])
    assert not answers.unsaid
    answers.owe(1, telling("a"))
    answers.end(1)
    answers.note_unknown([1])
    assert answers.unsaid
