"""What the matcher knows of a gateway, for one partition: its sessions there, and its inbox records' numbers."""

from typing import TYPE_CHECKING

from coldnotify_schemas import internal_pb2

from coldnotify_matcher.engine.inbox_lag import InboxLag

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

RECORD_BYTES_MAX = 256 * 1024
"""An inbox record is split above this: one slow fetch must not hold up the others for long."""

RETIRED_KEPT_MS = 600_000
"""A request of a session that ended may cross the word of it: within seconds, or until a lost record is missed."""


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
        """Since when its Beats have said other sessions than these; None: they have not."""
        self.number = 0
        """Of the last inbox record, in this generation."""
        self.sessions: dict[int, str] = {}
        """By session number: the keys of the clients whose current session is one of this gateway's."""
        self.catching: set[int] = set()
        """Those of them that are sent pages and are not in the fan-out index yet."""
        self.checksum = 0
        self.retirements = 0
        """How many sessions were in the fan-out index and left it; their numbers may still stand in it."""
        self._retired: set[int] = set()
        self._retired_before: set[int] = set()
        self._records: list[internal_pb2.Inbox] = []
        """What this step has for it, in order."""
        self._items: RepeatedCompositeFieldContainer[internal_pb2.Item]
        """Of the last of the records."""
        self._room_bytes = 0
        """Left in it; without one: 0."""
        self.lag = InboxLag()
        """Kept where an interval tunes itself by it."""

    def add(self, number: int, client_key: str) -> None:
        """A session of this gateway is now the client's current one."""
        if number not in self.sessions:
            self.checksum += number
        self.sessions[number] = client_key

    def remove(self, number: int, *, indexed: bool) -> None:
        """The session is over; `indexed`: it stands in the fan-out index, from which it is removed lazily."""
        if self.sessions.pop(number, None) is not None:
            self.checksum -= number
            self.catching.discard(number)
        if indexed:
            self.retire(number)
            self.retirements += 1

    def heard(self, now_ms: int) -> None:
        """It has said something."""
        self.heard_ms = max(self.heard_ms, now_ms)

    def agrees(self, sessions: int, checksum: int, now_ms: int) -> bool:
        """Its Beat says so many sessions, of this checksum. Returns whether these are ours."""
        agreed = len(self.sessions) == sessions and self.checksum == checksum
        if agreed:
            self.disagrees_since_ms = None
        elif self.disagrees_since_ms is None:
            self.disagrees_since_ms = now_ms
        return agreed

    def doubt_anew(self, now_ms: int) -> None:
        """What it has not announced is ended: it may disagree for as long again."""
        self.disagrees_since_ms = now_ms

    def retire(self, number: int) -> None:
        """A session of this number must not come back."""
        self._retired.add(number)

    def has_retired(self, number: int) -> bool:
        """Whether this session is over, and was in the fan-out index or ended by an operator: it must not come back
        under this number."""
        return number in self._retired or number in self._retired_before

    def turn_retired(self) -> None:
        """RETIRED_KEPT_MS have passed: forget those that were over before."""
        self._retired_before, self._retired = self._retired, set()

    def successor(self) -> "GatewayView":
        """The same gateway, without anything that stands in the index; its sessions are over."""
        new = GatewayView(self.id, self.inbox, self.heard_ms)
        new.number = self.number
        if self._records:
            new._records, new._items, new._room_bytes = self._records, self._items, self._room_bytes
            self._records, self._room_bytes = [], 0
        return new

    def new_item(self, bytes_max: int) -> internal_pb2.Item:
        """The next item for it, to be filled in, with at most so many bytes.

        Filled in where it will be sent from, it costs 1 us; made by itself and then copied in, 3 us.
        """
        if bytes_max > self._room_bytes:
            record = internal_pb2.Inbox(format=1, gateway=self.id)
            self._records.append(record)
            self._items = record.items
            self._room_bytes = RECORD_BYTES_MAX
        self._room_bytes -= bytes_max
        return self._items.add()

    def tell(self, item: internal_pb2.Item) -> None:
        """The next item for it."""
        self.new_item(item.ByteSize()).CopyFrom(item)

    def take_records(self, partition: int, generation: int) -> list[tuple[int, internal_pb2.Inbox]]:
        """This step's items as numbered inbox records."""
        if not self._records:
            return []
        records, self._records, self._room_bytes = self._records, [], 0
        for record in records:
            self.number += 1
            record.partition, record.generation, record.number = partition, generation, self.number
        return [(self.inbox, record) for record in records]
