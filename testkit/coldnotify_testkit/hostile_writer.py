"""For tests: writes hostile batches by hand, and counts what Kafka says to each."""

from collections import Counter
from collections.abc import Iterable

from coldnotify_testkit.hostile_records.records import Hostile
from coldnotify_testkit.raw_produce import NoAnswer, RawProducer
from coldnotify_testkit.record_batches import TRANSACTIONAL, encoded

_TRANSACTIONAL_ID = "by-hand"
"""Without one Kafka refuses what says that it is of a transaction before it looks at it."""


class HostileWriter:
    """Writes one batch after the other. For one thread."""

    def __init__(self, kafka: str, *, answer_s: float = 30.0) -> None:
        """`kafka`: bootstrap servers. `answer_s`: how long Kafka may take for one batch."""
        self._producer = RawProducer(kafka, answer_s=answer_s)
        self.written: Counter[tuple[str, str]] = Counter()
        """By topic and kind."""
        self.refused: Counter[tuple[str, str, str]] = Counter()
        """By topic, kind and the error's name."""
        self.unanswered: Counter[tuple[str, str]] = Counter()
        """By topic and kind: Kafka ended the connection, or was away; it may have them all the same."""

    def write(self, record: Hostile) -> None:
        """Returns when Kafka has said something to it, or did not in time."""
        transactional_id = _TRANSACTIONAL_ID if record.batch.flags & TRANSACTIONAL else None
        try:
            said = self._producer.produce(
                record.topic, record.partition, encoded(record.batch), transactional_id=transactional_id
            )
        except NoAnswer:
            self.unanswered[record.topic, record.kind] += 1
            return
        if said.written:
            self.written[record.topic, record.kind] += 1
        else:
            self.refused[record.topic, record.kind, said.name] += 1

    def close(self) -> None:
        """End its connections."""
        self._producer.close()


def of_topic(counts: Counter[tuple[str, str]] | Counter[tuple[str, str, str]], topic: str) -> int:
    """How many of one topic."""
    return sum(count for key, count in counts.items() if key[0] == topic)


def by_kind(keys: Iterable[tuple[str, ...]]) -> dict[str, set[str]]:
    """The topics, by kind."""
    found: dict[str, set[str]] = {}
    for topic, kind, *_ in keys:
        found.setdefault(kind, set()).add(topic)
    return found
