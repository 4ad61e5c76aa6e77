"""The client's durable state as JSON.

    {"format": 1, "domain": ..., "group": ..., "client": ...,
     "epoch": 7 or null, "cursor": 1234 or null,
     "wanted": ["camera-config"], "pending": {"camera-config": "register"},
     "applied": {"camera-config": [incarnation, version]},
     "newest": {"camera-config": {"payload": text, "deleted": true}},    if there is one; of the version in "applied"
     "check": CRC-32 of the JSON of all the other fields}

A document with a query has format 2, and these fields besides, before the check:

     "queries": {text: {"members": [...],                    members told, once `telling` is told
                        "telling": {"added": [...], "removed": [...]},
                        "followed": true, "dropped": true, "entering": [...],
                        "answer": {"members": [...], "reached": name, "reached_at": offset},
                        "descriptions": {name: JSON as text, "" for none}}},    if they are requested; as told
     "pending_queries": {text: "register"}

A document with a channel has format 3, the fields of queries if there are any, and these, before the check:

     "channels_epoch": 7 or null, "channels_cursor": 1234 or null,
     "channels": {text: {"since": "oldest", ...             until the service has sent the position
                         "position": 1200 or null,          while pending: everything up to there is known
                         "told": 1210, "lost": true}},
     "pending_channels": {text: "register"}

The check is there because worn-out flash flips bits: a damaged cursor that still parses would lose notifications
without anybody noticing. A file without a check is accepted unchecked.
"""

import json
import zlib
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from coldnotify_schemas.interests import check_query
from coldnotify_schemas.names import InvalidName, check_object
from coldnotify_schemas.protocol import STATE_FORMAT, STATE_FORMAT_WITH_CHANNELS, STATE_FORMAT_WITH_QUERIES

from coldnotify._core.delivery.membership import Floor, KeptQuery, MembersChange, Reached
from coldnotify._core.delivery.newest import KeptPayload
from coldnotify._core.interests.interests import ChannelInterest, Interest, QueryInterest, channel_from
from coldnotify._core.interests.registrations import OperationKind
from coldnotify._core.interests.since import since_from
from coldnotify._core.session.session import ClientIdentity
from coldnotify._core.streams.feed import BEGINNING, KeptChannel
from coldnotify.errors import StateDamaged, StateMismatch

_U64 = (1 << 64) - 1


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
        return operations | channels | names

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
    with_queries = STATE_FORMAT_WITH_QUERIES if has_queries else STATE_FORMAT
    fields: dict[str, Any] = {
        "format": STATE_FORMAT_WITH_CHANNELS if has_channels else with_queries,
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
        fields["queries"] = {text: _of_kept(document.queries[text]) for text in sorted(document.queries)}
        fields["pending_queries"] = {text: kind.value for text, kind in document.pending_queries.items()}
    if has_channels:
        fields["channels_epoch"] = document.channels_epoch
        fields["channels_cursor"] = document.channels_cursor
        fields["channels"] = {
            channel.text: _of_channel(document.channels[channel]) for channel in sorted(document.channels)
        }
        fields["pending_channels"] = {channel.text: kind.value for channel, kind in document.pending_channels.items()}
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
    if isinstance(fields.get("format"), int) and fields["format"] > STATE_FORMAT_WITH_CHANNELS:
        raise StateMismatch(f"format: is {fields['format']}, this library reads {STATE_FORMAT_WITH_CHANNELS}")
    check = fields.pop("check", None)
    if check is not None and check != _check(fields):
        raise StateDamaged("check: does not fit the rest")
    try:
        document = _document(fields)
    except _Wrong as error:
        raise StateDamaged(str(error)) from None
    if document.identity != identity:
        ours, theirs = ("/".join((i.domain, i.group, i.client)) for i in (identity, document.identity))
        raise StateMismatch(f"belongs to {theirs}, not to {ours}")
    return document


class _Wrong(Exception):
    pass


def _document(fields: dict[str, Any]) -> Document:
    formats = (STATE_FORMAT, STATE_FORMAT_WITH_QUERIES, STATE_FORMAT_WITH_CHANNELS)
    if fields.get("format") not in formats or isinstance(fields["format"], bool):
        raise _Wrong("format: is missing or unknown")
    identity = ClientIdentity(*(_text(fields, name) for name in ("domain", "group", "client")))
    epoch, cursor = _number(fields, "epoch", (1 << 32) - 1), _number(fields, "cursor", _U64)
    if cursor is not None and epoch is None:
        raise _Wrong("cursor: given without an epoch")
    wanted = fields.get("wanted")
    if not isinstance(wanted, list):
        raise _Wrong("wanted: is not a list")
    names = frozenset(_object("wanted", name) for name in wanted)
    pending = _pending("pending", _table(fields, "pending"), names, "wanted")
    queries: dict[str, KeptQuery] = {}
    pending_queries: dict[str, OperationKind] = {}
    with_channels = fields["format"] == STATE_FORMAT_WITH_CHANNELS
    if fields["format"] == STATE_FORMAT_WITH_QUERIES or (with_channels and "queries" in fields):
        queries = {text: _kept(entry) for text, entry in _table(fields, "queries", check_query)}
        operations = _table(fields, "pending_queries", check_query)
        pending_queries = _pending("pending_queries", operations, queries, "queries")
    applied: dict[str, tuple[int, int]] = {}
    for name, floor in _table(fields, "applied"):
        if not (isinstance(floor, list) and len(floor) == 2 and all(_is_number(n, _U64) for n in floor)):
            raise _Wrong(f"applied: {name!r} has no [incarnation, version]")
        applied[name] = (floor[0], floor[1])
    newest = _table(fields, "newest") if "newest" in fields else ()
    settled = fields.get("settled", False)
    if not isinstance(settled, bool):
        raise _Wrong("settled: is not true or false")
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
        **(_channels(fields) if with_channels else {}),
    )


def _of_payload(kept: KeptPayload) -> dict[str, object]:
    """Returns an object's entry; fields with default values are left out."""
    entry: dict[str, object] = {"payload": kept.payload} if kept.payload else {}
    return entry | {"deleted": True} if kept.deleted else entry


def _kept_payload(entry: object) -> KeptPayload:
    if not isinstance(entry, dict):
        raise _Wrong("newest: has an entry that is not an object")
    payload, deleted = entry.get("payload", ""), entry.get("deleted", False)
    if not isinstance(payload, str) or not isinstance(deleted, bool):
        raise _Wrong("newest: payload is not a text, or deleted is not true or false")
    return KeptPayload(payload, deleted)


def _channels(fields: dict[str, Any]) -> dict[str, Any]:
    """Parses the fields of channels."""
    epoch = _number(fields, "channels_epoch", (1 << 32) - 1)
    cursor = _number(fields, "channels_cursor", _U64)
    if cursor is not None and epoch is None:
        raise _Wrong("channels_cursor: given without an epoch")
    table = _table(fields, "channels", _channel_text)
    channels = {channel_from(text): _kept_channel(entry) for text, entry in table}
    texts = {text for text, _ in table}
    if len({channel.name for channel in channels}) < len(channels):
        raise _Wrong("channels: has one name twice")
    operations = _pending("pending_channels", _table(fields, "pending_channels", _channel_text), texts, "channels")
    pending = {channel_from(text): kind for text, kind in operations.items()}
    for channel, kept in channels.items():
        if channel not in pending and (cursor is None or kept.since is not None or kept.position is not None):
            raise _Wrong(f"channels: {channel.name!r} is behind the cursor, and not pending")
    return {
        "channels": channels, "pending_channels": pending, "channels_epoch": epoch, "channels_cursor": cursor
    }  # fmt: skip


def _channel_text(text: str) -> str:
    return channel_from(text).text


def _of_channel(kept: KeptChannel) -> dict[str, object]:
    """A channel's entry."""
    entry: dict[str, object] = {} if kept.since is None else dict(kept.since.parts)
    if kept.since is None and kept.position is not None:
        entry["position"] = None if kept.position == BEGINNING else kept.position
    if kept.told is not None:
        entry["told"] = kept.told
    if kept.lost:
        entry["lost"] = True
    return entry


def _kept_channel(entry: object) -> KeptChannel:
    if not isinstance(entry, dict):
        raise _Wrong("channels: has an entry that is not an object")
    lost = entry.get("lost", False)
    if not isinstance(lost, bool):
        raise _Wrong("channels: lost is not true or false")
    since = position = None
    if "since" in entry:
        try:
            since = since_from(entry)
        except ValueError as error:
            raise _Wrong(f"channels: {error}") from None
    elif "position" in entry:
        position = _number(entry, "position", _U64)
        position = BEGINNING if position is None else position
    return KeptChannel(since=since, position=position, told=_number(entry, "told", _U64), lost=lost)


def _pending(field_: str, table: list[tuple[str, Any]], wanted: Container[str], of: str) -> dict[str, OperationKind]:
    pending: dict[str, OperationKind] = {}
    for name, kind in table:
        if kind not in (OperationKind.REGISTER.value, OperationKind.UNREGISTER.value):
            raise _Wrong(f"{field_}: {kind!r} is not an operation")
        pending[name] = OperationKind(kind)
        if (pending[name] is OperationKind.REGISTER) != (name in wanted):
            raise _Wrong(f"{field_}: {name!r} contradicts {of}")
    return pending


def _of_kept(kept: KeptQuery) -> dict[str, object]:
    """Returns a query's entry; fields with default values are left out."""
    entry: dict[str, object] = {"members": sorted(kept.members)}
    if kept.telling is not None:
        entry["telling"] = {"added": sorted(kept.telling.added), "removed": sorted(kept.telling.removed)}
    if kept.followed:
        entry["followed"] = True
    if kept.dropped:
        entry["dropped"] = True
    if kept.entering:
        entry["entering"] = sorted(kept.entering)
    if kept.answer is not None and kept.reached is not None:
        entry["answer"] = {
            "members": sorted(kept.answer),
            "reached": kept.reached.name,
            "reached_at": kept.reached.offset,
        }
    if kept.descriptions is not None:
        entry["descriptions"] = {name: kept.descriptions[name].decode() for name in sorted(kept.descriptions)}
    return entry


def _kept(entry: object) -> KeptQuery:
    if not isinstance(entry, dict):
        raise _Wrong("queries: has an entry that is not an object")
    telling = answer = reached = None
    if "telling" in entry:
        told = _part(entry, "telling")
        telling = MembersChange(_names(told, "telling.added", "added"), _names(told, "telling.removed", "removed"))
    if "answer" in entry:
        came = _part(entry, "answer")
        answer = _names(came, "answer.members", "members")
        offset = came.get("reached_at")
        if offset is None or not _is_number(offset, _U64):
            raise _Wrong(f"queries: answer.reached_at is not a number from 0 to {_U64}")
        reached = Reached(_object("queries", came.get("reached")), offset)
    descriptions: dict[str, bytes] | None = None
    if "descriptions" in entry:
        texts = _part(entry, "descriptions")
        if not all(isinstance(text, str) for text in texts.values()):
            raise _Wrong("queries: descriptions has an entry that is not a text")
        descriptions = {_object("queries", name): text.encode() for name, text in texts.items()}
    flags = {}
    for name in ("followed", "dropped"):
        flags[name] = entry.get(name, False)
        if not isinstance(flags[name], bool):
            raise _Wrong(f"queries: {name} is not true or false")
    return KeptQuery(
        members=_names(entry, "members", "members"),
        telling=telling,
        entering=_names(entry, "entering", "entering") if "entering" in entry else frozenset(),
        answer=answer,
        reached=reached,
        descriptions=descriptions,
        **flags,
    )


def _part(entry: dict[str, Any], name: str) -> dict[str, Any]:
    part = entry[name]
    if not isinstance(part, dict):
        raise _Wrong(f"queries: {name} is not an object")
    return part


def _names(fields: dict[str, Any], what: str, name: str) -> frozenset[str]:
    names = fields.get(name)
    if not isinstance(names, list):
        raise _Wrong(f"queries: {what} is not a list")
    return frozenset(_object("queries", one) for one in names)


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _Wrong(f"{name}: is not a text")
    return value


def _number(fields: dict[str, Any], name: str, maximum: int) -> int | None:
    value = fields.get(name)
    if value is not None and not _is_number(value, maximum):
        raise _Wrong(f"{name}: is not a number from 0 to {maximum}")
    return value


def _table(fields: dict[str, Any], name: str, check: Callable[[str], str] = check_object) -> list[tuple[str, Any]]:
    value = fields.get(name)
    if not isinstance(value, dict):
        raise _Wrong(f"{name}: is not an object")
    return [(_object(name, key, check), entry) for key, entry in value.items()]


def _object(field_: str, name: object, check: Callable[[str], str] = check_object) -> str:
    try:
        return check(name if isinstance(name, str) else "")
    except InvalidName as error:
        raise _Wrong(f"{field_}: {error}") from None


def _is_number(value: object, maximum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= maximum


def _check(fields: dict[str, Any]) -> int:
    return zlib.crc32(_dump(fields))


def _dump(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
