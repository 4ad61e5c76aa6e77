"""What has a thread, a lock or a handle belongs to the process that opened it, and not to a child that it forks.

A child of fork() has a copy of each object of its parent, none of its threads, and the same open files: what it would
accept nobody would publish, what it would hear would be missing in its parent, and a lock that somebody held just then
is held in it for ever. So

- each method of such an object begins with `Owner.check`, which takes no lock, and raises UsedAfterFork in a child;
- what closes does nothing there: it is not the child's to close;
- a child lets go of the handles that it got (`in_children`), at once. So its parent's locks and connections end with
  its parent, and not with the last child. To let go is to close a descriptor: nothing is written, and nothing is said;
- what has opened nothing yet becomes the child's own there, with new locks.
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
        """Whether it is this process."""
        return os.getpid() == self._pid

    def check(self) -> None:
        """Raises UsedAfterFork in any other process."""
        if not self.is_here:
            raise UsedAfterFork(
                f"{self._what} belongs to process {self._pid}, which forked this one ({os.getpid()}), and cannot be "
                f"used here: {self._instead}"
            )


class Inherited(Protocol):
    """What lets go of its handles in a child."""

    def forked(self) -> None:
        """This process is a child that was just forked, and has one thread."""


_inherited: "weakref.WeakSet[Inherited]" = weakref.WeakSet()


def in_children(one: Inherited) -> None:
    """From here on `one.forked` is called in each child of fork(), before it does anything else."""
    _inherited.add(one)


def _forked() -> None:
    for one in list(_inherited):
        with suppress(OSError):  # one that was being closed just then
            one.forked()


os.register_at_fork(after_in_child=_forked)
