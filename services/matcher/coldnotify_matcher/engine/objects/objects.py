"""Objects. Their records merge by the highest (incarnation, version), whatever their order in the log."""

from array import array
from typing import Any

import msgspec
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.message_places import MessagePlace
from coldnotify_schemas.records import HeadedRecord, PublicRecord

from coldnotify_matcher.engine.gateways.gateways import GatewayView

UNKNOWN = -1
"""The version and offset of an object that was never published."""
GONE_KEPT_MAX = 64
"""Number of gone sessions that are not worth a pass over the array."""


class LiveSubscribers:
    """The sessions of one gateway that are live and registered for one object: 4 bytes each."""

    __slots__ = ("numbers", "retirements_seen")

    def __init__(self, retirements_seen: int) -> None:
        self.numbers = array("I")
        self.retirements_seen = retirements_seen
        """The value of GatewayView.retirements up to which gone sessions are removed from `numbers`."""

    def remove_gone(self, gateway: GatewayView) -> None:
        """Remove the sessions that are over."""
        if self.retirements_seen != gateway.retirements:
            alive = gateway.sessions
            self.numbers = array("I", [number for number in self.numbers if number in alive])
            self.retirements_seen = gateway.retirements


class Obj:
    """One object: its newest version, and the sessions that receive the next."""

    __slots__ = (
        "active_ms", "checkpoint_due", "checkpoint_offset", "deleted", "expires_at_ms", "incarnation", "kept_offset",
        "key", "last_offset", "message", "name", "offset", "payload", "properties", "published_ms", "raw", "registered",
        "set_first", "set_last", "source", "subscribers", "traceparent", "version",
    )  # fmt: skip

    def __init__(self, key: str) -> None:
        self.key = key
        self.name = key.split("/", 2)[2]
        self.registered = 0
        """Clients registered for it, online or not."""
        self.subscribers: dict[GatewayView, LiveSubscribers] = {}
        self.remove()

    def remove(self) -> None:
        """Forget all its versions, as if it was never published."""
        self.incarnation = 0
        self.version = UNKNOWN
        self.offset = UNKNOWN
        """Offset of the first record with the newest version: a client that has applied the log so far does not lack
        it."""
        self.kept_offset = UNKNOWN
        """Offset of the last record that states it explicitly: compaction must keep that one."""
        self.last_offset = UNKNOWN
        """Offset of the last record of this key, whatever its value. Compaction keeps that one."""
        self.published_ms = -1
        """The timestamp of the record that brought the newest version; -1: unknown."""
        self.active_ms = -1
        """Time at which the newest version was last published, also repeatedly: retention counts from then."""
        self.traceparent = ""
        """The trace that the newest version came with; "": none."""
        self.payload = b""
        self.raw = False
        """True if the payload is no JSON that a record gives back."""
        self.properties = b""
        """Its properties for MQTT devices, at most KEPT_BYTES_MAX."""
        self.message: MessagePlace | None = None
        """The message of its channel that the newest version is, too; None: it is none."""
        self.source: str | None = None
        self.expires_at_ms: int | None = None
        self.deleted = False
        self.checkpoint_due = False
        """True if compaction could leave a record by arrival without what it counts on, and no checkpoint says so yet.
        """
        self.set_first = self.set_last = UNKNOWN
        """Offsets of the first and the last set that brought it a version, as far as the log has them."""
        self.checkpoint_offset = UNKNOWN
        """Offset of the first checkpoint behind that record, if others came between it and the place that it names."""

    @property
    def domain(self) -> str:
        """Its domain's name."""
        return self.key.partition("/")[0]

    @property
    def there(self) -> bool:
        """True if it has a version, and is not deleted."""
        return self.version != UNKNOWN and not self.deleted

    def merge(
        self,
        record: PublicRecord,
        version: int,
        offset: int,
        since: int | None = None,
        properties: bytes = b"",
        message: MessagePlace | None = None,
    ) -> bool:
        """Merge one record of this key. Returns true if it brings a newer version than all before it.

        `since`: the offset at which this version came first, if the record is one that a matcher wrote again.
        `properties`, `message`: in its headers.
        """
        self.last_offset = offset
        incarnation = self.incarnation if record.incarnation is None else record.incarnation
        rank, rank_before = (incarnation, version), (self.incarnation, self.version)
        if rank < rank_before:
            return False
        newer = rank > rank_before
        explicit = incarnation == 0 or record.incarnation is not None
        # Without its incarnation the record would mean another version once compaction has removed the ones before it:
        # it does not count as the last record, so that it is written again with its incarnation.
        self.kept_offset = offset
        if not explicit:
            self.last_offset = offset + 1
        first_offset = offset if since is None else since
        self.offset = first_offset if newer else min(self.offset, first_offset)
        self.incarnation, self.version = incarnation, version
        self.payload, self.raw, self.properties = record.payload_bytes, record.is_raw, properties
        if newer or message is not None:
            self.message = message
        self.source = record.source
        self.expires_at_ms = record.expires_at
        self.deleted = record.deleted
        return newer

    def no_message(self) -> None:
        """Note that its newest version is no message."""
        self.message = None

    def note_set(self, offset: int) -> None:
        """Note that the version that was merged last is of a set at this offset."""
        self.set_last = offset
        if self.set_first == UNKNOWN:
            self.set_first = offset

    def span_above(self, cursor: int) -> tuple[int, int]:
        """Returns the first and the last offset above the cursor at which its client would lack a member of a set
        without it: its newest version stands for those that the sets brought."""
        if self.set_last <= cursor:
            return self.offset, self.offset
        return max(self.set_first, cursor + 1), self.set_last

    def note_arrival(self, version: int, timestamp_ms: int) -> None:
        """Note that the record that is merged next gets this version by arrival."""
        is_last = self.last_offset <= self.kept_offset or self.version == UNKNOWN
        if version != timestamp_ms or self.incarnation or not is_last:
            self.checkpoint_due, self.checkpoint_offset = True, UNKNOWN

    def note_checkpoint(self, read_to: int, offset: int) -> None:
        """Note that the record that is merged next, at `offset`, is a checkpoint of what came up to `read_to`.

        Without records between the two it says what is in force. Otherwise a second one has to follow, written when the
        first was read: who reads both knows all records between the place that the second one names and itself.
        """
        first = self.checkpoint_offset
        if self.last_offset <= read_to or (first != UNKNOWN and first <= read_to):
            self.checkpoint_due = False
        elif first == UNKNOWN:
            self.checkpoint_offset = offset

    def corrected(self, offset: int) -> None:
        """Note that the checkpoint at `offset`, and records before it that it does not take in, were merged again."""
        self.last_offset = max(self.last_offset, offset)
        if self.checkpoint_due:
            self.checkpoint_offset = offset

    def forget_gone_gateways(self) -> None:
        """Drop the places of gateways that have no session any more."""
        for gateway in [gateway for gateway in self.subscribers if not gateway.sessions]:
            del self.subscribers[gateway]

    @property
    def needs_repair(self) -> bool:
        """True if compaction would keep a record without the newest version, or one that would mean another one."""
        return self.version != UNKNOWN and (self.last_offset > self.kept_offset or self.checkpoint_due)

    def repair_record(self) -> PublicRecord:
        """Returns the record of the newest version, whatever precedes it in the log.

        Incarnation 0 is written, too: meanwhile a publisher may have begun the versions over, and this one is not part
        of that.
        """
        fields: dict[str, Any] = {
            "version": self.version,
            "source": self.source,
            "expires_at": self.expires_at_ms,
            "deleted": self.deleted,
            "incarnation": self.incarnation,
        }
        if self.raw:
            return HeadedRecord(**fields, payload_base64=self.payload)
        return PublicRecord(**fields, payload=msgspec.Raw(self.payload) if self.payload else msgspec.UNSET)

    def newest(self, now_ms: int, *, answer: bool = False) -> internal_pb2.Newest:
        """Returns the newest version for gateways; past `expires_at` without the payload."""
        if self.version == UNKNOWN:
            return internal_pb2.Newest(name=self.name, answer=True)
        newest = internal_pb2.Newest(answer=answer)
        self.fill_in(newest, now_ms)
        return newest

    def fill_in(self, newest: internal_pb2.Newest, now_ms: int) -> None:
        """Fill the newest version into an empty message. There must have been a publish."""
        newest.name = self.name
        newest.version = self.version
        newest.offset = self.offset
        if self.incarnation:
            newest.incarnation = self.incarnation
        if self.payload and (self.expires_at_ms is None or self.expires_at_ms > now_ms):
            newest.payload = self.payload
            if self.raw:
                newest.raw = True
        if self.deleted:
            newest.deleted = True
        if self.properties:
            newest.properties = self.properties
        if self.expires_at_ms is not None and not self.deleted:
            newest.expires_in_ms = max(0, self.expires_at_ms - now_ms)
