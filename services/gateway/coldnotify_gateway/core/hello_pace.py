"""Takes Hellos at a limited pace. Those above it wait in order, and their clients are told for how long.

After an outage all clients of a gateway say Hello at once. Each Hello costs far more than an Ack or a Ping. Without a
pace, sessions that are live already would be heard only after all of them.
"""

from collections import deque
from math import ceil
from typing import NamedTuple

from coldnotify_common.security.publish_rights import PublishRight
from coldnotify_schemas.wire_pb2 import Hello

from coldnotify_gateway.core.outputs import Peer

WAITING_BYTES_MAX = 32 * 1024 * 1024
"""Most bytes of waiting Hellos, and of what their clients send meanwhile: room for 100,000 usual Hellos."""
_BURST_S = 1.0
"""The Hellos of this time are taken at once."""


class WaitingHello(NamedTuple):
    """A Hello that waits for its turn."""

    peer: Peer
    hello: Hello
    publish_right: PublishRight
    size_bytes: int


class HelloPace:
    """The pace, and the Hellos that wait. Those of ended connections stay until their turn."""

    def __init__(self, per_s: float) -> None:
        """`per_s`: Hellos per second; 0: as many as come."""
        self._per_s = per_s
        self._free = per_s * _BURST_S
        self._at_s: float | None = None
        self._waiting: deque[WaitingHello] = deque()
        self._waiting_bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Returns true if no more may wait."""
        return self._waiting_bytes >= WAITING_BYTES_MAX

    @property
    def backlog_s(self) -> int:
        """Returns the time until the turn of one that comes now, in whole seconds."""
        return ceil((len(self._waiting) + 1) / self._per_s) if self._per_s else 0

    def takes_at_once(self, now_s: float) -> bool:
        """Returns true if a Hello that has just come has its turn now."""
        if not self._per_s:
            return True
        return not self._waiting and self._turn(now_s)

    def wait(self, waiting: WaitingHello) -> None:
        """Lets a Hello wait, behind the others."""
        self._waiting.append(waiting)
        self._waiting_bytes += waiting.size_bytes

    def kept(self, size_bytes: int) -> None:
        """Counts bytes that a waiting client has sent after its Hello."""
        self._waiting_bytes += size_bytes

    def next(self, now_s: float) -> WaitingHello | None:
        """Returns the next Hello if its turn has come."""
        if not self._waiting or not self._turn(now_s):
            return None
        found = self._waiting.popleft()
        # What was kept of clients that have gone is forgotten with the last one.
        self._waiting_bytes = self._waiting_bytes - found.size_bytes if self._waiting else 0
        return found

    def give_back(self) -> None:
        """Returns the turn of a Hello whose client has gone."""
        self._free += 1

    def _turn(self, now_s: float) -> bool:
        if self._at_s is not None:
            self._free = min(self._per_s * _BURST_S, self._free + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if self._free < 1:
            return False
        self._free -= 1
        return True
