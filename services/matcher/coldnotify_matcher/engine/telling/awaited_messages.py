"""Messages that are not read yet, though a version names them: the version waits until it is certain that there is one.

A publisher of both writes the message first. So a message that is named is read soon, or its log's end, if that is
asked for behind the version, is above it. Else there is no such message; nor is there if its place has one of another
channel. Then the header is passed over, and the version is told as all others.
"""

from collections.abc import Iterator

from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.engine.partition_state import MessageWait, PartitionState
from coldnotify_matcher.engine.telling.told_as_message import has_message, log_of

WAIT_MS = 10_000
"""Longest wait for the end of a log: nobody asks for it without sessions, or without Kafka."""
LOOKS = 2
"""The second end that comes was asked for behind the version, whatever question was under way then."""


class AwaitedMessages:
    """Versions of one partition that wait."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state

    def __contains__(self, obj: Obj) -> bool:
        return obj in self._state.awaited_messages

    def begin(self, obj: Obj, now_ms: int) -> None:
        """Look at the object's newest version, which was read now: it waits if its message is not read, or if one
        before it waits, which it replaces."""
        awaited = self._state.awaited_messages
        before = awaited.pop(obj, None)
        if before is None and obj.message is None:
            return
        if read := self._is_read(obj):
            self._check(obj)
        if before is not None or not read:
            log = log_of(self._state, obj)
            awaited[obj] = MessageWait(now_ms, 0 if log is None else log.ends.looks)

    def forget(self, obj: Obj) -> None:
        """End the object's wait."""
        self._state.awaited_messages.pop(obj, None)

    @property
    def due(self) -> bool:
        """True if a message that a version waits for is read by now."""
        return any(self._is_read(obj) for obj in self._state.awaited_messages)

    def take_due(self, now_ms: int) -> Iterator[Obj]:
        """Yields the objects whose wait is over."""
        awaited = self._state.awaited_messages
        for obj, wait in list(awaited.items()):
            if self._is_read(obj) or self._is_none(obj, wait, now_ms):
                del awaited[obj]
                self._check(obj)
                yield obj

    def _is_read(self, obj: Obj) -> bool:
        log = log_of(self._state, obj)
        return log is None or obj.message is None or obj.message.offset < log.position

    def _is_none(self, obj: Obj, wait: MessageWait, now_ms: int) -> bool:
        log = log_of(self._state, obj)
        if log is None or obj.message is None:
            return True
        if log.ends.looks < wait.looks + LOOKS:
            return not 0 <= now_ms - wait.since_ms < WAIT_MS
        return log.ends.newest <= obj.message.offset

    def _check(self, obj: Obj) -> None:
        """Pass the header over if it names no message of the object's channel."""
        if obj.message is not None and log_of(self._state, obj) is not None and not has_message(self._state, obj):
            obj.no_message()
            self._state.count("properties_passed_over")
