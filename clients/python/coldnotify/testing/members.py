"""Queries in the service for tests: a test determines the members. Nothing is parsed, no change is forgotten."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.digest import MODULUS, digest
from coldnotify_schemas.interests import query_hash


@dataclass
class ServiceSets:
    """The members of all queries of a domain and group, by text, and the offset of each object's last change."""

    members: dict[str, set[str]] = field(default_factory=dict)
    changes: dict[str, dict[str, int]] = field(default_factory=dict)
    """By query and object: the offset of the last change."""

    def put(self, query: str, object_: str, offset: int, *, member: bool) -> bool:
        """Makes the object a member, or not, from this offset on. Returns true if that is a change."""
        members = self.members.setdefault(query, set())
        if (object_ in members) == member:
            return False
        (members.add if member else members.discard)(object_)
        self.changes.setdefault(query, {})[object_] = offset
        return True

    def of(self, object_: str, queries: Iterable[str]) -> list[str]:
        """Those of `queries` that have this object."""
        return sorted(query for query in queries if object_ in self.members.get(query, ()))

    def answer(self, query: str) -> list[str]:
        """Returns the members, in the order in which they are told."""
        return sorted(self.members.get(query, ()))

    def changed(self, object_: str, queries: Iterable[str]) -> dict[str, int]:
        """Those of `queries` that the object has entered or left, and when."""
        found = {query: self.changes.get(query, {}).get(object_) for query in queries}
        return {query: offset for query, offset in found.items() if offset is not None}

    def begin_anew(self) -> None:
        """Restarts offsets: all changes count as at the first one."""
        for changes in self.changes.values():
            for object_ in changes:
                changes[object_] = 0


def hashes(queries: Iterable[str]) -> list[int]:
    """Returns the queries' hashes on the wire."""
    return [query_hash(query) for query in queries]


def queries_among(interests: Iterable[wire.Interest]) -> list[wire.Interest]:
    """Returns the queries that a frame registers."""
    return [one for one in interests if one.kind == wire.INTEREST_QUERY]


def digest_of(names: Iterable[str], queries: Iterable[str], channels: Iterable[int]) -> int:
    """The digest of a wanted set; of channels by their hashes."""
    return (digest(names) + sum(hashes(queries)) + sum(channels)) % MODULUS


def is_held(query: wire.Interest, members: Collection[str]) -> bool:
    """Returns true if the client reports to hold these members."""
    return query.HasField("held") and query.held == digest(members)
