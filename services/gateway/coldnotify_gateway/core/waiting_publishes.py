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


@dataclass(slots=True)
class SessionPublishes:
    """The publishes of one session."""

    waiting: deque[WaitingPublish] = field(default_factory=deque)
    """Publishes in the client's order. The first one is on its way to Kafka, or waits for the matcher's answer about
    its object."""
    refused: int = 0
    """The request that was refused, and must arrive again before any other; 0: none."""
    asked: int = 0
    """Number of the last question about an object; 0: none was asked."""
    asking: Quota = field(default_factory=lambda: Quota(0.0))
    """Quota of questions about outcomes."""
    due_s: float = NEVER_S
    """Deadline for the answer about an object; NEVER_S: no answer is expected."""
    refusals: float = 0.0
    """Number of recent refusals, which decays with time."""
    refused_s: float = 0.0
    """Time of the last refusal."""

    def refuse(self, request: int) -> None:
        """Requires this request to arrive again before any other; 0: accepts any request."""
        self.refused = request

    def refuses_too_often(self, now_s: float) -> bool:
        """Counts a publish that is refused on arrival. Returns true if the client sends too many of them."""
        self.refusals = max(0.0, self.refusals - (now_s - self.refused_s) * REFUSED_PER_S_MAX) + 1
        self.refused_s = now_s
        return self.refusals > PUBLISHES_UNANSWERED_MAX

    def ask(self, due_s: float) -> int:
        """Begins a question about the first publish's object, and returns the question's number."""
        self.asked += 1
        self.due_s = due_s
        return self.asked

    def answered(self) -> None:
        """Ends the wait, after the matcher's answer or after the deadline."""
        self.due_s = NEVER_S
