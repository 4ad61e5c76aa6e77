"""One object's place in the delivery: a version that its callbacks are being told, and a newer one that waits.

A still newer one replaces the waiting one.
"""

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coldnotify._core.delivery.floors import Floor
from coldnotify._core.streams.frontier import Hold
from coldnotify._core.streams.payloads import said_by
from coldnotify.notification import Notification


class Update(NamedTuple):
    """The object's data in a Notification frame."""

    incarnation: int
    version: int | None
    payload: bytes = b""
    deleted: bool = False
    raw: bool = False
    """The payload is any bytes, and need not be JSON."""

    @property
    def said(self) -> Any:
        """Returns what the payload says as JSON, or if it is `raw` and says nothing, its bytes; None if there is none.

        Raises ValueError, RecursionError.
        """
        if not self.payload:
            return None
        return said_by(self.payload) if self.raw else json.loads(self.payload)

    @property
    def floor(self) -> Floor:
        """For comparison; *unknown* is below every version."""
        return (-1, -1) if self.version is None else (self.incarnation, self.version)


@dataclass(frozen=True, slots=True, eq=False)
class CallbackJob:
    """Run the callbacks of these subscribers with this notification, then call `CallbackTurns.done`."""

    notification: Notification
    subscribers: tuple[int, ...]
    update: Update
    description: bytes | None = None
    """The notification's description, if a query asks for it."""

    @property
    def arguments(self) -> tuple[Notification]:
        """For a callback."""
        return (self.notification,)


@dataclass(slots=True, eq=False)
class Slot:
    """The slot of one object. An empty one is removed."""

    waiting: Update | None = None
    waiting_hold: Hold | None = None
    told: set[int] = field(default_factory=set)
    """Subscribers whose callback has returned for `waiting`: a retry leaves them out."""
    running: CallbackJob | None = None
    running_hold: Hold | None = None
    failures: int = 0
    retry_at: float | None = None

    @property
    def newest(self) -> Floor:
        """The version that waits or else runs; a slot has one of them."""
        if self.waiting is not None:
            return self.waiting.floor
        assert self.running is not None, "an empty slot is removed"
        return self.running.update.floor

    def take(self) -> None:
        """The waiting version is being told from here on, or skipped."""
        self.waiting = None
        self.running_hold, self.waiting_hold = self.waiting_hold, None
