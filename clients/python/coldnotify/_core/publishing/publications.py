"""A client's publishes on its sessions: in order, at most 64 unanswered, sent again until answered.

They wait here until the service has answered, whatever happens to connections. In a new session all of them are sent
again, in the same order. After a NotPublished with `retry_after_ms` the service refuses later ones, too, until the
refused one comes again: so the client waits until all are answered and the time is over, and begins again with that
one. See docs/protocol.md, "Publishing on the session".
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.protocol import PUBLISHES_UNANSWERED_MAX

from coldnotify._core.publishing.outgoing import Outgoing, publish_of

_ASK_MAX = (1 << 32) - 1
ONCE_MAX = 1000
"""Publishes without an answer that wait for the session to take them; beyond, the oldest are dropped."""


class PublishAnswer(NamedTuple):
    """The service's answer to a publish."""

    offset: int | None
    """None: it is refused, and would be refused again."""
    reason: str = ""
    clock_ms: int | None = None
    """The service's clock, where the publish is refused because ours was wrong; None: it is not for that."""


@dataclass(slots=True)
class _Question:
    """A question for the outcome of a version that is in Kafka."""

    object: str
    offset: int
    told: Callable[[wire.Outcome], None]
    sent: bool = False
    """True if sent in this session."""


@dataclass(slots=True, eq=False)
class _Said:
    outgoing: Outgoing
    told: Callable[[PublishAnswer], None]
    request: int = 0
    """The request number in this session; 0: it has none yet."""
    sent: bool = False
    """Its answer is awaited."""


class Publications:
    """Outlives sessions. Not thread-safe."""

    def __init__(self) -> None:
        self._said: deque[_Said] = deque()
        """In order; those that are sent come first."""
        self._once: deque[Outgoing] = deque(maxlen=ONCE_MAX)
        self._unanswered = 0
        self._last_request = 0
        self._again_at: float | None = None
        """One was refused: nothing is sent before."""
        self._questions: dict[int, _Question] = {}
        """By number, which rises over all sessions."""
        self._last_question = 0

    # The application

    def say(self, outgoings: Sequence[tuple[Outgoing, Callable[[PublishAnswer], None]]]) -> None:
        """Publishes these after all others. Each has its version or id, and a function that gets its answer."""
        self._said.extend(_Said(outgoing, told) for outgoing, told in outgoings)

    def say_once(self, outgoing: Outgoing) -> None:
        """Publish this at most once: it is not answered, and gone if this session ends before."""
        self._once.append(outgoing)

    def ask(self, object_: str, offset: int, told: Callable[[wire.Outcome], None]) -> int:
        """Asks for the outcome of this version, and passes it to `told`. Returns the question's number."""
        self._last_question = self._last_question % _ASK_MAX + 1
        self._questions[self._last_question] = _Question(object_, offset, told)
        return self._last_question

    def forget(self, question: int) -> None:
        """Nobody waits for this answer any more."""
        self._questions.pop(question, None)

    def withdraw(self) -> None:
        """Publishes nothing of what waits. What is sent already may be published nevertheless."""
        self._said = deque(one for one in self._said if one.sent)
        for one in self._said:
            one.told = _nobody

    def __len__(self) -> int:
        return len(self._said)

    # The session

    def begin_session(self) -> None:
        """Nothing is sent in it yet."""
        self._said = deque(one for one in self._said if one.told is not _nobody)
        for one in self._said:
            one.request, one.sent = 0, False
        self._once.clear()
        for question in self._questions.values():
            question.sent = False
        self._unanswered = self._last_request = 0
        self._again_at = None

    def next(self, now: float) -> wire.Publish | None:
        """Returns what to send now, if anything."""
        if self._again_at is not None:
            if self._unanswered or now < self._again_at:
                return None
            self._again_at = None
        if self._unanswered < PUBLISHES_UNANSWERED_MAX:
            one = next((one for one in self._said if not one.sent), None)
            if one is not None:
                if not one.request:
                    self._last_request += 1
                    one.request = self._last_request
                one.sent = True
                self._unanswered += 1
                return publish_of(one.outgoing, one.request)
        return publish_of(self._once.popleft(), 0) if self._once else None

    def next_question(self) -> wire.AskOutcome | None:
        """Returns what to ask now, if anything."""
        if sum(one.sent for one in self._questions.values()) >= PUBLISHES_UNANSWERED_MAX:
            return None
        number = next((number for number, one in self._questions.items() if not one.sent), None)
        if number is None:
            return None
        question = self._questions[number]
        question.sent = True
        return wire.AskOutcome(ask=number, object=question.object, offset=question.offset)

    def became(self, outcome: wire.Outcome) -> None:
        """The answer to a question."""
        question = self._questions.pop(outcome.ask, None)
        if question is not None:
            question.told(outcome)

    def published(self, request: int, offset: int) -> None:
        """The service has it."""
        self._answered(request, PublishAnswer(offset))

    def not_published(
        self, request: int, reason: str, retry_after_ms: int, now: float, clock_ms: int | None = None
    ) -> None:
        """The service has not taken it. `clock_ms`: its clock, where ours is why."""
        if not retry_after_ms:
            self._answered(request, PublishAnswer(None, reason, clock_ms))
            return
        one = self._of(request)
        if one is not None:
            one.sent = False
            self._unanswered -= 1
            if self._again_at is None:
                self._again_at = now + retry_after_ms / 1000

    def deadline(self) -> float:
        """Returns when something is to be sent, if nothing happens before."""
        return float("inf") if self._again_at is None or self._unanswered else self._again_at

    def _answered(self, request: int, answer: PublishAnswer) -> None:
        one = self._of(request)
        if one is not None:
            self._said.remove(one)
            self._unanswered -= 1
            one.told(answer)

    def _of(self, request: int) -> _Said | None:
        return next((one for one in self._said if one.sent and one.request == request), None)


def _nobody(_answer: PublishAnswer) -> None:
    """Ignores an answer."""
