"""Records of the logs of channels as the shell has read them, and the messages that the engine makes of them."""

from collections.abc import Sequence
from typing import NamedTuple

from coldnotify_schemas import wire_pb2
from coldnotify_schemas.channels import MessageHeaders, Retention, Retentions, check_message
from coldnotify_schemas.names import InvalidName, parse_object_key
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import InvalidRecord
from coldnotify_schemas.share_names import DEAD_LETTERS_SUFFIX
from coldnotify_schemas.topics import TopicNames

_DEAD_LETTERS = DEAD_LETTERS_SUFFIX.encode()
_OVERHEAD_BYTES = 400
"""Memory of a message beside its payload: the values themselves, and its places in lists."""


class MessageRecord(NamedTuple):
    """One record of a log of channels."""

    retention: Retention
    """Retention of the log."""
    key: bytes | None
    """domain/group/channel, if it is valid."""
    value: bytes | None
    """The payload."""
    headers: MessageHeaders | str
    """Its parsed headers; a text is the reason why they are invalid."""
    offset: int
    timestamp_ms: int
    """Unix time at which the log took it."""


class Block(NamedTuple):
    """A part of a log, read again for sessions that are behind: all its records from `start` to below `next`."""

    retention: Retention
    """Retention of the log."""
    start: int
    """An offset that `Channels.wanted_blocks` returned."""
    next: int
    """Above `start`."""
    log_start: int
    """The log's first offset when this was read: records removed below it are not in `records`."""
    records: Sequence[MessageRecord] = ()
    unreadable: bool = False
    """True if Kafka could not read any of it."""


class ChannelMessage(NamedTuple):
    """A record that is a message of a channel of this partition."""

    key: str
    """domain/group/channel."""
    offset: int
    payload: bytes
    id: str
    source: str
    """The client that sent it; "": unknown."""
    published_ms: int
    expires_at: int | None
    to: tuple[str, ...]
    high: bool = False
    """True if it is sent with high priority."""
    properties: bytes = b""
    """Its properties for MQTT devices, at most KEPT_BYTES_MAX."""
    order_key: str = ""
    """Shares hand out messages with one such key in their order; empty: it has none."""

    @property
    def size_bytes(self) -> int:
        """Approximate size in memory."""
        return len(self.payload) + len(self.id) + len(self.properties) + _OVERHEAD_BYTES

    def is_for(self, attributes: frozenset[str]) -> bool:
        """Returns true if a subscription with these attributes receives it."""
        return not self.to or not attributes.isdisjoint(self.to)

    def expired(self, now_ms: int) -> bool:
        """Returns true if it is not sent any more."""
        return self.expires_at is not None and self.expires_at <= now_ms

    def fill_in(self, message: wire_pb2.Message, hash_: int, after: int, *, named: bool = False) -> None:
        """Fill in a message for gateways, for a registration of this hash that has no message between `after` and this
        one. `named`: it says its channel."""
        if named:
            message.name = name_of(self.key)
        message.channel = hash_
        message.offset = self.offset
        message.back = self.offset - after
        message.payload = self.payload
        if self.id:
            message.id = self.id
        if self.source:
            message.source = self.source
        if self.published_ms > 0:
            message.published_ms = self.published_ms


def name_of(key: str) -> str:
    """Returns the channel's name in a key (domain/group/channel)."""
    return key.split("/", 2)[2]


class Home(NamedTuple):
    """Properties that a partition's messages have in common."""

    partition: int
    partitions: int
    retentions: Retentions
    topics: TopicNames


def understand(record: MessageRecord, home: Home, known: bool) -> tuple[ChannelMessage, int]:
    """Returns (the message, its partition). `known`: its key was checked before. Raises InvalidRecord."""
    key, headers = record.key, record.headers
    right = home.partition
    if not known:
        try:
            domain, group, _ = parse_object_key(key)
        except InvalidName as error:
            raise InvalidRecord(str(error)) from None
        retention = home.retentions.of(domain)
        if retention is not record.retention:
            raise InvalidRecord(f"domain: the channels of {domain} are in {retention.topic(home.topics)}")
        right = partition_of(domain, group, home.partitions)
    if record.value is None:
        raise InvalidRecord("payload: is null; a message without a payload has an empty one")
    check_message(record.value)
    if isinstance(headers, str):
        raise InvalidRecord(headers)
    assert key is not None
    if key.endswith(_DEAD_LETTERS) and not headers.letter:
        raise InvalidRecord("channel: takes dead letters, which matchers alone send")
    if right != home.partition and headers.moved is not None:
        raise InvalidRecord(f"key: belongs to partition {right} and was moved once already")
    message = ChannelMessage(
        key.decode(), record.offset, record.value, headers.id, headers.source or "", record.timestamp_ms,
        headers.expires_at, headers.to, properties=headers.properties, order_key=headers.key,
    )  # fmt: skip
    return message, right
