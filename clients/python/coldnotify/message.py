"""The messages and gaps that a channel's callbacks are called with."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from math import ceil
from typing import Any

from coldnotify_schemas.share_names import RETRY_S_MAX

from coldnotify.errors import LeaseLost


def nowhere(lease: Any, told: Callable[[], object]) -> None:
    """For a message that no client has."""


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


@dataclass(frozen=True, slots=True)
class HandedMessage(Message):
    """A message of a share, under a lease. Returning from its callback settles it, raising gives it back."""

    share: str = ""
    """The share's name."""
    attempts: int = 0
    """So many callbacks have begun with it before, at whichever member."""
    key: str | None = None
    """Messages with one key are handed out one after another."""
    lease: Any = field(default=None, repr=False, compare=False)
    """The library's."""

    @property
    def is_lost(self) -> bool:
        """True once another member may have the message: what its callback still does may be done twice."""
        return bool(self.lease.is_lost)

    def retry(self, after_s: float = 0) -> None:
        """Gives it back once its callback has returned or raised: a member is handed it again, not before `after_s`
        seconds, at most 24 h. Raises ValueError.
        """
        is_number = isinstance(after_s, int | float) and not isinstance(after_s, bool)
        if not is_number or not 0 <= after_s <= RETRY_S_MAX:
            raise ValueError(f"after_s: {after_s!r} is not a number of seconds from 0 to {RETRY_S_MAX}")
        self.lease.want_retry(ceil(after_s))

    def reject(self) -> None:
        """Has it become a dead letter once its callback has returned or raised, whatever its attempts."""
        self.lease.want_reject()

    def check_settled(self) -> None:
        """Raises what `done` raises if it is not settled: LeaseLost, TimeoutError."""
        if self.lease.is_over and self.is_lost:
            raise LeaseLost(self.channel, self.offset)
        if not self.lease.is_over:
            raise TimeoutError(f"channel {self.channel!r}, offset {self.offset}: the settlement is not answered yet")


@dataclass(frozen=True, slots=True)
class LeasedMessage(HandedMessage):
    """A message of a share, for a callback of `coldnotify.Notify`."""

    settle: Callable[[Any, Callable[[], object]], None] = field(default=nowhere, repr=False, compare=False)
    """The library's."""

    def done(self, timeout_s: float | None = None) -> None:
        """Settles it, and returns once that is certain: it is handed to nobody any more, whatever fails from here on.
        Returning from the callback has no effect after it. `timeout_s`: None: the length of the lease. Raises
        LeaseLost, TimeoutError (no answer yet; it is said until there is one).
        """
        over = threading.Event()
        self.settle(self.lease, over.set)
        over.wait(self.lease.lease_s if timeout_s is None else timeout_s)
        self.check_settled()


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
