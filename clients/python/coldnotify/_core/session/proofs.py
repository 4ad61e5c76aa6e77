"""Proofs of freshness: when a question was sent whose answer says how old is what the service has told.

Only an answer proves anything: a notification may have waited in a network's queue for minutes. The n-th Pong answers
the n-th Ping, and CaughtUp the Hello. Everything acknowledged to its publisher before the question was sent, less the
age in the answer, has come with or before it. A stream's time counts once all of that has been told to the application.
"""

from collections import deque

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.protocol import AGE_UNKNOWN_S, AGE_UNSAID_S, FRESH_PROOF_S

from coldnotify._core.delivery.delivery import Delivery
from coldnotify._core.interests.registrations import Registrations
from coldnotify._core.streams.stream import first_of


class SessionProofs:
    """The questions of one session, and what their answers prove."""

    def __init__(self, delivery: Delivery, registrations: Registrations, now: float) -> None:
        self._delivery = delivery
        self._registrations = registrations
        self._hello_at = now
        self.came_as_of = now
        """Everything acknowledged before that time has come, in all streams, or the session had not begun."""
        self._pings: deque[float] = deque()
        """When the Pings without a Pong were sent. Silence ends the session before there are many."""
        self._pinged_at = now

    def pinged(self, now: float) -> None:
        """A Ping is sent."""
        self._pings.append(now)
        self._pinged_at = now

    def pong(self) -> float | None:
        """A Pong has come. Returns when its Ping was sent."""
        return self._pings.popleft() if self._pings else None

    def caught_up(self, said: wire.CaughtUp) -> None:
        """CaughtUp has come, after everything that it covers."""
        self._prove(self._hello_at, said)

    def page_ended(self, said: wire.PageEnd) -> None:
        """The last page of channels has come: it answers the Hello, too."""
        if said.last and said.age_s != AGE_UNKNOWN_S:
            self._delivery.channels.prove(self._hello_at - (said.age_s or AGE_UNSAID_S))

    def answered(self, asked_at: float, said: wire.Pong) -> None:
        """The Pong to a Ping that was sent then has come, after everything that it covers."""
        self._prove(asked_at, said)

    def ping_due(self, keepalive_s: float) -> float:
        """Returns when to ask although the connection is busy, because what is known is getting old."""
        as_of = as_of_all(self._delivery, self._registrations)
        old_at = self._hello_at if as_of is None else as_of + FRESH_PROOF_S
        return max(old_at, self._pinged_at) + keepalive_s

    def _prove(self, asked_at: float, said: wire.Pong | wire.CaughtUp) -> None:
        ages = [said.age_s, *(stream.age_s for stream in said.streams)]
        self.came_as_of = max(self.came_as_of, asked_at - max(age or AGE_UNSAID_S for age in ages))
        if said.age_s != AGE_UNKNOWN_S:
            self._delivery.prove(asked_at - (said.age_s or AGE_UNSAID_S))
        if not self._registrations.has_channels:
            self._delivery.channels.prove(asked_at)  # before that, none was settled
        elif said.streams and first_of(said.streams).age_s != AGE_UNKNOWN_S:
            self._delivery.channels.prove(asked_at - (first_of(said.streams).age_s or AGE_UNSAID_S))


def as_of_each(delivery: Delivery, registrations: Registrations) -> dict[str, float | None]:
    """Returns by stream the time before which everything acknowledged has been told; None: not known. Channels have one
    if any is registered."""
    objects: dict[str, float | None] = {"objects": delivery.as_of}
    return objects | {"channels": delivery.channels.as_of} if registrations.has_channels else objects


def as_of_all(delivery: Delivery, registrations: Registrations) -> float | None:
    """Returns the time before which everything acknowledged has been told, in all streams. None: not known."""
    if not registrations.has_channels or delivery.as_of is None:
        return delivery.as_of
    return None if delivery.channels.as_of is None else min(delivery.as_of, delivery.channels.as_of)
