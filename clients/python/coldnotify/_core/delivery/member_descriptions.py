"""The descriptions of one query's members: as the application was told, and as the service has sent them since.

The document contains those that were told. It does not contain those that were only sent: until they are told the
cursor waits, and after a crash the service sends them again.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any


def parsed_description(description: bytes | None) -> dict[str, Any] | None:
    """Returns a description as applications see it. None: the object has none, or it is not known."""
    try:
        found = json.loads(description) if description else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class MemberDescriptions:
    """Those of one query's members, as JSON; empty: the object has none."""

    __slots__ = ("_said", "_unsure", "told")

    def __init__(self, told: Mapping[str, bytes]) -> None:
        self.told = dict(told)
        """For the document."""
        self._said: dict[str, bytes] = {}
        self._unsure = set(told)
        """Members whose callbacks may have been told another description than `told` contains: before a crash, or by
        one that returned while another failed. The next one that comes is told, even if it is the same.
        """

    def get(self, name: str) -> bytes | None:
        """Returns the last description from the service; None: it has sent none for this object."""
        return self._said.get(name, self.told.get(name))

    def say(self, name: str, description: bytes, telling: bytes | None = None) -> bool:
        """Notes a description from the service. Returns true if the application has been told another one, or none.

        `telling`: what its callbacks are being told at this moment; None: nothing.
        """
        if telling is not None:
            self._said[name] = description
            return telling != description
        if self.told.get(name) == description and name not in self._unsure:
            self._said.pop(name, None)
            return False
        self._said[name] = description
        return True

    def told_as(self, name: str, description: bytes) -> None:
        """The application was told this one, which may be older than the last one. If all was forgotten while it was
        told, that stays so: it is not known whether the cursor passed a newer one.
        """
        if self.lack([name]):
            return
        if self._said.get(name) == description:
            del self._said[name]
        self.told[name] = description
        self._unsure.discard(name)

    def failed(self, name: str, description: bytes) -> None:
        """A callback that was told this one has failed; others may have returned."""
        if self.told.get(name) != description:
            self._unsure.add(name)

    def applied(self, name: str) -> bool:
        """The application was told, or nobody has to be. Returns true if that is a change."""
        if name not in self._said:
            return False
        self.told_as(name, self._said[name])
        return True

    def forget(self, name: str) -> None:
        """Forgets an object that is not a member any more."""
        self._said.pop(name, None)
        self.told.pop(name, None)
        self._unsure.discard(name)

    def forget_all(self) -> bool:
        """Nothing of it can be relied on any more. Whether there was something."""
        had = bool(self.told or self._said)
        self.told.clear()
        self._said.clear()
        self._unsure.clear()
        return had

    def lack(self, names: Iterable[str]) -> bool:
        """Returns true if one of these has no known description."""
        return any(name not in self.told and name not in self._said for name in names)
