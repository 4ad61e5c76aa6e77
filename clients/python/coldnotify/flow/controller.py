"""A controller gets a window and returns the next limit. Contains the one that never changes it."""

from typing import Protocol

from coldnotify.flow.windows import Window


class Controller(Protocol):
    """Moves a limit. It gets only windows that are points, one after the other."""

    def next_limit(self, window: Window) -> float:
        """Returns the next limit; the caller rounds it, and keeps it within bounds."""


class Fixed:
    """The limit stays."""

    def next_limit(self, window: Window) -> float:
        """See Controller."""
        return window.limit
