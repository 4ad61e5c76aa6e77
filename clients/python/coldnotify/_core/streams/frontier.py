"""The cursor, and what holds it back. See `docs/protocol.md`, "The cursor".

The frames of all sessions are one sequence. A received version that is not applied yet is a *hold* at its place in the
sequence; a number that a frame carries (`complete`) lies after all holds that came with or before it. So holds are a
linked list, each with the highest number that lies between it and the next. Taking a hold out gives its number to the
one before it; what arrives at the list's head is the cursor. Every step is O(1), and the memory is one node per hold,
however many frames there were.
"""

from __future__ import annotations

from typing import TypeVar

N = TypeVar("N", int, float)


class Hold:
    """A place in the sequence of received frames that is not applied yet."""

    __slots__ = ("as_of", "complete", "next", "previous")

    def __init__(self) -> None:
        self.previous: Hold | None = None
        self.next: Hold | None = None
        self.complete: int | None = None
        """The value of the cursor when this hold and all before it are gone."""
        self.as_of: float | None = None
        """Then everything acknowledged before that time has been told."""


class Frontier:
    """The cursor within one epoch. It never goes down."""

    def __init__(self, cursor: int | None) -> None:
        self._head = Hold()
        self._head.complete = cursor
        self._tail = self._head

    @property
    def cursor(self) -> int | None:
        """All at or below it is applied, or is a pending registration. None: nothing is known."""
        return self._head.complete

    @property
    def as_of(self) -> float | None:
        """Everything acknowledged before that time is applied, or is a pending registration. None: not known."""
        return self._head.as_of

    @property
    def held(self) -> bool:
        """True if anything holds the cursor back."""
        return self._head is not self._tail

    def hold(self) -> Hold:
        """Something was received that is not applied yet: later numbers wait until it is released."""
        hold = Hold()
        hold.previous, self._tail.next = self._tail, hold
        self._tail = hold
        return hold

    def release(self, hold: Hold) -> None:
        """Releases a hold, once what it stands for is applied (or otherwise taken care of). Each
        hold is released once.
        """
        before, after = hold.previous, hold.next
        assert before is not None, "a hold is released once"
        before.complete = _higher(before.complete, hold.complete)
        before.as_of = _higher(before.as_of, hold.as_of)
        before.next = after
        if after is None:
            self._tail = before
        else:
            after.previous = before
        hold.previous = hold.next = None

    def complete(self, complete: int) -> None:
        """A frame reported this number: it counts once all present holds are released."""
        self._tail.complete = _higher(self._tail.complete, complete)

    def prove(self, as_of: float) -> None:
        """Everything acknowledged before that time has come: it counts once all present holds are released."""
        self._tail.as_of = _higher(self._tail.as_of, as_of)

    def void(self) -> None:
        """A new epoch: no number of the old one counts any more. Holds stay."""
        node: Hold | None = self._head
        while node is not None:
            node.complete = None
            node = node.next


def _higher(a: N | None, b: N | None) -> N | None:
    if a is None or b is None:
        return b if a is None else a
    return max(a, b)
