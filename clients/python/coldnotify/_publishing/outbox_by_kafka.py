"""Brings an outbox's records to Kafka, by a producer that gives none up: so none overtakes one that is sent again."""

import threading
import time
from collections.abc import Sequence

from coldnotify_schemas.channels import MessageHeaders
from coldnotify_schemas.protocol import CLOCK_SET_S
from coldnotify_schemas.records import LARGEST_PAYLOAD_BYTES, PublicRecord, carrying, prioritized
from coldnotify_schemas.wrong_clocks import clock_fault, expiry_here
from confluent_kafka import KafkaException

from coldnotify._core.publishing.outgoing import Outgoing
from coldnotify._outbox.outbox_delivery import NotYet, Outcome, RejectedForEver, WrongClock
from coldnotify._publishing.checks import CheckedMessage
from coldnotify._publishing.published import PublishError, PublishRejected
from coldnotify._publishing.sender import NotNow, Sender, Sending, VersionAhead

_LOOK_S = 0.5
"""So often it looks whether it is to stop, while it waits for Kafka."""
_LOOKUP_S_MAX = 10.0
"""If Kafka does not tell its partitions within this time, the attempt is repeated."""
_CLOSE_S = 1.0


class KafkaCarrier:
    """See outbox_delivery.Carrier."""

    def __init__(self, sender: Sender) -> None:
        """`sender` is for this alone, and keeps trying (`gives_up=False`)."""
        self._sender = sender
        self._stopped = threading.Event()

    def carry(self, batch: Sequence[Outgoing]) -> list[Outcome]:
        """Hands all to librdkafka, which keeps their order, and waits for all."""
        sent: list[Sending | PublishError | WrongClock] = []
        try:
            for outgoing in batch:
                sent.append(self._send(outgoing))
                if isinstance(sent[-1], PublishError) and not isinstance(sent[-1], PublishRejected):
                    break
        except _Stopped:
            pass
        return [self._outcome(one) for one in sent]

    def stop(self) -> None:
        """Gives up what is in flight; it stays in the outbox."""
        self._stopped.set()
        self._sender.close(_CLOSE_S)

    def close(self) -> None:
        """stop() has done so."""

    def _send(self, outgoing: Outgoing) -> Sending | PublishError | WrongClock:
        now_ms = self._sender.now_ms()
        clock_ms = outgoing.clock_ms if outgoing.clocked else None
        if clock_ms is not None and clock_ms < CLOCK_SET_S * 1000 <= now_ms:
            return WrongClock(f"version: {clock_fault(clock_ms, now_ms)}", now_ms)
        if outgoing.clock_ms is not None and outgoing.expires_at is not None and clock_fault(outgoing.clock_ms, now_ms):
            outgoing = outgoing._replace(expires_at=expiry_here(outgoing.expires_at, outgoing.clock_ms, now_ms))
        record = _record(outgoing)
        try:
            self._look_up()
            waited = False
            while True:
                if self._stopped.is_set():
                    raise _Stopped
                try:
                    return self._sender.send(
                        *outgoing.key, record, outgoing.traceparent, waited=waited, clock_ms=clock_ms
                    )
                except NotNow:
                    waited = True
                    self._sender.wait_for_room(_LOOK_S)
        except PublishError as error:
            return error

    def _look_up(self) -> None:
        deadline_s = time.monotonic() + _LOOKUP_S_MAX
        while (lookup := self._sender.lookup_needed()) is not None:
            if self._stopped.is_set():
                raise _Stopped
            try:
                lookup.result(_LOOK_S)
            except (TimeoutError, KafkaException) as error:
                if time.monotonic() >= deadline_s or isinstance(error, KafkaException):
                    raise PublishError(f"Kafka does not answer: {error}", indeterminate=False) from None
            else:
                self._sender.lookup_done(lookup)

    def _outcome(self, sent: Sending | PublishError | WrongClock) -> Outcome:
        if isinstance(sent, WrongClock):
            return sent
        try:
            if isinstance(sent, PublishError):
                raise sent
            published = sent.result()
        except PublishRejected as error:
            return RejectedForEver(str(error))
        except VersionAhead as error:
            return WrongClock(str(error), error.now_ms)
        except PublishError as error:
            return NotYet(str(error))
        return published.partition, published.offset


class _Stopped(Exception):
    """stop() was called."""


def _record(outgoing: Outgoing) -> PublicRecord | CheckedMessage:
    if outgoing.is_message:
        said = MessageHeaders(
            id=outgoing.id,
            to=outgoing.to,
            expires_at=outgoing.expires_at,
            high_priority=outgoing.priority is not None,
            source=outgoing.source,
            time_ms=outgoing.time_ms,
            key=outgoing.order_key,
        )
        return CheckedMessage(outgoing.payload or b"", said)
    record = PublicRecord(
        version=outgoing.version,
        source=outgoing.source,
        expires_at=outgoing.expires_at,
        deleted=outgoing.deleted,
        incarnation=outgoing.incarnation,
    )
    return prioritized(
        carrying(record, outgoing.payload or b"", payload_bytes_max=LARGEST_PAYLOAD_BYTES), outgoing.priority
    )
