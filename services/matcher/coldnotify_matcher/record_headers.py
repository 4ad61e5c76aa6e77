"""The headers of records that matchers use. Other headers of publishers are ignored."""

from collections.abc import Iterable
from typing import NamedTuple

from coldnotify_schemas.arrival_versions import ARRIVAL_HEADER
from coldnotify_schemas.atomic_sets import DECIDED_SET_HEADER
from coldnotify_schemas.channels import MessageHeaders, parse_message_headers
from coldnotify_schemas.decisions import DECIDED_HEADER
from coldnotify_schemas.description_patches import REQUEST_HEADER
from coldnotify_schemas.matcher_state import ENDED_BY_HEADER, ended_by
from coldnotify_schemas.message_places import MESSAGE_HEADER, MessagePlace, message_place
from coldnotify_schemas.mqtt.kept_properties import PREFIX as PROPERTY_PREFIX
from coldnotify_schemas.mqtt.kept_properties import read_kept
from coldnotify_schemas.priority import HIGH, HIGH_VALUE, PRIORITY_HEADER
from coldnotify_schemas.records import MOVED_HEADER, PAYLOAD_HEADER, SINCE_HEADER, InvalidRecord, says_raw
from coldnotify_schemas.removals import REMOVES_HEADER
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.traceparent import sampled_in

Headers = Iterable[tuple[str, str | bytes | None]]


class SaidByHeaders(NamedTuple):
    """The contents of a record's headers."""

    moved: bool = False
    """True if one of our matchers moved it from a wrong partition."""
    traceparent: str = ""
    """The trace that its publisher keeps; "" without one."""
    since: bytes = b""
    """The first place of its version, if one of our matchers wrote it again (`records.since_of`); b"" without one."""
    removes: bytes = b""
    """The version that the null removes (`removals.removal_of`); b"" without one."""
    urgent: bool = False
    """True if its publisher asks for high priority."""
    arrival: bytes | None = None
    """The value of its ARRIVAL_HEADER; None without one."""
    raw: bool = False
    """True if its payload is in base64."""
    properties: bytes = b""
    """Its properties for MQTT devices (`kept_properties`); b"" without any."""
    passed_over: int = 0
    """Headers of such properties that say nothing."""
    request: bytes = b""
    """The last request whose patch is in a description (`description_patches.request_in`); b"" without one."""
    message: MessagePlace | None = None
    """The message that it is, too (`message_places`); None: it is none."""
    decided: tuple[bytes, ...] = ()
    """Decisions about conditional records (`decisions.decided_of`)."""
    decided_sets: tuple[bytes, ...] = ()
    """Decisions about sets (`atomic_sets.decided_set_of`)."""


NOTHING_SAID = SaidByHeaders()


class HeadedObjectRecord(NamedTuple):
    """A record of the objects topic with its parsed headers, as the engine takes it."""

    key: bytes | None
    value: bytes | None
    offset: int
    timestamp_ms: int
    moved: bool
    traceparent: str
    since: bytes
    removes: bytes = b""
    urgent: bool = False
    arrival: bytes | None = None
    raw: bool = False
    properties: bytes = b""
    passed_over: int = 0
    request: bytes = b""
    message: MessagePlace | None = None
    decided: tuple[bytes, ...] = ()
    decided_sets: tuple[bytes, ...] = ()


class EndedByHeaders(NamedTuple):
    """The headers of a null of registrations, sessions or shares."""

    by: int = 0
    """The generation that wrote it; 0: it does not say."""


class HeadersReader:
    """Reads the headers of records by their topics."""

    def __init__(self, topics: TopicNames) -> None:
        self._channels = frozenset(topics.channels)
        self._of_clients = frozenset((topics.registrations, topics.sessions, topics.shares))

    def __call__(self, topic: str, headers: Headers | None) -> SaidByHeaders | EndedByHeaders | MessageHeaders | str:
        """Returns the parsed headers of a topic's record. `headers` None: a name in them is not UTF-8.

        For an object or a channel's message a text is the reason why they are invalid. Such a record is rejected:
        without its headers it might be sent to clients that it is not for.
        """
        if topic in self._of_clients:
            return _ended(headers or ())
        if headers is None:
            return "headers: a name is not UTF-8"
        if topic not in self._channels:
            return read_headers(headers)
        try:
            return parse_message_headers(
                (name, value.encode() if isinstance(value, str) else value) for name, value in headers
            )
        except InvalidRecord as error:
            return str(error)


def read_headers(headers: Headers) -> SaidByHeaders:
    """Returns the headers of an objects record; a damaged header counts as absent."""
    moved, since, removes, urgent, arrival, raw = False, b"", b"", False, None, False
    has_properties, request, message = False, b"", None
    decided: list[bytes] = []
    decided_sets: list[bytes] = []
    for name, value in headers:
        if name == MOVED_HEADER:
            moved = True
        elif name == SINCE_HEADER and isinstance(value, bytes):
            since = value
        elif name == REMOVES_HEADER and isinstance(value, bytes):
            removes = value
        elif name == PRIORITY_HEADER:
            urgent = value in (HIGH_VALUE, HIGH)
        elif name == ARRIVAL_HEADER:
            arrival = value if isinstance(value, bytes) else b""
        elif name == MESSAGE_HEADER:
            message = message_place(value)
        elif name == PAYLOAD_HEADER:
            raw = raw or says_raw(((name, value),))
        elif name.startswith(PROPERTY_PREFIX):
            has_properties = True
        elif name == REQUEST_HEADER and isinstance(value, bytes):
            request = value
        elif name == DECIDED_HEADER and isinstance(value, bytes):
            decided.append(value)
        elif name == DECIDED_SET_HEADER and isinstance(value, bytes):
            decided_sets.append(value)
    said = SaidByHeaders(
        moved,
        sampled_in(headers),
        since,
        removes,
        urgent,
        arrival,
        raw,
        request=request,
        message=message,
        decided=tuple(decided),
        decided_sets=tuple(decided_sets),
    )
    if not has_properties:
        return said
    properties, passed_over = read_kept(headers)
    return said._replace(properties=properties, passed_over=passed_over)


def _ended(headers: Headers) -> EndedByHeaders:
    said = [value for name, value in headers if name == ENDED_BY_HEADER and isinstance(value, bytes)]
    return EndedByHeaders(ended_by(said[-1])) if said else EndedByHeaders()
