"""Turns of a gateway's inbox: records are handled in slices of time, between which connections are served."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from coldnotify_schemas.internal_pb2 import Inbox

from coldnotify_gateway.inbox_reader import Read
from coldnotify_gateway.writing import Writing

_SLICE_S = 0.01
"""Longest time that inbox records are handled without a break. A slice's frames for one connection leave in one write,
so it must not be too short; nothing else is served meanwhile, so it must not be long."""
_REST_FROM_WRITES = 100
_REST_SHARE = 0.5
_REST_S_MAX = 0.02
"""Number of writes that a pause follows, of half the time that they took, at most `_REST_S_MAX`. Each write takes a few
microseconds. Frames that arrive during the pause leave in one write per connection: at 200 publishes a second to 1,000
connections that halves the CPU time. A single publish does not wait."""


class InboxTurns:
    """Hands records on, one by one, in the event loop. Whatever is written meanwhile leaves by `writing`."""

    def __init__(self, writing: Writing, handle: Callable[[Read], None]) -> None:
        self._writing = writing
        self._handle = handle
        self._loop = asyncio.get_running_loop()
        self._batches: deque[tuple[deque[Read], Callable[[], None]]] = deque()
        self._pumping = False

    def take(self, records: Sequence[Read], handled: Callable[[], None]) -> None:
        """Hands records on, after all that were taken before, and calls `handled` afterwards."""
        self._batches.append((deque(records), handled))
        if not self._pumping:
            self._pumping = True
            self._pump()

    def _pump(self) -> None:
        """Handles records for a slice of time, and the rest once the loop has served the connections.

        A single item's frames are written at once. If records queue up, a slice's frames are gathered and written
        together.
        """
        began_s = self._loop.time()
        end_s = began_s + _SLICE_S
        self._writing.begin(gathering=len(self._batches) > 1 or _has_several(self._batches[0][0]))
        while self._batches:
            batch, handled = self._batches[0]
            while batch:
                if self._loop.time() > end_s:
                    self._writing.flush()
                    self._loop.call_soon(self._pump)
                    return
                self._handle(batch.popleft())
            self._batches.popleft()
            handled()
        self._writing.end()
        if self._writing.writes < _REST_FROM_WRITES:
            self._pumping = False
        else:
            took_s = self._loop.time() - began_s
            self._loop.call_later(min(took_s * _REST_SHARE, _REST_S_MAX), self._go_on)

    def _go_on(self) -> None:
        if self._batches:
            self._pump()
        else:
            self._pumping = False


def _has_several(records: Sequence[Read]) -> bool:
    """Returns true if there are several items. A client's Welcome and first page are two items of one record, and one
    write."""
    return len(records) > 1 or any(isinstance(record, Inbox) and len(record.items) > 1 for record in records)
