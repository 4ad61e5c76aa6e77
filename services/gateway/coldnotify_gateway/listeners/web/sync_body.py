"""The JSON of requests to POST /v1/sync and of their answers. Pure.

The cursor is one text: the epoch, the offset and the digest of the registrations that it covers, and the mark of
channels if there are any. So a client keeps nothing else. A changed set voids its offset of objects: all requested
objects are sent again. Messages of channels that the client still requests are not repeated.
"""

import base64
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from coldnotify_common.http.json_answers import with_texts
from coldnotify_common.http.json_items import InvalidJson, ItemTooLong, JsonItems
from coldnotify_common.http.web import BadRequest
from coldnotify_common.played.agent import Agent, Found, PlayedDevice
from coldnotify_common.played.agent_channels import ChannelsMark, parse_mark
from coldnotify_common.played.agent_shares import WantedShare
from coldnotify_schemas.digest import object_digest
from coldnotify_schemas.interests import (
    channel_hash,
    channel_of,
    channel_text,
    check_query,
    expression_of,
    pattern_name,
)
from coldnotify_schemas.names import check_name, check_object
from coldnotify_schemas.protocol import CHANNEL_ATTRIBUTES_MAX, PATTERNS_MAX, QUERIES_MAX, REGISTRATIONS_MAX
from coldnotify_schemas.share_names import HELD_MAX
from coldnotify_schemas.whole_numbers import whole_number
from coldnotify_schemas.wire_pb2 import (
    INTEREST_CHANNEL,
    INTEREST_PATTERN,
    Interest,
    Message,
    Missed,
    Notification,
    Registered,
)

from coldnotify_gateway.listeners.web.sync_shares import REASONS, SHARES_MAX, SaidShare, parse_shares, told_of
from coldnotify_gateway.listeners.web.sync_since import SHOWN_CHARS, since_wanted

_SPACE_FOR_BREAKS = bytes.maketrans(b"\r\n", b"  ")
_CURSOR = re.compile(r"([0-9a-f]{1,8})\.([0-9]{0,19})\.([0-9a-f]{1,16})(?:\.(.{1,40000}))?")
CHANNELS_MAX = 1000
"""Most channels of one request, because its cursor names them."""
_MOST = {
    "registrations": REGISTRATIONS_MAX, "queries": QUERIES_MAX, "channels": CHANNELS_MAX, "patterns": PATTERNS_MAX,
    "shares": SHARES_MAX,
}  # fmt: skip
_WITH_SINCE = ("channels", "patterns")
_COMMAS_OF_CHANNEL_MAX = 2 + CHANNEL_ATTRIBUTES_MAX
_COMMAS_OF_SHARES_MAX = SHARES_MAX * (8 + CHANNEL_ATTRIBUTES_MAX) + 3 * HELD_MAX
_COMMAS_MAX = (
    REGISTRATIONS_MAX + QUERIES_MAX + (CHANNELS_MAX + PATTERNS_MAX) * _COMMAS_OF_CHANNEL_MAX + _COMMAS_OF_SHARES_MAX + 8
)
"""Most commas of a body that is decoded at once: it holds no more than a request may, and decoding it takes two
milliseconds."""
_BETWEEN_TEXTS = (b'","', b'", "')
"""Separators of texts. Each text in JSON ends with at most one of them, or contains one at its end, after an escaped
quote."""
_TEXTS_MAX = (
    REGISTRATIONS_MAX
    + QUERIES_MAX
    + (CHANNELS_MAX + PATTERNS_MAX) * (4 + CHANNEL_ATTRIBUTES_MAX)
    + SHARES_MAX * (12 + CHANNEL_ATTRIBUTES_MAX)
    + 4 * HELD_MAX
    + 16
)
"""Most texts of a request. A body with more than twice so many separators is certainly too large, so it need not be
parsed."""
SYNC_ANSWER_BYTES_MAX = 4 * 1024 * 1024
"""Size at which an answer ends and announces more, because a device holds it until it is complete."""
SYNC_ANSWER_BYTES_MIN = 1024
"""Lowest size that a device may ask for. Below it, an answer would hold little more than its cursor."""
_ITEM_BYTES_MAX = 128 * 1024
"""Longest item: a share with as many leases as one may have. A cursor has half of that."""
_TEXTS_MADE_MAX = 64
"""More fan-outs than that are rarely on their way to one device at a time."""
_texts_made: dict[int, tuple[Found, bytes]] = {}
"""The latest shared values by their identity, which no other value takes while they are here, each with its text."""


class _Since(msgspec.Struct, forbid_unknown_fields=True):
    since: str | int = "now"
    attributes: list[str] = []


Since = str | int | _Since
"""Start of a channel: now, oldest, newest, a time in RFC 3339, or an offset. With attributes: {"since": ...,
"attributes": [...]}."""


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    domain: str
    group: str
    client: str
    registrations: list[str]
    queries: list[str] = []
    channels: dict[str, Since] = {}
    patterns: dict[str, Since] = {}
    shares: list[SaidShare] = []
    cursor: str | None = None
    wait_s: float = 0
    bytes_max: int | None = None


@dataclass(frozen=True)
class SyncRequest:
    """A request."""

    device: PlayedDevice
    wait_s: float
    """The seconds for which the answer may be held back."""
    bytes_max: int | None
    """Most bytes of the answer's notifications; None: only channels are divided, at SYNC_ANSWER_BYTES_MAX."""


def parse(body: bytes, *, wait_s_max: float) -> Iterator[SyncRequest | None]:
    """Parses a request. Yields None for each step of the work, then the request. Counts the names before it checks any
    of them. Raises BadRequest and InvalidName.
    """
    if sum(map(body.count, _BETWEEN_TEXTS)) > 2 * _TEXTS_MAX:
        taken = f"{REGISTRATIONS_MAX}, {QUERIES_MAX} and {CHANNELS_MAX}"
        raise BadRequest("registrations", f"with queries and channels they are more than the {taken} that are taken")
    if body.count(b",") > _COMMAS_MAX:
        yield from _count(body)  # a longer body may still be valid, with commas in its names
    try:
        said = msgspec.json.decode(body, type=_Body)
    except msgspec.ValidationError as error:
        words, _, path = str(error).partition(" - at `$.")
        raise BadRequest(path.rstrip("`") or "body", words) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest("body", f"is no JSON: {error}") from None
    for field, most in _MOST.items():
        if len(getattr(said, field)) > most:
            raise _too_many(field, most)
    yield None
    for field in ("domain", "group", "client"):
        check_name(field, getattr(said, field))
    if not 0 <= said.wait_s <= wait_s_max:
        raise BadRequest("wait_s", f"{said.wait_s:g} is not from 0 to {wait_s_max:g}")
    bytes_max = said.bytes_max
    if bytes_max is not None and not SYNC_ANSWER_BYTES_MIN <= bytes_max <= SYNC_ANSWER_BYTES_MAX:
        raise BadRequest("bytes_max", f"{bytes_max} is not from {SYNC_ANSWER_BYTES_MIN} to {SYNC_ANSWER_BYTES_MAX}")
    for name in said.registrations:
        object_digest(check_object(name))  # caches the digest for the sum of all
        yield None
    registrations, queries = list(dict.fromkeys(said.registrations)), list(dict.fromkeys(said.queries))
    for text in queries:
        check_query(text)
    channels: dict[int, Interest] = {}
    for name, since in said.channels.items():
        hash_, channels[hash_] = _channel(name, since)
        yield None
    for expression, since in said.patterns.items():
        hash_, channels[hash_] = _channel(pattern_name(expression), since)
        yield None
    shares: dict[int, WantedShare] = {}
    for hash_, share in parse_shares(said.shares):
        shares[hash_] = share
        yield None
    device = PlayedDevice(
        said.domain, said.group, said.client, registrations, queries=queries, channels=channels, shares=shares
    )
    epoch, cursor, mark = _parse_cursor(said.cursor, Agent(device).digest)
    device = replace(device, epoch=epoch, cursor=cursor, mark=mark if channels else None)
    yield SyncRequest(device, said.wait_s, said.bytes_max)


def _count(body: bytes) -> Iterator[None]:
    """Counts the items of each field in steps. Raises BadRequest if a field has too many."""
    text = JsonItems(body, _ITEM_BYTES_MAX)
    field = "body"
    try:
        for field in text.names():
            most = _MOST.get(field)
            if most is None:
                text.value()
                continue
            items = text.members() if field in _WITH_SINCE else ((raw, raw) for raw in text.elements())
            for number, (_, raw) in enumerate(items, 1):
                if number > most:
                    raise _too_many(field, most)
                if field in _WITH_SINCE and bytes(raw).count(b",") > _COMMAS_OF_CHANNEL_MAX:
                    raise BadRequest("attributes", f"at most {CHANNEL_ATTRIBUTES_MAX} are taken")
                yield None
    except InvalidJson as error:
        raise BadRequest("body", f"is no JSON: {error}") from None
    except ItemTooLong as error:
        raise BadRequest(field, str(error)) from None


def _too_many(field: str, most: int) -> BadRequest:
    return BadRequest(field, f"more than {most} of them, at most {most} are taken")


def _channel(name: str, said: Since) -> tuple[int, Interest]:
    since, attributes = (said.since, said.attributes) if isinstance(said, _Since) else (said, [])
    return channel_wanted(name, since, attributes)


def channel_wanted(name: str, since: str | int, attributes: Iterable[str]) -> tuple[int, Interest]:
    """Returns the hash of a channel's registration, or of a pattern's (`pattern_name`), and its Interest. Raises
    BadRequest and InvalidName."""
    text = channel_text(name, attributes)
    expression = expression_of(name)
    kind = INTEREST_CHANNEL if expression is None else INTEREST_PATTERN
    channel = Interest(kind=kind, text=expression or name, attributes=channel_of(text)[1])
    since_wanted(channel, since)
    return channel_hash(text), channel


def _parse_cursor(text: str | None, wanted: int) -> tuple[int | None, int | None, ChannelsMark | None]:
    """Returns the cursor's epoch, offset and mark. `wanted`: the digest of the currently requested set."""
    if not text:
        return None, None, None
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise BadRequest("cursor", f"{text[:SHOWN_CHARS]!r} is none of the cursors that were told")
    epoch, offset_text, of_set, of_channels = match.groups()
    mark = None if of_channels is None else parse_mark(of_channels)
    offset = whole_number(offset_text)
    if (of_channels is not None and mark is None) or (offset_text and offset is None):
        raise BadRequest("cursor", f"{text[:SHOWN_CHARS]!r} is none of the cursors that were told")
    if int(of_set, 16) != wanted:
        return int(epoch, 16), None, mark  # the offset does not cover objects that have been added since
    return int(epoch, 16), offset, mark


def cursor_of(agent: Agent) -> str | None:
    """Returns the cursor for the client's next request; None: the service has not sent its epoch."""
    if agent.epoch is None:
        return None
    offset = "" if agent.cursor is None else agent.cursor
    mark = agent.channels.mark() if agent.device.channels else None
    return f"{agent.epoch:x}.{offset}.{agent.digest:x}" + ("" if mark is None else f".{mark}")


def show(found: Found, agent: Agent) -> bytes:
    """Returns as JSON: an object's newest version, the queries whose answers begin or end here, or a channel's message.

    "version" is null if the object was never published, and is absent if the notification does not mention it. The
    sessions of a fan-out share a value, so its text is made once, unless it names queries, which are the session's.
    """
    if isinstance(found, Registered) or (isinstance(found, Notification) and (found.entered or found.left)):
        return _text(found, agent)
    kept = _texts_made.get(id(found))
    if kept is None:
        if len(_texts_made) == _TEXTS_MADE_MAX:
            _texts_made.clear()
        kept = _texts_made[id(found)] = found, _text(found, agent)
    return kept[1]


def _text(found: Found, agent: Agent) -> bytes:
    match found:
        case Registered():
            shown = _ends(found, agent)
        case Message():
            shown = _message(found, agent)
        case Missed():
            shown = _missed(found, agent)
        case _:
            shown = _newest(found, agent)
    return msgspec.json.encode(with_texts(shown))


def _message(message: Message, agent: Agent) -> dict[str, Any]:
    return _which(message, agent) | told_of(message)


def _missed(missed: Missed, agent: Agent) -> dict[str, Any]:
    after = missed.after if missed.HasField("after") else None
    reason = REASONS.get(missed.reason, "unknown")
    return _which(missed, agent) | {"missed": {"after": after, "before": missed.before, "reason": reason}}


def _which(said: Message | Missed, agent: Agent) -> dict[str, str]:
    """Returns the channel; of a pattern its expression, and a message's channel."""
    wanted = agent.device.channels[said.channel]
    if wanted.kind != INTEREST_PATTERN:
        return {"channel": wanted.text}
    channel = {} if isinstance(said, Missed) else {"channel": said.name}
    return {**channel, "pattern": wanted.text}


def _ends(registered: Registered, agent: Agent) -> dict[str, Any]:
    ends = {"begun": _texts(registered.begun, agent), "answered": _texts(registered.answered, agent)}
    return {what: texts for what, texts in ends.items() if texts}


def _texts(hashes: Iterable[int], agent: Agent) -> list[str]:
    return [agent.queries[hash_] for hash_ in hashes if hash_ in agent.queries]


def _newest(notification: Notification, agent: Agent) -> dict[str, Any]:
    shown: dict[str, Any] = {"object": notification.name}
    if notification.HasField("version"):
        shown["version"] = notification.version
    elif not notification.left:
        shown["version"] = None
    if notification.incarnation:
        shown["incarnation"] = notification.incarnation
    if notification.raw:
        shown["payload_base64"] = base64.b64encode(notification.payload).decode()
    elif notification.payload:
        shown["payload"] = msgspec.Raw(notification.payload)
    if notification.deleted:
        shown["deleted"] = True
    if notification.HasField("description"):
        shown["description"] = msgspec.Raw(notification.description or b"null")
    for what, hashes in (("entered", notification.entered), ("left", notification.left)):
        texts = _texts(hashes, agent)
        if texts:
            shown[what] = texts
    return shown


def show_line(found: Found, agent: Agent) -> bytes:
    """Returns the same as `show`, on one line."""
    # A payload is as it was published. JSON has line breaks between tokens only: in its strings they are escaped.
    return show(found, agent).translate(_SPACE_FOR_BREAKS)


def show_end(agent: Agent, held_s: int, age_s: int | None, *, more: bool) -> bytes:
    """Returns the fields of the answer's object that follow the notifications, without its braces."""
    fields: dict[str, Any] = {"cursor": cursor_of(agent), "in_sync": bool(agent.was_in_sync)}
    fields |= {"held_s": held_s, "age_s": age_s}
    if more:
        fields["more"] = True
    if agent.waits:
        fields["waiting"] = True
    if agent.refused:
        fields["refused"] = agent.refused
    return msgspec.json.encode(fields)[1:-1]
