"""A session's question to the matcher: the last one, its number, and the time at which it is repeated.

A question gets a new number; an answer with an older number is stale. Two answers are expected without a new number,
because the matcher sends them by itself: the next page of a catch-up, and the answer to a whole set.

`TABLE` lists the questions that may follow each question. Everything that changes a question is in this file.
"""

from dataclasses import dataclass
from enum import IntEnum, auto

from coldnotify_gateway.core.limits import ASK_AGAIN_DOUBLINGS_MAX, Limits
from coldnotify_gateway.core.timers import NEVER_S

_WAIT_REPEATED_AT = 2 / 3
"""Wait is repeated after this share of its time, so that it does not expire at the client."""


class Asked(IntEnum):
    """The answers that a session can wait for."""

    NOTHING = auto()
    OPEN = auto()
    """An Opened that the client must be told of, because it has had no Welcome."""
    ANNOUNCEMENT = auto()
    """An Opened for a client that has had its Welcome, and gets no other."""
    PAGE = auto()
    CHECK = auto()
    """A comparison of the client's digest with the matcher's."""
    SET = auto()
    """An Opened after the client has sent its whole set."""


class QuestionStep(IntEnum):
    """Steps that change the expected answer. Those that begin with ASK send a question of a new number."""

    ASK_OPEN = auto()
    ASK_ANNOUNCEMENT = auto()
    ASK_PAGE = auto()
    ASK_CHECK = auto()
    EXPECT_PAGE = auto()
    """The matcher sends a page of the same number: the first one after an Opened, or the next one."""
    EXPECT_SET = auto()
    """The matcher answers the client's set."""
    ANSWERED = auto()
    GIVEN_UP = auto()
    """The session no longer waits for the answer."""


NOT_IN_LINE = -1
"""Number of Beats before a question that is not in the matcher's queue, or may not be."""
_NEW_NUMBER = frozenset(
    {QuestionStep.ASK_OPEN, QuestionStep.ASK_ANNOUNCEMENT, QuestionStep.ASK_PAGE, QuestionStep.ASK_CHECK}
)
_OPENS = frozenset({Asked.OPEN, Asked.ANNOUNCEMENT})
_ALWAYS = {
    QuestionStep.ASK_OPEN: Asked.OPEN,
    QuestionStep.ASK_ANNOUNCEMENT: Asked.ANNOUNCEMENT,
    QuestionStep.ANSWERED: Asked.NOTHING,
}
"""A session may be announced at any time, and the answer to that replaces the expected one."""
TABLE: dict[Asked, dict[QuestionStep, Asked]] = {
    Asked.NOTHING: {
        **_ALWAYS,
        QuestionStep.ASK_PAGE: Asked.PAGE,
        QuestionStep.ASK_CHECK: Asked.CHECK,
        QuestionStep.EXPECT_PAGE: Asked.PAGE,
        QuestionStep.EXPECT_SET: Asked.SET,
    },
    Asked.OPEN: _ALWAYS,
    Asked.ANNOUNCEMENT: _ALWAYS,
    Asked.PAGE: {**_ALWAYS, QuestionStep.ASK_PAGE: Asked.PAGE, QuestionStep.GIVEN_UP: Asked.NOTHING},
    Asked.CHECK: {**_ALWAYS, QuestionStep.GIVEN_UP: Asked.NOTHING},
    Asked.SET: _ALWAYS,
}
"""Any other transition raises KeyError."""


@dataclass(slots=True)
class Question:
    """The question of one session. Times are seconds of the core's clock."""

    asked_s: float
    """Time at which the question was sent, or the wait for the answer began."""
    number: int = 0
    """Number of the last question; 0: none was asked yet."""
    asked: Asked = Asked.NOTHING
    times: int = 0
    """Number of repetitions without an answer."""
    answer_due_s: float = NEVER_S
    """Time at which the question is repeated."""
    wait_due_s: float = NEVER_S
    """Time at which the client is sent a Wait."""
    beats_before: int = NOT_IN_LINE
    """Number of Beats sent before the question. The matcher has not reached the question until it answers a later
    Beat."""

    @property
    def announces(self) -> bool:
        """Returns true if the session is being announced, which its client does not notice."""
        return self.asked is Asked.ANNOUNCEMENT

    @property
    def checks(self) -> bool:
        """Returns true if the last question is a CheckDigest without an answer."""
        return self.asked is Asked.CHECK

    def waits_since_s(self, now_s: float) -> float:
        """Returns the time since the wait for an answer began, in seconds; 0: no answer is expected."""
        return 0.0 if self.asked is Asked.NOTHING else now_s - self.asked_s

    def step(self, step: QuestionStep, now_s: float, limits: Limits, beats_before: int = NOT_IN_LINE) -> None:
        """Takes a step by the table. `beats_before`: the number of Beats sent before the step's request."""
        after = TABLE[self.asked][step]
        if after in _OPENS and self.asked not in _OPENS:
            self.wait_due_s = now_s + limits.wait_after_s
        self.asked = after
        if step in _NEW_NUMBER:
            self.number += 1
        self.asked_s = now_s
        self.beats_before = beats_before
        self.answer_due_s = now_s + limits.ask_again_s * 2 ** min(self.times, ASK_AGAIN_DOUBLINGS_MAX)

    def answered(self) -> None:
        """Ends the wait, because the answer has arrived."""
        self.asked = TABLE[self.asked][QuestionStep.ANSWERED]
        self.times = 0
        self.answer_due_s = self.wait_due_s = NEVER_S

    def give_up(self) -> None:
        """Ends the wait without an answer. The next question keeps the interval between repetitions."""
        self.asked = TABLE[self.asked][QuestionStep.GIVEN_UP]
        self.answer_due_s = self.wait_due_s = NEVER_S

    def put_off(self, now_s: float, limits: Limits, beats_handled: int) -> bool:
        """Postpones an overdue repetition. Returns true if it did, because the matcher has not reached the question
        yet.

        `beats_handled`: the highest Beat that the matcher has answered; it has handled everything before that.
        """
        if beats_handled > self.beats_before or self.waits_since_s(now_s) >= limits.worked_on_s:
            return False
        self.answer_due_s = min(now_s + limits.ask_again_s, self.asked_s + limits.worked_on_s)
        return True

    def worked_on(self, now_s: float, limits: Limits) -> None:
        """Notes that the matcher is working on the answer. If that takes long, the client is sent a Wait."""
        self.answer_due_s = now_s + limits.worked_on_s
        self.wait_due_s = min(self.wait_due_s, now_s + limits.wait_after_s)

    def not_taken(self) -> None:
        """Notes that Kafka did not accept a request of the session, perhaps this question: only a repetition helps."""
        self.beats_before = NOT_IN_LINE

    def unanswered(self) -> None:
        """Counts a repetition, because the answer is overdue."""
        self.times += 1

    def other_matcher(self) -> None:
        """Resets the count of repetitions, because they went to the previous matcher."""
        self.times = 0

    def waiting_said(self, now_s: float, limits: Limits) -> None:
        """Notes that the client was sent a Wait."""
        self.wait_due_s = now_s + limits.wait_s * _WAIT_REPEATED_AT
