"""Floors: the newest version of each object that the application has been told."""

from collections.abc import Mapping, Set

from coldnotify._core.journal import Journal

Floor = tuple[int, int]
"""Incarnation and version: a version's place in the order of an object's versions."""


class Floors:
    """For each object the version that all its callbacks know; these are stored.

    A version that only some of its callbacks know is kept in memory alone: after a crash it is told to all again.
    """

    def __init__(self, journal: Journal, told: Mapping[str, Floor]) -> None:
        self._journal = journal
        self.told = dict(told)
        """The stored floors."""
        self._partly: dict[str, tuple[Floor, set[int]]] = {}
        """By object: this version of it, and no newer one, has been told to exactly these subscribers."""

    def get(self, name: str) -> Floor | None:
        """Returns the version that all callbacks know."""
        return self.told.get(name)

    def told_to_all(self, name: str, floor: Floor) -> None:
        """All callbacks know this version."""
        self.told[name] = floor

    def told_to(self, name: str, floor: Floor, subscribers: set[int]) -> None:
        """Only these callbacks know this version."""
        self._partly[name] = floor, subscribers

    def unknown_to(self, name: str, subscribers: Set[int]) -> bool:
        """These callbacks are not among those that know a version. Returns false if it is not known to some alone."""
        partly = self._partly.get(name)
        if partly is not None:
            partly[1].difference_update(subscribers)
        return partly is not None

    def is_partly_told(self, name: str) -> bool:
        """Returns true if only some callbacks know a version."""
        return name in self._partly

    def take_partly(self, name: str) -> tuple[Floor, set[int]] | None:
        """Returns the version that some callbacks know, and those; forgets it."""
        return self._partly.pop(name, None) if self._partly else None

    def forget(self, name: str) -> None:
        """Forgets the object's floor: when it comes again, it is told again."""
        if self.told.pop(name, None) is not None:
            self._journal.changed()
