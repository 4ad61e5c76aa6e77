"""Interests by name: the objects that one client named.

An interest by name is kept as the object that it names, whose name is the interest's text. There are millions of them:
each takes 100 bytes, and an `Interest` for each would take 64 more. Those are made on request.
"""

from collections.abc import Iterable, Iterator

from coldnotify_schemas.digest import object_digest
from coldnotify_schemas.interests import Interest, Kind

from coldnotify_matcher.engine.objects.objects import Obj


class ByName(dict[Obj, int]):
    """A client's interests by name: each object, and the number of the bucket that contains it."""

    __slots__ = ()

    def add(self, objects: Iterable[Obj], bucket: int) -> int:
        """Add new objects. Returns the sum of their hashes, by which the client's digest grows."""
        hashes = 0
        for obj in objects:
            if obj not in self:
                self[obj] = bucket
                obj.registered += 1
                hashes += object_digest(obj.name)
        return hashes

    def remove(self, obj: Obj) -> int:
        """Remove an existing object. Returns its hash."""
        del self[obj]
        obj.registered -= 1
        return object_digest(obj.name)

    def interests(self) -> Iterator[Interest]:
        """Yields all of them, as values."""
        return (Interest(Kind.NAME, obj.name) for obj in self)
