"""The results of publish() and send() with an outbox: the record is on disk, and is published in its turn."""

from typing import cast

from coldnotify._core.publishing.outbox_log import KeptEntry
from coldnotify._effect import Outcome
from coldnotify._outbox.outbox_delivery import Delivered, NotYet, RecordDelivery, RejectedForEver
from coldnotify._publishing.applied import Applied, LedgerClient, Receipt
from coldnotify._publishing.published import WAIT_S, Published, PublishRejected, PublishTimeout, Sent, check_wait
from coldnotify._publishing.settling import settled


class Accepted(Receipt):
    """A version that the outbox has. Its partition and offset are -1: it is not in Kafka yet."""

    _delivery: RecordDelivery

    @classmethod
    def of_record(cls, record: KeptEntry, delivery: RecordDelivery, ledger: LedgerClient | None) -> "Accepted":
        """Creates the result for a record that an outbox accepted."""
        said = record.outgoing
        accepted = cls(cast(int, said.version), -1, -1)
        accepted._ledger, accepted._about, accepted._incarnation = ledger, said.key, said.incarnation
        accepted._written, accepted._delivery = True, delivery
        return accepted

    @property
    def published(self) -> bool:
        """True if it, or a newer publish of the object that replaced it, is in Kafka."""
        return _is_delivered(self._delivery)

    def wait(self, timeout_s: float = WAIT_S) -> Receipt:
        """Waits until it is published; if a newer publish of the object took it out, until that is, and returns that.

        Raises PublishTimeout when the time is over, and it goes on; PublishRejected if the service refuses it for ever.
        """
        return self._receipt(_wait(self._delivery, timeout_s))

    async def wait_async(self, timeout_s: float = WAIT_S) -> Receipt:
        """wait() for asyncio."""
        return self._receipt(await _wait_async(self._delivery, timeout_s))

    def outcome(self, timeout_s: float = 5) -> Outcome:
        """Returns Receipt.outcome() of wait()'s result."""
        return self.wait(timeout_s).outcome(timeout_s)

    async def outcome_async(self, timeout_s: float = 5) -> Outcome:
        """outcome() for asyncio."""
        return await (await self.wait_async(timeout_s)).outcome_async(timeout_s)

    def applied_by(self, clients: int | float, timeout_s: float = 60) -> Applied:
        """Returns Receipt.applied_by() of wait()'s result."""
        return self.wait(timeout_s).applied_by(clients, timeout_s)

    async def applied_by_async(self, clients: int | float, timeout_s: float = 60) -> Applied:
        """applied_by() for asyncio."""
        return await (await self.wait_async(timeout_s)).applied_by_async(clients, timeout_s)

    def _receipt(self, done: Delivered) -> Receipt:
        published = Published(cast(int, done.version), done.partition, done.offset)
        return Receipt.of(published, self._ledger, self._about, self._incarnation)


class AcceptedMessage(Sent):
    """A message that the outbox has. Its partition and offset are -1: it is not in Kafka yet."""

    _delivery: RecordDelivery

    @classmethod
    def of_record(cls, record: KeptEntry, delivery: RecordDelivery) -> "AcceptedMessage":
        """Creates the result for a message that an outbox accepted."""
        accepted = cls(-1, -1, record.outgoing.id)
        accepted._delivery = delivery
        return accepted

    @property
    def published(self) -> bool:
        """True if it is in Kafka."""
        return _is_delivered(self._delivery)

    def wait(self, timeout_s: float = WAIT_S) -> Sent:
        """Waits until it is published. Raises PublishTimeout when the time is over, and it goes on; PublishRejected if
        the service refuses it for ever."""
        done = _wait(self._delivery, timeout_s)
        return Sent(done.partition, done.offset, self.id)

    async def wait_async(self, timeout_s: float = WAIT_S) -> Sent:
        """wait() for asyncio."""
        done = await _wait_async(self._delivery, timeout_s)
        return Sent(done.partition, done.offset, self.id)


def _is_delivered(delivery: RecordDelivery) -> bool:
    return delivery.done() and delivery.exception() is None


def _wait(delivery: RecordDelivery, timeout_s: float) -> Delivered:
    check_wait(timeout_s)
    try:
        return delivery.result(timeout_s)
    except (TimeoutError, NotYet, RejectedForEver) as error:
        raise _error_of(error, timeout_s) from None


async def _wait_async(delivery: RecordDelivery, timeout_s: float) -> Delivered:
    check_wait(timeout_s)
    try:
        return await settled(delivery, timeout_s)
    except (TimeoutError, NotYet, RejectedForEver) as error:
        raise _error_of(error, timeout_s) from None


def _error_of(error: Exception, timeout_s: float) -> Exception:
    if isinstance(error, RejectedForEver):
        return PublishRejected(str(error))
    if isinstance(error, NotYet):
        return PublishTimeout(str(error), indeterminate=True)
    return PublishTimeout(
        f"it is not known to be published after {timeout_s:g} s; it is in the outbox, and goes on", indeterminate=True
    )
