"""The sets of a random schedule: writers publish several objects as one, and clients are told them together.

Each set is decided as it is appended, by the records before it in the topic alone. What the owner answers is held
against that, and so is all that clients are told, as of any version. The checker judges by what clients were sent that
they were told none of a set before all of it had come. A separate random generator draws all of this.
"""

import base64
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

import msgspec
from coldnotify_matcher.engine.objects.history import PUBLISHED, REFUSED, UNDECIDABLE
from coldnotify_matcher.engine.telling import paging
from coldnotify_schemas.atomic_sets import set_key

from coldnotify_simulation.conditioning import owned
from coldnotify_simulation.kafka import TOPICS, LogEntry
from coldnotify_simulation.promises import Broken, group_partition, payload_of
from coldnotify_simulation.truth import UNKNOWN, Version
from coldnotify_simulation.world import DOMAIN, GROUPS, World

MEMBERS = ("s0", "s1", "s2", "s3")
"""Names of the objects of each group that are published in sets, and alone now and then."""
_SHARE = 0.8
_LOOK_S = 0.3
_ANSWERED_S = 6.0
"""A writer asks no longer for an outcome: it repeats the set, or makes another one."""
_STEP = 100
"""Between two versions that sets name: those that they do not name are the next after the newest, and meet none."""


class _Said(NamedTuple):
    """One set, as the topic has it."""

    group: str
    id: str
    value: bytes
    offset: int
    number: int
    until_s: float


class AtomicSetsDrawn:
    """The sets of one schedule."""

    def __init__(self, seed: int, world: World, *, possible: bool) -> None:
        self.random = Random(seed ^ 0x5E75)
        self.on = self.random.random() < _SHARE and possible
        self._page_bytes = self.random.choice([None, 60, 150])
        self.answers = 0
        """So many outcomes were held against the topic."""
        self._world = world
        self._numbers = 0
        self._outcomes: dict[tuple[str, int], str] = {}
        """By group and offset."""
        self._by_key: dict[bytes, str] = {}
        self._versions: dict[int, dict[str, int]] = {}
        """By a set's number: its members' versions."""
        self._repeats: set[tuple[str, int]] = set()
        self._waiting: dict[str, _Said] = {}
        """By group: each has one writer that waits, so that others do not."""

    @contextmanager
    def bounds(self) -> Iterator[None]:
        """While the schedule is played: a page has room for one member or two, so that it would end within sets."""
        if not self.on or self._page_bytes is None:
            yield
            return
        page_bytes = self._page_bytes
        with patch.object(paging, "page_bytes_of", lambda _: page_bytes):
            yield

    def start(self) -> None:
        """Begin to look at answers, and have clients register."""
        if self.on:
            self._world.note_sets(MEMBERS, self.on_record)
            self._world.clock.later(_LOOK_S, self._look_again)

    def wish(self, wish: set[str]) -> None:
        """Adds what a client wants."""
        if self.on:
            wish.update(name for name in MEMBERS if self.random.random() < 0.7)

    def kinds(self) -> dict[str, tuple[float, Callable[[], None]]]:
        """Returns the events by name, with their weights."""
        if not self.on:
            return {}
        return {
            "publish set": (7, self._publish),
            "publish sets": (2, self._publish_several),
            "publish member": (1, self._publish_alone),
            "want member": (1.5, self._want),
        }

    def settle(self) -> None:
        """Looks at the last answers. Raises Broken."""
        if self.on:
            self.look()

    def look(self) -> None:
        """Holds answers against the topic. Raises Broken."""
        for partition in owned(self._world):
            for group, said in list(self._waiting.items()):
                taken = partition.engine.history.outcome(said.offset)
                if group_partition(group) != partition.number or taken is None:
                    continue
                del self._waiting[group]
                self._judge(said, taken.outcome, {one.object: one.version for one in taken.members})

    def on_record(self, partition: int, entry: LogEntry) -> None:
        """Decides a set that was appended, and has its members be what they are from there on."""
        key, truth = entry.key or b"", self._world.truth
        _, group, _ = key.decode().split("/", 2)
        if key in self._by_key:
            self._outcomes[group, entry.offset] = self._by_key[key]
            self._repeats.add((group, entry.offset))
            return
        members = {one["object"]: one for one in msgspec.json.decode(entry.value or b"")["set"]}
        keys = {name: f"{DOMAIN}/{group}/{name}" for name in members}
        after: dict[str, Version] = {}
        for name, one in members.items():
            newest = truth.newest(keys[name])
            after[name] = max(newest[0], 0), one.get("version", self._next(newest))
            holds = newest == UNKNOWN if "if_absent" in one else newest[1] == one.get("if_version", newest[1])
            if not holds or after[name] <= newest:
                self._outcomes[group, entry.offset] = self._by_key[key] = REFUSED
                return
        self._outcomes[group, entry.offset] = self._by_key[key] = PUBLISHED
        for name, version in after.items():
            self._world.publish_member(partition, keys[name], version, entry)

    def _next(self, newest: Version) -> int:
        return self._world.clock.now_ms if newest == UNKNOWN else newest[1] + 1

    def _judge(self, said: _Said, outcome: str, versions: dict[str, int]) -> None:
        self.answers += 1
        place = said.group, said.offset
        right = self._outcomes[place]
        self._world.trace("a set is answered:", said.group, said.id, outcome)
        # An owner that has loaded a log with gaps cannot know whether an id was there before.
        unsaid = outcome == UNDECIDABLE and (right == REFUSED or place in self._repeats)
        if outcome != right and not unsaid:
            raise Broken(f"P12: the set {said.id} at {said.offset} is {outcome}, and by its records {right}")
        asked = self._versions[said.number]
        if outcome == PUBLISHED and versions != asked:
            raise Broken(f"P12: the set {said.id} at {said.offset} has {versions}, and by its records {asked}")
        for name, version in asked.items():
            if outcome == PUBLISHED:
                key = f"{DOMAIN}/{said.group}/{name}"
                incarnation = max(self._world.truth.newest(key)[0], 0)
                self._world.truth.acknowledge(key, (incarnation, version), self._world.clock.now_s)
            if outcome != UNDECIDABLE:
                lost: dict[str, Any] = {"lost": True} if outcome == REFUSED else {}
                answer = "failed" if lost else "acknowledged"
                self._world.trace.event(
                    "published", publisher="sets", id=f"{said.number}-{name}", outcome=answer, **lost
                )

    def _look_again(self) -> None:
        self.look()
        self._world.clock.later(_LOOK_S, self._look_again)

    def _group(self) -> str:
        return self.random.choice(GROUPS[: len(self._world.clients)])

    def _publish(self) -> None:
        self._write(self._group())

    def _publish_several(self) -> None:
        group = self._group()
        for _ in range(self.random.randint(2, 4)):
            self._write(group)

    def _publish_alone(self) -> None:
        key = f"{DOMAIN}/{self._group()}/{self.random.choice(MEMBERS)}"
        self._numbers += 1
        if self._world.truth.newest(key) != UNKNOWN:
            self._world.publish(key, self._numbers * _STEP)

    def _want(self) -> None:
        client = self.random.choice(self._world.clients)
        name = self.random.choice(MEMBERS)
        if name in client.wish and self.random.random() < 0.3:
            client.unregister(name)
        elif name not in client.wish:
            self._world.register(client, name)

    def _write(self, group: str) -> None:
        waiting, now_s = self._waiting.get(group), self._world.clock.now_s
        if waiting is not None and now_s >= waiting.until_s and self.random.random() < 0.5:
            id_, value, number = waiting.id, waiting.value, waiting.number  # the answer may be lost
        else:
            self._numbers += 1
            id_, number = f"i{self._numbers}", self._numbers
            names = self.random.sample(MEMBERS, self.random.choice([1, 2, 2, 3, 3, 4]))
            value = msgspec.json.encode({"set": list(self._members(group, names, id_))})
        partition = group_partition(group)
        self._world.trace("publisher", "publishes the set", group, id_, value)
        key = set_key(DOMAIN, group, id_).encode()
        offset = self._world.kafka.append(TOPICS.objects, partition, self._world.clock.now_ms, key, value)
        if waiting is None or now_s >= waiting.until_s:
            self._waiting[group] = _Said(group, id_, value, offset, number, now_s + _ANSWERED_S)

    def _members(self, group: str, names: Iterable[str], id_: str) -> Iterable[dict[str, object]]:
        """Yields the members of a new set, and writes them down in the history."""
        versions = self._versions[self._numbers] = {}
        for name in names:
            key = f"{DOMAIN}/{group}/{name}"
            newest = self._world.truth.newest(key)
            one: dict[str, object] = {"object": name}
            said: dict[str, Any] = {}
            kind = self.random.choice("vvvn")
            if newest == UNKNOWN:
                said = {"if_absent": True} if kind == "v" else {}
            elif kind == "v":
                # A writer knows the newest version, or one that was the newest a moment ago.
                said = {"if_version": max(newest[1] - (self.random.random() < 0.15), 0)}
            version = self._numbers * _STEP
            if newest != UNKNOWN and "if_version" in said and self.random.random() < 0.5:
                version = said["if_version"] + 1
            else:
                one["version"] = version
            versions[name] = version
            payload = payload_of(version, in_bytes=self._world.in_bytes)
            if isinstance(payload, bytes):
                one["payload_base64"] = base64.b64encode(payload).decode()
            else:
                one["payload"] = payload
            self._world.trace.event(
                "publish", publisher="sets", id=f"{self._numbers}-{name}", object=key, version=version,
                payload=payload, incarnation=max(newest[0], 0), atomic=id_, **said,
            )  # fmt: skip
            yield one | said
