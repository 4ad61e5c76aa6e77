"""Configurations of our Kafka clients, and queries about topics."""

import logging
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from coldnotify_common.errors import ServiceError
from coldnotify_common.kafka.cut_off_nodes import CUT_OFF
from coldnotify_common.kafka.kafka_options import read_options
from coldnotify_common.kafka.kafka_stats import STATISTICS
from coldnotify_common.settings import ServiceSettings

T = TypeVar("T")
_logger = logging.getLogger("kafka")
_ERROR_LOG_INTERVAL_S = 10
"""Minimum interval of error log lines: librdkafka reports the same error at each attempt to connect."""
_ADMIN_IN_VAIN_S_MAX = 15.0
READING_BOUNDS = {
    "fetch.max.bytes": 8 * 1024 * 1024,
    # Also limits the unpacked size of a zstd batch: a few hundred bytes could become 100 MB in each process that reads
    # them.
    "receive.message.max.bytes": 16 * 1024 * 1024,
}
"""Bounds of one answer of Kafka. A batch in our topics has at most 2 MiB packed, and 16 MiB unpacked."""


class KafkaUnavailable(ServiceError):
    """Kafka, or the requested part of it, is not available; the message names the bootstrap servers or the topic."""


class TopicMissing(KafkaUnavailable):
    """A topic does not exist."""


class TopicForbidden(KafkaUnavailable):
    """Kafka does not reveal if a topic exists, because the client has no rights on it."""


def _error_logger() -> Callable[[KafkaError], None]:
    last_s: dict[int, float] = {}

    def on_error(error: KafkaError) -> None:
        now_s = time.monotonic()
        if now_s - last_s.get(error.code(), float("-inf")) >= _ERROR_LOG_INTERVAL_S:
            last_s[error.code()] = now_s
            _logger.log(logging.ERROR if error.fatal() else logging.WARNING, "Kafka: %s", error.str())

    return on_error


def _common_config(settings: ServiceSettings) -> dict[str, Any]:
    return {
        "bootstrap.servers": CUT_OFF.bootstrap(settings.kafka),
        "logger": _logger,
        # librdkafka logs each failed attempt to connect at level 3, many a second; error_cb reports the same now and
        # then.
        "log_level": 2,
        "log.connection.close": False,
        "error_cb": _error_logger(),
        # Finds a restarted broker within a second; the default may take ten.
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        "socket.keepalive.enable": True,
        # Gives up a connection that does not answer after this time; the default is a minute.
        "socket.timeout.ms": 15_000,
        # The default is five minutes. A node that is cut off from the others goes on answering who asks it, from a log
        # that is behind; whoever asks another node for the leaders learns better. A client whose only connection in use
        # is one to that node asks no other: see cut_off_nodes.
        "topic.metadata.refresh.interval.ms": 5_000,
        **read_options(settings.kafka_config),
    }


def consumer_config(settings: ServiceSettings, group_id: str, *, name: str = "", **extra: object) -> dict[str, Any]:
    """Returns the configuration of a Consumer: explicit commits; a missing offset is an error, never a jump.

    `name`: the consumer's purpose, and its label in the metrics of its statistics. A consumer with a name has to be
    polled. `extra`: further options, with _ instead of dots (session_timeout_ms=6000).
    """
    return {
        **READING_BOUNDS,
        **_common_config(settings),
        "group.id": group_id,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "allow.auto.create.topics": False,
        # The fetched records that one consumer holds: the default of 64 MiB is too much for a small service.
        "queued.max.messages.kbytes": 16 * 1024,
        **(STATISTICS.options(name, settings.topics.group(name)) if name else {}),
        **_dotted(extra),
    }


def producer_config(settings: ServiceSettings, *, name: str = "", **extra: object) -> dict[str, Any]:
    """Returns the configuration of a Producer: idempotent, acks=all, sends at once (linger 0), holds at most 32 MiB.

    `name`: as in consumer_config. `extra`: further options, with _ instead of dots (linger_ms=5,
    message_timeout_ms=5000).
    """
    return {
        **_common_config(settings),
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 0,
        "queue.buffering.max.kbytes": 32 * 1024,
        "message.timeout.ms": 30_000,
        **(STATISTICS.options(name, settings.topics.group(name)) if name else {}),
        **_dotted(extra),
    }


def renewed_producer(
    settings: ServiceSettings, name: str, queued_max: int, on_delivery: Callable[[KafkaError | None, Message], None]
) -> Producer:
    """Creates a Producer of records that are renewed: a later one says what one that was not written within 10 s said,
    and a duplicate changes nothing."""
    return Producer(
        producer_config(
            settings,
            name=name,
            enable_idempotence=False,
            message_timeout_ms=10_000,
            queue_buffering_max_messages=queued_max,
            on_delivery=on_delivery,
        )
    )


def polled(producer: Producer, timeout_s: float) -> KafkaError | None:
    """Handles a producer's reports, for at most `timeout_s`. Returns the error once it has failed for good: that
    confluent-kafka raises here, and hands it to no callback.
    """
    try:
        producer.poll(timeout_s)
    except KafkaException as error:
        fatal: KafkaError = error.args[0]
        return fatal
    return None


def connect(client: Producer | Consumer, timeout_s: float = 1.0) -> None:
    """Makes a client connect to Kafka before it is needed; waits for the answer, at most `timeout_s`.

    A client that is used before it is connected tries again only half a second, or a second, later: an idempotent
    producer for its id, a consumer for the leaders of its partitions. The query covers all topics, because after one
    for a single topic it may be as slow.
    """
    with suppress(KafkaException):  # the first use of the client reports errors
        client.list_topics(timeout=timeout_s)


def admin_config(settings: ServiceSettings) -> dict[str, Any]:
    """Returns the configuration of an AdminClient."""
    return _common_config(settings)


def _dotted(options: dict[str, object]) -> dict[str, object]:
    """Replaces underscores by dots, except in callbacks, which are options of the client itself: error_cb, on_commit,
    on_delivery."""
    return {
        name if name.endswith("_cb") or name.startswith("on_") else name.replace("_", "."): value
        for name, value in options.items()
    }


def ask_twice(admin: AdminClient, ask: Callable[[float], T], timeout_s: float) -> T:
    """Calls `ask`; if that fails, refreshes the metadata and calls it again, with a third of the time for each step.

    An AdminClient sends queries to the nodes that were controller and leaders when it last fetched the metadata: if one
    of three nodes dies, every query to it would time out until it does so again. Raises what `ask` raises.
    """
    first_s = timeout_s / 3
    try:
        return ask(first_s)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise
    except TimeoutError:
        pass
    with suppress(KafkaException):
        admin.list_topics(timeout=first_s)
    return ask(first_s)


def describe_topic(admin: AdminClient, topic: str, timeout_s: float = 10) -> Any:
    """Returns Kafka's description of a topic (never creates it). Raises TopicMissing, KafkaUnavailable."""
    return describe_topics(admin, [topic], timeout_s)[topic]


def describe_topics(admin: AdminClient, topics: Collection[str], timeout_s: float = 10) -> dict[str, Any]:
    """Returns Kafka's descriptions of several topics, in one query. Raises as describe_topic."""
    asked = ", ".join(topics)

    def ask(limit_s: float) -> dict[str, Any]:
        nonlocal asked
        # librdkafka itself keeps the shorter limit; the longer one is a safeguard.
        answers = admin.describe_topics(TopicCollection(list(topics)), request_timeout=limit_s)
        found = {}
        for asked, answer in answers.items():
            found[asked] = answer.result(limit_s + 5)
        return found

    try:
        return ask_twice(admin, ask, timeout_s)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise TopicMissing(f"topic {asked} does not exist: run `coldnotify topics apply`") from None
        if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise TopicForbidden(f"topic {asked} does not exist, or there are no rights on it") from None
        raise KafkaUnavailable(f"Kafka does not say what topic {asked} is like: {error.args[0].str()}") from None
    except TimeoutError:
        raise KafkaUnavailable(f"Kafka does not say within {timeout_s} s what topic {asked} is like") from None


class TopicLooks:
    """Describes topics repeatedly, with an AdminClient of its own. Not safe for use by several threads at once.

    The client is replaced after it has failed for a while. It should reconnect to a Kafka that is back; one was seen
    that did not for minutes, while other processes did.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._config = admin_config(settings)
        self._admin = AdminClient(self._config)
        self._in_vain_since_s: float | None = None

    def describe(self, topic: str, timeout_s: float) -> Any:
        """Returns Kafka's description of a topic; raises as describe_topic."""
        try:
            found = describe_topic(self._admin, topic, timeout_s)
        except TopicMissing:
            self._in_vain_since_s = None
            raise
        except KafkaUnavailable:
            now_s = time.monotonic()
            if self._in_vain_since_s is None:
                self._in_vain_since_s = now_s
            elif now_s - self._in_vain_since_s > _ADMIN_IN_VAIN_S_MAX:
                self._admin = AdminClient(self._config)
                self._in_vain_since_s = None
            raise
        self._in_vain_since_s = None
        return found
