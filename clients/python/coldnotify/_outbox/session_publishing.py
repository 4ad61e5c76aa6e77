"""Publishes for `Notify.publish` and `Notify.send`: records are kept in an outbox, and the session brings them to the
service.

The outbox's thread hands a batch to the core's `Publications`, and waits until the session has answered all of it.
"""

import asyncio
import concurrent.futures
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from coldnotify_schemas import wire_pb2 as wire

from coldnotify._core.publishing.outbox_log import KeptEntry
from coldnotify._core.publishing.outgoing import Outgoing
from coldnotify._core.publishing.publications import Publications, PublishAnswer
from coldnotify._effect import ALTERED, PUBLISHED, REJECTED, REPEATED, STALE, Outcome
from coldnotify._outbox import outbox_delivery
from coldnotify._outbox.outbox_base import Outbox, Pending, RejectedRecord
from coldnotify._outbox.outbox_delivery import (
    Delivered,
    NotYet,
    OutboxDelivery,
    RecordDelivery,
    RejectedForEver,
    WrongClock,
)
from coldnotify._outbox.outbox_directory import OutboxDirectory
from coldnotify._outbox.outbox_memory import OutboxMemory
from coldnotify.errors import OutboxDamaged, OutboxError, PublishRefused

_OUTCOMES = {
    wire.OUTCOME_PUBLISHED: PUBLISHED,
    wire.OUTCOME_REPEATED: REPEATED,
    wire.OUTCOME_ALTERED: ALTERED,
    wire.OUTCOME_STALE: STALE,
    wire.OUTCOME_REJECTED: REJECTED,
}
PARTITION_NOT_SAID = -1
"""The session's answers have the offset alone."""


class Publication:
    """A publish that is accepted. wait(), or await it, to know that the service has it."""

    def __init__(self, outgoing: Outgoing, delivery: RecordDelivery, asking: "Asking") -> None:
        self._delivery = delivery
        self._object = outgoing.name if outgoing.is_version else None
        self._asking = asking
        self._version = outgoing.version
        self.id = outgoing.id or None
        """A message's id, by which repeats are recognised; None for a version."""

    @property
    def version(self) -> int | None:
        """The object's version; None for a message. If this machine's clock set it and was wrong, it changes once the
        service has found that out.
        """
        return self._version if self._delivery.version is None else self._delivery.version

    @property
    def published(self) -> bool:
        """True if the service has it, or a newer publish of the object that replaced it."""
        return self._delivery.done() and self._delivery.exception() is None

    def wait(self, timeout_s: float = 10.0) -> int:
        """Waits until the service has it; returns its offset in Kafka.

        Raises PublishRefused if the service refuses it for ever; TimeoutError when the time is over, and it goes on.
        """
        if not timeout_s >= 0:
            raise ValueError(f"timeout_s: {timeout_s!r} is not 0 or more")
        try:
            return self._offset(self._delivery.result(timeout_s))
        except (NotYet, RejectedForEver) as error:
            raise _error_of(error) from None

    def outcome(self, timeout_s: float = 5.0) -> Outcome:
        """Returns the version's effect once the service has it: published, repeated, altered, stale, rejected;
        `unknown` with the reason if that could not be determined in time.

        For a version that a newer publish of the object replaced: the effect of that one. Raises the same as wait();
        RuntimeError for a message, which has no outcome.
        """
        object_ = self._checked()
        deadline_s = time.monotonic() + timeout_s
        offset = self.wait(timeout_s)
        with self._asking.question(object_, offset) as answer:
            try:
                return self._became(answer.result(max(0.0, deadline_s - time.monotonic())))
            except TimeoutError:
                return Outcome.unknown(f"the service has not told the outcome within {timeout_s:g} s")

    async def outcome_async(self, timeout_s: float = 5.0) -> Outcome:
        """outcome() for asyncio."""
        object_ = self._checked()
        if not timeout_s >= 0:
            raise ValueError(f"timeout_s: {timeout_s!r} is not 0 or more")
        deadline_s = time.monotonic() + timeout_s
        async with asyncio.timeout(timeout_s):
            offset = await self._waited()
        with self._asking.question(object_, offset) as answer:
            try:
                async with asyncio.timeout(max(0.0, deadline_s - time.monotonic())):
                    return self._became(await asyncio.shield(asyncio.wrap_future(answer)))
            except TimeoutError:
                return Outcome.unknown(f"the service has not told the outcome within {timeout_s:g} s")

    def _checked(self) -> str:
        if self._object is None:
            raise RuntimeError("outcome: a message has none, nor has a patch alone")
        return self._object

    def _became(self, said: wire.Outcome) -> Outcome:
        shown: dict[str, Any] = {"outcome": _OUTCOMES.get(said.kind), "reason": said.reason}
        if said.HasField("version"):
            newest = {"version": said.version, "incarnation": said.incarnation}
            shown["newest"] = {**newest, "published_ms": said.published_ms or None}
        version = self._delivery.result(0).version
        return Outcome.of(shown, self._object or "", -1 if version is None else version)

    async def _waited(self) -> int:
        try:
            return self._offset(await asyncio.shield(asyncio.wrap_future(self._delivery)))
        except (NotYet, RejectedForEver) as error:
            raise _error_of(error) from None

    def __await__(self) -> Generator[Any, None, int]:
        """wait() for asyncio, without a limit: asyncio.timeout() sets one."""
        return self._waited().__await__()

    @staticmethod
    def _offset(delivered: Delivered) -> int:
        return delivered.offset


class Asking:
    """Asks the service for versions' outcomes, in the present session, or in the next one."""

    def __init__(self, publications: Publications, lock: Any, wake: Callable[[], None]) -> None:
        self._publications, self._lock, self._wake = publications, lock, wake

    @contextmanager
    def question(self, object_: str, offset: int) -> Iterator["concurrent.futures.Future[wire.Outcome]"]:
        """The answer to come; whoever leaves does not wait for it any more."""
        answer: concurrent.futures.Future[wire.Outcome] = concurrent.futures.Future()
        answer.set_running_or_notify_cancel()
        with self._lock:
            number = self._publications.ask(object_, offset, answer.set_result)
        self._wake()
        try:
            yield answer
        finally:
            with self._lock:
                self._publications.forget(number)


class SessionCarrier:
    """See outbox_delivery.Carrier."""

    def __init__(self, publications: Publications, lock: Any, wake: Callable[[], None]) -> None:
        """`lock` guards `publications`; `wake` lets the session look at them."""
        self._publications, self._lock, self._wake = publications, lock, wake
        self._answered = threading.Condition()
        self._stopped = False

    def carry(self, batch: Sequence[Outgoing]) -> list[outbox_delivery.Outcome]:
        """Waits for all answers, however long there is no session."""
        answers: dict[int, PublishAnswer] = {}

        def told(place: int, answer: PublishAnswer) -> None:
            with self._answered:
                answers[place] = answer
                self._answered.notify_all()

        with self._lock:
            self._publications.say([(outgoing, partial(told, place)) for place, outgoing in enumerate(batch)])
        self._wake()
        with self._answered:
            self._answered.wait_for(lambda: len(answers) == len(batch) or self._stopped)
            found = dict(answers)
        if len(found) < len(batch):
            with self._lock:
                self._publications.withdraw()
            with self._answered:
                found = dict(answers)
        return [_outcome(found.get(place)) for place in range(len(batch))]

    def stop(self) -> None:
        """Stops waiting for answers."""
        with self._answered:
            self._stopped = True
            self._answered.notify_all()

    def close(self) -> None:
        """Nothing is open."""


class SessionPublishing:
    """A client's publishes from acceptance to answer."""

    def __init__(
        self,
        publications: Publications,
        lock: Any,
        wake: Callable[[], None],
        path: str | os.PathLike[str] | None,
        of: tuple[str, str],
        records_max: int,
        bytes_max: int,
        report: Callable[[Exception], None],
    ) -> None:
        """`of`: domain and group, which the session speaks for. Raises OutboxError; ValueError naming the argument."""
        store: Outbox
        if path is None:
            store = OutboxMemory(records_max=records_max, bytes_max=bytes_max)
        else:
            store = OutboxDirectory(path, records_max=records_max, bytes_max=bytes_max)
            if others := store.domains_and_groups() - {of}:
                store.close()
                raise OutboxError(f"outbox: {path}: holds what is to be published to {'/'.join(min(others))}")

        def rejected(one: RejectedRecord) -> None:
            report(PublishRefused(one.object or one.channel or "", one.reason))

        self._delivery = OutboxDelivery(store, SessionCarrier(publications, lock, wake), rejected)
        self._store = store
        self._asking = Asking(publications, lock, wake)

    @property
    def damage(self) -> OutboxDamaged | None:
        """The damaged part of the outbox."""
        return self._store.damage

    def accept(self, outgoing: Outgoing, version_min: int) -> Publication:
        """Keeps it. A version that is given to it is `version_min` or above. Raises OutboxFull, OutboxError."""
        record: KeptEntry
        ((record, delivery),) = self._delivery.accept([outgoing], version_min)
        return Publication(record.outgoing, delivery, self._asking)

    def pending(self) -> Pending:
        """Returns how much waits, and for how long."""
        return self._store.pending()

    def close(self) -> None:
        """Closes it; what is not published stays in the directory, if there is one. May be called twice."""
        self._delivery.close(0)


def _outcome(answer: PublishAnswer | None) -> outbox_delivery.Outcome:
    if answer is None:
        return NotYet("the service has not answered")
    if answer.clock_ms is not None:
        return WrongClock(answer.reason, answer.clock_ms)
    if answer.offset is None:
        return RejectedForEver(answer.reason)
    return PARTITION_NOT_SAID, answer.offset


def _error_of(error: Exception) -> Exception:
    if isinstance(error, RejectedForEver):
        return PublishRefused("", str(error))
    return TimeoutError(str(error))
