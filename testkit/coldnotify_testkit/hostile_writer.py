"""For tests: writes hostile batches by hand, and counts Kafka's answers to them."""

from collections import Counter
from collections.abc import Iterable

from coldnotify_testkit.hostile_records.records import Hostile
from coldnotify_testkit.raw_produce import NoAnswer, RawProducer
from coldnotify_testkit.record_batches import TRANSACTIONAL, encoded

_TRANSACTIONAL_ID = "by-hand"
"""Without it Kafka refuses a transactional batch before it looks into it."""


class HostileWriter:
    """Writes one batch after the other. For one thread."""

    def __init__(self, kafka: str, *, answer_s: float = 30.0) -> None:
        """`kafka`: bootstrap servers. `answer_s`: how long Kafka may take for one batch."""
        self._producer = RawProducer(kafka, answer_s=answer_s)
        self.written: Counter[tuple[str, str]] = Counter()
        """Batches that were written, by topic and kind."""
        self.refused: Counter[tuple[str, str, str]] = Counter()
        """Batches that were refused, by topic, kind and the error's name."""
        self.unanswered: Counter[tuple[str, str]] = Counter()
        """Batches without an answer, by topic and kind: Kafka ended the connection or was away. It may have stored
        them.
        """

    def write(self, record: Hostile) -> None:
        """Writes a record. Returns when Kafka has answered, or when the answer takes too long."""
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
    """Returns the count of one topic."""
    return sum(count for key, count in counts.items() if key[0] == topic)


def by_kind(keys: Iterable[tuple[str, ...]]) -> dict[str, set[str]]:
    """The topics, by kind."""
    found: dict[str, set[str]] = {}
    for topic, kind, *_ in keys:
        found.setdefault(kind, set()).add(topic)
    return found
