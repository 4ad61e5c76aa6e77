"""The client's durable state as JSON.

    {"format": 1, "domain": ..., "group": ..., "client": ...,
     "epoch": 7 or null, "cursor": 1234 or null,
     "wanted": ["camera-config"], "pending": {"camera-config": "register"},
     "applied": {"camera-config": [incarnation, version]},
     "newest": {"camera-config": {"payload": text, "deleted": true}},    if there is one; of the version in "applied"
     "check": CRC-32 of the JSON of all the other fields}

A document with a query has format 2, and before the check the fields of `stored_queries`. One with a channel has
format 3, the fields of queries if there are any, and those of `stored_channels`. With a payload that is any bytes the
format is 4, the payload is `payload_base64` in its entry, and the fields of queries and channels are there if there are
any. One with a share has format 6, the fields of `stored_shares`, and all others if there are any.

The check is there because worn-out flash flips bits: a damaged cursor that still parses would lose notifications
without anybody noticing. A file without a check is accepted unchecked.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from coldnotify_schemas.protocol import (
    STATE_FORMAT,
    STATE_FORMAT_WITH_BYTES,
    STATE_FORMAT_WITH_CHANNELS,
    STATE_FORMAT_WITH_GROUPS,
    STATE_FORMAT_WITH_QUERIES,
    STATE_FORMAT_WITH_SHARES,
)

from coldnotify._core.delivery.floors import Floor
from coldnotify._core.delivery.membership import KeptQuery
from coldnotify._core.delivery.newest import KeptPayload
from coldnotify._core.document.stored_channels import decode_channels, encode_channels
from coldnotify._core.document.stored_fields import (
    U64_MAX,
    Fields,
    checked_object,
    is_number,
    number_of,
    operations_of,
    table,
)
from coldnotify._core.document.stored_queries import decode_queries, encode_queries
from coldnotify._core.document.stored_shares import decode_shares, encode_shares
from coldnotify._core.interests.interests import ChannelInterest, Interest, QueryInterest, ShareInterest
from coldnotify._core.interests.registrations import OperationKind
from coldnotify._core.shares.share_member import KeptShare
from coldnotify._core.streams.feed import KeptChannel
from coldnotify.errors import StateDamaged, StateMismatch


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """The identity of this client."""

    domain: str
    group: str
    client: str


@dataclass(frozen=True, kw_only=True)
class Document:
    """The state that must survive a power cut."""

    identity: ClientIdentity
    wanted: frozenset[str] = frozenset()
    pending: Mapping[str, OperationKind] = field(default_factory=dict)
    applied: Mapping[str, Floor] = field(default_factory=dict)
    newest: Mapping[str, KeptPayload] = field(default_factory=dict)
    """The payloads kept for the versions in `applied`."""
    queries: Mapping[str, KeptQuery] = field(default_factory=dict)
    """The queries in the wanted set, by text."""
    pending_queries: Mapping[str, OperationKind] = field(default_factory=dict)
    """The same as `pending`, by text."""
    epoch: int | None = None
    cursor: int | None = None
    channels: Mapping[ChannelInterest, KeptChannel] = field(default_factory=dict)
    """The channels in the wanted set."""
    pending_channels: Mapping[ChannelInterest, OperationKind] = field(default_factory=dict)
    channels_epoch: int | None = None
    channels_cursor: int | None = None
    shares: Mapping[ShareInterest, KeptShare] = field(default_factory=dict)
    """The shares in the wanted set."""
    pending_shares: Mapping[ShareInterest, OperationKind] = field(default_factory=dict)
    settled: bool = False
    """The service knows that nothing is unsettled (`unsettled`)."""

    @property
    def operations(self) -> dict[Interest, OperationKind]:
        """All that is pending."""
        operations: dict[Interest, OperationKind] = {
            QueryInterest(text): kind for text, kind in self.pending_queries.items()
        }
        channels: dict[Interest, OperationKind] = dict(self.pending_channels.items())
        names: dict[Interest, OperationKind] = dict(self.pending.items())
        shares: dict[Interest, OperationKind] = dict(self.pending_shares.items())
        return operations | channels | shares | names

    @property
    def floors(self) -> dict[str, Floor]:
        """Returns the floors of the objects that are wanted by name, or are members."""
        members = (one.members | (one.answer or frozenset()) for one in self.queries.values())
        wanted = self.wanted.union(*members)
        return {name: floor for name, floor in self.applied.items() if name in wanted}


def encode(document: Document) -> bytes:
    """The document as JSON, one line."""
    has_queries = bool(document.queries or document.pending_queries)
    has_channels = bool(document.channels or document.pending_channels)
    has_bytes = any(kept.raw for kept in document.newest.values())
    with_queries = STATE_FORMAT_WITH_QUERIES if has_queries else STATE_FORMAT
    with_channels = STATE_FORMAT_WITH_CHANNELS if has_channels else with_queries
    has_shares = bool(document.shares or document.pending_shares)
    with_bytes = STATE_FORMAT_WITH_BYTES if has_bytes else with_channels
    fields: Fields = {
        "format": STATE_FORMAT_WITH_SHARES if has_shares else with_bytes,
        "domain": document.identity.domain,
        "group": document.identity.group,
        "client": document.identity.client,
        "epoch": document.epoch,
        "cursor": document.cursor,
        "wanted": sorted(document.wanted),
        "pending": {name: kind.value for name, kind in document.pending.items()},
        "applied": {name: list(floor) for name, floor in document.applied.items()},
    }
    if document.settled:
        fields["settled"] = True
    if document.newest:
        fields["newest"] = {name: _of_payload(kept) for name, kept in document.newest.items()}
    if has_queries:
        fields |= encode_queries(document.queries, document.pending_queries)
    if has_channels:
        fields |= encode_channels(
            document.channels, document.pending_channels, document.channels_epoch, document.channels_cursor
        )
    if has_shares:
        fields |= encode_shares(document.shares, document.pending_shares)
    fields["check"] = _check(fields)
    return _dump(fields) + b"\n"


def decode(data: bytes, identity: ClientIdentity) -> Document:
    """The document that `data` is, of this client. Raises StateDamaged, StateMismatch."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StateDamaged(f"is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise StateDamaged("is not a JSON object")
    if fields.get("format") == STATE_FORMAT_WITH_GROUPS:
        raise StateMismatch("format: is of a client of several groups (NotifyGroups)")
    if isinstance(fields.get("format"), int) and fields["format"] > STATE_FORMAT_WITH_SHARES:
        raise StateMismatch(f"format: is {fields['format']}, this library reads {STATE_FORMAT_WITH_SHARES}")
    check = fields.pop("check", None)
    if check is not None and check != _check(fields):
        raise StateDamaged("check: does not match the rest")
    document = _document(fields)
    if document.identity != identity:
        ours, theirs = ("/".join((i.domain, i.group, i.client)) for i in (identity, document.identity))
        raise StateMismatch(f"belongs to {theirs}, not to {ours}")
    return document


def _document(fields: Fields) -> Document:
    any_fields = (STATE_FORMAT_WITH_BYTES, STATE_FORMAT_WITH_SHARES)
    formats = (STATE_FORMAT, STATE_FORMAT_WITH_QUERIES, STATE_FORMAT_WITH_CHANNELS, *any_fields)
    if fields.get("format") not in formats or isinstance(fields["format"], bool):
        raise StateDamaged("format: is missing or unknown")
    identity = ClientIdentity(*(_text(fields, name) for name in ("domain", "group", "client")))
    epoch, cursor = number_of(fields, "epoch", (1 << 32) - 1), number_of(fields, "cursor", U64_MAX)
    if cursor is not None and epoch is None:
        raise StateDamaged("cursor: given without an epoch")
    wanted = fields.get("wanted")
    if not isinstance(wanted, list):
        raise StateDamaged("wanted: is not a list")
    names = frozenset(checked_object("wanted", name) for name in wanted)
    pending = operations_of("pending", table(fields, "pending"), names, "wanted")
    queries: dict[str, KeptQuery] = {}
    pending_queries: dict[str, OperationKind] = {}
    with_bytes = fields["format"] in any_fields
    with_channels = fields["format"] == STATE_FORMAT_WITH_CHANNELS or (with_bytes and "channels" in fields)
    if fields["format"] == STATE_FORMAT_WITH_QUERIES or ((with_channels or with_bytes) and "queries" in fields):
        queries, pending_queries = decode_queries(fields)
    applied: dict[str, tuple[int, int]] = {}
    for name, floor in table(fields, "applied"):
        if not (isinstance(floor, list) and len(floor) == 2 and all(is_number(n, U64_MAX) for n in floor)):
            raise StateDamaged(f"applied: {name!r} has no [incarnation, version]")
        applied[name] = (floor[0], floor[1])
    newest = table(fields, "newest") if "newest" in fields else ()
    settled = fields.get("settled", False)
    if not isinstance(settled, bool):
        raise StateDamaged("settled: is not true or false")
    return Document(
        identity=identity,
        wanted=names,
        pending=pending,
        applied=applied,
        newest={name: _kept_payload(entry) for name, entry in newest},
        queries=queries,
        pending_queries=pending_queries,
        epoch=epoch,
        cursor=cursor,
        settled=settled,
        **(decode_channels(fields) if with_channels else {}),
        **(decode_shares(fields) if fields["format"] == STATE_FORMAT_WITH_SHARES else {}),
    )


def _of_payload(kept: KeptPayload) -> dict[str, object]:
    """Returns an object's entry; fields with default values are left out."""
    entry: dict[str, object] = {"payload_base64" if kept.raw else "payload": kept.payload} if kept.payload else {}
    return entry | {"deleted": True} if kept.deleted else entry


def _kept_payload(entry: object) -> KeptPayload:
    if not isinstance(entry, dict):
        raise StateDamaged("newest: has an entry that is not an object")
    raw = "payload_base64" in entry
    payload, deleted = entry.get("payload_base64" if raw else "payload", ""), entry.get("deleted", False)
    if not isinstance(payload, str) or not isinstance(deleted, bool):
        raise StateDamaged("newest: payload is not a text, or deleted is not true or false")
    if raw:
        try:
            base64.b64decode(payload, validate=True)
        except ValueError:
            raise StateDamaged("newest: payload_base64 is not base64") from None
    return KeptPayload(payload, deleted, raw)


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise StateDamaged(f"{name}: is not a text")
    return value


def _check(fields: Fields) -> int:
    return zlib.crc32(_dump(fields))


def _dump(fields: Fields) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
