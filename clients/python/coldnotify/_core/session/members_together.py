"""Members of a set, which the application is told together: those that came wait for the others. Pure.

A frame with `more` says that others follow. The last one has the same offset and no `more`. Whatever else says that all
up to that offset was sent ends the wait, too: then nothing of the set is to come that this client wants.
"""

from collections.abc import Sequence

from coldnotify_schemas import wire_pb2 as wire

WAITING_MAX = 1_000
"""Frames that wait at most. A set has 100 members."""


class MembersTogether:
    """Those of one session."""

    def __init__(self) -> None:
        self._waiting: list[wire.Notification] = []
        self._complete = -1
        """The offset up to which the frames that wait make their client complete."""

    def take(self, notification: wire.Notification) -> Sequence[wire.Notification]:
        """Returns the frames that are to be taken in now, in order, with this one."""
        if notification.answer:
            return (notification,)
        complete = notification.offset - notification.behind
        released = self.release(complete)
        if notification.more and len(self._waiting) < WAITING_MAX:
            self._waiting.append(notification)
            self._complete = max(self._complete, complete)
            return released
        if self._waiting and any(one.offset == notification.offset for one in self._waiting):
            released = [*released, *self._waiting]
            self._waiting = []
        return (*released, notification)

    def release(self, complete: int) -> Sequence[wire.Notification]:
        """Returns the frames that wait no longer, once all up to `complete` was sent."""
        if not self._waiting or complete <= self._complete:
            return ()
        released, self._waiting, self._complete = self._waiting, [], -1
        return released
