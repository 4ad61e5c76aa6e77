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
    """The digest of a set of objects: the sum of its members' digests mod 2^64. The empty set's is 0.

    A sum can be kept up to date object by object: add what is registered, subtract what is not any more.
    """
    return sum(map(object_digest, objects)) % MODULUS


def object_crc(object_: str) -> int:
    """The CRC-32 (zlib's) that stands for the object's name in notifications."""
    return zlib.crc32(object_.encode())
