"""Interests by name: the objects that one client named.

An interest by name is kept as the object that it names, whose name is the interest's text: there are millions of them.
`Interest` values are made for those who ask.
"""

from collections.abc import Iterator

from coldnotify_schemas.digest import object_digest
from coldnotify_schemas.interests import Interest, Kind

from coldnotify_matcher.engine.objects import Obj


class ByName(dict[Obj, int]):
    """A client's interests by name: the object of each, and the number of the bucket that says so."""

    __slots__ = ()

    def add(self, obj: Obj, bucket: int) -> int:
        """Add one that is not there. Returns its hash, which the client's digest grows by."""
        self[obj] = bucket
        obj.registered += 1
        return object_digest(obj.name)

    def remove(self, obj: Obj) -> int:
        """Remove one that is there. Returns its hash."""
        del self[obj]
        obj.registered -= 1
        return object_digest(obj.name)

    def interests(self) -> Iterator[Interest]:
        """All of them, as values."""
        return (Interest(Kind.NAME, obj.name) for obj in self)
