"""Interests by query: the queries that one client registered, and their sets while it is connected.

A query of a client without a session is a text and its hash. It is parsed, and has a set, from the client's next
session on.
"""

from collections.abc import Iterator

from coldnotify_schemas.interests import Interest, Kind, query_hash

from coldnotify_matcher.engine.interests.by_query.sets import QuerySet


class RegisteredQuery:
    """One query of one client."""

    __slots__ = ("bucket", "hash", "is_new", "refused", "set", "text")

    def __init__(self, text: str, bucket: int) -> None:
        self.text = text
        self.hash = query_hash(text)
        self.bucket = bucket
        """Number of the bucket that contains it."""
        self.is_new = False
        """True if its registration has not been answered yet: it may still be refused."""
        self.set: QuerySet | None = None
        """None: the client has no session, or the query has no set, for the reason in `refused`."""
        self.refused = ""
        """The reason why it is not a valid query."""

    @property
    def settled(self) -> bool:
        """True if its members are known, or will never be."""
        return bool(self.why_never) or (self.set is not None and self.set.ready)

    @property
    def why_never(self) -> str:
        """The reason why its members will never be known; "": they will."""
        return self.refused or (self.set.refused if self.set is not None else "")


class ByQuery(dict[int, RegisteredQuery]):
    """A client's interests by query, by their hashes."""

    __slots__ = ()

    def add(self, text: str, bucket: int) -> RegisteredQuery:
        """Add a new query."""
        query = RegisteredQuery(text, bucket)
        self[query.hash] = query
        return query

    @property
    def settled(self) -> bool:
        """True if all of them are settled."""
        return all(query.settled for query in self.values())

    def sets(self) -> Iterator[tuple[int, QuerySet]]:
        """Yields hash and set of the queries whose members are known."""
        for hash_, query in self.items():
            if query.set is not None and query.set.ready:
                yield hash_, query.set

    def members(self) -> int:
        """Returns the number of members of all of them, as far as they are known; an object in two sets counts
        twice."""
        return sum(len(set_.members) for _, set_ in self.sets())

    def have(self, name: str) -> list[int]:
        """Returns the hashes of the queries that have the object of this name as a member."""
        return [hash_ for hash_, set_ in self.sets() if name in set_.members]

    def interests(self) -> Iterator[Interest]:
        """Yields all of them, as values."""
        return (Interest(Kind.QUERY, query.text) for query in self.values())
