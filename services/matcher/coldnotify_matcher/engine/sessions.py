"""Sessions: one connection of a client, as the matcher follows it."""

from dataclasses import dataclass, field
from enum import Enum

from coldnotify_matcher.engine.gateways import GatewayView
from coldnotify_matcher.engine.objects import Obj

NO_CURSOR = -1
NO_ASK = 0
"""Gateways count their askings from 1: an answer to this one is stale, so a live session is announced anew."""


class SessionState(Enum):
    """Where a session is, in the matcher's eyes."""

    UNSYNCED = "unsynced"
    """The digests differ: only the client's whole set helps."""
    CATCHING = "catching"
    """Pages are on their way to it."""
    LIVE = "live"
    """In the fan-out index."""


@dataclass(slots=True, eq=False)
class Session:
    """The one session of a client that counts."""

    gateway: GatewayView
    number: int
    ask: int
    state: SessionState = SessionState.CATCHING
    indexed: bool = False
    """Its number stands in the fan-out index."""
    cursor: int = NO_CURSOR
    """What the pages sent so far cover."""
    page: int = 0
    page_bytes: int = 0
    """How large its pages are to be, as its gateway says; 0: it does not say."""
    owed: list[Obj] = field(default_factory=list)
    """Objects whose newest version is to be told whatever the cursor says, and whoever published it."""
    announced_ms: int = 0
    """When its gateway last said that it is there; 0: a predecessor knew."""
    synced_chunks: int = 0
    synced: list[str] = field(default_factory=list)
    """The parts of a reg-sync that are in; `half_sets.HalfSets` changes it and what belongs to it."""
    synced_bytes: int = 0
    """What these names take in memory."""
