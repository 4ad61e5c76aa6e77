"""What a controller is: told of a window, it says the next limit. And the one that never changes it."""

from typing import Protocol

from coldnotify.flow.windows import Window


class Controller(Protocol):
    """Moves a limit. It is told of windows that are points only, one after the other."""

    def next_limit(self, window: Window) -> float:
        """What follows on the window's limit; who asks rounds it, and keeps it within bounds."""


class Fixed:
    """The limit stays."""

    def next_limit(self, window: Window) -> float:
        """See Controller."""
        return window.limit
