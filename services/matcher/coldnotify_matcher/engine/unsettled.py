"""Why one registration of a client is unsettled: what `unsettled_registrations` keeps for the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NOWHERE = -1
"""Nothing of a channel is told."""
NOTHING: dict[Any, UnsettledRegistration] = {}
"""Shared by all clients without an entry, which are most; nothing is ever put into it."""


@dataclass(frozen=True, slots=True)
class UnsettledRegistration:
    """Why one registration is unsettled."""

    since_ms: int
    """Unix time, by this matcher's clock."""
    parked: bool = False
    """Its callbacks failed too often. It waits for the client's next session."""
    failures: int = 0
    """So often its callbacks have raised."""
    error: str = ""
    """The first line of what they raised last."""
    members: tuple[str, ...] = ()
    """The members that were not taken, where there are any to be told. Empty: any may not have been."""
    position: int = NOWHERE
    """Of a channel: all up to this offset of its log is told."""

    def concerns(self, name: str) -> bool:
        """Whether the member of this name may not have been taken."""
        return not self.members or name in self.members
