"""The reason why one registration of a client is unsettled, kept by `unsettled_registrations` for the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NOWHERE = -1
"""No message of a channel was taken."""
NOTHING: dict[Any, UnsettledRegistration] = {}
"""Shared by all clients without an entry, which are most; nothing is ever put into it."""


@dataclass(frozen=True, slots=True)
class UnsettledRegistration:
    """The reason why one registration is unsettled."""

    since_ms: int
    """Unix time, by this matcher's clock."""
    parked: bool = False
    """True if its callbacks failed too often. It waits for the client's next session."""
    failures: int = 0
    """Number of times that its callbacks have raised."""
    error: str = ""
    """The first line of their last error."""
    members: tuple[str, ...] = ()
    """The members that were not taken, if the client names any. Empty: any may not have been."""
    position: int = NOWHERE
    """For a channel: the application has taken all up to this offset of its log."""

    def concerns(self, name: str) -> bool:
        """Returns true if the member of this name may not have been taken."""
        return not self.members or name in self.members
