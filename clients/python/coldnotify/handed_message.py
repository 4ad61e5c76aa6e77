"""Messages of a share, as a callback has them under a lease."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from coldnotify_schemas.share_names import RETRY_S_MAX

from coldnotify.errors import LeaseLost
from coldnotify.message import Message


def nowhere(lease: Any, told: Callable[[], object]) -> None:
    """For a message that no client has."""


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
