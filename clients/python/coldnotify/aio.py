"""`Notify` for asyncio: the same names as in `coldnotify`, with `await` before connect, wait_caught_up and disconnect.

    async with Notify(domain=..., group_id=..., client_id=..., state=State(...), connection=Connection(...)) as notify:
        notify.register('camera-config').subscribe(update_camera_config)    # a function or a coroutine function

One task has the connection, another runs the callbacks, one at a time. A callback that is a plain function runs in
the event loop and must not block. The state file is written on a thread.
"""

import asyncio
import inspect
import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from coldnotify._carriers import CONNECTION_LOST, ENDED_BY_GATEWAY, Carrier, CarrierError
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
from coldnotify._core.session.reconnect import Address
from coldnotify._core.settings import LINGER_S
from coldnotify._forked import in_children
from coldnotify._link import limit_unacknowledged
from coldnotify._registration import Channel, ChannelShare, QueryRegistration, Registration, Subscription
from coldnotify._run import NotifyRun, logger
from coldnotify._shell import NotifyShell
from coldnotify._tls import ResumingContext
from coldnotify.connection import Connection
from coldnotify.handed_message import HandedMessage, nowhere
from coldnotify.message import Message, Missed
from coldnotify.notification import Notification
from coldnotify.notify_groups import GroupsShell
from coldnotify.state import State

__all__ = [
    "Channel",
    "ChannelShare",
    "Connection",
    "LeasedMessage",
    "Message",
    "Missed",
    "Notification",
    "Notify",
    "NotifyGroups",
    "QueryRegistration",
    "Registration",
    "State",
    "Subscription",
]


@dataclass(frozen=True, slots=True)
class LeasedMessage(HandedMessage):
    """A message of a share, for a callback of `coldnotify.aio.Notify`."""

    settle: Callable[[Any, Callable[[], object]], None] = field(default=nowhere, repr=False, compare=False)
    """The library's."""

    async def done(self, timeout_s: float | None = None) -> None:
        """Settles it, and returns once that is certain; see `coldnotify.LeasedMessage.done`. Raises LeaseLost,
        TimeoutError.
        """
        loop, over = asyncio.get_running_loop(), asyncio.Event()

        def told() -> None:
            with suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(over.set)

        self.settle(self.lease, told)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.lease.lease_s if timeout_s is None else timeout_s):
                await over.wait()
        self.check_settled()


class Notify(NotifyShell):
    """A client of ColdNotify in an event loop. Methods that are not coroutines may be called from any thread."""

    _tasks: "_Tasks | None" = None
    _shared_message = LeasedMessage

    async def connect(self, timeout_s: float | None = None) -> bool:
        """Start the client, which from now on connects, and connects again, by itself. If it runs and waits for its
        next try, that comes now.

        Returns at once, with whether it is caught up (so False for a start), as the network may be away for weeks; with
        `timeout_s`, waits up to so long to be caught up, as `wait_caught_up` does. Raises StateError (the state file
        cannot be used, is in use, belongs to another client), ValueError (a certificate cannot be used).
        """
        self._owner.check()
        if self._tasks is not None and self._tasks.run.driver.needs_new_start:
            await self.disconnect(LINGER_S)
        if self._tasks is None:
            self._tasks = _Tasks(self._begin(), self._identity.client)
        else:
            self._tasks.run.connect_now()
        return self.caught_up if timeout_s is None else await self.wait_caught_up(timeout_s)

    async def wait_caught_up(self, timeout_s: float) -> bool:
        """Waits until everything owed has been told and all callbacks have returned. Returns true if that came within
        `timeout_s`.

        Returns false at once if the client does not run, or the service refuses it.
        """
        self._owner.check()
        return self._tasks is not None and await self._tasks.wait_caught_up(timeout_s)

    async def disconnect(self, timeout_s: float = 5.0) -> None:
        """Stops: begins no further callback, waits for the running one, saves, acknowledges, sends Bye.

        No effect if stopped. A callback that still runs after `timeout_s` is cancelled; what it was told will be told
        again. From within a callback it does not wait: the client stops as soon as that callback has returned. In a
        child of fork() it does nothing: the parent's client continues.
        """
        if not self._owner.is_here:
            return
        tasks, self._tasks = self._tasks, None
        await asyncio.to_thread(self._close_publishing)
        if tasks is None:
            return
        tasks.stop(abandon=False)
        if not await tasks.join(timeout_s):
            logger.warning("disconnect: a callback still runs after %s s; it is cancelled", timeout_s)
            tasks.stop(abandon=True)
            await tasks.join(2 * LINGER_S)

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.disconnect()

    def _wake(self) -> None:
        tasks = self._tasks
        if tasks is not None:
            tasks.wake_from_any_thread()


class NotifyGroups(GroupsShell[Notify]):
    """A client of ColdNotify in several groups, in an event loop: see `coldnotify.NotifyGroups`. Callbacks of one group
    run one at a time, and take turns with those of others where they await.
    """

    _client = Notify

    async def connect(self, timeout_s: float | None = None) -> bool:
        """Start the client in all groups; see `Notify.connect`. Raises StateError, ValueError, OSError: then it runs in
        none.
        """
        self._owner.check()
        await asyncio.to_thread(self._open_link)
        try:
            for client in self._clients.values():
                await client.connect()
        except BaseException:
            await self.disconnect()
            raise
        return self.caught_up if timeout_s is None else await self.wait_caught_up(timeout_s)

    async def wait_caught_up(self, timeout_s: float) -> bool:
        """Waits until all groups are caught up. Returns true if that came within `timeout_s`."""
        return all(await asyncio.gather(*(one.wait_caught_up(timeout_s) for one in self._clients.values())))

    async def disconnect(self, timeout_s: float = 5.0) -> None:
        """Stops in all groups; see `Notify.disconnect`."""
        if not self._owner.is_here:
            return
        try:
            await asyncio.gather(*(one.disconnect(timeout_s) for one in self._clients.values()))
        finally:
            await asyncio.to_thread(self._close_link)

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.disconnect()


class _Tasks:
    """The two tasks between a connect() and its disconnect()."""

    def __init__(self, run: NotifyRun, name: str) -> None:
        self.run = run
        self._loop = asyncio.get_running_loop()
        self._links: dict[int, _Link] = {}
        self._asking: asyncio.Task[None] | None = None
        self._lost: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._calls = asyncio.Event()
        self._changed = asyncio.Event()
        in_children(self)
        self._io = asyncio.create_task(self._run_io(), name=f"coldnotify-io-{name}")
        self._callbacks = asyncio.create_task(self._run_callbacks(), name=f"coldnotify-callbacks-{name}")

    def forked(self) -> None:
        """A child's loop, if it goes on, has neither of the tasks, and no connection."""
        for link in self._links.values():
            link.forked()

    # From other tasks and threads

    def wake(self) -> None:
        """Let both tasks look again."""
        self._wake.set()
        self._calls.set()

    def wake_from_any_thread(self) -> None:
        """The same; a loop that has been closed needs no waking."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.wake)

    async def wait_caught_up(self, timeout_s: float) -> bool:
        """See `Notify.wait_caught_up`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not self.run.decided():
                    await self._changed.wait()
        return self.run.caught_up()

    def stop(self, *, abandon: bool) -> None:
        """Begin to stop."""
        self.run.stop(abandon=abandon)
        if abandon:
            self._callbacks.cancel()
        self.wake()

    async def join(self, timeout_s: float) -> bool:
        """Waits for the tasks to end, except from within a callback. Returns true if there is
        nothing more to wait for.
        """
        if asyncio.current_task() is self._callbacks:
            return True
        _, waiting = await asyncio.wait({self._io, self._callbacks}, timeout=timeout_s)
        return not waiting

    # The I/O task

    async def _run_io(self) -> None:
        try:
            while self.run.owner.is_here and await self._step():
                pass
        except Exception:
            logger.exception("the client stops: this is a bug in it")
        finally:
            if self.run.owner.is_here:
                self._end()

    def _end(self) -> None:
        for link in list(self._links.values()):
            link.abort("stopped")
        self.run.end()
        self._tell_changed()

    async def _step(self) -> bool:
        """Executes one action, or sleeps until there is one. Returns false after the last."""
        self._wake.clear()
        action, deadline = self.run.next()
        match action:
            case None:
                self._tell_changed()
                await _wait(self._wake, self.run.left_s(deadline))
            case Report(error):
                self.run.report(error)
            case Save():
                self._tell_changed()
                await asyncio.to_thread(self.run.save, action)
            case Connect(address, number):
                carrier, context = self.run.way_to(address, number)
                link = self._links[number] = _Link(self, carrier, number)
                link.connect(address, context)
            case AskDirectory():
                self._asking = asyncio.create_task(asyncio.to_thread(self.run.ask_directory))
            case CallLost(job):
                # The callback task may be busy with that very message.
                task = asyncio.create_task(self._call_lost(job))
                self._lost.add(task)
                task.add_done_callback(self._lost.discard)
            case End():
                return False
            case _:
                self._on_link(action)
        return True

    async def _call_lost(self, job: ShareJob) -> None:
        for result in self.run.call_lost(job):
            if inspect.isawaitable(result):
                try:
                    await result
                except Exception:
                    logger.exception("on_lost raised")

    def _on_link(self, action: SendBytes | EndSending | Close) -> None:
        link = self._links[action.link]
        match action:
            case SendBytes(data):
                link.send(data)
            case EndSending():
                link.end_sending()
            case Close(reason):
                link.abort(reason)

    def _tell_changed(self) -> None:
        self._calls.set()
        self._changed.set()
        self._changed = asyncio.Event()

    def link_down(self, problem: str, number: int) -> None:
        """The connection could not be made, or is gone."""
        del self._links[number]
        self.run.link_down(problem, number)
        self.wake()

    # The callback task

    async def _run_callbacks(self) -> None:
        while self.run.owner.is_here:
            self._calls.clear()
            action, at = self.run.next_call()
            match action:
                case None:
                    await _wait(self._calls, self.run.left_s(at))
                case Report(error):
                    self.run.report(error)
                case Tell(error):
                    await self._tell(error)
                case CallCallbacks(job):
                    await self._call(job)
                    # A callback that is a plain function gives nobody else a turn.
                    await asyncio.sleep(0)
                case End():
                    return

    async def _tell(self, error: Exception) -> None:
        if self.run.on_error is None:
            return
        try:
            result = self.run.on_error(error)
            if inspect.isawaitable(result):
                await result
        except Exception:
            logger.exception("on_error raised")

    async def _call(self, job: AnyJob) -> None:
        failed: dict[int, BaseException] = {}
        arguments = self.run.arguments(job)
        for number, callback in self.run.callbacks(job):
            try:
                result = callback(*arguments)
                if inspect.isawaitable(result):
                    await result
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                failed[number] = error
            except Exception as error:
                failed[number] = error
            if not self.run.owner.is_here:
                return  # the callback has forked: this is the child
        self.run.called(job, failed)
        self.wake()


class _Link(asyncio.Protocol):
    """A connection as asyncio sees it, from the attempt to make it on."""

    def __init__(self, tasks: _Tasks, carrier: Carrier, number: int) -> None:
        self._tasks = tasks
        self._number = number
        self._run = tasks.run
        self._carrier = carrier
        self._context: ResumingContext | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._tls: ssl.SSLObject | None = None
        self._up = False
        self._writable = True
        self._ended_sending = False
        self._problem = ""
        self._over = False

    def connect(self, address: Address, context: ResumingContext | None) -> None:
        """Begin."""
        self._context = context
        self._connecting = asyncio.create_task(self._connect(address), name=f"coldnotify-connect-{address}")

    async def _connect(self, address: Address) -> None:
        problem = "stopped"
        try:
            loop = asyncio.get_running_loop()
            if address.scheme == "unix":
                await loop.create_unix_connection(lambda: self, address.host)
            else:
                await loop.create_connection(lambda: self, address.host, address.port, ssl=self._context)
        except (OSError, ValueError) as error:
            problem = f"{address} cannot be reached: {error}"
        finally:
            self._connecting = None
            if self._transport is None:
                self._down(problem)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if self._over:
            transport.abort()
            return
        self._transport = transport
        self._tls = transport.get_extra_info("ssl_object")
        limit_unacknowledged(transport.get_extra_info("socket"), self._run.user_timeout_ms)
        # At most what is sent at once waits in the transport.
        transport.set_write_buffer_limits(high=0)
        self._write(self._carrier.begin())
        self._begin_if_ready()

    def _begin_if_ready(self) -> None:
        if self._carrier.ready and not self._up:
            self._up = True
            problem = self._run.link_up(self._carrier, self._number)
            if problem:
                self.abort(problem)
            self._tasks.wake()

    def forked(self) -> None:
        """Makes a child's descriptor point to /dev/null. It is not closed, because its loop shares its poll object with
        its parent's: operations on a reused number would affect the parent's connection.
        """
        self._over = True
        found = None if self._transport is None else self._transport.get_extra_info("socket")
        if found is not None:
            nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(nowhere, found.fileno(), inheritable=False)
            os.close(nowhere)

    def data_received(self, data: bytes) -> None:
        if self._ended_sending or not self._run.owner.is_here:
            return
        try:
            said = self._carrier.receive(data)
        except CarrierError as error:
            self.abort(str(error))
            return
        self._write(self._carrier.answer())
        self._begin_if_ready()
        if said:
            self._run.received(said, self._number)
            self._tasks.wake()
        self._abort_if_over()

    def _abort_if_over(self) -> None:
        if self._carrier.over:
            self.abort(self._carrier.over)

    def _write(self, data: bytes) -> None:
        if data and self._transport is not None:
            self._transport.write(data)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        if not self._run.owner.is_here:
            return
        self._writable = True
        self._run.sent(self._number)
        self._tasks.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._tls is not None and self._context is not None:
            self._context.remember(self._tls)
        self._down(ENDED_BY_GATEWAY if exc is None else f"{CONNECTION_LOST}: {exc}")

    def _down(self, problem: str) -> None:
        if not self._over:
            self._over = True
            self._tasks.link_down(self._problem or problem, self._number)

    def send(self, data: bytes) -> None:
        """Write it for the session."""
        self._write(self._carrier.send(data))
        if self._writable:
            self._run.sent(self._number)
        self._abort_if_over()

    def end_sending(self) -> None:
        """Nothing more will be written."""
        self._ended_sending = True
        self._write(self._carrier.end())
        if self._transport is None:
            return
        if self._transport.can_write_eof():
            with suppress(OSError):  # the gateway is gone already: connection_lost is about to say so
                self._transport.write_eof()
        else:
            self._transport.close()

    def abort(self, problem: str) -> None:
        """Ends it now; the loop's next turn reports that it is down."""
        self._problem = self._problem or problem
        if self._transport is not None:
            self._transport.abort()
        elif self._connecting is not None:
            self._connecting.cancel()


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    """Until the event is set, or so long (inf: without a limit)."""
    if timeout_s == float("inf"):
        await event.wait()
    elif timeout_s > 0:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await event.wait()
    else:
        await asyncio.sleep(0)  # others get their turn in any case
