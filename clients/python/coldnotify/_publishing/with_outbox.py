"""A publisher's outbox as a whole: its directory, its delivery, and receipts for accepted records."""

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence

from coldnotify._core.publishing.outgoing import Outgoing
from coldnotify._outbox.outbox_base import Pending, RejectedRecord
from coldnotify._outbox.outbox_delivery import OutboxDelivery, RecordCarrier
from coldnotify._outbox.outbox_directory import OutboxDirectory
from coldnotify._publishing.accepted import Accepted, AcceptedMessage
from coldnotify._publishing.applied import LedgerClient
from coldnotify.errors import OutboxDamaged

OnRejected = Callable[[RejectedRecord], None]


class WithOutbox:
    """Safe to use from many threads and event loops."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        carrier: Callable[[], RecordCarrier],
        *,
        records_max: int,
        bytes_max: int,
        on_rejected: OnRejected | None,
        ledger: LedgerClient | None = None,
    ) -> None:
        """`carrier` is called once the directory is taken. Raises OutboxError; ValueError naming the argument."""
        self._directory = OutboxDirectory(path, records_max=records_max, bytes_max=bytes_max)
        try:
            brings = carrier()
        except BaseException:
            self._directory.close()
            raise
        self._delivery = OutboxDelivery(self._directory, brings, on_rejected)
        self._ledger = ledger

    def accept_versions(self, outgoings: Sequence[Outgoing]) -> list[Accepted]:
        """Keeps these, all or none; returns when they are on disk. Raises OutboxFull, OutboxError."""
        return [Accepted.of_record(*one, self._ledger) for one in self._delivery.accept(outgoings)]

    def accept_messages(self, outgoings: Sequence[Outgoing]) -> list[AcceptedMessage]:
        """Likewise."""
        return [AcceptedMessage.of_record(*one) for one in self._delivery.accept(outgoings)]

    async def accept_versions_async(self, outgoings: Iterable[Outgoing]) -> list[Accepted]:
        """accept_versions() for asyncio."""
        return await asyncio.to_thread(self.accept_versions, list(outgoings))

    async def accept_messages_async(self, outgoings: Iterable[Outgoing]) -> list[AcceptedMessage]:
        """accept_messages() for asyncio."""
        return await asyncio.to_thread(self.accept_messages, list(outgoings))

    @property
    def damage(self) -> OutboxDamaged | None:
        """Damage that was found at the start."""
        return self._directory.damage

    @property
    def last_error(self) -> str | None:
        """Why what waits was not published when it was tried last."""
        return self._delivery.last_error

    def pending(self) -> Pending:
        """Returns how much waits, and for how long."""
        return self._directory.pending()

    def flush(self, timeout_s: float) -> int:
        """Waits until nothing waits, at most `timeout_s`; how many records still do."""
        return self._delivery.flush(timeout_s)

    def close(self, timeout_s: float) -> None:
        """Waits as flush() does; what is left is kept."""
        self._delivery.close(timeout_s)


class MayHaveOutbox:
    """A publisher, as far as its outbox can be asked."""

    _outbox: WithOutbox | None = None

    def pending(self) -> Pending:
        """Returns how many records wait in the outbox, and for how long. Raises RuntimeError without an outbox."""
        return self._with_outbox().pending()

    @property
    def outbox_damage(self) -> OutboxDamaged | None:
        """The part of the outbox that could not be read when it was opened; it names the file in
        which it is set aside.
        """
        return self._with_outbox().damage

    @property
    def outbox_last_error(self) -> str | None:
        """Why what waits was not published when it was tried last; None: it was, or nothing was tried."""
        return self._with_outbox().last_error

    def _with_outbox(self) -> WithOutbox:
        if self._outbox is None:
            raise RuntimeError(f"outbox: not set; it needs {type(self).__name__}(outbox=DIRECTORY)")
        return self._outbox
