"""One session's waiting and refused publishes: the state that `session_publishes.Publishing` changes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from coldnotify_schemas.protocol import PUBLISHES_UNANSWERED_MAX
from coldnotify_schemas.wire_pb2 import Publish

from coldnotify_gateway.core.quota import Quota
from coldnotify_gateway.core.timers import NEVER_S

REFUSED_PER_S_MAX = PUBLISHES_UNANSWERED_MAX
"""Most refusals per second of one session: as many as a client may have publishes under way. Above it the gateway stops
reading for a while, because a refusal costs the gateway as much as a publish, and costs the client nothing."""


class WaitingPublish(NamedTuple):
    """A publish that is not answered yet."""

    publish: Publish
    admitted: bool
    """False: the matcher is asked first whether its object exists."""
    described: bool = True
    """False: the matcher merges its patch of the object's description first."""


class Result(NamedTuple):
    """Kafka's answer to a publish."""

    offset: int | None
    """None: it may not be in Kafka."""
    reason: str


@dataclass(slots=True)
class SessionPublishes:
    """The publishes of one session."""

    waiting: deque[WaitingPublish] = field(default_factory=deque)
    """Publishes in the client's order. The first ones are on their way to Kafka, or the first one waits for the
    matcher's answer about its object."""
    first: int = 0
    """Number of the first waiting publish in this session, from 0."""
    under_way: int = 0
    """Number of publishes that are on their way to Kafka."""
    messages: bool = False
    """True if these are messages that are written before versions."""
    results: dict[int, Result] = field(default_factory=dict)
    """Kafka's answers to publishes under way that wait for the answer to an earlier one, by number."""
    refused: int = 0
    """The request that was refused, and must arrive again before any other; 0: none."""
    asked: int = 0
    """Number of the last question about an object; 0: none was asked."""
    asking: Quota = field(default_factory=lambda: Quota(0.0))
    """Quota of questions about outcomes."""
    due_s: float = NEVER_S
    """Deadline for the answer about an object; NEVER_S: no answer is expected."""
    describes: bool = False
    """That answer is about a patch of its description."""
    refusals: float = 0.0
    """Number of recent refusals, which decays with time."""
    refused_s: float = 0.0
    """Time of the last refusal."""

    def refuse(self, request: int) -> None:
        """Requires this request to arrive again before any other; 0: accepts any request."""
        self.refused = request

    def begin(self, count: int, *, messages: bool = False) -> None:
        """Begins a batch of the first waiting publishes, or of the messages that are written before these."""
        self.under_way, self.messages = count, messages

    def note(self, number: int, result: Result) -> bool:
        """Keeps Kafka's answer to the publish of this number. Returns false if that is not under way."""
        is_under_way = self.first <= number < self.first + self.under_way
        if is_under_way:
            self.results[number] = result
        return is_under_way

    def take_published(self) -> tuple[Publish, int] | None:
        """Removes the first publish if it is in Kafka, and returns it with its offset."""
        result = self.results.get(self.first)
        if result is None or result.offset is None:
            return None
        del self.results[self.first]
        self.under_way -= 1
        return self._take_first(), result.offset

    def take_messages(self) -> list[Result]:
        """Ends a batch of messages, once nothing of it is under way any more, and returns Kafka's answers."""
        if len(self.results) < self.under_way:
            return []
        found = [self.results[number] for number in range(self.first, self.first + self.under_way)]
        self.results.clear()
        self.under_way = 0
        return found

    def failure(self) -> str | None:
        """Returns why the first publish may not be in Kafka, once nothing of its batch is under way any more."""
        if not self.under_way or len(self.results) < self.under_way:
            return None
        return self.results[self.first].reason

    def give_up(self) -> Publish:
        """Ends the batch that is under way, and removes the first publish. It must arrive again before any other."""
        self.under_way = 0
        self.results.clear()
        publish = self._take_first()
        self.refuse(publish.request)
        return publish

    def take_next(self) -> Publish | None:
        """Removes the first publish, while none is under way."""
        return self._take_first() if self.waiting else None

    def _take_first(self) -> Publish:
        self.first += 1
        return self.waiting.popleft().publish

    def refuses_too_often(self, now_s: float) -> bool:
        """Counts a publish that is refused on arrival. Returns true if the client sends too many of them."""
        self.refusals = max(0.0, self.refusals - (now_s - self.refused_s) * REFUSED_PER_S_MAX) + 1
        self.refused_s = now_s
        return self.refusals > PUBLISHES_UNANSWERED_MAX

    def ask(self, due_s: float, *, describes: bool = False) -> int:
        """Begins a question about the first publish's object, and returns the question's number. `describes`: it has
        a patch merged."""
        self.asked += 1
        self.due_s, self.describes = due_s, describes
        return self.asked

    def change_first(self, first: WaitingPublish) -> None:
        """Notes what is done of the first publish."""
        self.waiting[0] = first

    def answered(self) -> None:
        """Ends the wait, after the matcher's answer or after the deadline."""
        self.due_s = NEVER_S
