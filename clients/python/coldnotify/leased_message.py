"""A message of a share, for a callback in a thread."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from coldnotify.handed_message import HandedMessage, nowhere


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
