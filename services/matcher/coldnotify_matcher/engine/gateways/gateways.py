"""A gateway as the matcher knows it, for one partition: its sessions there, and the numbers of its inbox records."""

from typing import TYPE_CHECKING

from coldnotify_schemas import internal_pb2

from coldnotify_matcher.engine.gateways.inbox_lag import InboxLag

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

RECORD_BYTES_MAX = 256 * 1024
"""An inbox record is split above this: one slow fetch must not hold up the others for long."""

RETIRED_KEPT_MS = 600_000
"""A request of an ended session may cross the notice of its end: within seconds, or until a lost record is missed."""


class GatewayView:
    """One boot of one gateway, as one partition sees it."""

    __slots__ = (
        "_items", "_records", "_retired", "_retired_before", "_room_bytes", "catching", "checksum",
        "disagrees_since_ms", "heard_ms", "id", "inbox", "lag", "number", "retirements", "sessions",
    )  # fmt: skip

    def __init__(self, id_: int, inbox: int, now_ms: int) -> None:
        self.id = id_
        self.inbox = inbox
        self.heard_ms = now_ms
        self.disagrees_since_ms: int | None = None
        """Time since which its Beats disagree with these sessions; None: they agree."""
        self.number = 0
        """Number of the last inbox record, in this generation."""
        self.sessions: dict[int, str] = {}
        """By session number: the keys of the clients whose current session is one of this gateway's."""
        self.catching: set[int] = set()
        """Sessions that receive pages and are not in the fan-out index yet."""
        self.checksum = 0
        self.retirements = 0
        """Number of sessions that were in the fan-out index and left it; their numbers may still be in it."""
        self._retired: set[int] = set()
        self._retired_before: set[int] = set()
        self._records: list[internal_pb2.Inbox] = []
        """This step's records for it, in order."""
        self._items: RepeatedCompositeFieldContainer[internal_pb2.Item]
        """Items of the last record."""
        self._room_bytes = 0
        """Free bytes in the last record; 0 without one."""
        self.lag = InboxLag()
        """Kept if an interval tunes itself by it."""

    def add(self, number: int, client_key: str) -> None:
        """Add a session of this gateway, which is now the client's current one."""
        if number not in self.sessions:
            self.checksum += number
        self.sessions[number] = client_key

    def remove(self, number: int, *, indexed: bool) -> None:
        """Remove a session that is over; `indexed`: it is in the fan-out index, which drops it lazily."""
        if self.sessions.pop(number, None) is not None:
            self.checksum -= number
            self.catching.discard(number)
        if indexed:
            self.retire(number)
            self.retirements += 1

    def heard(self, now_ms: int) -> None:
        """Note that it was heard."""
        self.heard_ms = max(self.heard_ms, now_ms)

    def agrees(self, sessions: int, checksum: int, now_ms: int) -> bool:
        """Compare its sessions with the number and checksum in its Beat. Returns true if they agree."""
        agreed = len(self.sessions) == sessions and self.checksum == checksum
        if agreed:
            self.disagrees_since_ms = None
        elif self.disagrees_since_ms is None:
            self.disagrees_since_ms = now_ms
        return agreed

    def doubt_anew(self, now_ms: int) -> None:
        """Restart the time that it may disagree: sessions that it has not announced are ended."""
        self.disagrees_since_ms = now_ms

    def retire(self, number: int) -> None:
        """Never accept a session of this number again."""
        self._retired.add(number)

    def has_retired(self, number: int) -> bool:
        """Returns true if this session is over, and was in the fan-out index, displaced, or ended by an operator: it
        must not come back under this number."""
        return number in self._retired or number in self._retired_before

    def turn_retired(self) -> None:
        """Forget sessions that were over RETIRED_KEPT_MS ago."""
        self._retired_before, self._retired = self._retired, set()

    def successor(self) -> "GatewayView":
        """Returns the same gateway without sessions, which are over, and without entries in the index."""
        new = GatewayView(self.id, self.inbox, self.heard_ms)
        new.number = self.number
        if self._records:
            new._records, new._items, new._room_bytes = self._records, self._items, self._room_bytes
            self._records, self._room_bytes = [], 0
        return new

    def new_item(self, bytes_max: int) -> internal_pb2.Item:
        """Returns the next item for it, to be filled in, with at most so many bytes.

        An item that is filled in inside its record costs 1 us; one that is made by itself and then copied in, 3 us.
        """
        if bytes_max > self._room_bytes:
            record = internal_pb2.Inbox(format=1, gateway=self.id)
            self._records.append(record)
            self._items = record.items
            self._room_bytes = RECORD_BYTES_MAX
        self._room_bytes -= bytes_max
        return self._items.add()

    def tell(self, item: internal_pb2.Item) -> None:
        """Add the next item for it."""
        self.new_item(item.ByteSize()).CopyFrom(item)

    def take_records(self, partition: int, generation: int) -> list[tuple[int, internal_pb2.Inbox]]:
        """Returns this step's items as numbered inbox records."""
        if not self._records:
            return []
        records, self._records, self._room_bytes = self._records, [], 0
        for record in records:
            self.number += 1
            record.partition, record.generation, record.number = partition, generation, self.number
        return [(self.inbox, record) for record in records]
