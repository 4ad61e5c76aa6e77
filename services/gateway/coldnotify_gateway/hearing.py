"""Handles devices' input in slices: devices that send much at once take turns, and devices with many refusals pause.

A frame of three bytes costs about ten microseconds, so one read of a connection may contain a second of work. It is
handled piece by piece, in turn with other such connections, and the connection is not read meanwhile.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from coldnotify_gateway.device_connection import DeviceConnection

_PIECE_BYTES = 512
"""Size of a piece, which is handled without a break: most devices never send more at once, and the costliest frames
take less than two milliseconds."""
_AT_ONCE_S = 0.001
"""Time for one connection before it has to wait for its turn: far more than a usual Hello or Register takes."""
_SLICE_S = 0.002
"""Time for all waiting connections. An equally long pause follows, in which other connections are handled."""
_WAITING_BYTES_MAX = 64 * 1024 * 1024
"""Most waiting bytes of all connections. Above it, input is handled at once, because a delay for others is better than
unbounded memory."""
_now_s = time.thread_time
"""Clock of this thread's CPU time, which excludes the time during which others kept this thread from running."""


class Hearing:
    """Handles the input of one event loop's connections. Calls `handle` with each connection's bytes, in order."""

    def __init__(self, handle: Callable[[DeviceConnection, bytes], None]) -> None:
        self._handle = handle
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[DeviceConnection, deque[memoryview]] = {}
        """Bytes that were read and are not handled yet, by connection."""
        self.waiting_bytes = 0
        self._turns: OrderedDict[DeviceConnection, None] = OrderedDict()
        """Waiting connections that take turns."""
        self._paused: dict[DeviceConnection, asyncio.TimerHandle] = {}
        """Paused connections, with the timers that end their pauses."""
        self._going = False

    def take(self, connection: DeviceConnection, data: bytes) -> None:
        """Handles bytes of a connection, or keeps them."""
        waiting, paused = self._waiting.get(connection), connection in self._paused
        if waiting is None and not paused and len(data) <= _PIECE_BYTES:
            self._handle(connection, data)  # the usual case
            return
        self._waiting.setdefault(connection, deque()).append(memoryview(data))
        self.waiting_bytes += len(data)
        if waiting is None and not paused:
            self._spend(connection, _AT_ONCE_S)
        while connection in self._waiting and self.waiting_bytes > _WAITING_BYTES_MAX:
            self._piece(connection)
        if connection in self._waiting:
            connection.pause_reading()
            if connection not in self._paused:
                self._give_turn(connection)

    def pause(self, connection: DeviceConnection, seconds: float) -> None:
        """Pauses a connection, so that none of its input is handled for so long."""
        before = self._paused.pop(connection, None)
        if before is not None:
            before.cancel()
        self._paused[connection] = self._loop.call_later(seconds, self._resume, connection)
        self._turns.pop(connection, None)
        connection.pause_reading()

    def finish(self, connection: DeviceConnection) -> None:
        """Handles the last bytes of an ended connection, unless they are many."""
        if connection in self._waiting and connection not in self._paused:
            self._spend(connection, _AT_ONCE_S)
        self.forget(connection)

    def forget(self, connection: DeviceConnection) -> None:
        """Drops the connection's waiting bytes. Later ones are read and discarded, because they no longer matter."""
        timer = self._paused.pop(connection, None)
        if timer is not None:
            timer.cancel()
        self._turns.pop(connection, None)
        waiting = self._waiting.pop(connection, None)
        if waiting is not None:
            self.waiting_bytes -= sum(map(len, waiting))
        if timer is not None or waiting is not None:
            connection.resume_reading()

    def _resume(self, connection: DeviceConnection) -> None:
        del self._paused[connection]
        if connection in self._waiting:
            self._give_turn(connection)
        else:
            connection.resume_reading()

    def _give_turn(self, connection: DeviceConnection) -> None:
        self._turns[connection] = None
        if not self._going:
            self._going = True
            self._loop.call_soon(self._slice)

    def _slice(self) -> None:
        begun_s = _now_s()
        while self._turns and _now_s() < begun_s + _SLICE_S:
            connection, _ = self._turns.popitem(last=False)
            if self._piece(connection):
                self._turns[connection] = None  # after the others
            elif connection not in self._paused:
                connection.resume_reading()
        self._going = bool(self._turns)
        if self._going:
            self._loop.call_later(_now_s() - begun_s, self._slice)

    def _spend(self, connection: DeviceConnection, seconds: float) -> None:
        until_s = _now_s() + seconds
        while self._piece(connection) and _now_s() < until_s:
            pass

    def _piece(self, connection: DeviceConnection) -> bool:
        """Handles one piece of the waiting bytes. Returns true if the connection may continue with the next."""
        waiting = self._waiting[connection]
        piece, rest = waiting[0][:_PIECE_BYTES], waiting[0][_PIECE_BYTES:]
        self.waiting_bytes -= len(piece)
        if rest:
            waiting[0] = rest
        else:
            waiting.popleft()
            if not waiting:
                del self._waiting[connection]
        self._handle(connection, bytes(piece))
        return connection in self._waiting and connection not in self._paused
