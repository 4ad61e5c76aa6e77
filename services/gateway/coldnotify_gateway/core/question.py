"""What a session waits for from the matcher: the question asked last, its number, and when it is asked again.

A question gets a new number; an answer that names an older one is stale. Two things are waited for without a new
number, because the matcher sends them by itself: the next page of a catch-up, and the answer to a whole set.

`TABLE` says which question may follow which. Everything that changes a question is in this file.
"""

from dataclasses import dataclass
from enum import IntEnum, auto

from coldnotify_gateway.core.limits import ASK_AGAIN_DOUBLINGS_MAX, Limits
from coldnotify_gateway.core.timers import NEVER_S

_WAIT_REPEATED_AT = 2 / 3
"""Wait is said again when so much of what it said has passed: it must not run out on the client."""


class Asked(IntEnum):
    """What is waited for."""

    NOTHING = auto()
    OPEN = auto()
    """An Opened, of which the client has to hear: it has had no Welcome."""
    ANNOUNCEMENT = auto()
    """An Opened for a client that has had its Welcome, and is not told another."""
    PAGE = auto()
    CHECK = auto()
    """Whether the client's digest is the matcher's."""
    SET = auto()
    """An Opened, after the client has sent its whole set."""


class QuestionStep(IntEnum):
    """What changes that. Those that begin with ASK ask a question of a new number."""

    ASK_OPEN = auto()
    ASK_ANNOUNCEMENT = auto()
    ASK_PAGE = auto()
    ASK_CHECK = auto()
    EXPECT_PAGE = auto()
    """The matcher sends a page of the same number: the first one behind an Opened, or the next one."""
    EXPECT_SET = auto()
    """The matcher answers the client's set."""
    ANSWERED = auto()
    GIVEN_UP = auto()
    """The answer is not waited for any more."""


NOT_IN_LINE = -1
"""As the number of Beats before a question: it is not in the matcher's line, or nobody knows."""
_NEW_NUMBER = frozenset(
    {QuestionStep.ASK_OPEN, QuestionStep.ASK_ANNOUNCEMENT, QuestionStep.ASK_PAGE, QuestionStep.ASK_CHECK}
)
_OPENS = frozenset({Asked.OPEN, Asked.ANNOUNCEMENT})
_ALWAYS = {
    QuestionStep.ASK_OPEN: Asked.OPEN,
    QuestionStep.ASK_ANNOUNCEMENT: Asked.ANNOUNCEMENT,
    QuestionStep.ANSWERED: Asked.NOTHING,
}
"""A session may be announced at any time, and the answer to that replaces what was waited for."""
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
"""What is not in here does not happen: it raises KeyError."""


@dataclass(slots=True)
class Question:
    """The question of one session. Times are seconds of the core's clock."""

    asked_s: float
    """When it was asked, or the wait for it began."""
    number: int = 0
    """Of the last question; 0: none was asked yet."""
    asked: Asked = Asked.NOTHING
    times: int = 0
    """How often it was asked again without an answer."""
    answer_due_s: float = NEVER_S
    """When it is asked again."""
    wait_due_s: float = NEVER_S
    """When the client is told Wait."""
    beats_before: int = NOT_IN_LINE
    """So many Beats had been sent when it was asked. Until the matcher answers a later one, it has not got to it."""

    @property
    def announces(self) -> bool:
        """The session is being announced; its client knows nothing of it."""
        return self.asked is Asked.ANNOUNCEMENT

    @property
    def checks(self) -> bool:
        """CheckDigest is what was asked last, and not answered."""
        return self.asked is Asked.CHECK

    def waits_since_s(self, now_s: float) -> float:
        """For how long an answer has been waited for; 0: nothing is."""
        return 0.0 if self.asked is Asked.NOTHING else now_s - self.asked_s

    def step(self, step: QuestionStep, now_s: float, limits: Limits, beats_before: int = NOT_IN_LINE) -> None:
        """Asks, or expects, by the table. `beats_before`: the Beats sent before a request that goes out with it."""
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
        """Nothing is waited for."""
        self.asked = TABLE[self.asked][QuestionStep.ANSWERED]
        self.times = 0
        self.answer_due_s = self.wait_due_s = NEVER_S

    def give_up(self) -> None:
        """Nothing is waited for, and nothing was answered: what is asked next is asked as rarely as this would be."""
        self.asked = TABLE[self.asked][QuestionStep.GIVEN_UP]
        self.answer_due_s = self.wait_due_s = NEVER_S

    def put_off(self, now_s: float, limits: Limits, beats_handled: int) -> bool:
        """The answer is overdue. Whether that is looked at again later, since the matcher has not got to the question.

        `beats_handled`: how many Beats it has answered, and so what came before them.
        """
        if beats_handled > self.beats_before or self.waits_since_s(now_s) >= limits.worked_on_s:
            return False
        self.answer_due_s = min(now_s + limits.ask_again_s, self.asked_s + limits.worked_on_s)
        return True

    def worked_on(self, now_s: float, limits: Limits) -> None:
        """The matcher says that it works on the answer. Where that takes long, the client is told Wait."""
        self.answer_due_s = now_s + limits.worked_on_s
        self.wait_due_s = min(self.wait_due_s, now_s + limits.wait_after_s)

    def not_taken(self) -> None:
        """Kafka did not take a request of the session, perhaps this one, or part of it: only asking again helps."""
        self.beats_before = NOT_IN_LINE

    def unanswered(self) -> None:
        """The answer is overdue: the question is about to be asked again."""
        self.times += 1

    def other_matcher(self) -> None:
        """Another matcher is asked from here on: how often the one before was asked says nothing about it."""
        self.times = 0

    def waiting_said(self, now_s: float, limits: Limits) -> None:
        """The client was told Wait."""
        self.wait_due_s = now_s + limits.wait_s * _WAIT_REPEATED_AT
