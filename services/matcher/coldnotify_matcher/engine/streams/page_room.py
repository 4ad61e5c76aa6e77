"""PageRoom: the room for entries in one page, by size and by number."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class PageRoom:
    """The room in one page. An empty page has room for one entry of any size, or for several that only go together."""

    bytes_max: int
    entries_max: int = 0
    """Most entries; 0: only their size is bounded."""
    size_bytes: int = 0
    entries: int = 0

    def has(self, size_bytes: int) -> bool:
        """Returns true if an entry of this size fits in."""
        if not self.entries:
            return True
        if self.entries_max and self.entries >= self.entries_max:
            return False
        return self.size_bytes + size_bytes <= self.bytes_max

    def add(self, size_bytes: int) -> None:
        """Count an entry of this size, whether it fits in or not."""
        self.size_bytes += size_bytes
        self.entries += 1

    def take_all(self, sizes_bytes: Sequence[int]) -> bool:
        """Count entries of these sizes if all of them fit in; an empty page has room for any. Returns true if they
        do."""
        has = not self.entries or (
            self.size_bytes + sum(sizes_bytes) <= self.bytes_max
            and not (self.entries_max and self.entries + len(sizes_bytes) > self.entries_max)
        )
        if has:
            for size_bytes in sizes_bytes:
                self.add(size_bytes)
        return has

    def take(self, size_bytes: int) -> bool:
        """Count an entry of this size if it fits in. Returns true if it does."""
        if not self.has(size_bytes):
            return False
        self.add(size_bytes)
        return True
