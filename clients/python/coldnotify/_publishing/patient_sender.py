"""Waits until the sender takes records, and until Kafka has them: for threads and for asyncio, in the same steps."""

import asyncio
import time
from collections.abc import Iterable

from coldnotify_schemas.atomic_sets import AtomicSet
from coldnotify_schemas.records import PublicRecord
from confluent_kafka import KafkaError, KafkaException

from coldnotify._publishing.checks import CheckedMessage, DescriptionRecord
from coldnotify._publishing.published import Published, PublishError, PublishTimeout
from coldnotify._publishing.sender import NoRoom, NotNow, Sender, Sending
from coldnotify._publishing.settling import settled

Record = PublicRecord | DescriptionRecord | CheckedMessage | AtomicSet
Named = tuple[str, Record]
"""A record, behind the object's or the channel's name, or a set's ID."""

_NOT_NOW_RETRY_S = 0.01
"""Interval of attempts without a notification: librdkafka's own queue does not signal when it has room."""
_NO_ROOM_RETRY_S = 1.0
"""Each acknowledgement wakes one that waits for room; this is for when it was given up at that moment."""
_LOOKUP_RETRY_S = 0.1


class PatientSender:
    """Safe to use from many threads and event loops."""

    def __init__(self, sender: Sender, kafka: str, timeout_s: float) -> None:
        """`kafka` appears in errors. `timeout_s`: how long one call may take."""
        self._sender = sender
        self._kafka = kafka
        self._timeout_s = timeout_s

    def send_all(
        self, domain: str, group: str, records: Iterable[Named], trace: str | None
    ) -> list[Published | PublishError]:
        """Returns once each is durable or has failed; what became of each, in order."""
        deadline_s = time.monotonic() + self._timeout_s
        sent = [self._send(domain, group, *one, deadline_s, trace) for one in records]
        return [self._outcome(one, deadline_s) for one in sent]

    async def send_all_async(
        self, domain: str, group: str, records: Iterable[Named], trace: str | None
    ) -> list[Published | PublishError]:
        """send_all() for asyncio. Cancelling the wait does not take back what is sent."""
        deadline_s = time.monotonic() + self._timeout_s
        sent = [await self._send_async(domain, group, *one, deadline_s, trace) for one in records]
        return [await self._outcome_async(one, deadline_s) for one in sent]

    def _send(
        self,
        domain: str,
        group: str,
        name: str,
        record: Record,
        deadline_s: float,
        trace: str | None,
    ) -> Sending | PublishError:
        try:
            while (lookup := self._sender.lookup_needed()) is not None:
                try:
                    lookup.result(left_s(deadline_s))
                except (TimeoutError, KafkaException) as error:
                    self._lookup_failed(error, deadline_s)
                    time.sleep(_LOOKUP_RETRY_S)
                else:
                    self._sender.lookup_done(lookup)
            waited = False
            while True:
                try:
                    return self._sender.send(domain, group, name, record, trace, waited=waited)
                except NotNow as reason:
                    self._not_now(reason, deadline_s)
                    waited = True
                    self._sender.wait_for_room(_NOT_NOW_RETRY_S)
        except PublishError as error:
            return error

    async def _send_async(
        self,
        domain: str,
        group: str,
        name: str,
        record: Record,
        deadline_s: float,
        trace: str | None,
    ) -> Sending | PublishError:
        try:
            while (lookup := self._sender.lookup_needed()) is not None:
                try:
                    # Shielded: others wait for the same answer. It may fail when nobody waits any more.
                    answer = asyncio.wrap_future(lookup)
                    answer.add_done_callback(lambda one: one.cancelled() or one.exception())
                    async with asyncio.timeout(left_s(deadline_s)):
                        await asyncio.shield(answer)
                except (TimeoutError, KafkaException) as error:
                    self._lookup_failed(error, deadline_s)
                    await asyncio.sleep(_LOOKUP_RETRY_S)
                else:
                    self._sender.lookup_done(lookup)
            waited = False
            while True:
                try:
                    return self._sender.send(domain, group, name, record, trace, waited=waited)
                except NoRoom as reason:
                    self._not_now(reason, deadline_s)
                    room = asyncio.wrap_future(self._sender.room(first=waited))
                    try:
                        await asyncio.wait([room], timeout=min(left_s(deadline_s), _NO_ROOM_RETRY_S))
                    finally:
                        room.cancel()
                    waited = True
                except NotNow as reason:
                    self._not_now(reason, deadline_s)
                    await asyncio.sleep(_NOT_NOW_RETRY_S)
        except PublishError as error:
            return error

    def _outcome(self, sent: Sending | PublishError, deadline_s: float) -> Published | PublishError:
        if isinstance(sent, PublishError):
            return sent
        try:
            return sent.result(left_s(deadline_s))
        except PublishError as error:
            return error
        except TimeoutError:
            return self._sender.timeout()

    async def _outcome_async(self, sent: Sending | PublishError, deadline_s: float) -> Published | PublishError:
        if isinstance(sent, PublishError):
            return sent
        try:
            return await settled(sent, left_s(deadline_s))
        except PublishError as error:
            return error
        except TimeoutError:
            return self._sender.timeout()

    def _lookup_failed(self, error: BaseException, deadline_s: float) -> None:
        """Raises PublishError unless there is time for another question."""
        if isinstance(error, KafkaException) and error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise PublishError(
                f"topic {self._sender.topics.objects} does not exist in Kafka; nothing was sent", indeterminate=False
            )
        if left_s(deadline_s) <= _LOOKUP_RETRY_S:
            raise PublishTimeout(
                f"Kafka ({self._kafka}) does not answer within {self._timeout_s:g} s; nothing was sent",
                indeterminate=False,
            )

    def _not_now(self, reason: NotNow, deadline_s: float) -> None:
        """Raises PublishTimeout unless there is time for another attempt."""
        if left_s(deadline_s) <= 0:
            raise PublishTimeout(
                f"Kafka ({self._kafka}): {reason}, since {self._timeout_s:g} s; nothing was sent",
                indeterminate=False,
            )


def left_s(deadline_s: float) -> float:
    """Until this time of the monotonic clock; 0: it is over."""
    return max(0.0, deadline_s - time.monotonic())
