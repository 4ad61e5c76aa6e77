"""`Notify` for asyncio: the same names as in `coldnotify`, with `await` before connect, wait_caught_up and disconnect.

    async with Notify(domain=..., group_id=..., client_id=..., state=State(...), connection=Connection(...)) as notify:
        notify.register('camera-config').subscribe(update_camera_config)    # a function or a coroutine function

One task has the connection, another runs the callbacks, one at a time. A callback that is a plain function runs in
the event loop and must not block. The state file is written on a thread.
"""

import asyncio
import inspect
import ssl
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from coldnotify._carriers import Carrier, CarrierError, carrier_of
from coldnotify._core.client import Save
from coldnotify._core.delivery import Job
from coldnotify._core.reconnect import Address
from coldnotify._shell import Registration, Shell, Subscription, logger
from coldnotify._tls import ResumingContext
from coldnotify.connection import Connection
from coldnotify.errors import StateError
from coldnotify.notification import Notification
from coldnotify.state import State

__all__ = ["Connection", "Notification", "Notify", "Registration", "State", "Subscription"]

_LINGER_S = 1.0
"""After Bye, the gateway has so long to close its side; then we do."""


class Notify(Shell):
    """A client of ColdNotify in an event loop. Methods that are not coroutines may be called from any thread."""

    _runner: "_Runner | None" = None

    async def connect(self, timeout_s: float | None = None) -> bool:
        """Start the client, which from now on connects, and connects again, by itself. No change if it runs.

        Returns at once, with whether it is caught up (so False for a start), as the network may be away for weeks; with
        `timeout_s`, waits up to so long to be caught up, as `wait_caught_up` does. Raises StateError (the state file
        cannot be used, is in use, belongs to another client), ValueError (a certificate cannot be used).
        """
        if self._runner is not None and self._runner.ended_for_good:
            await self.disconnect(_LINGER_S)
        if self._runner is None:
            self._runner = _Runner(self, self._contexts.context(self._connection))
        return self.caught_up if timeout_s is None else await self.wait_caught_up(timeout_s)

    async def wait_caught_up(self, timeout_s: float) -> bool:
        """Wait until everything owed has been told and all callbacks have returned; whether that came in `timeout_s`.

        False at once if the client does not run, or the service refuses it.
        """
        return self._runner is not None and await self._runner.wait_caught_up(timeout_s)

    async def disconnect(self, timeout_s: float = 5.0) -> None:
        """Stop: begin no callback any more, wait for the one that runs, save, acknowledge, say Bye.

        No change if it is stopped. A callback that still runs after `timeout_s` is cancelled; what it was told will be
        told again. From within a callback it does not wait: the stop comes as soon as that callback has returned.
        """
        runner, self._runner = self._runner, None
        if runner is None:
            return
        runner.stop(abandon=False)
        if not await runner.join(timeout_s):
            logger.warning("disconnect: a callback still runs after %s s, it is cancelled", timeout_s)
            runner.stop(abandon=True)
            await runner.join(2 * _LINGER_S)

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.disconnect()

    def _now(self) -> float:
        return time.monotonic()

    def _wake(self) -> None:
        runner = self._runner
        if runner is not None:
            runner.wake_from_any_thread()


class _Runner:
    """The two tasks between a connect() and its disconnect()."""

    def __init__(self, notify: Notify, context: ResumingContext | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._notify = notify
        self._context = context
        self._client = notify._open()
        self._lock = notify._lock
        self._link: _Link | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._jobs = asyncio.Event()
        self._changed = asyncio.Event()
        self._over = False
        self._stopping = False
        self._abandoned = False
        name = notify._identity.client
        self._io = asyncio.create_task(self._run_io(), name=f"coldnotify-io-{name}")
        self._callbacks = asyncio.create_task(self._run_callbacks(), name=f"coldnotify-callbacks-{name}")

    # From other tasks and threads

    def wake(self) -> None:
        """Let both tasks look again."""
        self._wake.set()
        self._jobs.set()

    def wake_from_any_thread(self) -> None:
        """The same; a loop that has been closed needs no waking."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.wake)

    @property
    def ended_for_good(self) -> bool:
        """Whether it takes a new connect() to try again: the service refuses this client (or this library failed)."""
        return self._client.refused or self._over

    async def wait_caught_up(self, timeout_s: float) -> bool:
        """See `Notify.wait_caught_up`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not (self._client.caught_up or self._client.refused or self._over or self._stopping):
                    await self._changed.wait()
        return self._client.caught_up

    def stop(self, *, abandon: bool) -> None:
        """Begin to stop."""
        with self._lock:
            self._stopping = True
            self._abandoned = self._abandoned or abandon
            self._client.stop(abandon=abandon)
        if self._connecting is not None:
            self._connecting.cancel()
        if abandon:
            self._callbacks.cancel()
        self.wake()

    async def join(self, timeout_s: float) -> bool:
        """Wait for the tasks to end, but from within a callback do not; whether there is nothing more to wait for."""
        if asyncio.current_task() is self._callbacks:
            return True
        _, waiting = await asyncio.wait({self._io, self._callbacks}, timeout=timeout_s)
        return not waiting

    # The I/O task

    async def _run_io(self) -> None:
        try:
            while await self._step():
                pass
        except Exception:
            logger.exception("the client stops: this is a bug in it")
        finally:
            self._over = True
            if self._connecting is not None:
                self._connecting.cancel()
            if self._link is not None:
                self._link.abort()
            with self._lock:
                if self._notify._client is self._client:
                    self._notify._close()
            self._tell_changed()
            self._jobs.set()

    async def _step(self) -> bool:
        """Do all that is due, then sleep until there is more. False: finished."""
        with self._lock:
            self._client.tick(time.monotonic())
            save = self._client.save_due(time.monotonic())
        if save is not None:
            await self._save(save)
        self._wake.clear()
        with self._lock:
            now = time.monotonic()
            self._client.tick(now)
            self._drive_link(now)
            self._notify._collect_reports(self._client)
            finished = self._client.finished
            deadline = self._client.deadline()
        self._jobs.set()
        self._tell_changed()
        if finished:
            return False
        if self._link is not None and self._link.linger_until is not None:
            deadline = min(deadline, self._link.linger_until)
        await _wait(self._wake, deadline)
        return True

    def _tell_changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _save(self, save: Save) -> None:
        error: StateError | None = None
        try:
            await asyncio.to_thread(self._notify._state.write, save.data)
        except StateError as problem:
            error = problem
        with self._lock:
            now = time.monotonic()
            if error is None:
                self._client.saved(save, now)
            else:
                self._client.save_failed(save, error, now)

    def _drive_link(self, now: float) -> None:
        if self._link is None:
            address = self._client.connect_due(now) if self._connecting is None else None
            if address is not None:
                logger.info("connecting to %s", address)
                self._connecting = asyncio.create_task(self._connect(address))
            return
        self._link.drive(now, stopping=self._stopping and not self._abandoned)

    async def _connect(self, address: Address) -> None:
        timeout_s = self._notify._connection.connect_timeout_s
        problem = "stopped"
        connection = self._notify._connection
        link = _Link(self, carrier_of(address, connection.keepalive_s))
        context = self._context if connection.uses_tls(address) else None
        try:
            async with asyncio.timeout(timeout_s):
                await self._loop.create_connection(lambda: link, address.host, address.port, ssl=context)
                await link.begun.wait()
            problem = link.problem
        except TimeoutError:
            problem = f"no connection within {timeout_s:g} s"
        except (OSError, ValueError) as error:
            problem = f"{address} cannot be reached: {error}"
        finally:
            self._connecting = None
            if not link.carrier.ready:
                link.abort()
            if self._link is None and not self._over:
                self.link_down(problem)
            self.wake()

    # The link

    def link_up(self, link: "_Link") -> None:
        """The connection stands."""
        self._link = link
        try:
            token = self._notify._connection.current_token()
        except Exception as error:
            link.problem = f"no token: {error}"
            link.abort()
            return
        with self._lock:
            self._client.link_up(time.monotonic(), token, hello_only=link.carrier.hello_only)
        self.wake()

    def remember(self, tls: ssl.SSLObject | None) -> None:
        """The TLS session of a connection that has ended, for the next one."""
        if tls is not None and self._context is not None:
            self._context.remember(tls)

    def link_down(self, problem: str, *, renew: bool = False) -> None:
        """The connection could not be made, or is gone."""
        logger.info("connection to the gateway ended: %s", problem)
        self._link = None
        with self._lock:
            self._client.link_down(problem, time.monotonic(), renew=renew)
        self.wake()

    def received(self, data: bytes) -> None:
        """Bytes came."""
        with self._lock:
            self._client.receive(data, time.monotonic())
        self.wake()

    def data_to_send(self, now: float) -> bytes:
        """Bytes to write."""
        with self._lock:
            return self._client.data_to_send(now)

    @property
    def link_wanted(self) -> bool:
        """Whether the connection is to stay."""
        return self._client.link_wanted

    # The callback task

    async def _run_callbacks(self) -> None:
        while True:
            self._jobs.clear()
            with self._lock:
                report, job = self._next()
                next_job_at = self._client.next_job_at()
            if report is not None:
                await self._tell(report)
            elif job is not None:
                await self._run(job)
                # A callback that is a plain function gives nobody else a turn.
                await asyncio.sleep(0)
            elif self._over:
                return
            else:
                await _wait(self._jobs, next_job_at)

    def _next(self) -> tuple[Exception | None, Job | None]:
        reports = self._notify._unreported
        if reports:
            return reports.popleft(), None
        job = self._client.next_job(time.monotonic())
        # Reports of a payload that is no JSON come with the job.
        self._notify._collect_reports(self._client)
        return None, job

    async def _tell(self, report: Exception) -> None:
        assert self._notify._on_error is not None
        try:
            result = self._notify._on_error(report)
            if inspect.isawaitable(result):
                await result
        except Exception:
            logger.exception("on_error raised")

    async def _run(self, job: Job) -> None:
        failed: dict[int, BaseException] = {}
        for number in job.subscribers:
            callback = self._notify._callback(number)
            if callback is None:
                continue
            try:
                result = callback(job.notification)
                if inspect.isawaitable(result):
                    await result
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                failed[number] = error
            except Exception as error:
                failed[number] = error
        with self._lock:
            self._client.job_done(job, failed, time.monotonic())
            self._notify._collect_reports(self._client)
        self.wake()


class _Link(asyncio.Protocol):
    """A connection as asyncio sees it."""

    def __init__(self, runner: _Runner, carrier: Carrier) -> None:
        self._runner = runner
        self.carrier = carrier
        self.begun = asyncio.Event()
        """The carrier is ready, or the connection is gone."""
        self._up = False
        self._transport: asyncio.Transport | None = None
        self._writable = True
        self._tls: ssl.SSLObject | None = None
        self.linger_until: float | None = None
        self.problem = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._tls = transport.get_extra_info("ssl_object")
        # At most what data_to_send gives at once waits in the transport.
        transport.set_write_buffer_limits(high=0)
        self._write(self.carrier.begin())
        self._begin_if_ready()

    def _begin_if_ready(self) -> None:
        if self.carrier.ready and not self._up:
            self._up = True
            self.begun.set()
            self._runner.link_up(self)

    def data_received(self, data: bytes) -> None:
        if self.linger_until is not None:
            return
        try:
            said = self.carrier.receive(data)
        except CarrierError as error:
            self.problem = str(error)
            self.abort()
            return
        self._write(self.carrier.answer())
        self._begin_if_ready()
        if said:
            self._runner.received(said)
        self._abort_if_over()

    def _abort_if_over(self) -> None:
        if self.carrier.over and self._transport is not None:
            self.problem = self.problem or self.carrier.over
            self.abort()

    def _write(self, data: bytes) -> None:
        if data and self._transport is not None:
            self._transport.write(data)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._runner.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._runner.remember(self._tls)
        problem = "the gateway closed the connection" if exc is None else f"connection lost: {exc}"
        self.problem = self.problem or problem
        self.begun.set()
        if self._up:
            self._runner.link_down(self.problem, renew=self.carrier.renewable)

    def drive(self, now: float, *, stopping: bool) -> None:
        """Write what there is to write; close when that is wanted."""
        while self._transport is not None and self._writable and self.linger_until is None:
            data = self._runner.data_to_send(now)
            if not data:
                break
            self._write(self.carrier.send(data))
            self._abort_if_over()
        if self._transport is None or self._runner.link_wanted:
            return
        if not stopping:
            self.abort()
        elif self.linger_until is None:
            self.linger_until = now + _LINGER_S
            self._write(self.carrier.end())
            if self._transport.can_write_eof():
                with suppress(OSError):  # the gateway is gone already: connection_lost is about to say so
                    self._transport.write_eof()
            else:
                self._transport.close()
        elif self.linger_until <= now:
            self.abort()

    def abort(self) -> None:
        """End it now; `connection_lost` comes with the loop's next turn."""
        self.linger_until = float("inf")
        if self._transport is not None:
            self._transport.abort()


async def _wait(event: asyncio.Event, deadline: float) -> None:
    """Until the event is set, or until the deadline (inf: none)."""
    timeout_s = deadline - time.monotonic()
    if timeout_s == float("inf"):
        await event.wait()
    elif timeout_s > 0:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await event.wait()
    else:
        await asyncio.sleep(0)  # others get their turn in any case
