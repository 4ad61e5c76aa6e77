"""The queries of a random schedule: clients want them; publishers describe objects, and delete them.

A separate random generator draws all of it, so that schedules without queries stay unchanged.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from unittest.mock import patch

from coldnotify_matcher.engine.telling import paging
from coldnotify_schemas.descriptions import KEY_PREFIX
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames

from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.kafka import PARTITIONS
from coldnotify_simulation.world import DOMAIN, GROUPS, OBJECTS, World

TOPICS = TopicNames()

QUERIES = [
    "Room = 1",
    "Room=1",
    "Room = '1'",
    "Kind = lamp AND Room = 1",
    "NAME STARTS WITH 'o'",
    "NOT has Room",
    "NAME BETWEEN 'o1' AND 'o3' AND Level < 3",
    "Room in (1, 2) or Kind like 'amp$'",
    "Room != 2",
]
"""The first two are one in canonical form."""
_SHARE = 0.6
"""The share of schedules that have queries."""


class Describing:
    """The queries of one schedule."""

    def __init__(self, seed: int, world: World) -> None:
        self.random = Random(seed ^ 0x5E75)
        self._asking = Random(seed ^ 0xDE5C)
        """Draws the clients that ask for descriptions, and nothing else."""
        self._asked = self._asking.random() < _SHARE
        self.world = world
        self.on = self.random.random() < _SHARE
        self._described: dict[str, list[dict[str, object] | None]] = {}
        self._page_bytes = Random(seed ^ 0x9A6E).choice([None, None, None, 100])
        self._later = self.random.random() < 0.5
        """Records come with timestamps that others have outdone."""

    @contextmanager
    def bounds(self) -> Iterator[None]:
        """While the schedule is played: little is in a page, so that much happens in the middle of an answer."""
        if not self.on or self._page_bytes is None:
            yield
            return
        page_bytes = self._page_bytes
        with patch.object(paging, "page_bytes_of", lambda _: page_bytes):
            yield

    def kinds(self) -> dict[str, tuple[float, Callable[[], None]]]:
        """Returns the actions, each with its weight among all others."""
        if not self.on:
            return {}
        kinds: dict[str, tuple[float, Callable[[], None]]] = {
            "query": (3, self.want),
            "describe": (8, self.describe),
            "describe as others do not care": (2, self.describe_besides),
            "describe as before": (1, self.describe_again),
            "describe many": (1, self.describe_many),
            "describe elsewhere": (1, self.describe_misplaced),
            "describe no more": (1, self.describe_no_more),
            "describe as nonsense": (0.7, self.describe_nonsense),
            "delete": (1.5, self.delete),
        }
        return {name: one for name, one in kinds.items() if name in ("query", "describe") or self.random.random() < 0.7}

    def wish(self, client: SimulatedClient) -> None:
        """Draws what a client wants at its first start. Objects that it has by query alone reveal most."""
        if self.on:
            client.wish_queries = {text for text in QUERIES if self.random.random() < 0.3}
            if self.random.random() < 0.7:
                client.wish = set()
            if self._asked:
                client.described = {text for text in QUERIES if self._asking.random() < 0.6}

    # ---- clients

    def want(self) -> None:
        """One more query, or one less."""
        client, text = self.random.choice(self.world.clients), self.random.choice(QUERIES)
        if text in client.wish_queries:
            self.world.unregister_query(client, text)
        else:
            self.world.register_query(client, text)

    # ---- publishers

    def _key(self) -> str:
        return f"{DOMAIN}/{self.random.choice(GROUPS[: len(self.world.clients)])}/{self.random.choice(OBJECTS)}"

    def _draw(self) -> dict[str, object]:
        drawn: dict[str, object] = {}
        if self.random.random() < 0.8:
            drawn["Room"] = self.random.choice([1, 1, 2, "1"])
        if self.random.random() < 0.6:
            drawn["Kind"] = self.random.choice(["lamp", "heater"])
        if self.random.random() < 0.4:
            drawn["Level"] = self.random.randint(0, 5)
        return drawn

    def _say(self, key: str, description: dict[str, object] | None, *, back_ms: int = 0) -> None:
        if not back_ms and self._later and self.random.random() < 0.3:
            back_ms = self.random.choice([1, 300, 5000])
        self._described.setdefault(key, []).append(description)
        self.world.describe(key, description, back_ms=back_ms)

    def describe(self) -> None:
        """It is something else from here on."""
        self._say(self._key(), self._draw())

    def describe_besides(self) -> None:
        """A change of what no query mentions."""
        key = self._key()
        said = self._described.get(key)
        self._say(key, {**((said and said[-1]) or {}), "Besides": self.random.randint(0, 9)})

    def describe_again(self) -> None:
        """Repeats an earlier description with a new timestamp."""
        key = self._key()
        if key in self._described:
            self._say(key, self.random.choice(self._described[key]))

    def describe_many(self) -> None:
        """Describes all objects of a group at once."""
        group = self.random.choice(GROUPS[: len(self.world.clients)])
        for name in OBJECTS:
            self._say(f"{DOMAIN}/{group}/{name}", self._draw())

    def describe_misplaced(self) -> None:
        """Describes an object in the wrong partition, as a producer does that knows nothing of groups."""
        key = self._key()
        wrong = 1 - GROUPS.index(key.split("/")[1])
        self.world.describe(key, self._draw(), partition=wrong)

    def describe_no_more(self) -> None:
        """It has no description any more."""
        self._say(self._key(), None)

    def describe_nonsense(self) -> None:
        """Writes an invalid description as the last record of its key: the one in force must be
        written again after it.
        """
        key = self._key()
        domain, group, _ = key.split("/", 2)
        value = self.random.choice([None, b"nonsense", b'{"description":{"":1}}', b'{"description":{"a":[]}}'])
        self.world.trace("publisher", "describes", key, "as", value)
        at = partition_of(domain, group, PARTITIONS)
        self.world.kafka.append(TOPICS.objects, at, self.world.clock.now_ms, f"{KEY_PREFIX}{key}".encode(), value)

    def delete(self) -> None:
        """It is there no more, until it is published again."""
        key = self._key()
        self.world.publish(key, self.world.highest.get(key, 0) + 1, deleted=True)
