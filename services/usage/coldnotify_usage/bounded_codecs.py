"""Decompresses batches up to a limit. aiokafka itself has none: it unpacks a batch of 1 MiB into GiB."""

import zlib
from struct import unpack_from

import cramjam

UNPACKED_BYTES_MAX = 16 * 1024 * 1024
"""The same limit as in all other consumers: see coldnotify_common.kafka.kafka_clients."""
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_BYTES = 16
"""Length of the header of framed snappy, as Java writes it: blocks with their lengths follow."""


class BatchTooLarge(ValueError):
    """The batch holds more than the bound."""


def gzip_decode(payload: bytes) -> bytes:
    """Raises TooMuch, zlib.error, EOFError."""
    unpacked, left = bytearray(), bytes(payload)
    while left:
        member = zlib.decompressobj(wbits=31)
        unpacked += member.decompress(left, UNPACKED_BYTES_MAX + 1 - len(unpacked))
        if len(unpacked) > UNPACKED_BYTES_MAX:
            raise BatchTooLarge(_words())
        if not member.eof:
            raise EOFError("gzip: is cut off")
        left = member.unused_data
    return bytes(unpacked)


def snappy_decode(payload: bytes) -> bytes:
    """Raises TooMuch, cramjam.DecompressionError, struct.error."""
    if not payload.startswith(_XERIAL):
        return _snappy_block(payload, 0)
    unpacked, at = bytearray(), _XERIAL_BYTES
    while at < len(payload):
        (size,) = unpack_from(">I", payload, at)
        unpacked += _snappy_block(payload[at + 4 : at + 4 + size], len(unpacked))
        at += 4 + size
    return bytes(unpacked)


def lz4_decode(payload: bytes) -> bytes:
    """Raises TooMuch or cramjam.DecompressionError: the library does not tell which of them applies."""
    room = bytearray(UNPACKED_BYTES_MAX)
    return bytes(room[: cramjam.lz4.decompress_into(payload, room)])


def zstd_decode(payload: bytes) -> bytes:
    """The same."""
    room = bytearray(UNPACKED_BYTES_MAX)
    return bytes(room[: cramjam.zstd.decompress_into(payload, room)])


def _snappy_block(block: bytes, before: int) -> bytes:
    if before + cramjam.snappy.decompress_raw_len(block) > UNPACKED_BYTES_MAX:
        raise BatchTooLarge(_words())
    return bytes(cramjam.snappy.decompress_raw(block))


def _words() -> str:
    return f"unpacks to more than {UNPACKED_BYTES_MAX} bytes"
