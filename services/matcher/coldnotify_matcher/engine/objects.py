"""Objects and how their records merge: by the highest (incarnation, version), whatever their order in the log."""

from array import array

import msgspec
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.records import PublicRecord, encode_public_record

from coldnotify_matcher.engine.gateways import GatewayView

UNKNOWN = -1
"""The version and offset of an object of which nothing was ever published."""
GONE_KEPT_MAX = 64
"""Numbers of gone sessions that are not worth a pass over the array."""


class LiveSubscribers:
    """The sessions of one gateway that are live and registered for one object: 4 bytes each."""

    __slots__ = ("numbers", "retirements_seen")

    def __init__(self, retirements_seen: int) -> None:
        self.numbers = array("I")
        self.retirements_seen = retirements_seen
        """GatewayView.retirements up to which gone sessions are out of `numbers`."""

    def remove_gone(self, gateway: GatewayView) -> None:
        """Take out the sessions that are over."""
        if self.retirements_seen != gateway.retirements:
            alive = gateway.sessions
            self.numbers = array("I", [number for number in self.numbers if number in alive])
            self.retirements_seen = gateway.retirements


class Obj:
    """One object: its newest version, and who is to be told of the next."""

    __slots__ = (
        "active_ms", "deleted", "expires_at_ms", "incarnation", "kept_offset", "key", "last_offset", "name", "offset",
        "payload", "published_ms", "registered", "source", "subscribers", "traceparent", "version",
    )  # fmt: skip

    def __init__(self, key: str) -> None:
        self.key = key
        self.name = key.split("/", 2)[2]
        self.registered = 0
        """Clients registered for it, online or not."""
        self.subscribers: dict[GatewayView, LiveSubscribers] = {}
        self.remove()

    def remove(self) -> None:
        """Nothing was ever published of it, as far as is known from here on."""
        self.incarnation = 0
        self.version = UNKNOWN
        self.offset = UNKNOWN
        """Of the first record that carries the newest version: who has applied the log so far does not lack it."""
        self.kept_offset = UNKNOWN
        """Of the last record that carries it in so many words: what compaction is to keep."""
        self.last_offset = UNKNOWN
        """Of the last record of this key, whatever it says. Compaction keeps that one."""
        self.published_ms = -1
        """The timestamp of the record that brought the newest version; -1: unknown."""
        self.active_ms = -1
        """When the newest version was last published, be it once more: retention counts from then."""
        self.traceparent = ""
        """The trace that the newest version came with; "": none."""
        self.payload = b""
        self.source: str | None = None
        self.expires_at_ms: int | None = None
        self.deleted = False

    @property
    def domain(self) -> str:
        """Its domain's name."""
        return self.key.partition("/")[0]

    @property
    def there(self) -> bool:
        """Whether it has a version, and is not deleted."""
        return self.version != UNKNOWN and not self.deleted

    def merge(self, record: PublicRecord, version: int, offset: int, since: int | None = None) -> bool:
        """Take in one record of this key. True: it brings a newer version than all before it.

        `since`: the offset at which this version came first, where the record is one that a matcher wrote again.
        """
        self.last_offset = offset
        incarnation = self.incarnation if record.incarnation is None else record.incarnation
        rank, rank_before = (incarnation, version), (self.incarnation, self.version)
        if rank < rank_before:
            return False
        newer = rank > rank_before
        explicit = incarnation == 0 or record.incarnation is not None
        # Without its incarnation the record would mean another version once compaction has taken the ones before it:
        # it counts as not being the last word, so that it is written again with it.
        self.kept_offset = offset
        if not explicit:
            self.last_offset = offset + 1
        first_offset = offset if since is None else since
        self.offset = first_offset if newer else min(self.offset, first_offset)
        self.incarnation, self.version = incarnation, version
        self.payload = record.payload_bytes
        self.source = record.source
        self.expires_at_ms = record.expires_at
        self.deleted = record.deleted
        return newer

    def forget_gone_gateways(self) -> None:
        """Drop the places of gateways that have no session any more."""
        for gateway in [gateway for gateway in self.subscribers if not gateway.sessions]:
            del self.subscribers[gateway]

    @property
    def needs_repair(self) -> bool:
        """Compaction would keep a record that does not say the newest version."""
        return self.version != UNKNOWN and self.last_offset > self.kept_offset

    def repair_record(self) -> bytes:
        """The value that says the newest version, whatever stands before it in the log.

        Also incarnation 0 is said: meanwhile somebody may have begun the versions over, and they are not of that one.
        """
        return encode_public_record(
            PublicRecord(
                version=self.version,
                source=self.source,
                payload=msgspec.Raw(self.payload) if self.payload else msgspec.UNSET,
                expires_at=self.expires_at_ms,
                deleted=self.deleted,
                incarnation=self.incarnation,
            )
        )

    def newest(self, now_ms: int, *, answer: bool = False) -> internal_pb2.Newest:
        """The newest version as gateways are told it; past `expires_at` without the payload."""
        if self.version == UNKNOWN:
            return internal_pb2.Newest(name=self.name, answer=True)
        newest = internal_pb2.Newest(answer=answer)
        self.fill_in(newest, now_ms)
        return newest

    def fill_in(self, newest: internal_pb2.Newest, now_ms: int) -> None:
        """What `newest` says, into a message that is still empty. There must have been a publish."""
        newest.name = self.name
        newest.version = self.version
        newest.offset = self.offset
        if self.incarnation:
            newest.incarnation = self.incarnation
        if self.payload and (self.expires_at_ms is None or self.expires_at_ms > now_ms):
            newest.payload = self.payload
        if self.deleted:
            newest.deleted = True
