"""Hostile records as a fault, drawn beside a schedule's others: batches made by hand, written to all topics.

They are of a domain that nobody of a campaign uses, in the topics and partitions that everybody uses: whatever they do
to judged clients, they do for being read.
"""

import queue
import threading
import time
from collections.abc import Collection, Iterator
from random import Random
from typing import NamedTuple

from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.hostile_records.generator import Generator
from coldnotify_testkit.hostile_records.records import KnownToAttacker
from coldnotify_testkit.hostile_writer import HostileWriter

KIND = "hostile_records"
TARGET = "topics"
DOMAIN = "hostile.domain"
GROUPS = tuple(f"g{number}" for number in range(8))
_CLIENTS, _OBJECTS = ("ou-1", "ou-2"), ("config", "request")
_EVERY_S = 8.0
"""On average."""
_FIRST_S = 2.0
_TAIL_S = 1.0
_BATCHES = (20, 60)
_ANSWER_S = 5.0
_UNANSWERED_MAX = 4
"""Limit on unanswered batches of an attack: then Kafka is away, and the rest is dropped."""


class DrawnAttack(NamedTuple):
    """One attack."""

    at_s: float
    batches: int


def draw(random: Random, seconds: float, kinds: Collection[str]) -> Iterator[DrawnAttack]:
    """Those that begin within `seconds`, if the kind is wanted."""
    at_s = _FIRST_S + random.expovariate(1 / _EVERY_S)
    while KIND in kinds and at_s < seconds - _TAIL_S:
        yield DrawnAttack(at_s, random.randint(*_BATCHES))
        at_s += random.expovariate(1 / _EVERY_S)


class Hostiles:
    """An attacker: writes what a seed draws, on command, in a thread, because Kafka may be away."""

    def __init__(
        self,
        kafka: str,
        names: TopicNames,
        seed: int,
        *,
        partitions: dict[str, int],
        requests_topic_id: str,
        spared_domains: Collection[str],
        spared_tenants: Collection[str],
    ) -> None:
        """`partitions`: of each topic. `spared_...`: the campaign's own, which an attack leaves alone."""
        self._names = names
        self._generator = Generator(seed)
        self._known = KnownToAttacker(
            partitions[names.objects],
            partitions[names.notifications],
            GROUPS,
            _CLIENTS,
            _OBJECTS,
            0,
            requests_topic_id,
            domain=DOMAIN,
            spared_domains=tuple(spared_domains),
            spared_tenants=tuple(spared_tenants),
            spared_partitions=range(partitions[names.objects]),
            usage_partitions=partitions[names.usage],
        )
        self.writer = HostileWriter(kafka, answer_s=_ANSWER_S)
        self._wanted: queue.Queue[int | None] = queue.Queue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="hostiles", daemon=True)
        self._thread.start()

    def attack(self, batches: int) -> None:
        """Write so many, soon."""
        self._wanted.put(batches)

    def idle(self) -> bool:
        """Returns true if nothing is in progress."""
        return self._wanted.unfinished_tasks == 0

    @property
    def words(self) -> str:
        """Describes the result."""
        writer = self.writer
        return (
            f"hostile batches: {writer.written.total()} written, {writer.refused.total()} refused by Kafka, "
            f"{writer.unanswered.total()} not answered"
        )

    def close(self) -> None:
        """End, also in the middle of an attack."""
        self._stop.set()
        self._wanted.put(None)
        self._thread.join(2 * _ANSWER_S)
        self.writer.close()

    def _work(self) -> None:
        while (batches := self._wanted.get()) is not None:
            unanswered_max = self.writer.unanswered.total() + _UNANSWERED_MAX
            for _ in range(batches):
                if self._stop.is_set() or self.writer.unanswered.total() >= unanswered_max:
                    break
                now_ms = time.time_ns() // 1_000_000
                drawn = self._generator.record(self._known._replace(now_ms=now_ms))
                self.writer.write(drawn._replace(topic=self._names.renamed(drawn.topic)))
            self._wanted.task_done()
