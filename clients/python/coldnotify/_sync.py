"""`Notify` for programs with threads: one thread for the connection, one for the callbacks.

The I/O thread owns the socket, the timers and the state file. The callback thread runs callbacks, one at a time, so
that one which takes its time delays others but never the connection. Both take turns at the one `Client` under one
lock.
"""

import os
import select
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from coldnotify._carriers import carrier_of
from coldnotify._core.client import Save
from coldnotify._core.delivery import Job
from coldnotify._link import CarriedLink, LinkState
from coldnotify._shell import Shell, logger
from coldnotify._tls import ResumingContext
from coldnotify.errors import StateError

_LINGER_S = 1.0
"""After Bye, the gateway has so long to close its side; then we do."""
_POLL_S_MAX = 3600.0
"""poll() takes milliseconds in 32 bits."""


class Notify(Shell):
    """A client of ColdNotify. See `coldnotify` for an example; all methods may be called from any thread."""

    _runner: "_Runner | None" = None

    def connect(self, timeout_s: float | None = None) -> bool:
        """Start the client, which from now on connects, and connects again, by itself. No change if it runs.

        Returns at once, with whether it is caught up (so False for a start), as the network may be away for weeks; with
        `timeout_s`, waits up to so long to be caught up, as `wait_caught_up` does. Raises StateError (the state file
        cannot be used, is in use, belongs to another client), ValueError (a certificate cannot be used).
        """
        with self._lock:
            if self._runner is not None and self._runner.ended_for_good:
                self._runner.stop(abandon=False)
                runner, self._runner = self._runner, None
            else:
                runner = None
        if runner is not None:
            runner.join(_LINGER_S)
        with self._lock:
            if self._runner is None:
                self._runner = _Runner(self, self._contexts.context(self._connection))
        return self.caught_up if timeout_s is None else self.wait_caught_up(timeout_s)

    def wait_caught_up(self, timeout_s: float) -> bool:
        """Wait until everything owed has been told and all callbacks have returned; whether that came within
        `timeout_s`.

        False at once if the client does not run, or the service refuses it.
        """
        runner = self._runner
        return runner is not None and runner.wait_caught_up(timeout_s)

    def disconnect(self, timeout_s: float = 5.0) -> None:
        """Stop: begin no callback any more, wait for the one that runs, save, acknowledge, say Bye. No change if it
        is stopped.

        A callback that still runs after `timeout_s` is left to itself; what it was told will be told again. From within
        a callback it does not wait: the stop comes as soon as that callback has returned.
        """
        with self._lock:
            runner, self._runner = self._runner, None
        if runner is None:
            return
        runner.stop(abandon=False)
        if not runner.join(timeout_s):
            logger.warning("disconnect: a callback still runs after %s s, it is left to itself", timeout_s)
            runner.stop(abandon=True)
            runner.join(2 * _LINGER_S)

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.disconnect()

    def _now(self) -> float:
        return time.monotonic()

    def _wake(self) -> None:
        runner = self._runner
        if runner is not None:
            runner.wake()


class _Runner:
    """The two threads between a connect() and its disconnect()."""

    def __init__(self, notify: Notify, context: ResumingContext | None) -> None:
        self._notify = notify
        self._context = context
        self._client = notify._open()
        self._lock = notify._lock
        self._jobs = threading.Condition(self._lock)
        self._changed = threading.Condition(self._lock)
        self._link: CarriedLink | None = None
        self._linger_until: float | None = None
        self._over = False
        self._stopping = False
        self._abandoned = False
        self._wake_r, self._wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        name = notify._identity.client
        # Daemons: a program that forgets to disconnect can still end; the state file is whole at any instant.
        self._io = threading.Thread(target=self._run_io, name=f"coldnotify-io-{name}", daemon=True)
        self._callbacks = threading.Thread(target=self._run_callbacks, name=f"coldnotify-callbacks-{name}", daemon=True)
        self._io.start()
        self._callbacks.start()

    # From other threads

    def wake(self) -> None:
        """Let both threads look again."""
        with self._lock:
            self._jobs.notify()
            if not self._over:
                # A full pipe means that it is woken already.
                with suppress(BlockingIOError):
                    os.write(self._wake_w, b"w")

    @property
    def ended_for_good(self) -> bool:
        """Whether it takes a new connect() to try again: the service refuses this client (or this library failed)."""
        return self._client.refused or self._over

    def wait_caught_up(self, timeout_s: float) -> bool:
        """See `Notify.wait_caught_up`."""

        def decided() -> bool:
            return self._client.caught_up or self._client.refused or self._over or self._stopping

        with self._changed:
            self._changed.wait_for(decided, timeout_s)
            return self._client.caught_up

    def stop(self, *, abandon: bool) -> None:
        """Begin to stop."""
        with self._lock:
            self._stopping = True
            self._abandoned = self._abandoned or abandon
            self._client.stop(abandon=abandon)
        self.wake()

    def join(self, timeout_s: float) -> bool:
        """Wait for the threads to end, but from within a callback do not; whether there is nothing more to wait for."""
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
            with self._lock:
                self._over = True
                if self._link is not None:
                    self._link.close("stopped")
                if self._notify._client is self._client:
                    self._notify._close()
                os.close(self._wake_r)
                os.close(self._wake_w)
                self._jobs.notify_all()
                self._changed.notify_all()

    def _step(self) -> bool:
        """Do all that is due, then sleep until there is more. False: finished."""
        with self._lock:
            now = time.monotonic()
            self._client.tick(now)
            save = self._client.save_due(now)
        if save is not None:
            self._save(save)
        with self._lock:
            now = time.monotonic()
            self._client.tick(now)
            self._drive_link(now)
            self._notify._collect_reports(self._client)
            self._jobs.notify()
            self._changed.notify_all()
            if self._client.finished:
                return False
            deadline = self._deadline()
        self._poll(deadline)
        return True

    def _save(self, save: Save) -> None:
        # Without the lock: the application and the callbacks need not wait for the disk.
        error: StateError | None = None
        try:
            self._notify._state.write(save.data)
        except StateError as problem:
            error = problem
        with self._lock:
            now = time.monotonic()
            if error is None:
                self._client.saved(save, now)
            else:
                self._client.save_failed(save, error, now)

    def _drive_link(self, now: float) -> None:
        link = self._link
        if link is None:
            address = self._client.connect_due(now)
            if address is not None:
                timeout_s = self._notify._connection.connect_timeout_s
                logger.info("connecting to %s", address)
                connection = self._notify._connection
                self._link = CarriedLink(
                    address,
                    self._context if connection.uses_tls(address) else None,
                    now + timeout_s,
                    timeout_s,
                    self.wake,
                    carrier_of(address, connection.keepalive_s),
                )
            return
        if not link.is_open():
            if self._stopping:
                link.close("stopped")
            link.advance(now)
            if link.is_open():
                try:
                    token = self._notify._connection.current_token()
                except Exception as error:
                    link.close(f"no token: {error}")
                else:
                    self._client.link_up(now, token, hello_only=link.hello_only)
        if link.is_open():
            self._transfer(link, now)
        if link.state is LinkState.CLOSED:
            logger.info("connection to the gateway ended: %s", link.problem)
            self._link = None
            self._linger_until = None
            self._client.link_down(link.problem, now, renew=link.renewable)

    def _transfer(self, link: CarriedLink, now: float) -> None:
        while data := link.read():
            self._client.receive(data, now)
        link.advance(now)
        while link.is_open() and not link.writing:
            data = self._client.data_to_send(now)
            if not data:
                break
            link.write(data)
        if not self._client.link_wanted and link.is_open():
            if not self._stopping or self._abandoned:
                link.close("ended")
            elif not link.writing:
                link.half_close()
            self._linger_until = self._linger_until or now + _LINGER_S
            if now >= self._linger_until:
                link.close("ended")

    def _deadline(self) -> float:
        deadline = self._client.deadline()
        if self._link is None:
            return deadline
        if not self._link.is_open():
            deadline = min(deadline, self._link.give_up_at)
        if self._linger_until is not None:
            deadline = min(deadline, self._linger_until)
        return deadline

    def _poll(self, deadline: float) -> None:
        poll = select.poll()
        poll.register(self._wake_r, select.POLLIN)
        if self._link is not None:
            fileno = self._link.fileno()
            if fileno is not None:
                poll.register(fileno, self._link.events())
        timeout_s = min(_POLL_S_MAX, max(0.0, deadline - time.monotonic()))
        # Rounded up: to wake a little early is to wake twice.
        poll.poll(-(-timeout_s * 1000 // 1))
        with suppress(BlockingIOError):
            os.read(self._wake_r, 4096)

    # The callback thread

    def _run_callbacks(self) -> None:
        while True:
            with self._jobs:
                report, job = self._next()
                while report is None and job is None:
                    if self._over:
                        return
                    wait_s = self._client.next_job_at() - time.monotonic()
                    self._jobs.wait(min(wait_s, threading.TIMEOUT_MAX) if wait_s > 0 else 0)
                    report, job = self._next()
            if report is not None:
                self._tell(report)
            if job is not None:
                self._run(job)

    def _next(self) -> tuple[Exception | None, Job | None]:
        reports = self._notify._unreported
        if reports:
            return reports.popleft(), None
        job = self._client.next_job(time.monotonic())
        # Reports of a payload that is no JSON come with the job.
        self._notify._collect_reports(self._client)
        return None, job

    def _tell(self, report: Exception) -> None:
        assert self._notify._on_error is not None
        try:
            self._notify._on_error(report)
        except Exception:
            logger.exception("on_error raised")

    def _run(self, job: Job) -> None:
        failed: dict[int, BaseException] = {}
        for number in job.subscribers:
            callback = self._notify._callback(number)
            if callback is None:
                continue
            try:
                callback(job.notification)
            except BaseException as error:
                # Also SystemExit: it would end this thread, and nobody would be told anything any more.
                failed[number] = error
        with self._lock:
            self._client.job_done(job, failed, time.monotonic())
            self._notify._collect_reports(self._client)
        self.wake()
