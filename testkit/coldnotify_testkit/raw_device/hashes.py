"""The hashes of docs/protocol.md: a name's CRC-32, what names a query and a channel, digests of sets."""

import zlib
from collections.abc import Iterable
from hashlib import sha256
from struct import pack

MODULUS = 1 << 64


def _first_8(data: bytes) -> int:
    return int.from_bytes(sha256(data).digest()[:8], "little")


def crc(name: str) -> int:
    """By which a gateway names an object."""
    return zlib.crc32(name.encode())


def name_hash(name: str) -> int:
    """An object's part of a digest."""
    return _first_8(name.encode())


def query_hash(text: str) -> int:
    """What names a query on the wire, and its part of a digest."""
    return _first_8(b"\xff\x71" + text.encode())


def channel_hash(text: str) -> int:
    """What names a channel's registration. `text`: the name and the attributes, joined by zero bytes."""
    return _first_8(b"\xff\x63" + text.encode())


def members_digest(names: Iterable[str]) -> int:
    """Of the members of one query."""
    return sum(map(name_hash, names)) % MODULUS


def sets_digest(sets: Iterable[tuple[str, Iterable[str]]]) -> int:
    """Of all sets, each as (the query's text, its members)."""
    return sum(_first_8(pack("<QQ", query_hash(text), members_digest(names))) for text, names in sets) % MODULUS
