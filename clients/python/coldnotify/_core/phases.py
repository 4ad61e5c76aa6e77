"""The four phases of a session. Only three things move it on, and `NEXT` is all of it.

OPENING   Hello is sent, Welcome is awaited
SYNCING   the service's set differs from ours: the whole wanted set is sent, in chunks
CATCHING  in sync; what is missing comes, page by page
LIVE      caught up; versions come as they are published
"""

from enum import Enum


class Phase(Enum):
    """Where a session is."""

    OPENING = "opening"
    SYNCING = "syncing"
    CATCHING = "catching up"
    LIVE = "live"


class Said(Enum):
    """What moves a session on."""

    IN_SYNC = "Welcome, in sync"
    NOT_IN_SYNC = "Welcome, not in sync"
    CAUGHT_UP = "CaughtUp"


NEXT = {
    (Phase.OPENING, Said.IN_SYNC): Phase.CATCHING,
    (Phase.OPENING, Said.NOT_IN_SYNC): Phase.SYNCING,
    (Phase.SYNCING, Said.IN_SYNC): Phase.CATCHING,
    (Phase.SYNCING, Said.NOT_IN_SYNC): Phase.SYNCING,  # begin again at chunk 0
    (Phase.CATCHING, Said.IN_SYNC): Phase.CATCHING,
    (Phase.CATCHING, Said.NOT_IN_SYNC): Phase.SYNCING,
    (Phase.CATCHING, Said.CAUGHT_UP): Phase.LIVE,
    (Phase.LIVE, Said.IN_SYNC): Phase.CATCHING,
    (Phase.LIVE, Said.NOT_IN_SYNC): Phase.SYNCING,  # a Ping's digest was not the agreed one
    (Phase.LIVE, Said.CAUGHT_UP): Phase.LIVE,  # after a slow phase
}
"""What is not in here is not expected, and ignored."""
