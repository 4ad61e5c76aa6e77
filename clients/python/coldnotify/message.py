"""What the callbacks of a channel are told."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


def position_text(epoch: int, offset: int) -> str:
    """A place in a log of channels, as `Message.position` says it."""
    return f"{epoch:08x}.{offset}"


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a channel."""

    channel: str
    """Its name."""
    payload: Any
    """What `data` says as JSON, else `data` itself."""
    offset: int
    """In the log of the domain's channels: it rises from message to message, not by 1."""
    previous: int | None = None
    """Up to this offset the channel was told before: the message before, or one below the `before` of a Missed. None:
    nothing was."""
    data: bytes = field(default=b"", repr=False)
    """What was sent."""
    id: str | None = None
    """The sender's, if it gave one. A message that is sent twice has the same."""
    source: str | None = None
    """The client that sent it, if it is known."""
    published_at: datetime | None = None
    """When the log took it, in UTC."""
    epoch: int = field(default=0, repr=False)
    """Of the log: a number of 32 bits."""

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
    """The log is another one: it was made anew, or the domain's retention was changed."""
    UNREADABLE = "UNREADABLE"
    """Kafka could not read them."""


@dataclass(frozen=True, slots=True)
class Missed:
    """Between two offsets of a channel messages may be missing. Neither of the two is meant."""

    channel: str
    """Its name."""
    after: int | None
    """None: nothing of the log was told before."""
    before: int
    reason: MissedReason
