"""Parses inbox records, and checks each number and name before the core uses it.

A writer of the topic may write anything. An unreadable record is set aside, and the next one is read.
"""

from dataclasses import dataclass

from coldnotify_schemas.descriptions import DESCRIPTION_BYTES_MAX
from coldnotify_schemas.internal_pb2 import Entry, FanOut, Inbox, Item, Newest, Page
from coldnotify_schemas.internal_protocol import FORMAT
from coldnotify_schemas.matcher_state import generation_max
from coldnotify_schemas.mqtt.kept_properties import check_kept
from coldnotify_schemas.names import InvalidName, check_object
from coldnotify_schemas.protocol import MESSAGE_BYTES_MAX, MESSAGE_ID_BYTES_MAX
from coldnotify_schemas.records import LARGEST_PAYLOAD_BYTES, VERSION_MAX
from coldnotify_schemas.traceparent import is_traceparent
from google.protobuf.message import DecodeError

OFFSET_MAX = (1 << 63) - 1
"""Kafka's offsets are signed 64-bit integers."""
CODE_MAX = 127
"""Highest close code: twice the number of codes, and low enough for a counter each."""
REASON_CHARS_MAX = 1000
"""Longest reason for a client."""


class UnreadableInbox(ValueError):
    """An inbox record that no matcher wrote. The message names the field and its fault."""


@dataclass(frozen=True, slots=True)
class Aside:
    """An unreadable record."""

    value: bytes
    inbox: int
    offset: int | None
    """Offset of the record; None: no longer known."""
    reason: str


def parse_inbox(value: bytes, now_ms: int) -> Inbox:
    """Parses a record, and checks all that can be checked without its sessions. Raises UnreadableInbox."""
    try:
        inbox = Inbox.FromString(value)
    except DecodeError:
        raise UnreadableInbox("inbox: not a message of internal.proto") from None
    if inbox.format != FORMAT:
        raise UnreadableInbox(f"format: is {inbox.format}; this release knows {FORMAT}")
    if inbox.generation > generation_max(now_ms):
        # If the gateway accepted it, all records of the real matcher would look old.
        raise UnreadableInbox(f"generation: {inbox.generation} takeovers cannot have been")
    for item in inbox.items:
        _check_item(item)
    return inbox


def _check_item(item: Item) -> None:
    match item.WhichOneof("item"):
        case "fan_out":
            _check_newest(item.fan_out.newest)
            _check_traceparent(item.fan_out)
        case "page":
            _check_page(item.page)
        case "answered":
            for newest in item.answered.newest:
                _check_newest(newest)
        case "beat":
            _check_offset("complete", item.beat.complete)
            for stream in item.beat.streams:
                _check_offset("streams", stream.complete)
        case "stream_page":
            _check_page(item.stream_page)
        case "stream_fan_out":
            _check_entry(item.stream_fan_out.entry)
            _check_traceparent(item.stream_fan_out)
        case "became":
            said = item.became.outcome
            if said.version > VERSION_MAX or said.incarnation > VERSION_MAX:
                raise UnreadableInbox("version or incarnation: is out of range")
            if len(said.reason) > REASON_CHARS_MAX:
                raise UnreadableInbox(f"reason: has {len(said.reason)} characters (at most {REASON_CHARS_MAX})")
        case "described":
            if len(item.described.reason) > REASON_CHARS_MAX:
                raise UnreadableInbox(f"reason: has {len(item.described.reason)} characters")
        case "closed":
            if item.closed.code > CODE_MAX:
                raise UnreadableInbox(f"code: is {item.closed.code} (at most {CODE_MAX})")
            if len(item.closed.reason) > REASON_CHARS_MAX:
                raise UnreadableInbox(f"reason: has {len(item.closed.reason)} characters (at most {REASON_CHARS_MAX})")


def _check_page(page: Page) -> None:
    _check_offset("complete", page.complete)
    for stream in page.streams:
        _check_offset("streams", stream.complete)
    for newest in page.newest:
        _check_newest(newest)
    for entry in page.entries:
        _check_entry(entry)


def _check_traceparent(fan_out: FanOut) -> None:
    if fan_out.traceparent and not is_traceparent(fan_out.traceparent):
        raise UnreadableInbox("traceparent: not a W3C trace context")


def _check_newest(newest: Newest) -> None:
    try:
        check_object(newest.name)
    except InvalidName as error:
        raise UnreadableInbox(f"name: {error}") from None
    _check_offset("offset", newest.offset)
    if newest.behind > newest.offset + 1:
        raise UnreadableInbox(f"behind: is {newest.behind}, at offset {newest.offset}")
    if newest.version > VERSION_MAX or newest.incarnation > VERSION_MAX:
        raise UnreadableInbox("version or incarnation: is out of range")
    # Its matcher may have a higher limit than is set here: the whole record would be set aside.
    if len(newest.payload) > LARGEST_PAYLOAD_BYTES:
        size = len(newest.payload)
        raise UnreadableInbox(f"payload: has {size} bytes (at most {LARGEST_PAYLOAD_BYTES} are allowed)")
    if len(newest.description) > DESCRIPTION_BYTES_MAX:
        size = len(newest.description)
        raise UnreadableInbox(f"description: has {size} bytes (at most {DESCRIPTION_BYTES_MAX} are allowed)")
    _check_properties(newest.properties)


def _check_entry(entry: Entry) -> None:
    message, missed = entry.message, entry.missed
    _check_properties(entry.properties)
    if entry.HasField("missed"):
        _check_offset("before", missed.before)
        if missed.HasField("after") and missed.after >= missed.before:
            raise UnreadableInbox(f"after: is {missed.after}, before {missed.before}")
        return
    _check_offset("offset", message.offset)
    if message.back > message.offset + 1:
        raise UnreadableInbox(f"back: is {message.back}, at offset {message.offset}")
    if len(message.payload) > MESSAGE_BYTES_MAX:
        raise UnreadableInbox(f"payload: has {len(message.payload)} bytes (at most {MESSAGE_BYTES_MAX} are allowed)")
    if len(message.id.encode()) > MESSAGE_ID_BYTES_MAX:
        raise UnreadableInbox(f"id: has {len(message.id.encode())} bytes (at most {MESSAGE_ID_BYTES_MAX} are allowed)")


def _check_properties(encoded: bytes) -> None:
    if encoded:
        try:
            check_kept(encoded)
        except ValueError as error:
            raise UnreadableInbox(f"properties: {error}") from None


def _check_offset(field: str, offset: int) -> None:
    if offset > OFFSET_MAX:
        raise UnreadableInbox(f"{field}: is {offset} (at most {OFFSET_MAX})")
