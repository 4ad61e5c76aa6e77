"""Integers, texts and binary data: the standards' examples, their bounds, and what is refused."""

import pytest
from coldnotify_schemas.mqtt.errors import MalformedPacket, NotEncodable
from coldnotify_schemas.mqtt.primitives import VARINT_MAX, Reader, binary_bytes, pair_bytes, text_bytes, varint_bytes
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("number", "text"),
    # Table 1-1 of 5.0, table 2.4 of 3.1.1.
    [
        (0, "00"), (127, "7f"), (128, "8001"), (16_383, "ff7f"), (16_384, "808001"), (2_097_151, "ffff7f"),
        (2_097_152, "80808001"), (268_435_455, "ffffff7f"),
    ],
)  # fmt: skip
def test_an_integer_has_as_many_bytes_as_it_needs(number: int, text: str) -> None:
    assert varint_bytes(number).hex() == text
    assert Reader(bytes.fromhex(text)).varint("n") == number


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("8000", "more bytes than it needs"),
        ("ffff8000", "than it needs"),
        ("ffffffff", "more than four"),
        ("80", "ends"),
    ],
)
def test_an_integer_that_is_refused(text: str, words: str) -> None:
    with pytest.raises(MalformedPacket, match=f"^n: .*{words}"):
        Reader(bytes.fromhex(text)).varint("n")


@pytest.mark.parametrize("number", [-1, VARINT_MAX + 1])
def test_an_integer_has_at_most_four_bytes(number: int) -> None:
    with pytest.raises(NotEncodable):
        varint_bytes(number)


@given(number=st.integers(0, VARINT_MAX), text=st.text(st.characters(codec="utf-8", exclude_characters="\x00")))
def test_values_come_back_as_they_were(number: int, text: str) -> None:
    data = varint_bytes(number) + text_bytes(text, "t") + binary_bytes(text.encode(), "b") + pair_bytes((text, ""), "p")
    reader = Reader(data + b"\x07\x01\x02\x00\x00\x00\x03rest")
    assert (reader.varint("n"), reader.text("t"), reader.binary("b")) == (number, text, text.encode())
    assert reader.pair("p") == (text, "")
    assert (reader.byte("x"), reader.two_bytes("y"), reader.four_bytes("z")) == (7, 0x102, 3)
    with pytest.raises(MalformedPacket, match=r"4 bytes are left"):
        reader.finish()
    assert reader.rest() == b"rest"
    reader.finish()


def test_a_byte_order_mark_is_a_character() -> None:
    assert Reader(b"\x00\x04\xef\xbb\xbfa").text("t") == "\ufeffa"


@pytest.mark.parametrize("data", [b"\x80", b"\xc0\x80", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf4\x90\x80\x80", b"\xff"])
def test_a_text_is_utf_8(data: bytes) -> None:
    with pytest.raises(MalformedPacket, match=r"t: .* UTF-8"):
        Reader(binary_bytes(data, "t")).text("t")


@pytest.mark.parametrize("read", [Reader.byte, Reader.two_bytes, Reader.four_bytes, Reader.binary, Reader.text])
@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x02a"])
def test_a_packet_that_ends_too_early_names_the_field(read, data: bytes) -> None:
    if read is Reader.byte or (read is Reader.two_bytes and len(data) > 1):
        data = b""
    with pytest.raises(MalformedPacket, match=r"^what: the packet ends"):
        read(Reader(data), "what")


def test_a_text_has_at_most_65535_bytes() -> None:
    assert len(text_bytes("x" * 65_535, "t")) == 65_537
    with pytest.raises(NotEncodable, match=r"t: has 65536 bytes"):
        text_bytes("x" * 65_534 + "é", "t")
