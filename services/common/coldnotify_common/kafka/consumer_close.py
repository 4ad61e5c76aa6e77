"""Closes consumers of Kafka's client, which may never return from it.

While it frees a consumer, librdkafka deadlocks if Kafka answers one of its fetches with "offset out of range": the
thread that handles the answer locks the partition twice. A record that claims an offset which does not exist yet leads
to such a fetch.
"""

import threading
from collections.abc import Callable
from contextlib import suppress

import structlog
from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition

from coldnotify_common.paced import Paced

__all__ = ["close_in_time", "end_fetches"]

CLOSE_S_MAX = 5.0
"""Time limit of a close; it takes milliseconds."""
_ANSWER_S = 1.0
"""Time limit for Kafka's answer to the request that follows the last fetch."""

_paced = Paced(structlog.get_logger())


def end_fetches(consumer: Consumer) -> None:
    """Removes all partitions, and waits until Kafka has answered each fetch."""
    with suppress(KafkaException):
        partitions = consumer.assignment()
        if not partitions:
            return
        consumer.unassign()
        # The client's main thread does one thing after the other: with this answer, it has stopped fetching.
        consumer.assignment()
        # Kafka answers the requests of a connection in their order: with this answer, those to fetches are there.
        consumer.offsets_for_times([TopicPartition(tp.topic, tp.partition, OFFSET_END) for tp in partitions], _ANSWER_S)


def close_in_time(close: Callable[[], object]) -> None:
    """Calls a consumer's `close` in a thread, and leaves it there if it does not return in time."""
    closing = threading.Thread(target=close, name="kafka-close", daemon=True)
    closing.start()
    closing.join(CLOSE_S_MAX)
    if closing.is_alive():
        _paced.log("a consumer of Kafka does not close; its threads and its connection stay", level="warning")
