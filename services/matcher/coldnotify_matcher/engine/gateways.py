"""What the matcher knows of a gateway, for one partition: its sessions there, and its inbox records' numbers."""

from coldnotify_schemas import internal_pb2

from coldnotify_matcher.engine.clients import Client

RECORD_BYTES_MAX = 256 * 1024
"""An inbox record is split above this: one slow fetch must not hold up the others for long."""


class GatewayView:
    """One boot of one gateway, as one partition sees it."""

    __slots__ = ("checksum", "heard_ms", "id", "inbox", "items", "number", "retired", "retirements", "sessions")

    def __init__(self, id_: int, inbox: int, now_ms: int) -> None:
        self.id = id_
        self.inbox = inbox
        self.heard_ms = now_ms
        self.number = 0
        """Of the last inbox record, in this generation."""
        self.sessions: dict[int, Client] = {}
        """By session number: the clients whose current session is one of this gateway's."""
        self.checksum = 0
        self.retired: set[int] = set()
        """Sessions that were in the fan-out index and left it; their numbers may still stand in it."""
        self.retirements = 0
        self.items: list[internal_pb2.Item] = []
        """What this step has for it, in order."""

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
            self.retired.add(number)
            self.retirements += 1

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
