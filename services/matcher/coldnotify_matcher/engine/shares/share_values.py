"""Values that the rule of a share takes, and returns."""

from typing import NamedTuple

from coldnotify_schemas.share_state import HandOutState


class SharedMessage(NamedTuple):
    """A message of the share's channel, as the rule needs it."""

    offset: int
    key: str = ""
    """Messages with one key are handed out in order; empty: it has none."""
    expires_at: int | None = None
    """Unix time in ms."""
    published_ms: int = 0
    """When the log took it (Unix time); 0: not known."""


class DeadLetter(NamedTuple):
    """A message that its share's members have failed with."""

    offset: int
    attempts: int
    holder: str
    """Its latest holder; empty: not known."""
    rejected: bool
    """True if its holder has rejected it; else it had too many attempts."""
    reason: int = 0
    """As in HandOut, as is the next one."""
    through: int = -1


class Holding(NamedTuple):
    """A message that was handed out and is not settled."""

    offset: int
    number: int
    attempts: int
    state: HandOutState
    member: str
    """Its holder; empty: nobody has it."""
    ends_ms: int
    """The end of its lease; while it waits, the time from which on it may be handed out."""
    lent_ms: int | None = None
    """The time at which its holder was handed it; None: nobody has it, or a predecessor knew."""


class HandOut(NamedTuple):
    """One message, or a notice of what is missing, for one member."""

    member: str
    offset: int
    number: int
    attempts: int
    """The attempts before this hand-out."""
    reason: int = 0
    """As in `wire.Reason`; 0: it is a message."""
    through: int = -1
    """For a notice: messages from `offset` up to this one may be missing."""
