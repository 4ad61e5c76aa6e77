"""The data of `Registration.current`: each object's version that callbacks last handled, with its payload.

The document's floors determine that version. Entries here may be dropped at any time: nothing depends on them.
"""

import base64
from collections.abc import Mapping
from typing import NamedTuple

from coldnotify._core.delivery.floors import Floor
from coldnotify._core.delivery.slot import Update
from coldnotify.notification import Notification

_ENTRY_BYTES = 64
"""Approximate size of an entry in the document beside its name and payload."""


class KeptPayload(NamedTuple):
    """The document's data of a version in `applied`."""

    payload: str = ""
    """JSON; in base64 if it is `raw`."""
    deleted: bool = False
    raw: bool = False


class NewestUpdates:
    """Updates by object, the one last told at the end. Their total size is limited; above it the first ones are
    dropped.
    """

    def __init__(self, bytes_max: int, kept: Mapping[str, KeptPayload], floors: Mapping[str, Floor]) -> None:
        self._bytes_max = bytes_max
        self._updates: dict[str, Update] = {}
        self._size_bytes = 0
        for name, (payload, deleted, raw) in kept.items():
            if name in floors:
                data = base64.b64decode(payload) if raw else payload.encode()
                self.put(name, Update(*floors[name], data, deleted, raw))

    def put(self, name: str, update: Update) -> None:
        """Notes the version that callbacks have been told."""
        self.forget(name)
        size = _size_bytes(name, update)
        if update.version is None or size > self._bytes_max:
            return
        self._updates[name] = update
        self._size_bytes += size
        while self._size_bytes > self._bytes_max:
            self.forget(next(iter(self._updates)))

    def forget(self, name: str) -> None:
        """Drops the object's version."""
        update = self._updates.pop(name, None)
        if update is not None:
            self._size_bytes -= _size_bytes(name, update)

    def get(self, name: str) -> Notification | None:
        """Returns what its callbacks were told. None: nothing, or it is not kept any more."""
        update = self._updates.get(name)
        if update is None:
            return None
        try:
            payload = update.said
        except (ValueError, RecursionError):
            payload = None  # that was reported when it was told
        return Notification(name, update.version, payload, update.deleted, data=update.payload)

    def kept(self, floors: Mapping[str, Floor]) -> dict[str, KeptPayload]:
        """For the document: of those that have this floor."""
        return {name: _kept(update) for name, update in self._updates.items() if floors.get(name) == update.floor}


def _kept(update: Update) -> KeptPayload:
    if update.raw:
        return KeptPayload(base64.b64encode(update.payload).decode(), update.deleted, raw=True)
    return KeptPayload(update.payload.decode(errors="replace"), update.deleted)


def _size_bytes(name: str, update: Update) -> int:
    return _ENTRY_BYTES + len(name.encode()) + len(update.payload)
