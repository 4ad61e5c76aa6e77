"""What the core counts, for the metrics. Plain numbers: counting must cost nothing on the way of a fan-out."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """All since the start of the core."""

    connections: int = 0
    refused_connections: int = 0
    dropped_unidentified: int = 0
    """Closed although they had time left to say Hello: too many had not."""
    malformed_proxy_headers: int = 0
    """Connections from balancers that did not begin with a PROXY protocol header."""
    syncs_by_frames: int = 0
    """POST /v1/sync in its deprecated form."""
    hellos_new: int = 0
    hellos_returning: int = 0
    """With a cursor: the client was here, or at another gateway, before."""
    received_bytes: int = 0
    sent_bytes: int = 0
    fan_outs: int = 0
    deliveries: int = 0
    """Live notifications written, one for each session."""
    urgent: int = 0
    """Notifications of high priority written, one for each session; those to live sessions are deliveries, too."""
    live_dropped: int = 0
    """Live notifications not written: the session was not live (a page contains them), or gone."""
    messages: int = 0
    """Of channels, written live or in pages, one for each session."""
    urgent_messages: int = 0
    """Of these, live ones of high priority."""
    pages: int = 0
    stale_answers: int = 0
    """Opened and Page of an asking that is not the session's latest."""
    slow_phases: int = 0
    gaps: int = 0
    """Inbox records missed, found by their numbers."""
    announcements: int = 0
    """Sessions announced anew because the matcher had lost sight of them."""
    asked_again: int = 0
    foreign_records: int = 0
    """Of other gateways that share this inbox."""
    stale_records: int = 0
    """Of a matcher that another one has succeeded."""
    malformed_records: int = 0
    requests_dropped: int = 0
    """Of clients with too many unanswered ones; SyncChunks above their limit."""
    closes: Counter[int] = field(default_factory=Counter)
    """By close code."""
    requests: Counter[str] = field(default_factory=Counter)
    """By kind of body."""
    publishes: Counter[str] = field(default_factory=Counter)
    """What clients published on their sessions, by outcome: published, refused (for now), rejected."""
    failed_requests: Counter[str] = field(default_factory=Counter)
