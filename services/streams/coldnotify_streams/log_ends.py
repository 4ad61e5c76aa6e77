"""Where partitions begin and end now, asked through the admin client.

Not with Consumer.get_watermark_offsets: while another thread polls the consumer it waits for ever, whatever its
timeout.

What stands behind a transaction that is still open is given to no consumer: a load ends there, or it would wait as long
as the transaction is open. The log's own end is further on.
"""

from collections.abc import Iterable

from coldnotify_common.kafka import KafkaUnavailable, ask_twice
from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

TIMEOUT_S = 10.0


def log_ends(
    admin: AdminClient, partitions: Iterable[tuple[str, int]], *, uncommitted: bool = False
) -> dict[tuple[str, int], int]:
    """Up to which offset each (topic, partition) can be read now. Raises KafkaUnavailable.

    `uncommitted`: the offset that its next record will get.
    """
    isolation = IsolationLevel.READ_UNCOMMITTED if uncommitted else IsolationLevel.READ_COMMITTED
    return _offsets(admin, partitions, OffsetSpec.latest(), isolation)  # type: ignore[no-untyped-call]


def log_starts(admin: AdminClient, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """The offset of the oldest record of each (topic, partition), its end if it is empty. Raises KafkaUnavailable."""
    return _offsets(admin, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]


def _offsets(
    admin: AdminClient,
    partitions: Iterable[tuple[str, int]],
    spec: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> dict[tuple[str, int], int]:
    asked = {TopicPartition(topic, partition): spec for topic, partition in partitions}

    def ask(limit_s: float) -> dict[tuple[str, int], int]:
        answers = admin.list_offsets(asked, isolation_level=isolation, request_timeout=limit_s)
        return {(tp.topic, tp.partition): future.result(limit_s + 5).offset for tp, future in answers.items()}

    try:
        return ask_twice(admin, ask, TIMEOUT_S)
    except KafkaException as error:
        raise KafkaUnavailable(f"Kafka does not say where partitions end: {error.args[0].str()}") from None
    except TimeoutError:
        raise KafkaUnavailable(f"Kafka does not say within {TIMEOUT_S} s where partitions end") from None
