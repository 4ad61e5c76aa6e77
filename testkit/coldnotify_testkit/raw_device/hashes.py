"""The hashes of docs/protocol.md: a name's CRC-32, what names a query and a channel, digests of sets."""

import zlib
from collections.abc import Iterable
from hashlib import sha256
from struct import pack

MODULUS = 1 << 64


def _first_8(data: bytes) -> int:
    return int.from_bytes(sha256(data).digest()[:8], "little")


def crc(name: str) -> int:
    """Returns the CRC by which a gateway identifies an object."""
    return zlib.crc32(name.encode())


def name_hash(name: str) -> int:
    """An object's part of a digest."""
    return _first_8(name.encode())


def query_hash(text: str) -> int:
    """Returns the hash that identifies a query on the wire and enters its digests."""
    return _first_8(b"\xff\x71" + text.encode())


def channel_hash(text: str) -> int:
    """Returns the hash that identifies a channel's registration. `text`: the name and the attributes, joined by zero
    bytes.
    """
    return _first_8(b"\xff\x63" + text.encode())


def members_digest(names: Iterable[str]) -> int:
    """Returns the digest of the members of one query."""
    return sum(map(name_hash, names)) % MODULUS


def sets_digest(sets: Iterable[tuple[str, Iterable[str]]]) -> int:
    """Returns the digest of all sets, each given as (the query's text, its members)."""
    return sum(_first_8(pack("<QQ", query_hash(text), members_digest(names))) for text, names in sets) % MODULUS
