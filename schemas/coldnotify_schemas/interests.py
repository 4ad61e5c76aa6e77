"""Interests: what a client registers for, as a value of some kind: an object by its name, or objects by a query."""

import hashlib
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from coldnotify_schemas.digest import MODULUS, object_digest
from coldnotify_schemas.names import InvalidName, check_object
from coldnotify_schemas.protocol import QUERY_BYTES_MAX


class Kind(Enum):
    """What an interest's text is."""

    NAME = "name"
    """An object's name: the newest version of that object."""
    QUERY = "query"
    """A query: which objects are its members, and the newest version of each."""


class Interest(NamedTuple):
    """One registration of a client. Two are the same if kind and text are."""

    kind: Kind
    text: str
    """As it was registered."""

    @property
    def hash(self) -> int:
        """What it adds to the digest of a set of interests."""
        return _HASHES[self.kind](self.text)


_NO_NAME = b"\xff"
"""No UTF-8 begins with it: what is hashed behind it never has the hash of a name."""
_QUERY = b"q"


@lru_cache(maxsize=65536)
def query_hash(text: str) -> int:
    """What names a query on the wire: the first 8 bytes of a SHA-256, little-endian."""
    return int.from_bytes(hashlib.sha256(_NO_NAME + _QUERY + text.encode()).digest()[:8], "little")


_HASHES = {Kind.NAME: object_digest, Kind.QUERY: query_hash}


def by_name(text: str) -> Interest:
    """The interest in the object of this name. Raises InvalidName."""
    return Interest(Kind.NAME, check_object(text))


def check_query(text: str) -> str:
    """The text, if it can be said to a service, which alone knows whether it is a query. Raises InvalidName."""
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


def digest_of(interests: Iterable[Interest]) -> int:
    """The digest of a set of interests. Of names alone it is `digest.digest` of the names."""
    return sum(interest.hash for interest in interests) % MODULUS
