"""The phases of an identified session, the table of how they follow each other, and the states that operators see.

A session is OPENING from its Hello until the matcher's Opened. That says in sync, and the pages of its streams come
(`stream.py`); or it says not in sync, and the session is UNSYNCED until its client has sent its whole set. At a gap in
the inbox, or when an answer fails to come, a session asks again; where the matcher may have lost sight of it, it is
OPENING once more.
"""

from enum import IntEnum, auto

from coldnotify_gateway.core.stream import Stage


class Phase(IntEnum):
    """Phases of an identified session."""

    OPENING = auto()
    """Open is sent, no Opened has come yet."""
    UNSYNCED = auto()
    """The matcher's registrations differ from the client's; the client sends its set."""
    IN_SYNC = auto()
    """The streams are caught up with, and followed."""


class Event(IntEnum):
    """Events that move a session from one phase to another."""

    ASK_OPEN = auto()
    """Open is sent, again or as an announcement."""
    OPENED_IN_SYNC = auto()
    OPENED_NOT_IN_SYNC = auto()


TABLE: dict[Phase, dict[Event, Phase]] = {
    Phase.OPENING: {
        Event.ASK_OPEN: Phase.OPENING,
        Event.OPENED_IN_SYNC: Phase.IN_SYNC,
        Event.OPENED_NOT_IN_SYNC: Phase.UNSYNCED,
    },
    Phase.UNSYNCED: {
        Event.ASK_OPEN: Phase.OPENING,
        Event.OPENED_IN_SYNC: Phase.IN_SYNC,
        Event.OPENED_NOT_IN_SYNC: Phase.UNSYNCED,
    },
    Phase.IN_SYNC: {
        Event.ASK_OPEN: Phase.OPENING,
        Event.OPENED_NOT_IN_SYNC: Phase.UNSYNCED,
    },
}
"""Any other transition raises KeyError."""


class State(IntEnum):
    """A session as operators see it, in metrics and lists: its phase, and in sync the stage of its objects' stream."""

    OPENING = auto()
    UNSYNCED = auto()
    CATCHING = auto()
    LIVE = auto()
    SLOW = auto()


BEFORE_SYNC = {Phase.OPENING: State.OPENING, Phase.UNSYNCED: State.UNSYNCED}
IN_SYNC = {
    Stage.DUE: State.CATCHING,
    Stage.SENT: State.CATCHING,
    Stage.LIVE: State.LIVE,
    Stage.SLOW: State.SLOW,
}
