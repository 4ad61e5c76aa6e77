"""`Notify` for programs with threads: one thread for the connection, one for the callbacks.

The I/O thread owns the socket, the timers and the state file. The callback thread runs callbacks, one at a time, so
that one which takes its time delays others but never the connection. They are the driver's two hands, and take turns at
it under one lock.
"""

import os
import select
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from coldnotify._core.driver import (
    AnyJob,
    AskDirectory,
    CallCallbacks,
    CallLost,
    Close,
    Connect,
    End,
    EndSending,
    Report,
    Save,
    SendBytes,
    ShareJob,
    Tell,
)
from coldnotify._core.settings import LINGER_S
from coldnotify._forked import in_children
from coldnotify._link import CarriedLink, LinkState
from coldnotify._run import NotifyRun, logger
from coldnotify._shell import NotifyShell
from coldnotify.leased_message import LeasedMessage


class Notify(NotifyShell):
    """A client of ColdNotify. See `coldnotify` for an example; all methods may be called from any thread."""

    _threads: "_Threads | None" = None
    _shared_message = LeasedMessage

    def connect(self, timeout_s: float | None = None) -> bool:
        """Start the client, which from now on connects, and connects again, by itself. If it runs and waits for its
        next try, that comes now.

        Returns at once, with whether it is caught up (so False for a start), as the network may be away for weeks; with
        `timeout_s`, waits up to so long to be caught up, as `wait_caught_up` does. Raises StateError (the state file
        cannot be used, is in use, belongs to another client), ValueError (a certificate cannot be used).
        """
        self._owner.check()
        with self._lock:
            threads = self._threads
            if threads is not None and threads.run.driver.needs_new_start:
                threads.stop(abandon=False)
                self._threads = None
            else:
                threads = None
        if threads is not None:
            threads.join(LINGER_S)
        with self._lock:
            if self._threads is None:
                self._threads = _Threads(self._begin(), self._identity.client)
            else:
                self._threads.run.connect_now()
        return self.caught_up if timeout_s is None else self.wait_caught_up(timeout_s)

    def wait_caught_up(self, timeout_s: float) -> bool:
        """Waits until everything owed has been told and all callbacks have returned. Returns true if that came within
        `timeout_s`.

        Returns false at once if the client does not run, or the service refuses it.
        """
        self._owner.check()
        threads = self._threads
        return threads is not None and threads.wait_caught_up(timeout_s)

    def disconnect(self, timeout_s: float = 5.0) -> None:
        """Stops: begins no further callback, waits for the running one, saves, acknowledges, sends Bye. No effect if
        stopped.

        A callback that still runs after `timeout_s` is abandoned; what it was told will be told again. From within a
        callback it does not wait: the client stops as soon as that callback has returned. In a child of fork() it does
        nothing: the parent's client continues.
        """
        if not self._owner.is_here:
            return
        with self._lock:
            threads, self._threads = self._threads, None
        self._close_publishing()
        if threads is None:
            return
        threads.stop(abandon=False)
        if not threads.join(timeout_s):
            logger.warning("disconnect: a callback still runs after %s s; it is left to itself", timeout_s)
            threads.stop(abandon=True)
            threads.join(2 * LINGER_S)

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.disconnect()

    def _wake(self) -> None:
        threads = self._threads
        if threads is not None:
            threads.wake()


class _Threads:
    """The two threads between a connect() and its disconnect()."""

    def __init__(self, run: NotifyRun, name: str) -> None:
        self.run = run
        self._changed = threading.Condition(run.lock)
        self._links: dict[int, CarriedLink] = {}
        self._up: set[int] = set()
        self._abandoned = False
        self._wake_r, self._wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        # Daemons: a program that forgets to disconnect can still end; the state file is whole at any instant.
        self._io = threading.Thread(target=self._run_io, name=f"coldnotify-io-{name}", daemon=True)
        self._callbacks = threading.Thread(target=self._run_callbacks, name=f"coldnotify-callbacks-{name}", daemon=True)
        in_children(self)
        self._io.start()
        self._callbacks.start()

    def forked(self) -> None:
        """A child has neither of the threads, and lets go of what they use."""
        if not self.run.driver.over:
            os.close(self._wake_r)
            os.close(self._wake_w)
        for link in self._links.values():
            link.forked()

    # From other threads

    def wake(self) -> None:
        """Let both threads look again."""
        with self._changed:
            self._changed.notify_all()
            if not self.run.driver.over:
                # A full pipe means that it is woken already.
                with suppress(BlockingIOError):
                    os.write(self._wake_w, b"w")

    def wait_caught_up(self, timeout_s: float) -> bool:
        """See `Notify.wait_caught_up`."""
        with self._changed:
            self._changed.wait_for(self.run.decided, timeout_s)
            return self.run.caught_up()

    def stop(self, *, abandon: bool) -> None:
        """Begin to stop."""
        self._abandoned = abandon
        self.run.stop(abandon=abandon)
        self.wake()

    def join(self, timeout_s: float) -> bool:
        """Waits for the threads to end, except from within a callback. Returns true if there is nothing more to wait
        for.
        """
        if threading.current_thread() is self._callbacks:
            return True
        deadline = time.monotonic() + timeout_s
        for thread in (self._io,) if self._abandoned else (self._io, self._callbacks):
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
        return not self._io.is_alive()

    # The I/O thread

    def _run_io(self) -> None:
        try:
            while self._step():
                pass
        except Exception:
            logger.exception("the client stops: this is a bug in it")
        finally:
            for link in self._links.values():
                link.close("stopped")
            with self._changed:
                self.run.end()
                os.close(self._wake_r)
                os.close(self._wake_w)
                self._changed.notify_all()

    def _step(self) -> bool:
        """Executes one action, or sleeps until there is one. Returns false after the last."""
        action, deadline = self.run.next()
        match action:
            case None:
                self._notify()
                self._poll(deadline)
            case Report(error):
                self.run.report(error)
            case Save():
                self._notify()
                self.run.save(action)
            case Connect(address, number):
                carrier, context = self.run.way_to(address, number)
                timeout_ms = self.run.user_timeout_ms
                self._links[number] = CarriedLink(address, context, self.wake, carrier, timeout_ms)
            case AskDirectory():
                threading.Thread(target=self.run.ask_directory, name="coldnotify-directory", daemon=True).start()
            case CallLost(job):
                # The callback thread may be busy with that very message.
                threading.Thread(target=self._call_lost, args=(job,), name="coldnotify-lost", daemon=True).start()
            case End():
                return False
            case _:
                self._on_link(action)
        self._listen()
        return True

    def _call_lost(self, job: ShareJob) -> None:
        for _ in self.run.call_lost(job):
            pass

    def _on_link(self, action: SendBytes | EndSending | Close) -> None:
        link = self._links[action.link]
        match action:
            case SendBytes(data):
                link.write(data)
            case EndSending():
                link.end_sending()
            case Close(reason):
                link.close(reason)

    def _notify(self) -> None:
        """The others look again before this thread does what may take a while."""
        with self._changed:
            self._changed.notify_all()

    def _listen(self) -> None:
        """Passes the connections' news to the driver."""
        for number, link in list(self._links.items()):
            self._listen_to(number, link)

    def _listen_to(self, number: int, link: CarriedLink) -> None:
        link.advance()
        if link.is_open() and number not in self._up:
            self._up.add(number)
            problem = self.run.link_up(link.carrier, number)
            if problem:
                link.close(problem)
        while data := link.read():
            self.run.received(data, number)
        if link.is_open() and not link.writing:
            self.run.sent(number)
        if link.state is LinkState.CLOSED:
            del self._links[number]
            self._up.discard(number)
            self.run.link_down(link.problem, number)

    def _poll(self, deadline: float) -> None:
        poll = select.poll()
        poll.register(self._wake_r, select.POLLIN)
        for link in self._links.values():
            fileno = link.fileno()
            if fileno is not None:
                poll.register(fileno, link.events())
        timeout_s = self.run.left_s(deadline)
        # Rounded up: to wake a little early is to wake twice.
        poll.poll(-(-timeout_s * 1000 // 1))
        with suppress(BlockingIOError):
            os.read(self._wake_r, 4096)

    # The callback thread

    def _run_callbacks(self) -> None:
        while self.run.owner.is_here:
            with self._changed:
                action, at = self.run.next_call()
                if action is None:
                    self._changed.wait(min(self.run.left_s(at), threading.TIMEOUT_MAX))
            match action:
                case Report(error):
                    self.run.report(error)
                case Tell(error):
                    self._tell(error)
                case CallCallbacks(job):
                    self._call(job)
                case End():
                    return

    def _tell(self, error: Exception) -> None:
        if self.run.on_error is None:
            return
        try:
            self.run.on_error(error)
        except Exception:
            logger.exception("on_error raised")

    def _call(self, job: AnyJob) -> None:
        failed: dict[int, BaseException] = {}
        arguments = self.run.arguments(job)
        for number, callback in self.run.callbacks(job):
            try:
                callback(*arguments)
            except BaseException as error:
                # Also SystemExit: it would end this thread, and nobody would be told anything any more.
                failed[number] = error
            if not self.run.owner.is_here:
                return  # the callback has forked: this is the child, which ends with this thread
        self.run.called(job, failed)
        self.wake()
