"""Records of channels: the topic of a domain's channels, and a message's headers. The value is the payload itself."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from coldnotify_schemas.by_domain import ALL_OTHERS, entries_by_domain
from coldnotify_schemas.interests import check_attributes
from coldnotify_schemas.mqtt.kept_properties import kept_headers, read_kept
from coldnotify_schemas.names import InvalidName, check_name
from coldnotify_schemas.priority import HIGH_VALUE, PRIORITY_HEADER, priority_header
from coldnotify_schemas.protocol import MESSAGE_BYTES_MAX, MESSAGE_ID_BYTES_MAX, MESSAGE_KEY_BYTES_MAX
from coldnotify_schemas.records import MOVED_HEADER, VERSION_MAX, InvalidRecord
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.whole_numbers import whole_number

ID_HEADER = "id"
EXPIRES_HEADER = "expires_at"
"""Unix time in ms, as decimal digits: from then on the message is delivered to nobody."""
TO_HEADER = "to"
"""Attributes, joined by commas: the message is for subscriptions that have one of them."""
SOURCE_HEADER = "source"
"""The client that sent it."""
TIME_HEADER = "time"
"""The publisher's own time, Unix ms, as decimal digits."""
KEY_HEADER = "key"
"""Members of a share are handed messages with one key in their order."""
WHY_HEADER, OFFSET_HEADER = "why", "offset"
"""A dead letter says in these its reason, and the offset of the message that it was."""


class Retention(Enum):
    """How long a domain's channels are kept, which decides which of three topics they are in."""

    HOUR = "1h"
    DAY = "1d"
    MONTH = "30d"

    def topic(self, topics: TopicNames) -> str:
        """The topic that holds these channels."""
        return topics.channels[_PLACES[self]]


_PLACES = {retention: place for place, retention in enumerate(Retention)}


@dataclass(frozen=True, slots=True)
class Retentions:
    """The retention of each domain's channels."""

    by_domain: Mapping[str, Retention] = field(default_factory=dict)
    others: Retention = Retention.DAY

    def of(self, domain: str) -> Retention:
        """The domain's."""
        return self.by_domain.get(domain, self.others)

    @property
    def used(self) -> list[Retention]:
        """Those that some domain may have, shortest first."""
        found = {self.others, *self.by_domain.values()}
        return [retention for retention in Retention if retention in found]


def parse_retentions(text: str) -> Retentions:
    """ "domain=30d,other=1h,*=1d"; `*` is every other domain, 1d if it is not there. Raises ValueError."""
    found: dict[str, Retention] = {}
    for entry, domain, value in entries_by_domain(text, "retention"):
        try:
            found[domain] = Retention(value)
        except ValueError:
            raise ValueError(f"{entry!r}: unknown retention {value!r}, expected one of 1h, 1d, 30d") from None
    others = found.pop(ALL_OTHERS, Retention.DAY)
    return Retentions(found, others)


class MessageHeaders(NamedTuple):
    """The headers of a channel's record, parsed."""

    id: str = ""
    expires_at: int | None = None
    to: tuple[str, ...] = ()
    """Sorted."""
    high_priority: bool = False
    source: str | None = None
    time_ms: int | None = None
    moved: bytes | None = None
    """The record's place before its partition's owner moved it here."""
    properties: bytes = b""
    """Its properties for MQTT devices, encoded."""
    passed_over: int = 0
    """Headers of such properties that say nothing."""
    key: str = ""
    """Members of a share are handed messages with one key in their order; empty: it has none."""
    letter: bool = False
    """True if it says the offset and the reason of a dead letter: no other record may be in a channel of these."""


NO_HEADERS = MessageHeaders()


def message_headers(message: MessageHeaders) -> list[tuple[str, bytes]]:
    """Returns the record headers of a message."""
    headers = [] if not message.id else [(ID_HEADER, message.id.encode())]
    if message.expires_at is not None:
        headers.append((EXPIRES_HEADER, b"%d" % message.expires_at))
    if message.to:
        headers.append((TO_HEADER, ",".join(message.to).encode()))
    if message.high_priority:
        headers.append(priority_header())
    if message.source is not None:
        headers.append((SOURCE_HEADER, message.source.encode()))
    if message.time_ms is not None:
        headers.append((TIME_HEADER, b"%d" % message.time_ms))
    if message.key:
        headers.append((KEY_HEADER, message.key.encode()))
    if message.moved is not None:
        headers.append((MOVED_HEADER, message.moved))
    headers.extend(kept_headers(message.properties))
    return headers


def parse_message_headers(headers: Iterable[tuple[str, bytes | None]]) -> MessageHeaders:
    """Parses headers; the last of several with the same name counts. Raises InvalidRecord, which names the header."""
    all_said = list(headers)
    if not all_said:
        return NO_HEADERS
    said = {name: value or b"" for name, value in all_said}
    properties, passed_over = read_kept(all_said)
    source = said.get(SOURCE_HEADER)
    try:
        return MessageHeaders(
            id=check_id(_text(ID_HEADER, said.get(ID_HEADER, b""))),
            expires_at=_number(EXPIRES_HEADER, said.get(EXPIRES_HEADER)),
            to=tuple(check_attributes(TO_HEADER, filter(None, _text(TO_HEADER, said.get(TO_HEADER, b"")).split(",")))),
            high_priority=_is_high(said.get(PRIORITY_HEADER)),
            source=None if source is None else check_name(SOURCE_HEADER, _text(SOURCE_HEADER, source)),
            time_ms=_number(TIME_HEADER, said.get(TIME_HEADER)),
            moved=said.get(MOVED_HEADER),
            properties=properties,
            passed_over=passed_over,
            key=check_message_key(_text(KEY_HEADER, said.get(KEY_HEADER, b""))),
            letter=bool(said.get(WHY_HEADER)) and _is_of_letter(said),
        )
    except InvalidName as error:
        raise InvalidRecord(str(error)) from None


def check_id(id_: str) -> str:
    """A message's id, if it can be one. Raises InvalidRecord."""
    size = len(id_.encode(errors="replace"))
    if size > MESSAGE_ID_BYTES_MAX:
        raise InvalidRecord(f"id: has {size} bytes (at most {MESSAGE_ID_BYTES_MAX} are allowed)")
    return id_


def check_message_key(key: str) -> str:
    """A message's key, if it can be one. Raises InvalidRecord."""
    size = len(key.encode(errors="replace"))
    if size > MESSAGE_KEY_BYTES_MAX:
        raise InvalidRecord(f"key: has {size} bytes (at most {MESSAGE_KEY_BYTES_MAX} are allowed)")
    return key


def check_message(payload: bytes, bytes_max: int = MESSAGE_BYTES_MAX) -> bytes:
    """A message's payload, if it is not too large. Raises InvalidRecord."""
    if len(payload) > bytes_max:
        raise InvalidRecord(f"payload: has {len(payload)} bytes (at most {bytes_max} are allowed)")
    return payload


def _text(header: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InvalidRecord(f"{header}: is not UTF-8") from None


def _is_of_letter(said: Mapping[str, bytes]) -> bool:
    offset = said.get(OFFSET_HEADER, b"")
    return whole_number(offset) is not None and said.get(ID_HEADER, b"").endswith(b"/" + offset)


def _number(header: str, value: bytes | None) -> int | None:
    if value is None:
        return None
    number = whole_number(value, VERSION_MAX)
    if number is None:
        raise InvalidRecord(f"{header}: {value[:80]!r} is not Unix time in ms")
    return number


def _is_high(value: bytes | None) -> bool:
    if value is not None and value != HIGH_VALUE:
        raise InvalidRecord(f"{PRIORITY_HEADER}: {value[:80]!r} is not high")
    return value is not None
