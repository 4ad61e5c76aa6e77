"""Objects that have descriptions, and devices that register by queries over them. Pure."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from coldnotify_load.population import Population
from coldnotify_schemas.digest import digest, sets_digest
from coldnotify_schemas.interests import query_hash
from coldnotify_schemas.partitioner import partition_of

LOADS = 10_000
"""Different values of the key that changes."""
_APART = 1e-8
"""Keeps queries distinct that match the same objects: loads are whole numbers."""


@dataclass(frozen=True)
class DescribedLoad(Population):
    """Each object has a description {"Kind": ..., "Load": ..., "Level": ...}; each query is for loads or for a level.

    A device registers for `registrations` objects by name and for `queries_each` queries.
    """

    registrations: int = 0
    things: str = "thing"
    """Prefix of the objects' names."""
    queries_each: int = 1
    """Queries of a device, until it changes them."""
    distinct: int = 1
    """So many different queries, which devices use in turn."""
    fit: float = 1.0
    """The share of the objects that each query fits, by a range of loads."""
    by_level: bool = False
    """Each query is for one level instead, and there are as many levels as queries."""
    named_groups: tuple[str, ...] = ()
    """Blocks are spread over these, instead of `groups`."""

    def group(self, block: int) -> str:
        """See Population."""
        return self.named_groups[block % len(self.named_groups)] if self.named_groups else super().group(block)

    def object(self, block: int, number: int) -> str:
        """See Population."""
        return f"{self.things}-{block}-{number}"

    def load(self, number: int, turn: int) -> int:
        """An object's, in the description that is written in its turn `turn`, from 0: as if drawn at random."""
        return zlib.crc32(b"%d/%d" % (number, turn)) % LOADS

    def level(self, load: int) -> int:
        """Returns the level of an object with this load."""
        return load % self.distinct

    def description(self, number: int, turn: int) -> dict[str, str | int]:
        """Returns the description of an object of any block."""
        load = self.load(number, turn)
        return {"Kind": f"sensor-{self.things}", "Load": load, "Level": self.level(load)}

    def bounds(self, query: int) -> tuple[float, int]:
        """The loads that a query is for: from the first, below the second."""
        width = round(self.fit * LOADS)
        low = query % self.distinct * (LOADS - width) // max(self.distinct - 1, 1)
        return low - query * _APART, low + width

    def fits(self, query: int, load: int) -> bool:
        """Returns true if an object with this load is in a query's set."""
        if self.by_level:
            return query == self.level(load)
        low, high = self.bounds(query)
        return low <= load < high

    def text(self, query: int) -> str:
        """The query of this number."""
        if self.by_level:
            return f"Kind = sensor-{self.things} AND Level = {query}"
        low, high = self.bounds(query)
        return f"Kind = sensor-{self.things} AND Load >= {low:.8f} AND Load < {high}"

    def queries(self, device: int) -> tuple[str, ...]:
        """See Population."""
        return tuple(self.text(query) for query in self.query_numbers(device))

    def query_numbers(self, device: int) -> list[int]:
        """Returns the numbers of its first queries."""
        first = device * self.queries_each
        return [number % self.distinct for number in range(first, first + self.queries_each)]

    def new_query(self, device: int, number: int) -> str:
        """The `number`th, from 0, that a device registers for after those: nobody has had it before."""
        return self.text(self.distinct * (1 + number) + device)

    def new_object(self, device: int, number: int) -> str:
        """The `number`th, from 0, that a device registers for by name after those: nobody has had it before."""
        return f"{self.things}-new-{device}-{number}"

    def loads(self, turns: Mapping[int, int]) -> dict[str, int]:
        """Returns the loads of the objects of block 0, by name, from the number of descriptions of each."""
        return {self.object(0, number): self.load(number, turn - 1) for number, turn in turns.items() if turn}

    def held(self, device: int, loads: Mapping[str, int]) -> int:
        """The digest of the sets that a device should have."""
        sets = []
        for query in self.query_numbers(device):
            # Not by `fits`: thousands of objects for each of thousands of queries.
            if self.by_level:
                names = [name for name, load in loads.items() if load % self.distinct == query]
            else:
                low, high = self.bounds(query)
                names = [name for name, load in loads.items() if low <= load < high]
            sets.append((query_hash(self.text(query)), digest(names)))
        return sets_digest(sets)


def a_group_each(domain: str, partitions: int) -> tuple[str, ...]:
    """The names of groups of a domain, one in each partition."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < partitions:
        number += 1
        found.setdefault(partition_of(domain, f"region-{number}", partitions), f"region-{number}")
    return tuple(found[partition] for partition in range(partitions))
