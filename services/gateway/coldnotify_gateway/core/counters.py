"""The core's counters, for the metrics. They are plain numbers, because counting must not slow a fan-out down."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """Counts since the core's start."""

    connections: int = 0
    refused_connections: int = 0
    dropped_unidentified: int = 0
    """Connections closed before their time for a Hello ran out, because too many had sent none."""
    malformed_proxy_headers: int = 0
    """Connections from balancers that did not begin with a PROXY protocol header."""
    syncs_by_frames: int = 0
    """Requests of POST /v1/sync in its deprecated form."""
    hellos_new: int = 0
    hellos_returning: int = 0
    """Hellos with a cursor: the client was connected before, here or at another gateway."""
    received_bytes: int = 0
    sent_bytes: int = 0
    fan_outs: int = 0
    deliveries: int = 0
    """Live notifications written, counted per session."""
    live_dropped: int = 0
    """Live notifications not written, because the session was not live (a page contains them) or had ended."""
    pages: int = 0
    stale_answers: int = 0
    """Opened and Page records that answer an earlier question than the session's latest."""
    slow_phases: int = 0
    gaps: int = 0
    """Inbox records missed, found by their numbers."""
    announcements: int = 0
    """Sessions announced again because the matcher had forgotten them."""
    asked_again: int = 0
    foreign_records: int = 0
    """Records for other gateways that share this inbox."""
    stale_records: int = 0
    """Records of a matcher that another one has succeeded."""
    malformed_records: int = 0
    requests_dropped: int = 0
    """Requests of clients with too many unanswered ones, and SyncChunks above their limit."""
    closes: Counter[int] = field(default_factory=Counter)
    """Closes by close code."""
    requests: Counter[str] = field(default_factory=Counter)
    """Requests by kind of body."""
    publishes: Counter[str] = field(default_factory=Counter)
    """Clients' publishes by outcome: published, refused (temporarily), rejected."""
    failed_requests: Counter[str] = field(default_factory=Counter)

    def delivered(self, deliveries: int, sent_bytes: int) -> None:
        """Counts live notifications, and all their bytes."""
        self.deliveries += deliveries
        self.sent_bytes += sent_bytes

    def slowed(self) -> None:
        """Counts a session that has become slow."""
        self.slow_phases += 1
