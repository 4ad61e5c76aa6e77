"""Interests by name: the objects that one client named.

An interest by name is kept as the object that it names, whose name is the interest's text. There are millions of them:
each takes 100 bytes, and an `Interest` for each would take 64 more. Those are made for whoever asks.
"""

from collections.abc import Iterable, Iterator

from coldnotify_schemas.digest import object_digest
from coldnotify_schemas.interests import Interest, Kind

from coldnotify_matcher.engine.objects import Obj


class ByName(dict[Obj, int]):
    """A client's interests by name: the object of each, and the number of the bucket that says so."""

    __slots__ = ()

    def add(self, objects: Iterable[Obj], bucket: int) -> int:
        """Add those that are not there. Returns the sum of their hashes, which the client's digest grows by."""
        hashes = 0
        for obj in objects:
            if obj not in self:
                self[obj] = bucket
                obj.registered += 1
                hashes += object_digest(obj.name)
        return hashes

    def remove(self, obj: Obj) -> int:
        """Remove one that is there. Returns its hash."""
        del self[obj]
        obj.registered -= 1
        return object_digest(obj.name)

    def interests(self) -> Iterator[Interest]:
        """All of them, as values."""
        return (Interest(Kind.NAME, obj.name) for obj in self)
