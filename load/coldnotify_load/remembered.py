"""Caches the meaning of equal bytes, because all devices of a fan-out receive the same. Pure."""

from typing import Generic, TypeVar

MEANING = TypeVar("MEANING")
ENTRIES_MAX = 256
"""Few fan-outs are in flight at a time; older ones will not come again."""


class Remembered(Generic[MEANING]):
    """A small dictionary from received bytes to what they mean."""

    def __init__(self) -> None:
        self._known: dict[bytes, MEANING] = {}
        self.get = self._known.get

    def put(self, data: bytes, meaning: MEANING) -> None:
        """Adds an entry; drops all if there are too many."""
        if len(self._known) >= ENTRIES_MAX:
            self._known.clear()
        self._known[data] = meaning
