"""A client, its disk and its connection, without threads: for tests in which one thing happens at a time, in any order,
and a crash between any two.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection
from random import Random
from typing import Generic, Protocol, TypeVar

from coldnotify._core.document.document import ClientIdentity, Document, decode
from coldnotify._core.driver import (
    CallCallbacks,
    Close,
    Connect,
    Driver,
    End,
    EndSending,
    Report,
    Save,
    SendBytes,
    Tell,
)
from coldnotify._core.session.reconnect import Address
from coldnotify._core.settings import ClientSettings
from coldnotify_schemas import wire_pb2 as wire

ME = ClientIdentity("d", "g", "c")
SETTINGS = ClientSettings(
    tries_max=3,
    retry_min_s=0.2,
    retry_max_s=1.0,
    save_interval_s=0.5,
    request_timeout_s=8.0,
    backoff_min_s=0.1,
    backoff_max_s=1.0,
    keepalive_s=10,
)
_SETTLES_WITHIN_STEPS = 5_000


class UnitSession(Protocol):
    """A connection as the service under test sees it."""

    received: list[wire.ClientFrame]

    def receive(self, data: bytes) -> None:
        """Bytes from the client."""

    def take(self, limit: int | None = None) -> bytes:
        """Bytes for the client."""


S = TypeVar("S", bound=UnitSession)


class CrashingUnit(ABC, Generic[S]):
    """A unit that may crash at any time. Subclasses choose what happens to it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 1000.0
        self.disk: bytes | None = None
        self.failing = 0.0
        """The probability that a callback raises."""
        self.log: list[str] = []
        """The events so far, to find out why a test failed."""

    # Its life

    @abstractmethod
    def start(self) -> None:
        """Starts the application: calls `boot`, then registers what it wants."""

    def boot(self) -> Document:
        """Starts the client from the disk, and returns the document that it began with."""
        document = Document(identity=ME) if self.disk is None else decode(self.disk, ME)
        self.log.append(f"START {self.disk!r}")
        self.driver = Driver(document, [Address("h", 1)], SETTINGS, self.random, self.now)
        self.session: S | None = None
        self.saving: Save | None = None
        self.call: CallCallbacks | None = None
        return document

    def crash(self) -> None:
        """A write and a callback that are under way have had their effect, or not."""
        self.log.append("CRASH")
        if self.saving is not None and self.random.random() < 0.5:
            self.keep(self.saving)
        if self.call is not None and self.random.random() < 0.5:
            self.hear(self.call)
        self.drop()
        self.start()

    @abstractmethod
    def hear(self, call: CallCallbacks, failed: Collection[int] = ()) -> None:
        """Lets the application process a call. The callbacks of the subscribers in `failed` raise."""

    # Its disk

    def on_save(self, save: Save) -> None:
        """A document is about to be written."""

    def keep(self, save: Save) -> None:
        """It is on disk."""
        self.disk = save.data

    def check_kept(self, save: Save) -> None:
        """It is on disk, and the client does not know it yet."""

    def disk_done(self) -> bool:
        """Completes the pending write to disk. Returns false if there was none."""
        save, self.saving = self.saving, None
        if save is None:
            return False
        self.keep(save)
        self.check_kept(save)
        self.driver.saved(save, self.now)
        return True

    # Its connection

    @abstractmethod
    def open(self) -> S:
        """The service takes the connection."""

    @abstractmethod
    def drop(self) -> None:
        """The connection is gone; the client does not know it yet."""

    def lose(self, reason: str) -> None:
        """Loses the connection, if there is one."""
        if self.session is not None:
            self.drop()
            self.driver.link_down(reason, self.now)

    def is_heard(self, session: S) -> bool:
        """Returns true if the service processes what is sent over this connection."""
        return True

    def on_sent(self) -> None:
        """The client has sent something."""

    def deliver(self, limit: int | None = None) -> bool:
        """At most so many bytes from the service arrive. False: there were none."""
        if self.session is None:
            return False
        data = self.session.take(limit)
        if data:
            self.driver.received(data, self.now)
        return bool(data)

    def io(self) -> bool:
        """Carries out the driver's next action. Returns false if it has none."""
        action = self.driver.next(self.now)
        match action:
            case Save():
                assert self.saving is None
                self.on_save(action)
                self.saving = action
            case Connect():
                self.session = self.open()
                self.driver.link_up(self.now)
            case SendBytes(data):
                assert self.session is not None
                if self.is_heard(self.session):
                    self.session.receive(data)
                    for frame in self.session.received:
                        self.log.append(f"SENT {frame}".replace("\n", " "))
                    self.session.received.clear()
                self.driver.sent()
                self.on_sent()
            case Close() | EndSending():
                self.drop()
                self.driver.link_down("closed", self.now)
            case End():
                raise AssertionError("nobody stops it")
            case Report(error):
                self.log.append(f"REPORT {error}")
        return action is not None

    # Its application

    @abstractmethod
    def failures(self, call: CallCallbacks) -> dict[int, BaseException]:
        """Returns the errors that the callbacks of this call raise, by subscriber."""

    def on_call(self, call: CallCallbacks) -> None:
        """Callbacks are about to be entered."""

    def application(self) -> bool:
        """Lets callbacks return, or enters the next ones. Returns false if nothing is to be delivered."""
        if self.call is not None:
            call, self.call = self.call, None
            failed = self.failures(call)
            if failed:
                self.log.append(f"FAILS {failed}")
            self.hear(call, failed)
            self.driver.called(call.job, failed, self.now)
            return True
        match self.driver.next_call(self.now):
            case CallCallbacks() as call:
                self.call = call
                self.on_call(call)
                return True
            case Report() | Tell():
                return True
        return False

    # Its end

    def catch_up(self) -> None:
        """Runs until it has all, and nothing more happens."""
        quiet = 0
        for _ in range(_SETTLES_WITHIN_STEPS):
            if self.io() | self.disk_done() | self.application() | self.deliver():
                continue
            quiet += 1
            if self.driver.caught_up(self.now) and quiet > 3 and self.is_done():
                return
            self.now += 0.1
        raise AssertionError(f"does not catch up: {self.driver.status(self.now)}")

    def is_done(self) -> bool:
        """Returns true if a client that has caught up has nothing more to do."""
        return True
