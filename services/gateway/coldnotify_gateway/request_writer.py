"""Writes requests to Kafka. They expire within seconds: what is still wanted then is asked anew."""

import threading
from collections.abc import Callable

import structlog
from coldnotify_common.kafka import connect, producer_config
from coldnotify_schemas.internal_pb2 import Request
from coldnotify_schemas.topics import REQUESTS
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from coldnotify_gateway.core import Produce
from coldnotify_gateway.settings import GatewaySettings

log = structlog.get_logger()

_POLL_S = 0.2
_JOIN_S = 1.0


class RequestWriter:
    """An idempotent producer: order in a partition is the order of calls.

    `on_failed(produce)` is called from another thread for what Kafka did not take in time; `on_fatal(reason)` when the
    producer is of no use any more.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        on_failed: Callable[[Produce], None],
        on_fatal: Callable[[str], None],
    ) -> None:
        self._on_failed = on_failed
        self._on_fatal = on_fatal
        self._stop = threading.Event()
        self._producer = Producer(
            producer_config(
                settings,
                name="request-writer",
                message_timeout_ms=round(settings.gateway_request_timeout_s * 1000),
                queue_buffering_max_messages=settings.gateway_requests_queued_max,
                # Nothing is done on success: so it need not be reported.
                delivery_report_only_error=True,
                on_delivery=self._on_delivery,
            )
        )
        self._thread = threading.Thread(target=self._poll, name="request-reports", daemon=True)

    def start(self) -> None:
        """Connects to Kafka, and begins to take delivery reports."""
        self._thread.start()

    def write(self, produce: Produce) -> bool:
        """Queues a request. False: the queue is full, or the producer failed; it is given up."""
        try:
            self._producer.produce(REQUESTS, produce.request.SerializeToString(), produce.key, produce.partition)
        except BufferError:
            return False
        except KafkaException as error:
            if error.args[0].code() == KafkaError._FATAL or error.args[0].fatal():
                self._on_fatal(error.args[0].str())
            else:
                log.warning("request not taken", partition=produce.partition, error=error.args[0].str())
            return False
        return True

    def stop(self, flush_s: float) -> int:
        """Waits until what is queued is written, at most so long. Returns how many requests were not."""
        left: int = self._producer.flush(max(0.0, flush_s))
        self._stop.set()
        self._thread.join(_JOIN_S)
        if left:
            self._producer.purge()
        return left

    def _poll(self) -> None:
        connect(self._producer)
        while not self._stop.is_set():
            self._producer.poll(_POLL_S)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            return
        if error.fatal():
            self._on_fatal(error.str())
        partition = message.partition()
        if partition is not None:
            request = Request.FromString(message.value() or b"")
            self._on_failed(Produce(partition, message.key() or b"", request))
