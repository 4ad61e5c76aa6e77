"""A tally of the marks that the devices of one process were told, and the judgement of all of them. Pure.

Of an object's versions the newest is owed; one before it that never came was outdone. Of a channel every message is.
"""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from coldnotify_load.bench_topics import BenchTopics
from coldnotify_load.marks import Mark

_NEVER = 1 << 62


class MarkedPublishes(NamedTuple):
    """The publishes of one topic within the time that is measured."""

    number: int
    newest: int
    """The highest version."""


@dataclass
class ToldMarks:
    """The tally of one process."""

    received: "array[int]"
    """Marks of the time that is measured: of each device, of each of its topics."""
    newest: "array[int]"
    """The highest version, of any time; -1: none. In the same order."""
    runs: dict[tuple[int, str], tuple[int, int, int]] = field(default_factory=dict)
    """By topic and run: lowest and highest number, highest version, of the time that is measured."""
    strays: int = 0
    """Marks of topics that the device does not have."""


class MarkTally:
    """Counts by device and topic."""

    def __init__(self, topics: BenchTopics) -> None:
        self._population = topics
        self._topics: list[tuple[int, ...]] = []
        self._told = ToldMarks(array("q"), array("q"))
        self._since, self._until = _NEVER, _NEVER

    def add(self, device: int) -> None:
        """Adds the next device."""
        topics = self._population.topics_of(device)
        self._topics.append(topics)
        self._told.received.extend(0 for _ in topics)
        self._told.newest.extend(-1 for _ in topics)

    def measure(self, since: int, until: int) -> None:
        """From here on counts what is published from `since` to before `until` (Unix ms)."""
        self._since, self._until = since, until
        told = self._told
        told.received = array("q", bytes(8 * len(told.received)))
        told.runs.clear()

    def end(self, until: int) -> None:
        """Ends the time that is measured sooner."""
        self._until = min(self._until, until)

    def told(self, place: int, mark: Mark) -> bool:
        """Device number `place` of those that were added is told it. Returns true if it counts."""
        told, topics = self._told, self._topics[place]
        if mark.topic not in topics:
            told.strays += 1
            return False
        at = place * self._population.per_client + topics.index(mark.topic)
        if mark.version <= told.newest[at]:
            return False
        told.newest[at] = mark.version
        if not self._since <= mark.version < self._until:
            return False
        told.received[at] += 1
        key = mark.topic, mark.run
        lowest, highest, newest = told.runs.get(key, (mark.seq, mark.seq, mark.version))
        if mark.seq > highest or mark.seq < lowest or highest == lowest:
            told.runs[key] = min(lowest, mark.seq), max(highest, mark.seq), max(newest, mark.version)
        return True

    def all(self) -> ToldMarks:
        """Returns what was told so far."""
        return self._told


@dataclass(frozen=True)
class BenchVerdict:
    """The judgement."""

    expected: int = 0
    """Publishes, times the clients that have their topics."""
    received: int = 0
    outdone: int = 0
    """Versions that a newer one took the place of before they were sent."""
    lost: int = 0
    """Newest versions, and messages, that somebody should have been told and was not."""


def published_by(tallies: Iterable[ToldMarks]) -> dict[int, MarkedPublishes]:
    """Returns the publishes as far as any device knows them: between the first and the last number of each run."""
    runs: dict[tuple[int, str], tuple[int, int, int]] = {}
    for told in tallies:
        for key, (lowest, highest, newest) in told.runs.items():
            known = runs.get(key, (lowest, highest, newest))
            runs[key] = min(lowest, known[0]), max(highest, known[1]), max(newest, known[2])
    found: dict[int, MarkedPublishes] = {}
    for (topic, _), (lowest, highest, newest) in runs.items():
        number, before = found.get(topic, (0, -1))
        found[topic] = MarkedPublishes(number + highest - lowest + 1, max(before, newest))
    return found


def judge(
    population: BenchTopics,
    told: Mapping[int, ToldMarks],
    sizes: Mapping[int, int],
    published: Mapping[int, MarkedPublishes],
) -> BenchVerdict:
    """Returns what came of the publishes. `told`, `sizes`: tallies and numbers of devices, by their first device.

    A process that is gone has no tally: its devices were told nothing.
    """
    expected = received = lost = 0
    for first, size in sizes.items():
        tally = told.get(first)
        at = 0
        for device in range(first, first + size):
            for topic in population.topics_of(device):
                of_topic = published.get(topic)
                if of_topic is not None:
                    expected += of_topic.number
                    came = tally.received[at] if tally is not None else 0
                    newest = tally.newest[at] if tally is not None else -1
                    received += came
                    if population.channels:
                        lost += max(0, of_topic.number - came)
                    elif newest < of_topic.newest:
                        lost += 1
                at += 1
    return BenchVerdict(expected, received, max(0, expected - received - lost), lost)
