"""Writes requests to Kafka. They expire within seconds; those still needed then are made again."""

import threading
import time
from collections.abc import Callable

import structlog
from coldnotify_common.kafka.kafka_clients import connect, polled, producer_config
from coldnotify_common.paced import Paced
from coldnotify_schemas.internal_pb2 import Request
from coldnotify_schemas.records import rejected_headers
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from coldnotify_gateway.core import Produce
from coldnotify_gateway.inbox_records import Aside
from coldnotify_gateway.settings import GatewaySettings

log = structlog.get_logger()
_paced = Paced(log)

_POLL_S = 0.2
_ROUND_S = 0.1
"""Longest time that gathered requests wait for answers, because a partition without a leader must not delay the
others."""
_ROUND_PARTITIONS = 4
"""Most partitions in a round. While five batches are unanswered and more requests wait, librdkafka's thread spins: that
took 550 of the 980 us of CPU that a connecting client cost six gateways; with rounds it takes 50 to 90."""
_LINGER_MS = 0.5
"""Requests handed over together form one batch per partition. Without it, the first one would be sent alone."""
_REST_S = 0.012
"""Pause after a round. A round costs the service 2 to 3 ms of CPU, however few requests it contains: a request, a
fetch, a step and an inbox record. A quick answer of Kafka does not shorten the pause: at 500 wakes a second there are
75 rounds of six or seven wakes each. A pause that depended on Kafka's answers made 145 rounds of three when Kafka was
quick."""
_UNHURRIED = frozenset(("leave", "acks"))
"""Kinds of requests without an answer. Alone, they wait for other requests until the thread's next look. At 100 wakes a
second that halves the number of rounds."""
_JOIN_S = 1.0


class RequestWriter:
    """An idempotent producer of requests. The order in a partition is the order of calls.

    While requests are under way, and during the pause after them, the next ones are gathered. Then those of a few
    partitions are handed over, or all of them if answers are overdue. A batch costs the broker much more than one more
    request in it. So batches grow under load, and without load a request waits for the linger only.

    Another thread calls `on_failed(produce)` for a request that Kafka did not accept in time, and `on_fatal(reason)`
    when the producer has failed for good.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        on_failed: Callable[[Produce], None],
        on_fatal: Callable[[str], None],
    ) -> None:
        self._topics = settings.topics
        self._requests = settings.topics.requests
        self._on_failed = on_failed
        self._on_fatal = on_fatal
        self._stop = threading.Event()
        self._lock = threading.Lock()
        """Held while requests are handed over, which the event loop and the thread both do."""
        self._gathered: dict[int, list[Produce]] = {}
        """Gathered requests by partition. The partition that has waited longest comes first."""
        self._gathered_count = 0
        self._handed_over = 0
        """Number of requests handed over since all were last answered."""
        self._round_begun = False
        """True if requests were handed over since the last pause."""
        self._round_end_s = 0.0
        self._left_over = False
        """True if the current round had no room for all gathered requests."""
        self._resting = False
        """True during a pause, after which the thread hands the gathered requests over."""
        self._queued_max = settings.gateway_requests_queued_max
        self._producer = Producer(
            producer_config(
                settings,
                name="request-writer",
                message_timeout_ms=round(settings.gateway_request_timeout_s * 1000),
                queue_buffering_max_messages=self._queued_max,
                linger_ms=_LINGER_MS,
                # Reports successes, too, because only a report wakes the thread once all requests are answered.
                on_delivery=self._on_delivery,
            )
        )
        self._thread = threading.Thread(target=self._poll, name="request-reports", daemon=True)

    def start(self) -> None:
        """Connects to Kafka, and starts to handle delivery reports."""
        self._thread.start()

    def write(self, produce: Produce) -> bool:
        """Queues a request. Returns false if the queue is full or the producer has failed; the request is then
        dropped."""
        with self._lock:
            under_way = self._under_way()
            waits = under_way or self._resting or produce.request.WhichOneof("body") in _UNHURRIED
            if not self._gathered and not waits:
                return self._hand_over(produce)
            if self._gathered_count + under_way >= self._queued_max:
                return False
            self._gathered.setdefault(produce.partition, []).append(produce)
            self._gathered_count += 1
        if not waits:
            self._hand_over_round(_ROUND_PARTITIONS)
        return True

    def reject(self, aside: Aside) -> None:
        """Writes an unhandled inbox record to the rejected topic, if the queue has room for it."""
        place = f"{self._topics.notifications}/{aside.inbox}" + ("" if aside.offset is None else f"@{aside.offset}")
        headers = list(rejected_headers(aside.reason, place))
        try:
            self._producer.produce(self._topics.rejected, aside.value, headers=headers)  # type: ignore[arg-type]
        except (BufferError, KafkaException) as error:
            _paced.log("not even rejected", level="warning", error=str(error))

    def stop(self, flush_s: float) -> int:
        """Waits until the queued requests are written, at most so long. Returns the number of unwritten requests."""
        self._hand_over_round()
        left: int = self._producer.flush(max(0.0, flush_s))
        self._stop.set()
        self._thread.join(_JOIN_S)
        if left:
            self._producer.purge()
        return min(left, self._handed_over)

    def _poll(self) -> None:
        connect(self._producer)
        while not self._stop.is_set():
            fatal = polled(self._producer, _ROUND_S if len(self._producer) else _POLL_S)
            if fatal is not None:
                self._on_fatal(fatal.str())
            with self._lock:
                under_way = self._under_way()
                rest_s = 0.0 if under_way else self._end_round()
                self._resting = rest_s > 0
            if rest_s:
                self._stop.wait(rest_s)
                self._resting = False
            if not under_way:
                self._hand_over_round(_ROUND_PARTITIONS)
            elif time.monotonic() > self._round_end_s:
                self._hand_over_round()

    def _under_way(self) -> int:
        """Returns an upper bound of the unanswered requests, because librdkafka also counts its reports of errors."""
        count = min(len(self._producer), self._handed_over)
        if not count:
            self._handed_over = 0
        return count

    def _end_round(self) -> float:
        """Ends a round, once all requests are answered. Returns the pause in seconds, which is 0 if requests had no
        room in the round."""
        begun, self._round_begun = self._round_begun, False
        return _REST_S if begun and not self._left_over else 0.0

    def _hand_over_round(self, partitions_max: int | None = None) -> None:
        failed: list[Produce] = []
        with self._lock:
            for partition in list(self._gathered)[:partitions_max]:
                gathered = self._gathered.pop(partition)
                self._gathered_count -= len(gathered)
                failed += [produce for produce in gathered if not self._hand_over(produce)]
            self._left_over = bool(self._gathered)
            self._round_end_s = time.monotonic() + _ROUND_S
        for produce in failed:
            self._on_failed(produce)

    def _hand_over(self, produce: Produce) -> bool:
        try:
            self._producer.produce(self._requests, produce.request.SerializeToString(), produce.key, produce.partition)
        except BufferError:
            return False
        except KafkaException as error:
            if error.args[0].code() == KafkaError._FATAL or error.args[0].fatal():
                self._on_fatal(error.args[0].str())
            else:
                _paced.log("request not taken", level="warning", partition=produce.partition, error=error.args[0].str())
            return False
        self._handed_over += 1
        self._round_begun = True
        return True

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            return
        if error.fatal():
            self._on_fatal(error.str())
        partition = message.partition()
        if message.topic() == self._topics.rejected:
            _paced.log("not even rejected", level="warning", error=error.str())
        elif partition is not None:
            request = Request.FromString(message.value() or b"")
            self._on_failed(Produce(partition, message.key() or b"", request))
