"""The states of an identified session, and the table of how they follow each other.

A session is OPENING from its Hello until the matcher's Opened. That says in sync, and the session is CATCHING: it waits
for the pages of what it lacks; or it says not in sync, and it is UNSYNCED until its client has sent its whole set.
After the last page it is LIVE, and only LIVE sessions get live fan-outs. In every other state these are dropped, which
loses nothing: a page that is still to come contains them.

When the client's connection takes no more bytes, a LIVE session is SLOW: nothing is sent and nothing is asked for until
the connection is drained; then it is CATCHING from where it stood.

At a gap in the inbox, or when an answer fails to come, a session asks again: CATCHING with a new asking; or, where the
matcher may have lost sight of the session, OPENING once more.

The enums of the core's tables are IntEnums: a table is looked into ten times a wake, and the hash of an Enum is Python.
"""

from enum import IntEnum, auto


class State(IntEnum):
    """Where an identified session stands."""

    OPENING = auto()
    """Open is sent, no Opened has come yet."""
    UNSYNCED = auto()
    """The matcher's registrations differ from the client's; the client sends its set."""
    CATCHING = auto()
    """Pages come, or are asked for."""
    LIVE = auto()
    """Complete; fan-outs are passed on."""
    SLOW = auto()
    """The connection is full. What comes is dropped; once drained, the session catches up."""


class Event(IntEnum):
    """What moves a session from one state to another."""

    ASK_OPEN = auto()
    """Open is sent, again or as an announcement."""
    OPENED_IN_SYNC = auto()
    OPENED_NOT_IN_SYNC = auto()
    ASK_CATCH_UP = auto()
    """CatchUp from the session's complete is sent, with a new ask."""
    LAST_PAGE = auto()
    BLOCKED = auto()
    """The connection is full at a moment that would make or leave the session live, or ask for more."""


TABLE: dict[State, dict[Event, State]] = {
    State.OPENING: {
        Event.ASK_OPEN: State.OPENING,
        Event.OPENED_IN_SYNC: State.CATCHING,
        Event.OPENED_NOT_IN_SYNC: State.UNSYNCED,
    },
    State.UNSYNCED: {
        Event.ASK_OPEN: State.OPENING,
        Event.OPENED_IN_SYNC: State.CATCHING,
        Event.OPENED_NOT_IN_SYNC: State.UNSYNCED,
    },
    State.CATCHING: {
        Event.ASK_OPEN: State.OPENING,
        Event.OPENED_NOT_IN_SYNC: State.UNSYNCED,
        Event.ASK_CATCH_UP: State.CATCHING,
        Event.LAST_PAGE: State.LIVE,
        Event.BLOCKED: State.SLOW,
    },
    State.LIVE: {
        Event.ASK_OPEN: State.OPENING,
        Event.OPENED_NOT_IN_SYNC: State.UNSYNCED,
        Event.ASK_CATCH_UP: State.CATCHING,
        Event.BLOCKED: State.SLOW,
    },
    State.SLOW: {
        Event.ASK_OPEN: State.OPENING,
        Event.OPENED_NOT_IN_SYNC: State.UNSYNCED,
        Event.ASK_CATCH_UP: State.CATCHING,
        Event.BLOCKED: State.SLOW,
    },
}
"""What is not in here does not happen: it raises KeyError."""
