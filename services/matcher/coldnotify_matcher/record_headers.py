"""The headers of an objects record that mean something to a matcher. Whatever else a publisher adds is passed over."""

from collections.abc import Iterable
from typing import NamedTuple

from coldnotify_schemas.records import MOVED_HEADER, SINCE_HEADER
from coldnotify_schemas.traceparent import sampled_in

Headers = Iterable[tuple[str, str | bytes | None]]


class Said(NamedTuple):
    """What a record's headers say."""

    moved: bool = False
    """It came from a wrong partition, by one of our matchers."""
    traceparent: str = ""
    """The trace that its publisher keeps; "" without one."""
    since: bytes = b""
    """Where its version was first, as one of our matchers wrote it down again (`records.since_of`); b"" without one."""


NOTHING_SAID = Said()


class ObjectRecord(NamedTuple):
    """A record of the objects topic with what its headers say, as the engine takes it."""

    key: bytes | None
    value: bytes | None
    offset: int
    timestamp_ms: int
    moved: bool
    traceparent: str
    since: bytes


def read_headers(headers: Headers) -> Said:
    """What they say; a header that is damaged counts as none."""
    moved, since = False, b""
    for name, value in headers:
        if name == MOVED_HEADER:
            moved = True
        elif name == SINCE_HEADER and isinstance(value, bytes):
            since = value
    return Said(moved, sampled_in(headers), since)
