"""The phases of an identified session, the table of their transitions, and the states that operators see.

A session is OPENING from its Hello until the matcher's Opened. If that is in sync, the pages of its streams follow
(`stream.py`). If it is not in sync, the session is UNSYNCED until its client has sent its whole set. After a gap in the
inbox, or when an answer is overdue, a session asks again. If the matcher may have forgotten it, it returns to OPENING.
"""

from enum import IntEnum, auto

from coldnotify_gateway.core.stream import Stage


class SessionPhase(IntEnum):
    """Phases of an identified session."""

    OPENING = auto()
    """Open was sent, but no Opened has arrived yet."""
    UNSYNCED = auto()
    """The matcher's registrations differ from the client's; the client sends its set."""
    IN_SYNC = auto()
    """The streams are caught up, then followed live."""


class PhaseEvent(IntEnum):
    """Events that move a session from one phase to another."""

    ASK_OPEN = auto()
    """Open is sent: for the first time, again, or as an announcement."""
    OPENED_IN_SYNC = auto()
    OPENED_NOT_IN_SYNC = auto()


TABLE: dict[SessionPhase, dict[PhaseEvent, SessionPhase]] = {
    SessionPhase.OPENING: {
        PhaseEvent.ASK_OPEN: SessionPhase.OPENING,
        PhaseEvent.OPENED_IN_SYNC: SessionPhase.IN_SYNC,
        PhaseEvent.OPENED_NOT_IN_SYNC: SessionPhase.UNSYNCED,
    },
    SessionPhase.UNSYNCED: {
        PhaseEvent.ASK_OPEN: SessionPhase.OPENING,
        PhaseEvent.OPENED_IN_SYNC: SessionPhase.IN_SYNC,
        PhaseEvent.OPENED_NOT_IN_SYNC: SessionPhase.UNSYNCED,
    },
    SessionPhase.IN_SYNC: {
        PhaseEvent.ASK_OPEN: SessionPhase.OPENING,
        PhaseEvent.OPENED_NOT_IN_SYNC: SessionPhase.UNSYNCED,
    },
}
"""Any other transition raises KeyError."""


class SessionState(IntEnum):
    """A session as operators see it, in metrics and lists: its phase, and in sync the stage of its objects' stream."""

    OPENING = auto()
    UNSYNCED = auto()
    CATCHING = auto()
    LIVE = auto()
    SLOW = auto()


BEFORE_SYNC = {SessionPhase.OPENING: SessionState.OPENING, SessionPhase.UNSYNCED: SessionState.UNSYNCED}
IN_SYNC = {
    Stage.DUE: SessionState.CATCHING,
    Stage.SENT: SessionState.CATCHING,
    Stage.LIVE: SessionState.LIVE,
    Stage.SLOW: SessionState.SLOW,
}
