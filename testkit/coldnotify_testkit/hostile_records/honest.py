"""Tells which hostile records honest clients would have to believe."""

from coldnotify_matcher.state_records import (
    UnreadableState,
    generation_of,
    is_generation_key,
    parse_channels,
    parse_generation,
    parse_registrations,
    parse_session,
    parse_wills,
)
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.matcher_state import (
    FORMAT,
    FORMAT_WITH_FILTERS,
    FORMAT_WITH_SHARES,
    WILL_BUCKET,
    generation_max,
)
from coldnotify_schemas.names import InvalidName, parse_object_key
from coldnotify_schemas.records import LARGEST_PAYLOAD_BYTES, InvalidRecord, parse_public_record
from coldnotify_schemas.tenant_usage import parse_usage
from coldnotify_schemas.tenants import DEFAULT_TENANT, InvalidTenant, parse_tenant
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.errors import NewerFormat
from google.protobuf.message import DecodeError

from coldnotify_testkit.hostile_records.records import KnownToAttacker

TOPICS = TopicNames()
_NEWEST_FORMATS = {TOPICS.registrations: FORMAT_WITH_SHARES, TOPICS.sessions: FORMAT_WITH_FILTERS}

_READ_WITHIN_MS = 3_600_000
"""A record is read again for so long after it was drawn, while a test goes on."""
_BELIEVABLE_BELOW = 1 << 31
"""No offset of a test is so high, and no asking of a session."""
COMES_BACK = (0, 1, 2, 3, 4, int(CloseCode.UNKNOWN_SESSION), int(CloseCode.HANDSHAKE_TIMEOUT), 9, 63)
"""Codes of a Closed after which a client comes back soon."""


class Honest:
    """Detects hostile records that look exactly as their rightful writer would write them."""

    def __init__(self, known: KnownToAttacker) -> None:
        self._known = known
        # What is of the future when it is written may not be any more when it is read.
        self._now_ms = known.now_ms + _READ_WITHIN_MS
        self._numbers = {one.number for one in known.sessions}

    def would_publish(self, key: bytes | None, value: bytes) -> bool:
        """Returns true if it is a version of an honest object that may be newer than its publisher's."""
        try:
            named = parse_object_key(key)
            # A header, drawn later, may say that the payload is in base64, which is longer than the bytes.
            record = parse_public_record(value, payload_bytes_max=LARGEST_PAYLOAD_BYTES)
        except (InvalidName, InvalidRecord):
            return False
        honest = named.domain in self._known.spared_domains
        honest |= named.domain == self._known.domain and named.object in self._known.objects
        return honest and (record.version != 0 or bool(record.incarnation))

    def would_register(self, topic: str, key: bytes | None, value: bytes) -> bool:
        """Returns true if it is a complete record of an honest client's state."""
        parts = (key or b"").decode(errors="replace").split("/")
        if len(parts) < 3 or parts[2] not in self._known.clients:
            return False
        try:
            if topic == TOPICS.sessions:
                parse_session(value, self._now_ms, inboxes=self._known.inboxes)
            elif parts[3:] == [WILL_BUCKET]:
                parse_wills(value, self._now_ms)
            else:
                parse_registrations(value, self._now_ms)
        except (UnreadableState, NewerFormat):
            return False
        return True

    def would_restart(self, key: bytes | None, value: bytes) -> bool:
        """Returns true if it is a claim according to which the requests topic was recreated.

        The next owner would handle all requests again, and old Opens would displace today's sessions.
        """
        if not is_generation_key(key):
            return False
        try:
            claimed = parse_generation(value, self._now_ms)
        except (UnreadableState, NewerFormat):
            return False
        return claimed.requests_topic_id != self._known.requests_topic_id

    def would_outbid(self, key: bytes | None, value: bytes) -> bool:
        """Returns true if it is a claim that the partition's owner must give way to."""
        if not is_generation_key(key):
            return False
        try:
            return parse_generation(value, self._now_ms).generation > 0
        except (UnreadableState, NewerFormat):
            return False

    def would_displace(self, value: bytes) -> bool:
        """Returns true if it opens a session of an honest client, which ends the client's own session."""
        try:
            request = internal_pb2.Request.FromString(value)
        except DecodeError:
            return False
        return request.HasField("open") and request.client in self._known.clients

    def would_succeed(self, topic: str, value: bytes) -> bool:
        """Returns true if it implies that the partition has, or had, a later owner."""
        try:
            if topic == TOPICS.requests:
                generation = internal_pb2.Request.FromString(value).beat.generation
            elif topic == TOPICS.notifications:
                generation = internal_pb2.Inbox.FromString(value).generation
            else:
                return False
        except DecodeError:
            return False
        return min(self._known.generations.values(), default=0) < generation <= generation_max(self._now_ms)

    def would_mislead(self, value: bytes) -> bool:
        """Returns true if it sends an honest client away for long, or tells it that it is complete at some offset."""
        try:
            items = internal_pb2.Inbox.FromString(value).items
        except DecodeError:
            return False
        for item in items:
            if item.closed.session in self._numbers and item.closed.code not in COMES_BACK:
                return True
            for answer in (item.page, item.opened):
                if answer.session in self._numbers and answer.ask < _BELIEVABLE_BELOW:
                    return True
            for newest in (item.fan_out.newest, *item.page.newest, *item.answered.newest):
                if newest.name in self._known.objects or 1 < newest.offset - newest.behind < _BELIEVABLE_BELOW - 1:
                    return True
            for refused in (*item.opened.refused, *item.answered.refused):
                if refused.object in self._known.objects:
                    return True
            if item.HasField("beat") and 1 < item.beat.complete < _BELIEVABLE_BELOW - 1:
                return True
        return False

    def would_agree(self, topic: str, key: bytes | None, value: bytes) -> bool:
        """Returns true if it concerns honest tenants or their domains."""
        named = {(key or b"").decode(errors="replace").strip("/\0").lower()}
        try:
            if topic == TOPICS.tenants:
                domains = set(parse_tenant(key, value).domains)
                if domains & {self._known.domain, *self._known.spared_domains}:
                    return True
            elif topic == TOPICS.usage:
                named |= parse_usage(value).tenants.keys()
            elif topic != TOPICS.verdicts:
                return False
        except InvalidTenant:
            return False
        return bool(named & {DEFAULT_TENANT, *self._known.spared_tenants})

    def would_number(self, value: bytes) -> bool:
        """Returns true if it records the last message of each channel."""
        try:
            parse_channels(value, self._now_ms)
        except (UnreadableState, NewerFormat):
            return False
        return True


def is_newer(topic: str, value: bytes, now_ms: int) -> bool:
    """Returns true if it is a state record of a later release."""
    try:
        newest_format = _NEWEST_FORMATS.get(topic, FORMAT)
        generation_of(value, now_ms, newest_format=newest_format)
    except NewerFormat:
        return True
    except UnreadableState:
        return False
    return False
