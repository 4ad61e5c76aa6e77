"""One run of a client, from start to end: how the driver's actions are executed, but for sockets and waiting."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from coldnotify._carriers import CONNECTION_LOST, ENDED_BY_GATEWAY, Carrier, carrier_of
from coldnotify._clock import sleep_counting_clock
from coldnotify._core.document.document import ClientIdentity
from coldnotify._core.driver import Action, AnyJob, CallAction, Driver, Save, ShareJob, Status
from coldnotify._core.session.reconnect import Address
from coldnotify._core.session.standstill import Standstill
from coldnotify._core.shares.lease import Lease
from coldnotify._forked import Owner
from coldnotify._tls import ResumingContext
from coldnotify.connection import Connection
from coldnotify.errors import StateError
from coldnotify.handed_message import HandedMessage
from coldnotify.message import Message, Missed
from coldnotify.notification import Notification
from coldnotify.state import State

logger = logging.getLogger("coldnotify")

Callback = Callable[[Notification], object]
"""Called with the newest version of an object. In the asyncio form it may be a coroutine function."""
MembersCallback = Callable[[set[str], set[str]], object]
"""Called with the names of objects that entered a query, and of those that left. In the asyncio form it may be a
coroutine function.
"""
MessageCallback = Callable[[Message], object]
"""Called with every message of a channel. In the asyncio form it may be a coroutine function."""
MissedCallback = Callable[[Missed], object]
"""Called with a gap in which messages of a channel may be missing. In the asyncio form it may be a
coroutine function.
"""
HandedCallback = Callable[[Any], object]
"""Called with a message of a share that is handed to this client (LeasedMessage). In the asyncio form it may be a
coroutine function.
"""
LostCallback = Callable[[Any], object]
"""Called with a message of a share, or a gap, whose lease is lost. In the asyncio form it may be a coroutine
function.
"""
OnError = Callable[[Exception], object]

_IN_THE_CLEAR = " before it answered; if its port speaks TLS, Connection needs a ca_cert"
"""Follows the words of a connection without TLS that ended so: a port that speaks TLS says nothing else."""


class NotifyRun:
    """The driver under its lock, and what its actions need. Its methods may be called from any thread."""

    def __init__(
        self,
        new_driver: Callable[[float], Driver],
        identity: ClientIdentity,
        lock: Any,  # threading.RLock is no type
        state: State,
        connection: Connection,
        context: ResumingContext | None,
        callback_of: Callable[[int], Callable[..., object] | None],
        on_error: OnError | None,
        ended: Callable[[], None],
        wake: Callable[[], None],
        owner: Owner,
        shared_message: Callable[..., HandedMessage],
    ) -> None:
        """`new_driver` is called with the time. `callback_of`: by number, unless it was disposed of. `ended`: the run
        is over, the state file is let go. `wake`: the hands look again. `shared_message`: makes the form of a share's
        message for callbacks.
        """
        self.owner = owner
        self._clock = sleep_counting_clock()
        now = self._clock()
        self.driver = new_driver(now)
        self._standstill = Standstill(now)
        self._wake = wake
        self.lock = lock
        self.on_error = on_error
        self._state = state
        self._identity = identity
        self._connection = connection
        self._context = context
        self._callback_of = callback_of
        self._ended = ended
        self._shared_message = shared_message
        self._served = False
        """True if the present or last connection has carried a session."""
        self._outage_told = False
        self._may_need_tls: set[int] = set()
        """The connections without TLS from which nothing came yet."""

    # What is to be done

    def next(self) -> tuple[Action | None, float]:
        """Returns the next action for the thread or task with the connection and the state file, and the time until
        which it may wait.
        """
        with self.lock:
            action = self.driver.next(self._look())
            return action, min(self.driver.deadline(), self._standstill.deadline())

    def left_s(self, until: float) -> float:
        """Seconds until then; 0: it is past."""
        with self.lock:
            return max(0.0, until - self._clock())

    def _look(self) -> float:
        """The time. The driver hears of it if this program has stood still. The caller holds the lock."""
        now = self._clock()
        stood_still_s = self._standstill.look(now)
        if stood_still_s:
            logger.info("this program, or its machine, stood still for %.0f s", stood_still_s)
            self.driver.doubt(now, stood_still_s)
            self._wake()
        return now

    def next_call(self) -> tuple[CallAction | None, float]:
        """Returns the next call for the thread or task that runs the application's code, and the time until which it
        may wait.
        """
        with self.lock:
            return self.driver.next_call(self._clock()), self.driver.next_call_at()

    def connect_now(self) -> None:
        """Ends the wait for the next attempt to connect."""
        with self.lock:
            self.driver.connect_now(self._look())
        self._wake()

    def network_changed(self) -> None:
        """The machine has another network."""
        with self.lock:
            self.driver.doubt(self._look(), 0.0)
        self._wake()

    def stop(self, *, abandon: bool) -> None:
        """Begin to stop."""
        with self.lock:
            self.driver.stop(abandon=abandon)

    def end(self) -> None:
        """Let everything go."""
        with self.lock:
            self.driver.close()
            self._state.close()
            self._ended()

    # Looking in. A program that wakes asks before the hand with the connection has looked.

    def caught_up(self) -> bool:
        """Returns true if everything owed has been told, as far as that can be known."""
        with self.lock:
            return self.driver.caught_up(self._look())

    def decided(self) -> bool:
        """Returns true if waiting to be caught up is pointless."""
        with self.lock:
            return self.driver.decided(self._look())

    def status(self) -> Status:
        """Returns what the client is doing."""
        with self.lock:
            now = self._look()
            status = self.driver.status(now)
            ahead_s = time.time() - now
        streams = {name: None if as_of is None else as_of + ahead_s for name, as_of in status.streams.items()}
        as_of = status.fresh_as_of
        return replace(status, streams=streams, fresh_as_of=None if as_of is None else as_of + ahead_s)

    # Executing

    @staticmethod
    def report(error: Exception) -> None:
        """Log it."""
        logger.error("%s", error, exc_info=error.__cause__)

    def save(self, save: Save) -> None:
        """Write the document. Without the lock: nobody need wait for the disk."""
        error: StateError | None = None
        try:
            self._state.write(save.data)
        except StateError as problem:
            error = problem
        self.saved(save, error)

    def save_along(self) -> Save | None:
        """Returns a document that is to be written with another client's; `saved` follows."""
        with self.lock:
            return self.driver.save_along(self._clock())

    def saved_along(self, save: Save, error: StateError | None) -> None:
        """It was written with another client's, or could not be."""
        self.saved(save, error)
        self._wake()

    def saved(self, save: Save, error: StateError | None) -> None:
        """It was written, or could not be."""
        with self.lock:
            if error is None:
                self.driver.saved(save, self._clock())
            else:
                self.driver.save_failed(save, error, self._clock())

    def way_to(self, address: Address, link: int) -> tuple[Carrier, ResumingContext | None]:
        """Returns the carrier and the TLS context for a connection to this address."""
        logger.info("connecting to %s", address)
        carrier = carrier_of(address)
        uses_tls = self._connection.uses_tls(address)
        (self._may_need_tls.discard if uses_tls else self._may_need_tls.add)(link)
        return carrier, self._context if uses_tls else None

    @property
    def user_timeout_ms(self) -> int | None:
        """TCP's own limit for what is not acknowledged; None: the kernel's."""
        return self._connection.user_timeout_ms()

    def ask_directory(self) -> None:
        """Asks the directory, and passes on what it says. Takes up to `connect_timeout_s`."""
        from coldnotify._named_gateway import NoGateway, ask_directory, requests_of

        connection = self._connection
        try:
            token = connection.current_token() or None
            requests = requests_of(str(connection.directory), token, self._context)
            found = ask_directory(
                requests,
                self._identity,
                connection.gateways().home,
                connection.named,
                connection.connect_timeout_s,
                web=connection.wants_web,
            )
        except Exception as error:
            retry_after_s = error.retry_after_s if isinstance(error, NoGateway) else 0.0
            logger.info("%s", error)
            with self.lock:
                self.driver.unnamed(str(error), self._clock(), retry_after_s)
        else:
            logger.info("the directory names %s", found.address)
            with self.lock:
                self.driver.named(found.address, self._clock(), found.home_out_s)
        self._wake()

    def callbacks(self, job: AnyJob) -> Iterator[tuple[int, Callable[..., object]]]:
        """The callbacks to run, by number; those that were disposed of meanwhile are left out."""
        for number in job.subscribers:
            callback = self._callback_of(number)
            if callback is not None:
                yield number, callback

    def arguments(self, job: AnyJob) -> tuple[object, ...]:
        """Returns the arguments of all its callbacks, which say their group: whoever is told of one version by several
        callbacks knows it by that.
        """
        group = self._identity.group
        told = (self._settled_by_us(one) if isinstance(one, HandedMessage) else one for one in job.arguments)
        return tuple(
            replace(one, group=group) if isinstance(one, (Notification, Message, Missed)) else one for one in told
        )

    def _settled_by_us(self, message: HandedMessage) -> HandedMessage:
        known = {one.name: getattr(message, one.name) for one in fields(message)}
        return self._shared_message(**known, settle=self.settle)

    def settle(self, lease: Lease, told: Callable[[], object]) -> None:
        """Settles a message of a share while its callback runs. `told` is called once that is answered, or lost."""
        with self.lock:
            self.driver.application.settle(lease, told)
        self._wake()

    def call_lost(self, job: ShareJob) -> Iterator[object]:
        """Calls who is to hear that a lease is lost. Yields what they return, so that an event loop can await it."""
        arguments = self.arguments(job)
        for _, callback in self.callbacks(job):
            try:
                yield callback(*arguments)
            except Exception:
                logger.exception("on_lost raised")

    def called(self, job: AnyJob, failed: Mapping[int, BaseException]) -> None:
        """They have returned, or raised."""
        with self.lock:
            self.driver.called(job, failed, self._clock())

    # What a connection says

    def link_up(self, carrier: Carrier, link: int) -> str:
        """Notes that the connection is established. Returns why it cannot be used; "" if it can."""
        try:
            token = self._connection.current_token()
        except Exception as error:
            return f"no token: {error}"
        with self.lock:
            self.driver.link_up(self._clock(), token, link)
        return ""

    def received(self, data: bytes, link: int) -> None:
        """Bytes came."""
        self._may_need_tls.discard(link)
        with self.lock:
            self.driver.received(data, self._look(), link)
            if not self._served and self.driver.connected:
                self._served, self._outage_told = True, False

    def sent(self, link: int) -> None:
        """Everything is written."""
        with self.lock:
            self.driver.sent(link)

    def link_down(self, problem: str, link: int) -> None:
        """It could not be made, or is gone."""
        if link in self._may_need_tls and problem.startswith((ENDED_BY_GATEWAY, CONNECTION_LOST)):
            problem += _IN_THE_CLEAR
        logger.info("connection to the gateway ended: %s", problem)
        with self.lock:
            is_main = link == self.driver.main_link
            self.driver.link_down(problem, self._clock(), link)
            if is_main and link == self.driver.main_link:
                self._tell_of_outage()

    def _tell_of_outage(self) -> None:
        """Warn once that no session comes about, until one does. Python prints warnings where logging is not set up."""
        served, self._served = self._served, False
        status = self.driver.status(self._clock())
        if served or self._outage_told or status.next_connect_s is None:
            return
        self._outage_told = True
        logger.warning("not connected yet: %s. Trying again until it works", status.last_problem)
