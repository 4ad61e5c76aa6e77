"""Limits the requests of a session that are forwarded to the matcher: unanswered ones, and SyncChunks per interval."""

from dataclasses import dataclass

from coldnotify_gateway.core.limits import Limits


@dataclass(slots=True)
class Quota:
    """The quota of one session. Times are seconds of the core's clock."""

    since_s: float
    """Start of the interval in which `chunks` were forwarded."""
    chunks: int = 0
    unanswered: int = 0
    """Number of unanswered Register and Unregister requests."""
    requested_s: float = 0.0
    """Time at which the last of these requests was forwarded."""

    def take_request(self, now_s: float, limits: Limits) -> bool:
        """Returns true, and counts it, if one more Register or Unregister may be forwarded."""
        if now_s - self.requested_s > limits.requests_forgotten_s:
            self.unanswered = 0
        if self.unanswered >= limits.requests_unanswered_max:
            return False
        self.unanswered += 1
        self.requested_s = now_s
        return True

    def take_chunk(self, now_s: float, limits: Limits) -> bool:
        """Returns true, and counts it, if one more SyncChunk may be forwarded."""
        if now_s - self.since_s > limits.sync_chunks_s:
            self.since_s, self.chunks = now_s, 0
        if self.chunks >= limits.sync_chunks_max:
            return False
        self.chunks += 1
        return True

    def answered(self) -> None:
        """Removes an answered request from the count."""
        self.unanswered = max(0, self.unanswered - 1)

    def forgive(self) -> None:
        """Forgets unanswered requests, which get no answer any more, because the registrations are in sync."""
        self.unanswered = 0
