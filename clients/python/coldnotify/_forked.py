"""Threads, locks and handles belong to the process that opened them, and not to a child that it forks.

A child of fork() has a copy of each object of its parent, none of its threads, and the same open files: what it
accepted would never be published, what it received would be missing in its parent, and a lock that was held at the fork
is held in it for ever. So

- each method of such an object begins with `Owner.check`, which takes no lock, and raises UsedAfterFork in a child;
- closing does nothing there, because the child does not own the object;
- a child closes the handles that it inherited (`in_children`), at once. So its parent's locks and connections end with
  its parent, and not with the last child. It closes descriptors only: nothing is written, and nothing is sent;
- an object that has opened nothing yet becomes the child's own, with new locks.
"""

import os
import weakref
from contextlib import suppress
from typing import Protocol

from coldnotify.errors import UsedAfterFork


class Owner:
    """The process that something belongs to: the one that made this."""

    __slots__ = ("_instead", "_pid", "_what")

    def __init__(self, what: str, instead: str) -> None:
        """`what` it is, and what a child is to do `instead` of using it, for the error."""
        self._what, self._instead, self._pid = what, instead, os.getpid()

    @property
    def is_here(self) -> bool:
        """True in the owning process."""
        return os.getpid() == self._pid

    def check(self) -> None:
        """Raises UsedAfterFork in any other process."""
        if not self.is_here:
            raise UsedAfterFork(
                f"{self._what} belongs to process {self._pid}, which forked this one ({os.getpid()}), and cannot be "
                f"used here: {self._instead}"
            )


class Inherited(Protocol):
    """Closes its handles in a child."""

    def forked(self) -> None:
        """This process is a child that was just forked, and has one thread."""


_inherited: "weakref.WeakSet[Inherited]" = weakref.WeakSet()


def in_children(one: Inherited) -> None:
    """From now on `one.forked` is called in each child of fork(), before it does anything else."""
    _inherited.add(one)


def _forked() -> None:
    for one in list(_inherited):
        with suppress(OSError):  # one that was being closed just then
            one.forked()


os.register_at_fork(after_in_child=_forked)
