"""The headers of records that mean something to a matcher. Whatever else a publisher adds is passed over."""

from collections.abc import Iterable
from typing import NamedTuple

from coldnotify_schemas.channels import MessageHeaders, parse_message_headers
from coldnotify_schemas.matcher_state import ENDED_BY_HEADER, ended_by
from coldnotify_schemas.priority import HIGH, HIGH_VALUE, PRIORITY_HEADER
from coldnotify_schemas.records import MOVED_HEADER, SINCE_HEADER, InvalidRecord
from coldnotify_schemas.removals import REMOVES_HEADER
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.traceparent import sampled_in

Headers = Iterable[tuple[str, str | bytes | None]]


class SaidByHeaders(NamedTuple):
    """What a record's headers say."""

    moved: bool = False
    """It came from a wrong partition, by one of our matchers."""
    traceparent: str = ""
    """The trace that its publisher keeps; "" without one."""
    since: bytes = b""
    """Where its version was first, as one of our matchers wrote it down again (`records.since_of`); b"" without one."""
    removes: bytes = b""
    """Which version the null removes (`removals.removal_of`); b"" without one."""
    urgent: bool = False
    """Its publisher says that it is of high priority."""


NOTHING_SAID = SaidByHeaders()


class HeadedObjectRecord(NamedTuple):
    """A record of the objects topic with what its headers say, as the engine takes it."""

    key: bytes | None
    value: bytes | None
    offset: int
    timestamp_ms: int
    moved: bool
    traceparent: str
    since: bytes
    removes: bytes = b""
    urgent: bool = False


class EndedByHeaders(NamedTuple):
    """What the headers of a null of registrations or sessions say."""

    by: int = 0
    """The generation that wrote it; 0: it does not say."""


class HeadersReader:
    """Reads the headers of records by their topics."""

    def __init__(self, topics: TopicNames) -> None:
        self._channels = frozenset(topics.channels)
        self._of_clients = frozenset((topics.registrations, topics.sessions))

    def __call__(self, topic: str, headers: Headers | None) -> SaidByHeaders | EndedByHeaders | MessageHeaders | str:
        """What the headers of a topic's record say. None: a name in them is no UTF-8.

        Of an object or a channel's message: a text says why they cannot be understood. It is rejected then: told
        without what it says it might go to those whom it is not for.
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
    """What those of an objects record say; a header that is damaged counts as none."""
    moved, since, removes, urgent = False, b"", b"", False
    for name, value in headers:
        if name == MOVED_HEADER:
            moved = True
        elif name == SINCE_HEADER and isinstance(value, bytes):
            since = value
        elif name == REMOVES_HEADER and isinstance(value, bytes):
            removes = value
        elif name == PRIORITY_HEADER:
            urgent = value in (HIGH_VALUE, HIGH)
    return SaidByHeaders(moved, sampled_in(headers), since, removes, urgent)


def _ended(headers: Headers) -> EndedByHeaders:
    said = [value for name, value in headers if name == ENDED_BY_HEADER and isinstance(value, bytes)]
    return EndedByHeaders(ended_by(said[-1])) if said else EndedByHeaders()
