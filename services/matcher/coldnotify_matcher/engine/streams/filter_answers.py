"""FilterAnswers: the answers to filters that a session is owed, each with its own place in the group's objects.

An answer is *owed* until it has been sent as a whole, then *ended* until the client has acknowledged it: its gateway
asks for the page after the one that ended it, or the client's cursor is above the end. A cursor up to there says
nothing: the client may have it from a page of a predecessor, whose answer had other objects.
Everything that changes these answers is in this file.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

NOWHERE = -1


@dataclass(slots=True, eq=False)
class FilterAnswer:
    """The answer to one filter."""

    at: int = NOWHERE
    """All that the filter fits up to this offset has been sent."""
    acknowledged: int = NOWHERE
    """The same, of the pages that its gateway has taken: a new row of pages begins there."""

    def tell(self, offset: int) -> None:
        """Note that all up to this offset has been sent."""
        self.at = max(self.at, offset)

    def lose(self) -> None:
        """Send again what its gateway may not have."""
        self.at = self.acknowledged

    def acknowledge(self) -> None:
        """Note that its gateway has all that was sent."""
        self.acknowledged = self.at


@dataclass(slots=True, eq=False)
class FilterAnswers:
    """All answers to filters that one session is owed, by the filters' hashes."""

    owed: dict[int, FilterAnswer] = field(default_factory=dict)
    ended: dict[int, FilterAnswer] = field(default_factory=dict)

    @property
    def any(self) -> bool:
        """True if one is owed, or not acknowledged."""
        return bool(self.owed or self.ended)

    def owe(self, hash_: int) -> None:
        """Owe this filter an answer, from the beginning."""
        self.drop(hash_)
        self.owed[hash_] = FilterAnswer()

    def drop(self, hash_: int) -> None:
        """Owe this filter nothing."""
        self.owed.pop(hash_, None)
        self.ended.pop(hash_, None)

    def begin(self) -> None:
        """Begin a row of pages: those that were not acknowledged may be lost."""
        self.owed.update(self.ended)
        self.ended = {}
        for answer in self.owed.values():
            answer.lose()

    def tell(self, offset: int) -> None:
        """Note that all up to this offset has been sent."""
        for answer in self.owed.values():
            answer.tell(offset)

    def end(self, offset: int) -> None:
        """End all of them: everything up to this offset, the log's last one, has been sent."""
        self.tell(offset)
        self.ended.update(self.owed)
        self.owed = {}

    def told_up_to(self, hash_: int) -> int:
        """Returns the offset up to which an ended answer has told what this filter fits; NOWHERE: it is not one."""
        answer = self.ended.get(hash_)
        return NOWHERE if answer is None else answer.at

    def acknowledge_page(self) -> dict[int, int]:
        """Note that its gateway has taken all pages that were sent. Returns the offsets at which answers ended that are
        acknowledged now, by the filters' hashes."""
        for answer in self.owed.values():
            answer.acknowledge()
        return self._take(self.ended)

    def acknowledge(self, cursor: int) -> dict[int, int]:
        """Note that its client has acknowledged all up to this cursor. Returns the same."""
        return self._take([hash_ for hash_, answer in self.ended.items() if cursor > answer.at])

    def _take(self, hashes: Iterable[int]) -> dict[int, int]:
        return {hash_: self.ended.pop(hash_).at for hash_ in list(hashes)}
