"""The topics and clients of a bench: bench-sub and bench-pub agree on them by their options alone. Pure."""

import random
from dataclasses import dataclass

from coldnotify_load.population import Population

ASSIGNMENTS = ("random", "round-robin", "own")


@dataclass(frozen=True)
class BenchTopics(Population):
    """Topics number 0 to `topics` - 1, of all groups in turn; client number n is of group n, likewise.

    A block is a client where devices ask, and a topic where a publisher does.
    """

    topics: int = 1
    per_client: int = 1
    """Topics of each client, all of its group."""
    assign: str = "round-robin"
    """One of ASSIGNMENTS."""
    channels: bool = False
    """Topics are channels; else objects."""

    def problem(self, clients: int) -> str:
        """Returns why so many clients cannot have their topics, beginning with the option; empty: they can."""
        if self.groups > self.topics:
            return f"--topics: {self.topics} are fewer than the groups ({self.groups}), and some would have none"
        least = self.topics // self.groups
        if self.per_client > least:
            return f"--per-client: {self.per_client} of a group's topics are asked for, and a group has {least}"
        if self.assign == "own":
            needed = -(-clients // self.groups) * self.per_client * self.groups
            if needed > self.topics:
                return (
                    f"--topics: with --assign own, {clients} clients of {self.groups} groups need {needed}, not "
                    f"{self.topics}"
                )
        return ""

    def topics_of(self, device: int) -> tuple[int, ...]:
        """Returns the numbers of a client's topics."""
        group, place = device % self.groups, device // self.groups
        there = len(range(group, self.topics, self.groups))
        if self.assign == "random":
            chosen = random.Random(device).sample(range(there), self.per_client)
        else:
            first = place * self.per_client
            chosen = [(first + number) % there for number in range(self.per_client)]
        return tuple(number * self.groups + group for number in chosen)

    def block_of(self, device: int) -> int:
        """See Population."""
        return device

    def group(self, block: int) -> str:
        """See Population: of a client, or of a topic."""
        return f"group-{block % self.groups + 1}"

    def object(self, block: int, number: int = 0) -> str:
        """The name of a topic."""
        return f"topic-{block}"

    def objects(self, block: int) -> tuple[str, ...]:
        """The names of a client's topics."""
        return tuple(map(self.object, self.topics_of(block)))
