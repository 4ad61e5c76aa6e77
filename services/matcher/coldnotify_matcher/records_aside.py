"""Records that are set aside: they go to the rejected topic with the next step that this matcher owns."""

from collections.abc import Callable, Container

import structlog
from coldnotify_common.paced import Paced
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.core.events import JobRecord

from coldnotify_matcher.engine import ProducedRecord
from coldnotify_matcher.engine.writing.rejected import rejected

_paced = Paced(structlog.get_logger())

ASIDE_MAX = 1_000
"""Records that wait to be rejected until the partition is owned. Further ones are only counted and logged."""


class RecordsAside:
    """Those of one partition."""

    def __init__(
        self, partition: int, names: TopicNames, state_topics: Container[str], count: Callable[[str], None]
    ) -> None:
        """`state_topics`: a record of these is known by its key. `count` counts an event of the engine."""
        self._partition = partition
        self._names = names
        self._state_topics = state_topics
        self._count = count
        self._writes: dict[tuple[str, bytes | None], tuple[ProducedRecord, str]] = {}
        """By (topic, key): the record to write, and the reason. A later record under the key takes it back while the
        partition is loaded: a predecessor has rejected superseded records."""

    def add(self, record: JobRecord, reason: str, why: str, *, owned: bool) -> None:
        """Set a record aside. `why`: NOT_UNDERSTOOD or RAISED. Only so many wait until the partition is `owned`."""
        by_key = record.topic in self._state_topics and record.key is not None
        about = (record.topic, record.key if by_key else b"%d" % record.offset)
        if not owned and len(self._writes) >= ASIDE_MAX and about not in self._writes:
            _paced.log("not even rejected: too much is", level="warning", topic=record.topic, reason=reason)
            self._count(_set_aside(record.topic, why))
            return
        write = rejected(self._names, record.topic, self._partition, record.offset, record.key, record.value, reason)
        self._writes[about] = write, why
        _paced.log(
            "record set aside", level="warning", topic=record.topic, partition=self._partition, offset=record.offset,
            reason=reason, why=why,
        )  # fmt: skip

    def add_stored(self, topic: str, key: str, value: bytes, reason: str, why: str) -> None:
        """Set aside what is stored under a key of a state topic."""
        write = rejected(self._names, topic, self._partition, None, key.encode(), value, reason)
        self._writes[topic, key.encode()] = write, why

    def take_back(self, topic: str, key: bytes) -> None:
        """A later record under this key of a state topic was read: a predecessor has rejected the earlier one."""
        self._writes.pop((topic, key), None)

    def take(self) -> list[ProducedRecord]:
        """Returns the records to write, and counts them."""
        writes = [write for write, _ in self._writes.values()]
        for (topic, _), (_, why) in self._writes.items():
            self._count(_set_aside(topic, why))
        self._writes.clear()
        return writes


def _set_aside(topic: str, why: str) -> str:
    """Returns the engine's name of the event, for `metrics.count`."""
    return f"set_aside:{topic}:{why}"
