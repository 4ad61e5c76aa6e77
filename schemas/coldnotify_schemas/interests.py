"""Interests: what a client registers for: an object by its name, objects by a query, a channel. Each is a value."""

import hashlib
import re
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from coldnotify_schemas.digest import MODULUS, object_digest
from coldnotify_schemas.names import InvalidName, check_name, check_object
from coldnotify_schemas.protocol import CHANNEL_ATTRIBUTES_MAX, QUERY_BYTES_MAX
from coldnotify_schemas.share_names import check_share


class Kind(Enum):
    """The kinds of interests."""

    NAME = "name"
    """An object's name: the newest version of that object."""
    QUERY = "query"
    """A query: which objects are its members, and the newest version of each."""
    CHANNEL = "channel"
    """A channel's name, or a pattern of channels' names, and the attributes of the subscription, as `channel_text`
    joins them: every message."""
    FILTER = "filter"
    """A filter of topics (`filters.py`): the newest version of each object that it fits, and every message of each
    channel."""
    SHARE = "share"
    """A share of a channel, as `share_text` has it: of every message, those that are handed to this member."""


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
_SHARE = b"s"
BETWEEN = "\x00"
"""Between a channel's name and the attributes of its subscription. A name that begins with it is a pattern's: what
follows is a regular expression, as RE2 has it, that is found in the names of the channels that are meant."""
_IN_EXPRESSIONS = re.compile(r"[\\.+*?()|\[\]{}^$]")
"""Characters that mean something else in an expression."""


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


@lru_cache(maxsize=65536)
def share_hash(text: str) -> int:
    """Returns the hash that identifies a share's registration on the wire, from its `share_text`, as for a query."""
    return int.from_bytes(hashlib.sha256(_NO_NAME + _SHARE + text.encode()).digest()[:8], "little")


_HASHES = {
    Kind.NAME: object_digest,
    Kind.QUERY: query_hash,
    Kind.CHANNEL: channel_hash,
    Kind.FILTER: filter_hash,
    Kind.SHARE: share_hash,
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


def pattern_name(expression: str) -> str:
    """Returns what stands for a channel's name in the registration of a pattern; only the service knows whether it
    understands the expression. Raises InvalidName.
    """
    try:
        size = len(expression.encode())
    except UnicodeEncodeError:
        raise InvalidName("pattern: has a character that Unicode lacks") from None
    if not 0 < size <= QUERY_BYTES_MAX:
        raise InvalidName(f"pattern: has {size} bytes (1 to {QUERY_BYTES_MAX} are allowed)")
    if BETWEEN in expression:
        raise InvalidName(f"pattern: {expression[:80]!r} has a zero byte")
    return BETWEEN + expression


def prefix_expression(prefix: str) -> str:
    """Returns the expression that is found in all names that begin with `prefix`. Raises InvalidName."""
    return "^" + _IN_EXPRESSIONS.sub(r"\\\g<0>", check_object(prefix, "prefix"))


def expression_of(name: str) -> str | None:
    """Returns the expression of a pattern's name; None: it is a channel's name."""
    return name[1:] if name.startswith(BETWEEN) else None


def channel_text(name: str, attributes: Iterable[str] = ()) -> str:
    """Returns a channel's registration, or a pattern's, as one text. Raises InvalidName."""
    expression = expression_of(name)
    if expression is not None:
        pattern_name(expression)
    elif BETWEEN in check_object(name, "channel"):
        raise InvalidName(f"channel: {name[:80]!r} has a zero byte")
    return joined_channel(name, check_attributes("attributes", attributes))


def joined_channel(name: str, attributes: Iterable[str] = ()) -> str:
    """Returns a channel's registration as one text, unchecked: the attributes are as they come."""
    return BETWEEN.join([name, *attributes])


def check_attributes(field: str, attributes: Iterable[str]) -> list[str]:
    """Attributes of a subscription, or those that a message is for, sorted, each once. Raises InvalidName."""
    found = set(attributes)
    if len(found) > CHANNEL_ATTRIBUTES_MAX:  # before they are sorted: it may be thousands
        raise InvalidName(f"{field}: are {len(found)} (at most {CHANNEL_ATTRIBUTES_MAX} are allowed)")
    return [check_name(field, attribute) for attribute in sorted(found)]


def channel_of(text: str) -> tuple[str, list[str]]:
    """A channel's or pattern's name, and the attributes of the subscription, of a `channel_text`."""
    expression = expression_of(text)
    name, *attributes = (text if expression is None else expression).split(BETWEEN)
    return (name if expression is None else BETWEEN + name), attributes


def by_channel(name: str, attributes: Iterable[str] = ()) -> Interest:
    """The interest in a channel's messages. Raises InvalidName."""
    return Interest(Kind.CHANNEL, channel_text(name, attributes))


def share_text(share: str, channel: str, attributes: Iterable[str] = ()) -> str:
    """Returns a share's registration as one text. Raises InvalidName."""
    if BETWEEN in check_share(share, check_object(channel, "channel")) or BETWEEN in channel:
        raise InvalidName(f"channel: {channel[:80]!r} has a zero byte")
    return BETWEEN.join([share, channel, *check_attributes("attributes", attributes)])


def share_of(text: str) -> tuple[str, str, list[str]]:
    """The share's name, the channel's, and the attributes, of a `share_text`."""
    share, channel, *attributes = text.split(BETWEEN)
    return share, channel, attributes


def by_share(share: str, channel: str, attributes: Iterable[str] = ()) -> Interest:
    """The interest in what a share of a channel hands to this member. Raises InvalidName."""
    return Interest(Kind.SHARE, share_text(share, channel, attributes))


def digest_of(interests: Iterable[Interest]) -> int:
    """The digest of a set of interests. Of names alone it is `digest.digest` of the names."""
    return sum(interest.hash for interest in interests) % MODULUS
