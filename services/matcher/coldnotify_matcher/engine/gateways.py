"""What the matcher knows of a gateway, for one partition: its sessions there, and its inbox records' numbers."""

from coldnotify_schemas import internal_pb2

from coldnotify_matcher.engine.clients import Client
from coldnotify_matcher.engine.unread import Unread

RECORD_BYTES_MAX = 256 * 1024
"""An inbox record is split above this: one slow fetch must not hold up the others for long."""

RETIRED_KEPT_MS = 600_000
"""A request of a session that ended may cross the word of it: within seconds, or until a lost record is missed."""


class GatewayView:
    """One boot of one gateway, as one partition sees it."""

    __slots__ = (
        "_retired", "_retired_before", "checksum", "heard_ms", "id", "inbox", "items", "number", "retirements",
        "sessions", "unread",
    )  # fmt: skip

    def __init__(self, id_: int, inbox: int, now_ms: int) -> None:
        self.id = id_
        self.inbox = inbox
        self.heard_ms = now_ms
        self.number = 0
        """Of the last inbox record, in this generation."""
        self.sessions: dict[int, Client] = {}
        """By session number: the clients whose current session is one of this gateway's."""
        self.checksum = 0
        self.retirements = 0
        """How many sessions were in the fan-out index and left it; their numbers may still stand in it."""
        self._retired: set[int] = set()
        self._retired_before: set[int] = set()
        self.items: list[internal_pb2.Item] = []
        """What this step has for it, in order."""
        self.unread = Unread()
        """Kept where an interval tunes itself by it."""

    def add(self, number: int, client: Client) -> None:
        """A session of this gateway is now the client's current one."""
        if number not in self.sessions:
            self.checksum += number
        self.sessions[number] = client

    def remove(self, number: int, *, indexed: bool) -> None:
        """The session is over; `indexed`: it stands in the fan-out index, from which it is removed lazily."""
        if self.sessions.pop(number, None) is not None:
            self.checksum -= number
        if indexed:
            self._retired.add(number)
            self.retirements += 1

    def has_retired(self, number: int) -> bool:
        """Whether this session was in the fan-out index and is over: it must not come back under this number."""
        return number in self._retired or number in self._retired_before

    def turn_retired(self) -> None:
        """RETIRED_KEPT_MS have passed: forget those that were over before."""
        self._retired_before, self._retired = self._retired, set()

    def successor(self) -> "GatewayView":
        """The same gateway, without anything that stands in the index; its sessions are over."""
        new = GatewayView(self.id, self.inbox, self.heard_ms)
        new.number, new.items, self.items = self.number, self.items, []
        return new

    def take_records(self, partition: int, generation: int) -> list[tuple[int, internal_pb2.Inbox]]:
        """This step's items as numbered inbox records."""
        records = []
        items, self.items = self.items, []
        start = size = 0
        for i, item in enumerate(items):
            item_bytes = item.ByteSize()
            if i > start and size + item_bytes > RECORD_BYTES_MAX:
                records.append(self._record(partition, generation, items[start:i]))
                start, size = i, 0
            size += item_bytes
        if items:
            records.append(self._record(partition, generation, items[start:]))
        return records

    def _record(
        self, partition: int, generation: int, items: list[internal_pb2.Item]
    ) -> tuple[int, internal_pb2.Inbox]:
        self.number += 1
        return self.inbox, internal_pb2.Inbox(
            format=1, partition=partition, generation=generation, gateway=self.id, number=self.number, items=items
        )
