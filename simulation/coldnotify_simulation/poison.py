"""Requests that make a handler raise, its step fail, or Kafka refuse a record: what the policy of faults is for."""

from collections.abc import Sequence

from coldnotify_matcher.engine import ProducedRecord
from coldnotify_matcher.matcher_job import MatcherJob
from coldnotify_matcher.matcher_partition import MatcherPartition
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.core.job import Outputs

TOPICS = TopicNames()

POISON_RAISES, POISON_STEP, POISON_REFUSED = POISONS = "poison-raises", "poison-step", "poison-refused"
"""Names of requests' clients: handling raises; the step cannot be taken; Kafka refuses a record."""


class Planted(Exception):
    """The exception that a handler raises by design: any other exception of a handler breaks the schedule."""


class PoisonedPartition(MatcherPartition):
    """One that some requests make raise."""

    _poisoned = ""

    def on_requests(self, requests: Sequence[tuple[int, internal_pb2.Request]], now_ms: int) -> int:
        """Those before a poisoned one are handled."""
        before: list[tuple[int, internal_pb2.Request]] = []
        poisoned = 0
        for offset, request in requests:
            if request.client == POISON_RAISES:
                if handled := self._handle(before, now_ms):
                    return handled + poisoned
                self.engine.state.at = TOPICS.requests, offset
                raise Planted
            if request.client not in POISONS:
                before.append((offset, request))
            elif handled := self._handle(before, now_ms):
                return handled + poisoned
            else:
                self._poisoned = request.client
                poisoned += 1
        return self._handle(before, now_ms) + poisoned

    def _handle(self, requests: Sequence[tuple[int, internal_pb2.Request]], now_ms: int) -> int:
        return super().on_requests(requests, now_ms) if requests else 0

    def take_step(self, now_ms: int) -> Outputs:
        """Nobody knows which record it is that the step fails of."""
        if self._poisoned == POISON_STEP:
            raise Planted
        outputs = super().take_step(now_ms)
        if self._poisoned:
            refused = ProducedRecord(TOPICS.sessions, self.number, POISON_REFUSED.encode(), b"")
            return outputs._replace(state=[*outputs.state, refused])
        return outputs


class PoisonedJob(MatcherJob):
    """The matcher's, with partitions that can be poisoned."""

    partition_type = PoisonedPartition
