"""Strangers of another domain in a random schedule: they register queries until the partition is full.

They have a gateway of their own, which then goes silent, in a partition of the judged domain. A separate random
generator draws all of it, at times of its own: the rest of the schedule stays unchanged.
"""

from dataclasses import replace
from random import Random

from coldnotify_matcher.engine.interests.by_query import sets
from coldnotify_matcher.engine.interests.by_query.query_places import PlacesMax
from coldnotify_schemas.digest import MODULUS
from coldnotify_schemas.interests import query_hash
from coldnotify_schemas.internal_pb2 import Open, Request
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.wire_pb2 import INTEREST_QUERY, Interest

from coldnotify_simulation.describing import QUERIES
from coldnotify_simulation.kafka import INBOXES, PARTITIONS
from coldnotify_simulation.world import GROUPS, World

TOPICS = TopicNames()

_SHARE = 0.4
"""The share of schedules that have strangers."""
_DOMAIN = "stranger"
_GATEWAY = 0x57A6
_PLACES = 4 * len(QUERIES)
"""Query places of a partition. Strangers get half of them at most; then the others have a quarter, which is all they
want.
"""
_QUERIES_EACH = 5
_DEAR_US = 1
"""So nearly every change is evaluated ahead of its turn."""


class Crowding:
    """The strangers of one schedule."""

    def __init__(self, seed: int, world: World) -> None:
        self.random = Random(seed ^ 0xC40D)
        self.world = world
        self.on = self.random.random() < _SHARE
        self._number = 0
        self._pace_s = self.random.choice([1.0, 4.0])
        sets.DEAR_US = self.random.choice([_DEAR_US, DEAR_US])
        if self.on:
            for matcher in world.matchers:
                matcher.rules = replace(matcher.rules, query_places=PlacesMax(places=_PLACES))
            self._later()

    def _later(self) -> None:
        self.world.clock.later(self.random.expovariate(1 / self._pace_s), self._come)

    def _come(self) -> None:
        """One more of them, with queries that nobody had before."""
        if not self.on:
            return
        self._later()
        partition = self.random.randrange(len(GROUPS))
        group = next(f"g{n}" for n in range(100) if partition_of(_DOMAIN, f"g{n}", PARTITIONS) == partition)
        self._number += 1
        texts = [f"a = {self._number} AND b = {number}" for number in range(_QUERIES_EACH)]
        queries = [Interest(kind=INTEREST_QUERY, text=text) for text in texts]
        opened = Open(digest=sum(map(query_hash, texts)) % MODULUS, interests=queries, ask=1)
        request = Request(
            format=1, gateway=_GATEWAY, inbox=self.random.randrange(INBOXES), session=self._number, domain=_DOMAIN,
            group=group, client=f"c{self._number}", open=opened,
        )  # fmt: skip
        self.world.trace("stranger", "registers", len(texts), "queries in", partition)
        self.world.kafka.append(TOPICS.requests, partition, self.world.clock.now_ms, b"", request.SerializeToString())

    def end(self) -> None:
        """Nobody comes any more."""
        self.on = False


DEAR_US = sets.DEAR_US
"""The shipped value."""
