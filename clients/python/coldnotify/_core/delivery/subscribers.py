"""Whom a version is told: callbacks, by number, of objects by their names and of queries' members."""

from collections.abc import Iterable, Set

from coldnotify._core.delivery.membership import Membership
from coldnotify._core.interests.interests import Interest

_NOBODY: frozenset[int] = frozenset()


class Subscribers:
    """The numbers of the callbacks that are told versions."""

    def __init__(self) -> None:
        self._of: dict[Interest, set[int]] = {}

    def add(self, interest: Interest, subscriber: int) -> bool:
        """Adds a callback. Returns true if there is no other."""
        subscribers = self._of.setdefault(interest, set())
        subscribers.add(subscriber)
        return len(subscribers) == 1

    def remove(self, interest: Interest, subscriber: int) -> bool:
        """Removes a callback. Returns true if none is left."""
        subscribers = self._of.get(interest)
        if subscribers is not None:
            subscribers.discard(subscriber)
            if subscribers:
                return False
            del self._of[interest]
        return True

    def has(self, interest: Interest) -> bool:
        """Returns true if there is a callback."""
        return interest in self._of

    def of(self, interest: Interest) -> Set[int]:
        """Returns the callbacks of one interest."""
        return self._of.get(interest, _NOBODY)

    def of_queries(self, memberships: Iterable[Membership]) -> set[int]:
        """Returns the callbacks of these queries."""
        return {number for one in memberships for number in self.of(one.query)}

    def audience(self, name: str, memberships: Iterable[Membership], *, unknown: bool = False) -> Set[int]:
        """Returns the callbacks that are told a version of this object. `unknown`: that it has none. That is told to
        those who asked for it by its name, or for its description.
        """
        subscribers = self.of(name)
        for membership in memberships:
            if not unknown or membership.descriptions is not None:
                subscribers = subscribers | self.of(membership.query)
        return subscribers
