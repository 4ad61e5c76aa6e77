"""The objects of a partition by key. A loaded object is made only on request.

After a long log most objects have no registration. For such an object only its record is kept: that takes a third of
the time, and clients wait for a matcher that is starting.
"""

from collections.abc import Iterator, MutableMapping
from typing import TypeVar, overload

from coldnotify_schemas.records import PublicRecord

from coldnotify_matcher.engine.objects.objects import UNKNOWN, Obj

T = TypeVar("T")
_Unmade = tuple[PublicRecord, int, int, str, int | None, bytes]
"""The only record of an object: content, offset, timestamp in ms, trace, the offset since which its version exists, if
it has that header, and its properties for MQTT devices. Plain, because there are so many."""


class ObjectMap(MutableMapping[str, Obj]):
    """Acts like a dict of objects. A request for one returns it as its records have made it."""

    def __init__(self) -> None:
        self._entries: dict[str, Obj | _Unmade] = {}
        self.there: dict[str, int] = {}
        """By domain: number of objects that are published and not deleted."""

    def keep(
        self,
        key: str,
        record: PublicRecord,
        offset: int,
        timestamp_ms: int,
        traceparent: str,
        since: int | None,
        properties: bytes = b"",
    ) -> None:
        """Keep the first record of a new object; it is valid."""
        if not record.deleted:
            self.note(key, before=False, now=True)
        self._entries[key] = (record, offset, timestamp_ms, traceparent, since, properties)

    def made(self) -> Iterator[Obj]:
        """Yields objects that were requested. No other has a registered client, or needs repair."""
        return (entry for entry in self._entries.values() if isinstance(entry, Obj))

    def offset_of(self, key: str, default: int | None = None) -> int:
        """Returns its `Obj.offset`, without making it. Raises KeyError if there is no default."""
        entry = self._entries[key] if default is None else self._entries.get(key)
        if entry is None:
            assert default is not None
            return default
        if isinstance(entry, Obj):
            return entry.offset
        _, offset, _, _, since, _ = entry
        return offset if since is None else since

    def version_of(self, key: str) -> int:
        """Returns its newest version, without making it; UNKNOWN: it was never published."""
        entry = self._entries.get(key)
        if isinstance(entry, Obj):
            return entry.version
        if entry is None:
            return UNKNOWN
        record, _, timestamp_ms, *_ = entry
        return record.version_at(timestamp_ms)

    def is_published(self, key: str) -> bool | None:
        """Returns true if it has a version and is not deleted, without making it; None: it was never published."""
        entry = self._entries.get(key)
        if isinstance(entry, Obj):
            return None if entry.version == UNKNOWN else not entry.deleted
        return None if entry is None else not entry[0].deleted

    def age_of(self, key: str) -> tuple[int | None, bool]:
        """Returns (time of its last publish, true if it is deleted), without making it; None: it was never
        published."""
        entry = self._entries.get(key)
        if isinstance(entry, Obj):
            return None if entry.version == UNKNOWN else entry.active_ms, entry.deleted
        return (None, False) if entry is None else (entry[2], entry[0].deleted)

    @overload
    def get(self, key: str, default: None = None, /) -> Obj | None: ...
    @overload
    def get(self, key: str, default: T, /) -> Obj | T: ...
    def get(self, key: str, default: T | None = None, /) -> Obj | T | None:
        """Does the same as a dict's: that of MutableMapping takes ten times as long, and each publish needs it."""
        entry = self._entries.get(key)
        if isinstance(entry, Obj):
            return entry
        return default if entry is None else self._make(key, entry)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __getitem__(self, key: str) -> Obj:
        entry = self._entries[key]
        return entry if isinstance(entry, Obj) else self._make(key, entry)

    def __setitem__(self, key: str, obj: Obj) -> None:
        self._entries[key] = obj

    def __delitem__(self, key: str) -> None:
        del self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def note(self, key: str, *, before: bool, now: bool) -> None:
        """Count the object of this key after a merge: `before` and `now` are its `Obj.there` before and after."""
        if before == now:
            return
        domain = key.partition("/")[0]
        there = self.there.get(domain, 0) + now - before
        if there:
            self.there[domain] = there
        else:
            self.there.pop(domain, None)

    def _make(self, key: str, unmade: _Unmade) -> Obj:
        record, offset, timestamp_ms, traceparent, since, properties = unmade
        obj = self._entries[key] = Obj(key)
        obj.merge(record, record.version_at(timestamp_ms), offset, since, properties)
        obj.published_ms = obj.active_ms = timestamp_ms
        obj.traceparent = traceparent
        return obj
