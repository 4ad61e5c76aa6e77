"""Asks the admin client where partitions begin and end now.

Consumer.get_watermark_offsets is no alternative: it waits for ever, despite its timeout, while another thread polls the
consumer.

Consumers get nothing beyond the beginning of an open transaction: a load ends there, or it would wait as long as the
transaction is open. The log's own end is further on.
"""

from collections.abc import Callable, Iterable

from coldnotify_common.kafka.kafka_clients import KafkaUnavailable, ask_twice, consumer_config
from coldnotify_common.settings import ServiceSettings
from confluent_kafka import OFFSET_END, OFFSET_INVALID, Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

TIMEOUT_S = 10.0
_QUICK_S = 2.0
"""After this time the other way is tried, which first looks up the partitions' present leaders."""


class LogEnds:
    """Asks where partitions end, a hundred times a second; one thread uses it.

    A consumer that nobody polls sends one request and waits in this thread. An AdminClient passes the question to one
    thread, and the answer to another: that takes 480 us of CPU and 1.3 ms, this takes 200 us and 0.8 ms.
    """

    def __init__(self, settings: ServiceSettings, group: str, admin: AdminClient) -> None:
        """`group`: a consumer must name one; nothing joins it."""
        self._admin = admin
        self._leader_epochs: dict[tuple[str, int], int] = {}
        """The highest leader epoch of the answers about each partition."""
        self._consumer = Consumer(consumer_config(settings, group, isolation_level="read_uncommitted"))

    def uncommitted(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Returns the next offset of each (topic, partition), above open transactions. Raises KafkaUnavailable.

        A node of Kafka that was deposed may still answer, and its log is behind. Its leader epoch tells.
        """
        places = list(partitions)
        asked = [TopicPartition(topic, partition, OFFSET_END) for topic, partition in places]
        try:
            answers = self._consumer.offsets_for_times(asked, timeout=_QUICK_S)
        except KafkaException:
            answers = []
        ends = {
            (tp.topic, tp.partition): tp.offset
            for tp in answers
            if tp.error is None and tp.offset >= 0 and self._leads(tp.topic, tp.partition, tp.leader_epoch)
        }
        if len(ends) == len(places):
            return ends
        isolation = IsolationLevel.READ_UNCOMMITTED
        return _offsets(self._admin, places, OffsetSpec.latest(), isolation, self._leads)  # type: ignore[no-untyped-call]

    def _leads(self, topic: str, partition: int, leader_epoch: int | None) -> bool:
        """Returns true if no later leader has answered."""
        if leader_epoch is None:
            return True
        known = self._leader_epochs.get((topic, partition), -1)
        self._leader_epochs[topic, partition] = max(known, leader_epoch)
        return leader_epoch >= known

    def at_times(self, times: Iterable[tuple[tuple[str, int], int]]) -> list[int]:
        """Returns the first offset whose record has this time (Unix ms) or a later one, for each (topic, partition) and
        time.

        If no record is so late, it is the offset of the next record. Raises KafkaUnavailable.
        """
        asked = list(times)
        found: list[int] = []
        for (topic, partition), time_ms in asked:  # one by one: an answer names its partition, and not the time
            try:
                asked_one = [TopicPartition(topic, partition, time_ms)]
                (answer,) = self._consumer.offsets_for_times(asked_one, timeout=_QUICK_S)
            except KafkaException:
                answer = None
            if answer is not None and answer.error is None:
                found.append(answer.offset)
                continue
            spec = OffsetSpec.for_timestamp(time_ms)
            found.append(_offsets(self._admin, [(topic, partition)], spec)[topic, partition])
        late = {place for (place, _), offset in zip(asked, found, strict=True) if offset < 0}
        ends = self.uncommitted(late) if late else {}
        return [ends[place] if offset < 0 else offset for (place, _), offset in zip(asked, found, strict=True)]

    def close(self) -> None:
        """It is asked no more."""
        self._consumer.close()


def log_ends(
    admin: AdminClient, partitions: Iterable[tuple[str, int]], *, uncommitted: bool = False
) -> dict[tuple[str, int], int]:
    """Returns the offset up to which each (topic, partition) can be read now. Raises KafkaUnavailable.

    `uncommitted`: returns the offset that its next record will get.
    """
    isolation = IsolationLevel.READ_UNCOMMITTED if uncommitted else IsolationLevel.READ_COMMITTED
    return _offsets(admin, partitions, OffsetSpec.latest(), isolation)  # type: ignore[no-untyped-call]


def log_starts(admin: AdminClient, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Returns the offset of each (topic, partition)'s oldest record, or its end if empty. Raises KafkaUnavailable."""
    return _offsets(admin, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]


def _offsets(
    admin: AdminClient,
    partitions: Iterable[tuple[str, int]],
    spec: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    leads: Callable[[str, int, int | None], bool] = lambda _topic, _partition, _epoch: True,
) -> dict[tuple[str, int], int]:
    asked = {TopicPartition(topic, partition): spec for topic, partition in partitions}

    def ask(limit_s: float) -> dict[tuple[str, int], int]:
        answers = admin.list_offsets(asked, isolation_level=isolation, request_timeout=limit_s)
        found = {(tp.topic, tp.partition): future.result(limit_s + 5) for tp, future in answers.items()}
        if any(one.offset == OFFSET_INVALID for one in found.values()):
            raise TimeoutError  # that is how librdkafka says that a node has not answered
        if not all(leads(*place, one.leader_epoch) for place, one in found.items()):
            raise TimeoutError  # a node that leads no more
        return {place: one.offset for place, one in found.items()}

    try:
        return ask_twice(admin, ask, TIMEOUT_S)
    except KafkaException as error:
        raise KafkaUnavailable(f"Kafka does not say where partitions end: {error.args[0].str()}") from None
    except TimeoutError:
        raise KafkaUnavailable(f"Kafka does not say within {TIMEOUT_S} s where partitions end") from None
