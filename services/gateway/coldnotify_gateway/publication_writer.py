"""Writes clients' publishes to Kafka, and reports the result of each."""

import threading
from collections.abc import Callable, Sequence
from functools import partial

import structlog
from coldnotify_common.kafka.kafka_clients import connect, polled, producer_config
from coldnotify_common.paced import Paced
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from coldnotify_gateway.core import PublishBatch, PublishRecord
from coldnotify_gateway.settings import GatewaySettings

log = structlog.get_logger()
_paced = Paced(log)

_POLL_S = 0.2
_TIMEOUT_S = 10.0
"""A publish that Kafka has not accepted within this time is refused temporarily."""
_LINGER_MS = 2.0
"""Publishes of several clients within this time form one batch, because a batch costs the broker much more than one
more record."""
_JOIN_S = 1.0

Report = Callable[[PublishRecord, int | None, str], None]
"""Receives the publication and its offset; or None instead, with the reason that it may not be in Kafka."""


class PublicationWriter:
    """An idempotent producer with a thread. Both are made at the first publish, because most gateways have none.

    That thread calls `report` once for each publication.
    """

    def __init__(self, settings: GatewaySettings, report: Report, timeout_s: float = _TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._settings = settings
        self._report = report
        self._stop = threading.Event()
        self._producer: Producer | None = None
        self._thread: threading.Thread | None = None

    def write(self, batch: PublishBatch) -> tuple[Sequence[PublishRecord], str]:
        """Hands a batch to the producer, in order. Returns those that the producer does not take, with the reason; the
        results of the others will be reported."""
        producer = self._producer or self._begin()
        for place, publication in enumerate(batch.records):
            try:
                producer.produce(
                    publication.topic,
                    publication.value,
                    publication.key,
                    publication.partition,
                    headers=list(publication.headers),
                    on_delivery=partial(self._on_delivery, publication),
                )
            except BufferError:
                return batch.records[place:], "too much waits for Kafka"
            except KafkaException as error:
                return batch.records[place:], self._failed(error.args[0])
        return (), ""

    def stop(self, flush_s: float) -> int:
        """Waits until the queue is written, at most so long. Returns the number of unwritten publications."""
        left = self._producer.flush(max(0.0, flush_s)) if self._producer is not None else 0
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_JOIN_S)
        if left and self._producer is not None:
            self._producer.purge()
        return left

    def _begin(self) -> Producer:
        settings = self._settings
        timeout_ms = round(self._timeout_s * 1000)
        options = producer_config(
            settings, name="publication-writer", message_timeout_ms=timeout_ms, linger_ms=_LINGER_MS
        )
        self._producer = producer = Producer(options)
        if self._thread is None:
            self._thread = threading.Thread(target=self._poll, name="publication-reports", daemon=True)
            self._thread.start()
        return producer

    def _poll(self) -> None:
        if self._producer is not None:
            connect(self._producer)
        while not self._stop.is_set():
            producer = self._producer
            if producer is None:
                self._stop.wait(_POLL_S)
            else:
                fatal = polled(producer, _POLL_S)
                if fatal is not None and producer is self._producer:
                    self._failed(fatal)

    def _on_delivery(self, publication: PublishRecord, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._report(publication, message.offset(), "")
        else:
            self._report(publication, None, self._failed(error))

    def _failed(self, error: KafkaError) -> str:
        _paced.log("publication not taken", level="warning", error=error.str())
        if error.fatal():
            # The next publication gets another producer; this one reports its publications as failed.
            producer, self._producer = self._producer, None
            if producer is not None:
                producer.purge()
        return f"Kafka has not taken it: {error.str()}"
