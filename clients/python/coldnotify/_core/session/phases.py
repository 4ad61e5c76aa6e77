"""The four phases of a session. Three events move it on; `NEXT` is the whole table.

OPENING   Hello is sent, Welcome is awaited
SYNCING   the service's set differs from ours: the whole wanted set is sent, in chunks
CATCHING  in sync; missing versions come, page by page
LIVE      caught up; versions come as they are published
"""

from enum import Enum


class Phase(Enum):
    """The phases of a session."""

    OPENING = "opening"
    SYNCING = "syncing"
    CATCHING = "catching up"
    LIVE = "live"


class PhaseSaid(Enum):
    """The events that move a session on."""

    IN_SYNC = "Welcome, in sync"
    NOT_IN_SYNC = "Welcome, not in sync"
    CAUGHT_UP = "CaughtUp"


NEXT = {
    (Phase.OPENING, PhaseSaid.IN_SYNC): Phase.CATCHING,
    (Phase.OPENING, PhaseSaid.NOT_IN_SYNC): Phase.SYNCING,
    (Phase.SYNCING, PhaseSaid.IN_SYNC): Phase.CATCHING,
    (Phase.SYNCING, PhaseSaid.NOT_IN_SYNC): Phase.SYNCING,  # begin again at chunk 0
    (Phase.CATCHING, PhaseSaid.IN_SYNC): Phase.CATCHING,
    (Phase.CATCHING, PhaseSaid.NOT_IN_SYNC): Phase.SYNCING,
    (Phase.CATCHING, PhaseSaid.CAUGHT_UP): Phase.LIVE,
    (Phase.LIVE, PhaseSaid.IN_SYNC): Phase.CATCHING,
    (Phase.LIVE, PhaseSaid.NOT_IN_SYNC): Phase.SYNCING,  # a Ping's digest was not the agreed one
    (Phase.LIVE, PhaseSaid.CAUGHT_UP): Phase.LIVE,  # after a slow phase
}
"""Any other event is unexpected, and ignored."""
