"""Records of the state topics as they are read back: their keys and contents are checked.

Every number has bounds here: otherwise all successors would believe a number that no matcher can have reached.
"""

from typing import TypeVar

import msgspec
from coldnotify_schemas.channels import Retention
from coldnotify_schemas.filters import InvalidFilter, check_filter
from coldnotify_schemas.interests import (
    BETWEEN,
    Kind,
    channel_of,
    channel_text,
    check_attributes,
    check_query,
    share_of,
    share_text,
)
from coldnotify_schemas.matcher_state import (
    BUCKET_OBJECTS_MAX,
    CHANNEL_BUCKETS,
    EXPIRY_NEVER,
    FORMAT,
    FORMAT_WITH_FILTERS,
    FORMAT_WITH_SHARES,
    GENERATION_KEY,
    WILL_BUCKET,
    ChannelsRecord,
    GenerationRecord,
    RegistrationsRecord,
    SessionRecord,
    StoredInterest,
    StoredWill,
    WillRecord,
    generation_max,
)
from coldnotify_schemas.mqtt.kept_properties import check_kept
from coldnotify_schemas.mqtt.packets import PACKET_ID_MAX
from coldnotify_schemas.names import InvalidName, check_name, check_object
from coldnotify_schemas.protocol import (
    OBJECTS_PER_FRAME_MAX,
    PUBLISHES_UNANSWERED_MAX,
    REGISTRATIONS_MAX,
    UNSETTLED_ERROR_BYTES_MAX,
)
from coldnotify_schemas.records import LARGEST_PAYLOAD_BYTES, VERSION_MAX
from coldnotify_schemas.share_names import check_share
from coldnotify_schemas.share_state import (
    NOBODY,
    SHARE_BYTES_MAX,
    HandOutState,
    ShareRecord,
    StoredHandOut,
    share_key,
)
from coldnotify_schemas.whole_numbers import whole_number
from coldnotify_schemas.wire_pb2 import RETENTION, SINCE_BEGINNING, UNREADABLE
from coldnotify_streams.errors import NewerFormat
from msgspec.structs import replace

OFFSET_MAX = (1 << 63) - 1
"""Kafka's offsets are signed 64-bit integers."""
CLOCKS_APART_MS_MAX = 366 * 86_400_000
"""No matcher has seen a client at a time so far in the future. A predecessor's clock may have been wrong by less."""
OPTIONS_MAX = 255
"""A filter's options are a byte."""
PROTOCOL_CHARS_MAX = 64
"""Characters of the name of a kept session's protocol."""
_GATEWAY_DIGITS = 16
_EPOCH_MAX = (1 << 32) - 1
_IDENTIFIER_MAX = (1 << 32) - 1
_FAILURES_MAX = (1 << 32) - 1
_NUMBER_MAX = (1 << 32) - 1
_SECONDS_MAX = 366 * 86_400
"""No lease and no retry takes a year."""
_RETENTIONS = {retention.value: retention for retention in Retention}
_WILL_BUCKET = WILL_BUCKET.encode()
_GENERATION_KEY = GENERATION_KEY.encode()

R = TypeVar("R")


class UnreadableState(ValueError):
    """A state record that none of our matchers wrote; the message names the field and its fault."""


class _Head(msgspec.Struct):
    format: int
    generation: int


_head = msgspec.json.Decoder(_Head)
_registrations = msgspec.json.Decoder(RegistrationsRecord)
_session = msgspec.json.Decoder(SessionRecord)
_wills = msgspec.json.Decoder(WillRecord)
_generation = msgspec.json.Decoder(GenerationRecord)
_channels = msgspec.json.Decoder(ChannelsRecord)
_share = msgspec.json.Decoder(ShareRecord)


def is_generation_key(key: bytes | None) -> bool:
    """Returns true if it is the key of the partition's GenerationRecord."""
    return key == _GENERATION_KEY


def check_client_key(key: bytes) -> str:
    """Returns the key of a session's record, if it is domain/group/client. Raises UnreadableState."""
    parts = _text(key).split("/")
    if len(parts) != 3:
        raise UnreadableState(f"key: {key[:80]!r} is not domain/group/client")
    try:
        for field, part in zip(("domain", "group", "client"), parts, strict=True):
            check_name(field, part)
    except InvalidName as error:
        raise UnreadableState(f"key: {error}") from None
    return "/".join(parts)


def check_bucket_key(key: bytes) -> str:
    """Returns the key of a registrations record, if it is domain/group/client/bucket, or that of a client's wills.
    Raises UnreadableState."""
    client, _, bucket = key.rpartition(b"/")
    if bucket == _WILL_BUCKET:
        return f"{check_client_key(client)}/{WILL_BUCKET}"
    number = whole_number(bucket, REGISTRATIONS_MAX - 1)
    if number is None or b"%d" % number != bucket:
        raise UnreadableState(f"key: {key[:80]!r} does not end with the number of a bucket")
    return f"{check_client_key(client)}/{bucket.decode()}"


def check_channels_key(key: bytes) -> str:
    """Returns the key of a record of channels_state, if it is retention/bucket. Raises UnreadableState."""
    text = _text(key)
    retention, _, bucket = text.partition("/")
    number = whole_number(bucket)
    if retention not in _RETENTIONS or number is None or str(number) != bucket:
        raise UnreadableState(f"key: {key[:80]!r} is not retention/bucket")
    _check("key's bucket", number, 0, CHANNEL_BUCKETS - 1)
    return text


def check_share_key(key: bytes) -> str:
    """Returns the key of a share's record, if it is domain/group/share/channel. Raises UnreadableState."""
    parts = _text(key).split("/", 3)
    if len(parts) != 4:
        raise UnreadableState(f"key: {key[:80]!r} is not domain/group/share/channel")
    domain, group, share, channel = parts
    try:
        check_object(channel, "channel")
        return share_key(domain, group, check_share(share, channel), channel)
    except InvalidName as error:
        raise UnreadableState(f"key: {error}") from None


def retention_of(key: str) -> Retention:
    """Returns the retention of the log of a channels_state record, by a key that was checked."""
    return _RETENTIONS[key.partition("/")[0]]


def _text(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise UnreadableState(f"key: {key[:80]!r} is not valid UTF-8") from None


def generation_of(value: bytes, now_ms: int, *, newest_format: int = FORMAT) -> int:
    """Returns the generation that wrote any state record. Raises UnreadableState, NewerFormat."""
    head = _decode(_head, value)
    if head.format > newest_format:
        raise NewerFormat(f"a state record has format {head.format}: a matcher of this release knows {newest_format}")
    _check("format", head.format, FORMAT, newest_format)
    check_generation(head.generation, now_ms)
    return head.generation


def check_generation(generation: int, now_ms: int) -> None:
    """Raises UnreadableState if takeovers cannot have reached this generation."""
    _check("generation", generation, 0, generation_max(now_ms))


def parse_generation(value: bytes, now_ms: int) -> GenerationRecord:
    """Returns the claim in a record. Raises UnreadableState, NewerFormat."""
    generation_of(value, now_ms)
    record = _decode(_generation, value)
    _check("requests_since", record.requests_since, 0, record.generation)
    return record


def parse_registrations(value: bytes, now_ms: int) -> RegistrationsRecord:
    """Returns the bucket in a record. Raises UnreadableState, NewerFormat."""
    generation_of(value, now_ms, newest_format=FORMAT_WITH_SHARES)
    record = _decode(_registrations, value)
    _check("applied", record.applied, -1, OFFSET_MAX)
    _check("objects and interests", len(record.objects) + len(record.interests), 0, BUCKET_OBJECTS_MAX)
    _check("unsettled", len(record.unsettled or ()), 0, BUCKET_OBJECTS_MAX)
    for one in record.unsettled or ():
        _check("unsettled's since", one.since, 0, OFFSET_MAX)
        _check("unsettled's failures", one.failures, 0, _FAILURES_MAX)
        _check("unsettled's error", len(one.error.encode()), 0, UNSETTLED_ERROR_BYTES_MAX)
        _check("unsettled's position", one.position, -1, OFFSET_MAX)
        _check("unsettled's members", len(one.members), 0, OBJECTS_PER_FRAME_MAX)
    for interest in record.interests:
        _check("interest's position", interest.position, -1, OFFSET_MAX)
        _check("interest's epoch", interest.epoch, 0, _EPOCH_MAX)
        _check("interest's options", interest.options, 0, OPTIONS_MAX)
        _check("interest's identifier", interest.identifier, 0, _IDENTIFIER_MAX)
        if interest.missed is not None:
            _check("missed's before", interest.missed.before, 0, OFFSET_MAX)
            _check("missed's after", interest.missed.after, -1, OFFSET_MAX)
            _check("missed's reason", interest.missed.reason, RETENTION, UNREADABLE)
    try:
        for name in record.objects:
            check_object(name)
        for interest in record.interests:
            _check_interest(interest)
    except InvalidName as error:
        raise UnreadableState(f"objects or interests: {error}") from None
    return _clipped(record, now_ms)


def parse_wills(value: bytes, now_ms: int) -> WillRecord:
    """Returns the wills in a record. Raises UnreadableState, NewerFormat."""
    generation_of(value, now_ms, newest_format=FORMAT_WITH_FILTERS)
    record = _decode(_wills, value)
    _check("applied", record.applied, -1, OFFSET_MAX)
    _check("over", record.over, 0, OFFSET_MAX)
    for one in (*record.owed, *([] if record.now is None else [record.now])):
        _check_will(one)
    return record


def _check_will(one: StoredWill) -> None:
    if len(one.gateway) != _GATEWAY_DIGITS or not all(digit in "0123456789abcdef" for digit in one.gateway):
        raise UnreadableState(f"gateway: {one.gateway[:80]!r} is not 16 hex digits")
    _check("session", one.session, 0, (1 << 32) - 1)
    _check("begun", one.begun, 0, OFFSET_MAX)
    _check("due", one.due, 0, OFFSET_MAX)
    _check("delay_s", one.delay_s, 0, (1 << 32) - 1)
    _check("expiry_s", one.expiry_s or 0, 0, (1 << 32) - 1)
    _check("version", one.version, -1, OFFSET_MAX)
    _check("incarnation", one.incarnation, 0, OFFSET_MAX)
    _check("payload", len(one.payload), 0, LARGEST_PAYLOAD_BYTES)
    try:
        check_kept(one.properties)
    except ValueError as error:
        raise UnreadableState(f"properties: {error}") from None
    try:
        check_object(one.topic, "topic")
    except InvalidName as error:
        raise UnreadableState(str(error)) from None


def _clipped(record: RegistrationsRecord, now_ms: int) -> RegistrationsRecord:
    """Returns the record with no `since` ahead of all clocks. The matcher that wrote it had a wrong clock; the client's
    registrations in it are true."""
    unsettled, latest_ms = record.unsettled or [], now_ms + CLOCKS_APART_MS_MAX
    if all(one.since <= latest_ms for one in unsettled):
        return record
    clipped = [one if one.since <= latest_ms else replace(one, since=now_ms) for one in unsettled]
    return replace(record, unsettled=clipped)


def _check_interest(interest: StoredInterest) -> None:
    match interest.kind:
        case Kind.QUERY:
            check_query(interest.text)
        case Kind.CHANNEL:
            if channel_text(*channel_of(interest.text)) != interest.text:
                raise UnreadableState(f"interests: {interest.text[:80]!r} is not a name and sorted attributes")
        case Kind.FILTER:
            try:
                check_filter(interest.text)
            except InvalidFilter as error:
                raise UnreadableState(f"interests: {error}") from None
        case Kind.SHARE:
            if BETWEEN not in interest.text or _again(interest.text) != interest.text:
                raise UnreadableState(f"interests: {interest.text[:80]!r} does not name a share")
        case Kind.NAME:
            raise UnreadableState("interests: names are in objects")


def _again(text: str) -> str:
    share, channel, attributes = share_of(text)
    return share_text(share, channel, attributes)


def parse_session(value: bytes, now_ms: int, *, inboxes: int) -> SessionRecord:
    """Returns the session in a record. Raises UnreadableState, NewerFormat.

    `inboxes`: the number of partitions of the topic of notifications.
    """
    generation_of(value, now_ms, newest_format=FORMAT_WITH_FILTERS)
    record = _decode(_session, value)
    if len(record.gateway) != _GATEWAY_DIGITS or not all(digit in "0123456789abcdef" for digit in record.gateway):
        raise UnreadableState(f"gateway: {record.gateway[:80]!r} is not 16 hex digits")
    _check("applied", record.applied, -1, OFFSET_MAX)
    _check("session", record.session, 0, (1 << 32) - 1)
    _check("inbox", record.inbox, 0, inboxes - 1 if record.online else OFFSET_MAX)
    _check("cursor", record.cursor, -1, OFFSET_MAX)
    _check("digest", record.digest or 0, 0, (1 << 64) - 1)
    _check("last_seen", record.last_seen, 0, now_ms + CLOCKS_APART_MS_MAX)
    _check("kept", len(record.kept), 0, PROTOCOL_CHARS_MAX)
    _check("expiry_s", record.expiry_s, 0, EXPIRY_NEVER)
    _check("unreleased", len(record.unreleased), 0, PUBLISHES_UNANSWERED_MAX)
    for one in record.unreleased:
        _check("unreleased's identifier", one.identifier, 1, PACKET_ID_MAX)
        _check("unreleased's applied", one.applied, -1, OFFSET_MAX)
        _check("unreleased's version", one.version, 0, VERSION_MAX)
    _check("channels_epoch", record.channels_epoch, 0, _EPOCH_MAX)
    _check("channels_cursor", record.channels_cursor, -1, OFFSET_MAX)
    return record


def parse_channels(value: bytes, now_ms: int) -> ChannelsRecord:
    """Returns the channels' bucket in a record. Raises UnreadableState, NewerFormat.

    Names of channels in it are not checked: nothing depends on them.
    """
    generation_of(value, now_ms)
    record = _decode(_channels, value)
    _check("epoch", record.epoch, 0, _EPOCH_MAX)
    _check("through", record.through, 0, OFFSET_MAX)
    _check("forgotten", record.forgotten, -1, OFFSET_MAX)
    _check("last", max(record.last.values(), default=0), 0, OFFSET_MAX)
    _check("last", min(record.last.values(), default=0), 0, OFFSET_MAX)
    return record


def parse_share(value: bytes, now_ms: int) -> ShareRecord:
    """Returns the share in a record. Raises UnreadableState, NewerFormat."""
    generation_of(value, now_ms)
    record = _decode(_share, value)
    _check("record's bytes", len(value), 0, SHARE_BYTES_MAX)
    _check("applied", record.applied, -1, OFFSET_MAX)
    _check("epoch", record.epoch, 0, _EPOCH_MAX)
    _check("base", record.base, -1, OFFSET_MAX)
    _check("since", record.since, 0, SINCE_BEGINNING)
    _check("at", record.at, 0, OFFSET_MAX)
    _check("numbers_from", record.numbers_from, 0, _NUMBER_MAX)
    _check("empty_since", record.empty_since, 0, now_ms + CLOCKS_APART_MS_MAX)
    _check("settled's offsets, modulo 2,", len(record.settled) % 2, 0, 0)
    _check_rising("settled", record.base, record.settled[::2], record.settled[1::2])
    offsets = [one.offset for one in record.handed_out]
    _check_rising("handed_out", record.base, offsets, offsets)
    try:
        for name in record.members:
            check_name("members", name)
        check_attributes("attributes", record.attributes)
    except InvalidName as error:
        raise UnreadableState(str(error)) from None
    for one in record.handed_out:
        _check_hand_out(one, len(record.members))
    return record


def _check_rising(field: str, base: int, firsts: list[int], lasts: list[int]) -> None:
    before = base
    for first, last in zip(firsts, lasts, strict=True):
        _check(field, first, before + 1, OFFSET_MAX)
        _check(field, last, first, OFFSET_MAX)
        before = last


def _check_hand_out(one: StoredHandOut, members: int) -> None:
    is_held = one.state in (HandOutState.HELD, HandOutState.BEGUN)
    _check("handed_out's number", one.number, 1, _NUMBER_MAX)
    _check("handed_out's attempts", one.attempts, 0, one.number)
    _check("handed_out's member", one.member, 0 if is_held else NOBODY, members - 1 if is_held else NOBODY)
    _check("handed_out's seconds", one.seconds, 1 if is_held else 0, _SECONDS_MAX)
    _check("handed_out's reason", one.reason, 0, UNREADABLE)
    _check("handed_out's through", one.through, one.offset if one.reason else -1, OFFSET_MAX if one.reason else -1)


def _decode(decoder: "msgspec.json.Decoder[R]", value: bytes) -> R:
    try:
        return decoder.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableState(f"record: {error}") from None


def _check(field: str, number: int, least: int, most: int) -> None:
    if not least <= number <= most:
        # A number in JSON may have any length.
        shown = number if -OFFSET_MAX <= number <= OFFSET_MAX else "far out of range"
        raise UnreadableState(f"{field}: is {shown} ({least} to {most} is possible)")
