"""The publishes with conditions of a random schedule: writers race for the same objects, whatever dies.

What each record is follows from the records before it in the topic. So the judge decides each one as it is appended, by
these alone, and holds against that what the owner answers, and what its object is. The objects are in groups of their
own, which no client hears of. A separate random generator draws all of it, so that schedules without conditions stay
unchanged.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

import msgspec
from coldnotify_matcher.engine.objects.history import PUBLISHED, REFUSED, UNDECIDABLE
from coldnotify_matcher.matcher_partition import MatcherPartition
from coldnotify_streams.core.partition_progress import OwningPhase

from coldnotify_simulation.compaction import COUNTERS
from coldnotify_simulation.kafka import PARTITIONS, TOPICS
from coldnotify_simulation.promises import Broken, group_partition
from coldnotify_simulation.world import DOMAIN, World

COUNTED = ("counter-0", "counter-1")
"""Names of the objects in each group."""
NOT_WITH_CONDITIONS = ("truncated", "topic lost", "blackout")
"""Kinds by which the topic loses records, or waits longer than compaction does."""
_WRITERS = 3
_LOOK_S = 0.3
_ANSWERED_S = 6.0
"""A writer asks no longer for an outcome: it repeats the record, or makes another one."""


class _Said(NamedTuple):
    """One record, as the topic has it."""

    key: str
    value: bytes
    offset: int
    until_s: float


class _Counted:
    """One object, as the records before the topic's end have made it."""

    def __init__(self) -> None:
        self.version = -1
        self.payloads: set[str] = set()
        """Those of all versions that have been the newest."""
        self.outcomes: dict[int, str] = {}
        """By offset."""
        self.by_id: dict[str, str] = {}
        self.repeats: set[int] = set()
        """Offsets of records with an id that was there before."""

    def take(self, offset: int, value: bytes) -> None:
        """Decide the record at this offset."""
        said = msgspec.json.decode(value)
        outcome = self.by_id.get(said["id"])
        if outcome is None:
            holds = self.version < 0 if "if_absent" in said else self.version == said["if_version"]
            outcome = PUBLISHED if holds and said["version"] > self.version else REFUSED
            if outcome == PUBLISHED:
                self.version = said["version"]
                self.payloads.add(said["payload"])
        else:
            self.repeats.add(offset)
        self.by_id[said["id"]] = self.outcomes[offset] = outcome


class Conditioning:
    """The conditions of one schedule."""

    def __init__(self, seed: int, world: World, *, on: bool) -> None:
        self.random = Random(seed ^ 0xC0DD)
        self._wrongly = Random(seed ^ 0xAB5E)  # so that the rest of the schedule stays what it is
        self.on = on
        self.answers = 0
        """So many outcomes were held against the topic."""
        self._world = world
        self._said = 0
        self._groups = _groups()
        self._counted = {f"{DOMAIN}/{group}/{name}": _Counted() for group in self._groups for name in COUNTED}
        self._waiting: dict[int, _Said] = {}
        """By writer."""

    def start(self) -> None:
        """Begin to look at answers."""
        if self.on:
            self._world.clock.later(_LOOK_S, self._look_again)

    def kinds(self) -> dict[str, tuple[float, Callable[[], None]]]:
        """Returns the events by name, with their weights."""
        return {"publish if": (8, self._publish), "publish many if": (2, self._publish_many)} if self.on else {}

    def settle(self) -> None:
        """Looks at what is in force at the end. Raises Broken."""
        if not self.on:
            return
        self.look()
        for partition in owned(self._world):
            for key, counted in self._counted.items():
                if group_partition(key.split("/")[1]) == partition.number:
                    obj = partition.engine.state.objects.get(key)
                    found = -1 if obj is None else obj.version
                    if found != counted.version:
                        raise Broken(f"P12: {key} is {found} at the end, and by its records {counted.version}")

    def look(self) -> None:
        """Holds answers, and the newest versions, against the topic. Raises Broken."""
        for partition in owned(self._world):
            for key, counted in self._counted.items():
                obj = partition.engine.state.objects.get(key)
                if obj is not None and obj.version >= 0 and obj.payload.decode().strip('"') not in counted.payloads:
                    raise Broken(f"P12: {key} is {obj.payload!r}, which was refused")
            for writer, said in list(self._waiting.items()):
                if group_partition(said.key.split("/")[1]) != partition.number:
                    continue
                taken = partition.engine.history.outcome(said.offset)
                if taken is not None:
                    self._judge(said, taken.outcome)
                    del self._waiting[writer]

    def _judge(self, said: _Said, outcome: str) -> None:
        self.answers += 1
        counted = self._counted[said.key]
        right = counted.outcomes[said.offset]
        self._world.trace("a condition is answered:", said.key, said.value, outcome)
        # An owner that has loaded a log with gaps cannot know whether an id was there before.
        unsaid = outcome == UNDECIDABLE and (right == REFUSED or said.offset in counted.repeats)
        if outcome != right and not unsaid:
            raise Broken(f"P12: {said.key}: {said.value!r} at {said.offset} is {outcome}, and by its records {right}")

    def _look_again(self) -> None:
        self.look()
        self._world.clock.later(_LOOK_S, self._look_again)

    def _publish(self) -> None:
        self._write(self.random.randrange(_WRITERS), self.random.choice(list(self._counted)))

    def _publish_many(self) -> None:
        key = self.random.choice(list(self._counted))
        for writer in range(_WRITERS):
            self._write(writer, key)

    def _write(self, writer: int, key: str) -> None:
        waiting, now_s = self._waiting.get(writer), self._world.clock.now_s
        if waiting is not None and now_s < waiting.until_s:
            return
        if waiting is not None and self.random.random() < 0.5:
            key, value = waiting.key, waiting.value  # the answer may be lost
        else:
            value = self._new(key)
        partition = group_partition(key.split("/")[1])
        offset = self._world.kafka.append(TOPICS.objects, partition, self._world.clock.now_ms, key.encode(), value)
        self._world.trace("publisher", "publishes if", key, value, offset)
        self._counted[key].take(offset, value)
        self._waiting[writer] = _Said(key, value, offset, now_s + _ANSWERED_S)

    def _new(self, key: str) -> bytes:
        # A writer knows the newest version, or one that was the newest a moment ago.
        newest = self._counted[key].version - (self.random.random() < 0.2)
        self._said += 1
        condition = {"if_version": newest} if newest >= 0 else {"if_absent": True}
        if newest >= 0 and self._wrongly.random() < 0.1:
            condition = {"if_absent": True}
        version = max(newest, 0) + self.random.choice([1, 1, 2, 3])
        fields = {"version": version, "payload": f"w{self._said}", **condition, "id": f"i{self._said}"}
        return msgspec.json.encode(fields)


def owned(world: World) -> Iterator[MatcherPartition]:
    """Yields the partitions of their owners, which would answer now."""
    for number in range(PARTITIONS):
        for matcher in world.matchers:
            run = None if matcher.stopped else matcher.run
            partition = None if run is None else run.partitions.get(number)
            if run is None or partition is None or partition.phase is not OwningPhase.OWNED:
                continue
            if run.group_has(number) and not run.steps:
                assert isinstance(partition, MatcherPartition)
                yield partition
                break


def _groups() -> list[str]:
    """Returns a group of each partition."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < PARTITIONS:
        found.setdefault(group_partition(f"{COUNTERS}{number}"), f"{COUNTERS}{number}")
        number += 1
    return list(found.values())
