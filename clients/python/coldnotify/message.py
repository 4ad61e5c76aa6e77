"""The messages and gaps that a channel's callbacks are called with."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


def position_text(epoch: int, offset: int) -> str:
    """Returns the text form of a place in a log of channels, as in `Message.position`."""
    return f"{epoch:08x}.{offset}"


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a channel."""

    channel: str
    """Its name."""
    payload: Any
    """`data` parsed as JSON, else `data` itself."""
    offset: int
    """Offset in the log of the domain's channels: it rises from message to message, not by 1."""
    previous: int | None = None
    """The channel, or the pattern that it was told for, had been told up to this offset: the previous message's, or one
    below the `before` of a Missed. None: nothing was.
    """
    data: bytes = field(default=b"", repr=False)
    """The bytes that were sent."""
    id: str | None = None
    """The sender's, if it gave one. A message that is sent twice has the same."""
    source: str | None = None
    """The client that sent it, if it is known."""
    published_at: datetime | None = None
    """When the log stored it, in UTC."""
    epoch: int = field(default=0, repr=False)
    """Epoch of the log: a number of 32 bits."""
    group: str = field(default="", repr=False, compare=False)
    """The channel's group."""

    @property
    def position(self) -> str:
        """For `since` of `Notify.channel`: what comes behind this message."""
        return position_text(self.epoch, self.offset)


class MissedReason(StrEnum):
    """Why messages may be missing."""

    UNSAID = "UNSAID"
    RETENTION = "RETENTION"
    """The log does not have them any more."""
    EXPIRED = "EXPIRED"
    """Their `expires_at` has passed."""
    LOST = "LOST"
    """The log is another one: it was recreated, or the domain's retention was changed."""
    UNREADABLE = "UNREADABLE"
    """Kafka could not read them."""


@dataclass(frozen=True, slots=True)
class Missed:
    """Between two offsets of a channel, or of a pattern, messages may be missing. Neither of the two is meant."""

    channel: str
    """Its name, or the pattern's expression."""
    after: int | None
    """None: nothing of the log was told before."""
    before: int
    reason: MissedReason
    group: str = field(default="", repr=False, compare=False)
    """The channel's group."""
