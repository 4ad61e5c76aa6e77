"""The digest of a registration set, and the short form of an object's name."""

import hashlib
import zlib
from collections.abc import Iterable
from functools import lru_cache

MODULUS = 1 << 64


@lru_cache(maxsize=65536)
def object_digest(object_: str) -> int:
    """The first 8 bytes of the SHA-256 of the object's name, little-endian."""
    return int.from_bytes(hashlib.sha256(object_.encode()).digest()[:8], "little")


def digest(objects: Iterable[str]) -> int:
    """Returns the digest of a set of objects: the sum of its members' digests mod 2^64. The empty set's is 0.

    A sum can be updated object by object: add what is registered, subtract what is unregistered.
    """
    return sum(map(object_digest, objects)) % MODULUS


def sets_digest(sets: Iterable[tuple[int, int]]) -> int:
    """Returns the digest of several sets, each given by the hash of its registration and the digest of its members.

    It is the sum of a hash of both. A sum of the members' digests would not reveal that an object has moved from one
    set to another, and would not include an empty set.
    """
    return sum(_share(registered, members) for registered, members in sets) % MODULUS


def _share(registered: int, members: int) -> int:
    hashed = hashlib.sha256(registered.to_bytes(8, "little") + members.to_bytes(8, "little"))
    return int.from_bytes(hashed.digest()[:8], "little")


def object_crc(object_: str) -> int:
    """Returns the CRC-32 (zlib's) that identifies the object's name in notifications."""
    return zlib.crc32(object_.encode())
