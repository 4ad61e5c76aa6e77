"""Interests: what a client registers for: an object by its name, objects by a query, a channel. Each is a value."""

import hashlib
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from coldnotify_schemas.digest import MODULUS, object_digest
from coldnotify_schemas.names import InvalidName, check_name, check_object
from coldnotify_schemas.protocol import CHANNEL_ATTRIBUTES_MAX, QUERY_BYTES_MAX


class Kind(Enum):
    """The kinds of interests."""

    NAME = "name"
    """An object's name: the newest version of that object."""
    QUERY = "query"
    """A query: which objects are its members, and the newest version of each."""
    CHANNEL = "channel"
    """A channel's name, and the attributes of the subscription, as `channel_text` joins them: every message."""
    FILTER = "filter"
    """A filter of topics (`filters.py`): the newest version of each object that it fits, and every message of each
    channel."""


class Interest(NamedTuple):
    """One registration of a client. Two are the same if kind and text are."""

    kind: Kind
    text: str
    """The text that was registered."""

    @property
    def hash(self) -> int:
        """Returns its part of the digest of a set of interests."""
        return _HASHES[self.kind](self.text)


_NO_NAME = b"\xff"
"""No UTF-8 begins with this byte, so a hash of what follows it never equals the hash of a name."""
_QUERY = b"q"
_CHANNEL = b"c"
_FILTER = b"f"
_BETWEEN = "\x00"
"""Between a channel's name and the attributes of its subscription."""


@lru_cache(maxsize=65536)
def query_hash(text: str) -> int:
    """Returns the hash that identifies a query on the wire: the first 8 bytes of a SHA-256, little-endian."""
    return int.from_bytes(hashlib.sha256(_NO_NAME + _QUERY + text.encode()).digest()[:8], "little")


@lru_cache(maxsize=65536)
def channel_hash(text: str) -> int:
    """Returns the hash that identifies a channel's registration on the wire, from its
    `channel_text`, as for a query.
    """
    return int.from_bytes(hashlib.sha256(_NO_NAME + _CHANNEL + text.encode()).digest()[:8], "little")


@lru_cache(maxsize=65536)
def filter_hash(text: str) -> int:
    """Returns the hash that identifies a filter in the service, as for a query."""
    return int.from_bytes(hashlib.sha256(_NO_NAME + _FILTER + text.encode()).digest()[:8], "little")


_HASHES = {
    Kind.NAME: object_digest,
    Kind.QUERY: query_hash,
    Kind.CHANNEL: channel_hash,
    Kind.FILTER: filter_hash,
}


def by_name(text: str) -> Interest:
    """The interest in the object of this name. Raises InvalidName."""
    return Interest(Kind.NAME, check_object(text))


def check_query(text: str) -> str:
    """Returns the text, if it can be sent to a service; only the service knows whether it is a query. Raises
    InvalidName.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidName("query: has a character that is none in Unicode") from None
    if not 0 < size <= QUERY_BYTES_MAX:
        raise InvalidName(f"query: has {size} bytes (1 to {QUERY_BYTES_MAX} are allowed)")
    return text


def by_query(text: str) -> Interest:
    """The interest in the objects that a query describes. Raises InvalidName."""
    return Interest(Kind.QUERY, check_query(text))


def channel_text(name: str, attributes: Iterable[str] = ()) -> str:
    """Returns a channel's registration as one text. Raises InvalidName."""
    if _BETWEEN in check_object(name, "channel"):
        raise InvalidName(f"channel: {name[:80]!r} has a zero byte")
    return joined_channel(name, check_attributes("attributes", attributes))


def joined_channel(name: str, attributes: Iterable[str] = ()) -> str:
    """Returns a channel's registration as one text, unchecked: the attributes are as they come."""
    return _BETWEEN.join([name, *attributes])


def check_attributes(field: str, attributes: Iterable[str]) -> list[str]:
    """Attributes of a subscription, or those that a message is for, sorted, each once. Raises InvalidName."""
    found = set(attributes)
    if len(found) > CHANNEL_ATTRIBUTES_MAX:  # before they are sorted: it may be thousands
        raise InvalidName(f"{field}: are {len(found)} (at most {CHANNEL_ATTRIBUTES_MAX} are allowed)")
    return [check_name(field, attribute) for attribute in sorted(found)]


def channel_of(text: str) -> tuple[str, list[str]]:
    """A channel's name, and the attributes of the subscription, of a `channel_text`."""
    name, *attributes = text.split(_BETWEEN)
    return name, attributes


def by_channel(name: str, attributes: Iterable[str] = ()) -> Interest:
    """The interest in a channel's messages. Raises InvalidName."""
    return Interest(Kind.CHANNEL, channel_text(name, attributes))


def digest_of(interests: Iterable[Interest]) -> int:
    """The digest of a set of interests. Of names alone it is `digest.digest` of the names."""
    return sum(interest.hash for interest in interests) % MODULUS
