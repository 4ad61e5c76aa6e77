"""The publishes of one session that wait, and what was refused: the state that `session_publishes.Publishing` moves."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from coldnotify_schemas.protocol import PUBLISHES_UNANSWERED_MAX
from coldnotify_schemas.wire_pb2 import Publish

from coldnotify_gateway.core.quota import Quota
from coldnotify_gateway.core.timers import NEVER_S

REFUSED_PER_S_MAX = PUBLISHES_UNANSWERED_MAX
"""Of one session: all that a client may have under way, once a second. Above it the gateway stops reading for a while:
a refusal costs it as much as a publish, and costs the client nothing."""


class WaitingPublish(NamedTuple):
    """One that is not answered yet."""

    publish: Publish
    admitted: bool
    """False: it is asked first whether its object is there."""


@dataclass(slots=True)
class SessionPublishes:
    """The publishes of one session."""

    waiting: deque[WaitingPublish] = field(default_factory=deque)
    """In the order in which they were said; the first one is under way to Kafka, or its object is asked for."""
    refused: int = 0
    """The request that was refused, and is to come again before any other; 0: none was."""
    asked: int = 0
    """Number of the last asking for an object; 0: there was none."""
    asking: Quota = field(default_factory=lambda: Quota(0.0))
    """What may be asked of outcomes."""
    due_s: float = NEVER_S
    """When the answer to that is not waited for any more; NEVER_S: none is."""
    refusals: float = 0.0
    """So many were refused lately."""
    refused_s: float = 0.0
    """When the last one was."""

    def refuse(self, request: int) -> None:
        """This one is to come again before any other; 0: whichever comes is taken."""
        self.refused = request

    def refuses_too_often(self, now_s: float) -> bool:
        """One more is refused as it is said. Whether the client does not stop."""
        self.refusals = max(0.0, self.refusals - (now_s - self.refused_s) * REFUSED_PER_S_MAX) + 1
        self.refused_s = now_s
        return self.refusals > PUBLISHES_UNANSWERED_MAX

    def ask(self, due_s: float) -> int:
        """The object of the first one is asked for. Returns the number of the asking."""
        self.asked += 1
        self.due_s = due_s
        return self.asked

    def answered(self) -> None:
        """Whether by the matcher or by nobody in time."""
        self.due_s = NEVER_S
