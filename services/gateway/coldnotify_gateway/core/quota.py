"""How many requests of a session are passed on to the matcher: so many unanswered, so many SyncChunks in a while."""

from dataclasses import dataclass

from coldnotify_gateway.core.limits import Limits


@dataclass(slots=True)
class Quota:
    """The quota of one session. Times are seconds of the core's clock."""

    since_s: float
    """`chunks` were passed on since then."""
    chunks: int = 0
    unanswered: int = 0
    """Register and Unregister that no answer came for."""
    requested_s: float = 0.0
    """When the last one of them was passed on."""

    def take_request(self, now_s: float, limits: Limits) -> bool:
        """Whether one more Register or Unregister is passed on."""
        if now_s - self.requested_s > limits.requests_forgotten_s:
            self.unanswered = 0
        if self.unanswered >= limits.requests_unanswered_max:
            return False
        self.unanswered += 1
        self.requested_s = now_s
        return True

    def take_chunk(self, now_s: float, limits: Limits) -> bool:
        """Whether one more SyncChunk is passed on."""
        if now_s - self.since_s > limits.sync_chunks_s:
            self.since_s, self.chunks = now_s, 0
        if self.chunks >= limits.sync_chunks_max:
            return False
        self.chunks += 1
        return True

    def answered(self) -> None:
        """One of the requests was answered."""
        self.unanswered = max(0, self.unanswered - 1)

    def forgive(self) -> None:
        """What was not answered will not be: the registrations are in sync."""
        self.unanswered = 0
