"""Packets that an MQTT device was sent and has not acknowledged: a row for each stream, and the identifiers in use.

An entry of a row is a packet, with what the client is complete to once it and all before it are acknowledged. So the
acknowledged cursor is the `complete` of the longest acknowledged beginning, whatever order the client acknowledges in.
The end of a page is an entry, too: the page is acknowledged when everything before its end is.

What does not fit below the Receive Maximum waits, behind it all that comes later. Only one page of a stream is ever on
its way, so that is bounded.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from coldnotify_schemas.mqtt.packets import PACKET_ID_MAX

from coldnotify_gateway.core.mqtt.device_shares import DeviceLease
from coldnotify_gateway.core.mqtt.held_filters import Manner
from coldnotify_gateway.core.stream import NONE
from coldnotify_gateway.core.timers import NEVER_S

IN_FLIGHT_MAX = 1000
"""Most packets of one session that are not acknowledged, whatever its Receive Maximum."""
_OFFSETS_MAX = 1000
"""Most offsets above `complete` that are remembered, so that nothing is sent twice on one connection."""
_OFFSETS_LOOK = 64
"""With more offsets than this, those that `complete` has passed are forgotten."""
_NAME_BITS = 64


class Due(NamedTuple):
    """A message, or the end of a page, in the order in which a device is told."""

    place: int
    """The index of its stream."""
    complete: int = NONE
    """The offset up to which the client is complete once it has this and all before it; NONE: it moves no cursor."""
    page: int = 0
    """The number of the page that ends here; 0: none does."""
    topic: str = ""
    """"": nothing is sent."""
    payload: bytes = b""
    manner: Manner = Manner(0, retain=False)
    missed: tuple[str, ...] = ()
    """Words about messages that are missing before it, by its filters."""
    properties: bytes = b""
    """Its publisher's (`kept_properties`)."""
    version: int = NONE
    """NONE: it is a message."""
    offset: int = NONE
    """NONE: nothing is sent."""
    expires_s: float = NEVER_S
    """The time by the core's clock at which it expires."""
    lease: DeviceLease | None = None
    """The lease of a task. It is in no row, as nothing else says how far a share is."""
    dup: bool = False
    """It may have been sent before."""


@dataclass(slots=True, eq=False)
class _Sent:
    complete: int
    page: int
    acknowledged: bool

    def take(self) -> None:
        self.acknowledged = True


class SettledPart(NamedTuple):
    """The news of a row: a client has acknowledged so much of a stream."""

    complete: int
    """NONE: no cursor has moved."""
    pages: tuple[int, ...]


_NOTHING_NEW = SettledPart(NONE, ())


class SentRow:
    """The packets of one stream, in order, from the first entry that is not acknowledged."""

    __slots__ = ("_entries", "_offsets")

    def __init__(self) -> None:
        self._entries: deque[_Sent] | None = None
        """Made for the first entry, and forgotten with the last: an idle device holds none."""
        self._offsets: set[int] | None = None
        """Each with the hash of a name below it."""

    def __len__(self) -> int:
        """The number of entries that are not settled."""
        return len(self._entries or ())

    def take_offset(self, offset: int, complete: int, name: str = "") -> bool:
        """Notes that this offset is sent. Returns false if it was on this connection already.

        `name`: the object's, as the members of a set have one offset.
        `complete`: what the client has been sent of the stream. By it, and not by the highest offset, because versions
        that were held back follow later ones.
        """
        offsets = self._offsets
        if offsets is None:
            offsets = self._offsets = set()
        mark = offset << _NAME_BITS | hash(name) & (1 << _NAME_BITS) - 1
        if offset <= complete or mark in offsets:
            return False
        if len(offsets) >= _OFFSETS_LOOK:
            self._offsets = offsets = {one for one in offsets if one >> _NAME_BITS > complete}
            while len(offsets) >= _OFFSETS_MAX:
                offsets.remove(min(offsets))
        offsets.add(mark)
        return True

    def sent(self, due: Due, *, acknowledged: bool) -> _Sent:
        """Adds an entry."""
        entry = _Sent(due.complete, due.page, acknowledged)
        if self._entries is None:
            self._entries = deque()
        self._entries.append(entry)
        return entry

    def settle(self) -> SettledPart:
        """Removes the acknowledged beginning, and returns what it says."""
        entries = self._entries
        if not entries or not entries[0].acknowledged:
            return _NOTHING_NEW
        if len(entries) == 1:
            entry, self._entries = entries[0], None
            return SettledPart(entry.complete, (entry.page,) if entry.page else ())
        complete, pages = NONE, []
        while entries and entries[0].acknowledged:
            entry = entries.popleft()
            complete = max(complete, entry.complete)
            if entry.page:
                pages.append(entry.page)
        if not entries:
            self._entries = None
        return SettledPart(complete, tuple(pages))


class Deliveries:
    """The rows of one session, and what waits for a place below its Receive Maximum."""

    __slots__ = ("_in_flight", "_last_id", "_unwritten", "_waiting", "receive_max", "rows")

    def __init__(self, receive_max: int = IN_FLIGHT_MAX) -> None:
        self.receive_max = min(receive_max, IN_FLIGHT_MAX)
        self.rows = SentRow(), SentRow()
        """By the place of the stream."""
        self._in_flight: dict[int, _Sent] = {}
        self._unwritten: list[_Sent] = []
        """Packets of QoS 0 that the socket has not taken yet."""
        self._waiting: deque[Due] | None = None
        """Made for the first one that waits, and forgotten with the last."""
        self._last_id = 0

    @property
    def free(self) -> int:
        """Returns how many more packets of QoS 1 may be sent."""
        return self.receive_max - len(self._in_flight)

    @property
    def takes(self) -> bool:
        """Returns true if a live message can be sent now, whatever its QoS."""
        return not self._waiting and len(self._in_flight) < self.receive_max

    @property
    def takes_again(self) -> bool:
        """Returns true if a session that was full can be caught up: half of its places are free."""
        return not self._waiting and 2 * self.free >= self.receive_max

    @property
    def waits(self) -> bool:
        """Returns true if something waits for a place."""
        return bool(self._waiting)

    @property
    def nothing_owed(self) -> bool:
        """Returns true if everything that was sent is acknowledged."""
        return not self._waiting and not any(map(len, self.rows))

    def wait(self, due: Due) -> None:
        """Adds what is to be sent, behind everything that waits."""
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append(due)

    def take(self, *, written: bool) -> Iterator[tuple[Due, int]]:
        """Yields what may be sent now, each with its packet identifier, or 0. `written`: the socket takes bytes."""
        waiting = self._waiting
        while waiting:
            due = waiting[0]
            sends = bool(due.topic)
            if sends and due.manner.qos and not self.free:
                return
            waiting.popleft()
            if sends and due.manner.qos:
                packet_id = self._free_id()
                self.send(due, packet_id)
                yield due, packet_id
                continue
            entry = self.rows[due.place].sent(due, acknowledged=written or not sends)
            if not entry.acknowledged:
                self._unwritten.append(entry)
            if sends:
                yield due, 0
        self._waiting = None

    def send(self, due: Due, packet_id: int) -> None:
        """Notes that a message was sent with this identifier; 0: with QoS 0, and the socket took it."""
        if due.lease is None:
            entry = self.rows[due.place].sent(due, acknowledged=not packet_id)
        else:
            entry = _Sent(NONE, 0, acknowledged=False)
        if packet_id:
            self._in_flight[packet_id] = entry

    def send_unowed(self, due: Due) -> bool:
        """Notes that a live message was sent with QoS 0. Returns true if nothing before it is owed: the client is
        complete to it at once.
        """
        row = self.rows[due.place]
        if len(row):
            row.sent(due, acknowledged=True)
            return False
        return True

    def is_free_id(self, packet_id: int) -> bool:
        """Returns true if no packet in flight has this identifier."""
        return packet_id not in self._in_flight

    def other_id(self) -> int:
        """Returns an identifier that no packet in flight has."""
        return self._free_id()

    def acknowledge(self, packet_id: int) -> bool:
        """Handles a PUBACK. Returns false if no packet in flight has its identifier."""
        entry = self._in_flight.pop(packet_id, None)
        if entry is None:
            return False
        entry.take()
        return True

    def drained(self) -> None:
        """Notes that the socket has taken what was sent."""
        for entry in self._unwritten:
            entry.take()
        self._unwritten.clear()

    def _free_id(self) -> int:
        while True:  # fewer are in flight than there are
            self._last_id = self._last_id % PACKET_ID_MAX + 1
            if self._last_id not in self._in_flight:
                return self._last_id
