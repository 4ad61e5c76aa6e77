"""What a session waits for: its table, and the times that go with it."""

import pytest
from coldnotify_gateway.core import Limits
from coldnotify_gateway.core.question import TABLE, Asked, Question, QuestionStep
from coldnotify_gateway.core.timers import NEVER_S
from coldnotify_testkit.examples import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

LIMITS = Limits(ask_again_s=10, wait_after_s=3, wait_s=30)
NOW_S = 1000.0
NEW_NUMBER = {QuestionStep.ASK_OPEN, QuestionStep.ASK_ANNOUNCEMENT, QuestionStep.ASK_PAGE, QuestionStep.ASK_CHECK}
WAITED_FOR = {Asked.OPEN, Asked.ANNOUNCEMENT}


def asked(*steps: QuestionStep) -> Question:
    question = Question(NOW_S)
    for step in steps:
        question.step(step, NOW_S, LIMITS)
    return question


def test_an_announcement_and_an_answer_may_come_at_any_time():
    assert set(TABLE) == set(Asked)
    for row in TABLE.values():
        assert {QuestionStep.ASK_OPEN, QuestionStep.ASK_ANNOUNCEMENT, QuestionStep.ANSWERED} <= set(row)


def test_what_a_page_or_a_digest_says_is_not_asked_while_an_opened_is_waited_for():
    for waited_for in WAITED_FOR:
        assert set(TABLE[waited_for]) == {QuestionStep.ASK_OPEN, QuestionStep.ASK_ANNOUNCEMENT, QuestionStep.ANSWERED}
        with pytest.raises(KeyError):
            asked(QuestionStep.ASK_OPEN).step(QuestionStep.ASK_CHECK, NOW_S, LIMITS)


@pytest.mark.parametrize("step", QuestionStep)
def test_only_questions_have_new_numbers(step):
    if step in TABLE[Asked.NOTHING] and step is not QuestionStep.ANSWERED:
        assert asked(step).number == (step in NEW_NUMBER)


def test_it_is_asked_again_ever_more_rarely_and_of_another_matcher_as_soon_as_at_first():
    question = asked(QuestionStep.ASK_PAGE)
    due_s = [question.answer_due_s - NOW_S]
    for _ in range(5):
        question.unanswered()
        question.step(QuestionStep.ASK_PAGE, NOW_S, LIMITS)
        due_s.append(question.answer_due_s - NOW_S)
    assert due_s == [10, 20, 40, 80, 80, 80]
    question.other_matcher()
    question.step(QuestionStep.ASK_PAGE, NOW_S, LIMITS)
    assert question.answer_due_s == NOW_S + 10


def test_what_is_given_up_is_not_asked_more_often_for_it():
    question = asked(QuestionStep.ASK_CHECK)
    question.unanswered()
    question.give_up()
    assert (question.asked, question.answer_due_s) == (Asked.NOTHING, NEVER_S)
    question.step(QuestionStep.ASK_CHECK, NOW_S, LIMITS)
    assert question.answer_due_s == NOW_S + 20


def test_a_client_is_told_wait_once_an_opened_is_late_and_again_before_that_runs_out():
    question = asked(QuestionStep.ASK_OPEN)
    assert question.wait_due_s == NOW_S + 3
    question.waiting_said(NOW_S + 3, LIMITS)
    question.step(QuestionStep.ASK_OPEN, NOW_S + 10, LIMITS)
    assert question.wait_due_s == NOW_S + 3 + 20, "asking again does not put it off"
    question.answered()
    assert (question.answer_due_s, question.wait_due_s) == (NEVER_S, NEVER_S)


def test_how_long_is_waited_for_an_answer():
    question = asked(QuestionStep.EXPECT_SET)
    assert question.waits_since_s(NOW_S + 4) == 4
    question.answered()
    assert question.waits_since_s(NOW_S + 4) == 0


class AnyQuestion(RuleBasedStateMachine):
    """Whatever its table allows, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = NOW_S
        self.question = Question(NOW_S)

    @rule(step=st.sampled_from(QuestionStep), seconds=st.floats(0, 100))
    def step(self, step: QuestionStep, seconds: float) -> None:
        self.now_s += seconds
        number, before = self.question.number, self.question.asked
        if step not in TABLE[before]:
            return
        if step is QuestionStep.ANSWERED:
            self.question.answered()
        elif step is QuestionStep.GIVEN_UP:
            self.question.give_up()
        else:
            self.question.step(step, self.now_s, LIMITS)
        assert self.question.number == number + (step in NEW_NUMBER)

    @precondition(lambda self: self.question.asked is not Asked.NOTHING)
    @rule()
    def unanswered(self) -> None:
        self.question.unanswered()

    @precondition(lambda self: self.question.asked in WAITED_FOR)
    @rule()
    def waiting_said(self) -> None:
        self.question.waiting_said(self.now_s, LIMITS)

    @rule()
    def other_matcher(self) -> None:
        self.question.other_matcher()

    @invariant()
    def what_is_waited_for_is_due_and_nothing_else(self) -> None:
        question = self.question
        assert (question.answer_due_s != NEVER_S) == (question.asked is not Asked.NOTHING)
        assert (question.wait_due_s != NEVER_S) == (question.asked in WAITED_FOR)
        assert question.announces == (question.asked is Asked.ANNOUNCEMENT)
        assert question.checks == (question.asked is Asked.CHECK)


TestAnyQuestion = AnyQuestion.TestCase
TestAnyQuestion.settings = settings(max_examples=examples(0.5), stateful_step_count=30, deadline=None)
