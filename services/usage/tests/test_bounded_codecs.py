"""Batches of all codecs are unpacked as aiokafka would, up to the bound, and no byte further."""

from collections.abc import Callable
from struct import pack

import aiokafka.codec
import cramjam
import pytest
from coldnotify_testkit.record_batches import Codec, compressed
from coldnotify_usage.bounded_codecs import UNPACKED_BYTES_MAX, gzip_decode, lz4_decode, snappy_decode, zstd_decode

MIB = 1 << 20
DECODERS = [
    (Codec.GZIP, gzip_decode),
    (Codec.SNAPPY, snappy_decode),
    (Codec.LZ4, lz4_decode),
    (Codec.ZSTD, zstd_decode),
]
IDS = [codec.name for codec, _ in DECODERS]
Decode = Callable[[bytes], bytes]


@pytest.mark.parametrize(("codec", "decode"), DECODERS, ids=IDS)
@pytest.mark.parametrize("plain", [b"", b"x", bytes(range(256)) * 4096, b"0" * UNPACKED_BYTES_MAX], ids=len)
def test_compressed_bytes_are_decompressed(codec: Codec, decode: Decode, plain: bytes) -> None:
    assert decode(compressed(codec, plain)) == plain


@pytest.mark.parametrize(("codec", "decode"), DECODERS, ids=IDS)
def test_more_than_the_bound_is_refused(codec: Codec, decode: Decode) -> None:
    with pytest.raises(Exception, match=r"more than|write whole buffer|too small|Destination buffer"):
        decode(compressed(codec, bytes(UNPACKED_BYTES_MAX + 1)))


@pytest.mark.parametrize(("codec", "decode"), DECODERS, ids=IDS)
def test_nonsense_is_refused(codec: Codec, decode: Decode) -> None:
    for bad in (b"nonsense", compressed(codec, b"x" * 1000)[:-6]):
        with pytest.raises(Exception, match=r".+"):
            decode(bad)


def test_snappy_in_javas_framing_is_decompressed() -> None:
    plain = bytes(range(256)) * 1000
    assert snappy_decode(aiokafka.codec.snappy_encode(plain)) == plain
    block = bytes(cramjam.snappy.compress_raw(bytes(4 * MIB)))
    framed = aiokafka.codec.snappy_encode(b"")[:16] + (pack(">I", len(block)) + block) * 5
    with pytest.raises(ValueError, match="more than"):
        snappy_decode(framed)


def test_gzip_with_several_members_is_decompressed() -> None:
    assert gzip_decode(compressed(Codec.GZIP, b"a") + compressed(Codec.GZIP, b"b")) == b"ab"
