"""Headers of both versions, whatever is in them and however they are split."""

import socket
import struct
from contextlib import suppress

import pytest
from coldnotify_common.security.proxy_protocol import ProxyError, ProxyHeader
from hypothesis import given
from hypothesis import strategies as st

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
BYTES_MAX = 16 + 4096


def v2(command: int, family: int, addresses: bytes) -> bytes:
    return SIGNATURE + bytes([command, family]) + struct.pack("!H", len(addresses)) + addresses


def tcp(source: str, destination: str, tlvs: bytes = b"") -> bytes:
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    packed = b"".join(socket.inet_pton(family, address) for address in (source, destination))
    return v2(0x21, 0x21 if ":" in source else 0x11, packed + struct.pack("!HH", 40000, 55000) + tlvs)


TLVS = b"\x03\x00\x04\x01\x02\x03\x04" + b"\x20\x00\x05\x01\x00\x00\x00\x00" + b"\xea\x01\x2c" + bytes(300)
GOOD = {
    b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n": "192.0.2.1",
    b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n": "255.255.255.255",
    b"PROXY TCP6 2001:db8::1 2001:db8::2 0 1\r\n": "2001:db8::1",
    b"PROXY TCP6 ::ffff:192.0.2.1 ::ffff:192.0.2.2 1 2\r\n": "192.0.2.1",
    b"PROXY UNKNOWN\r\n": None,
    b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n": None,
    tcp("192.0.2.1", "198.51.100.1"): "192.0.2.1",
    tcp("2001:db8::1", "2001:db8::2"): "2001:db8::1",
    tcp("::ffff:192.0.2.1", "::ffff:192.0.2.2"): "192.0.2.1",
    tcp("192.0.2.1", "198.51.100.1", TLVS): "192.0.2.1",
    v2(0x20, 0x00, b""): None,
    v2(0x20, 0x11, b"xyz"): None,
    v2(0x20, 0xFF, TLVS): None,
    v2(0x21, 0x00, TLVS): None,
    v2(0x21, 0x31, b"/run/a".ljust(108, b"\0") * 2): None,
}
BAD = {
    b"GET / HTTP/1.1\r\n\r\n": "neither",
    b"\x16\x03\x01\x02\x00\x01": "neither",
    b"\r\n\r\n\x00\r\nQUIT\r": "neither",
    b"PROXY\r\n": "neither",
    b"PROXY TCP5 192.0.2.1 192.0.2.2 1 2\r\n": "version 1",
    b"PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n": "TCP4",
    b"PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n": "TCP6",
    b"PROXY TCP4 192.0.2.1 192.0.2.300 1 2\r\n": "TCP4",
    b"PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n": "65535",
    b"PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n": "version 1",
    b"PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n": "version 1",
    b"PROXY TCP6 fe80::1%eth0 fe80::2%eth0 1 2\r\n": "version 1",
    b"PROXY UNKNOWN2\r\n": "version 1",
    b"PROXY UNKNOWN " + b"x" * 92 + b"\r\n": "107",
    b"PROXY TCP4 " + b"1" * 5000: "107",
    v2(0x11, 0x11, bytes(12)): "0x11",
    v2(0x22, 0x11, bytes(12)): "0x22",
    v2(0x21, 0x12, bytes(12)): "0x12",
    v2(0x21, 0x11, bytes(11)): "11 bytes",
    v2(0x21, 0x21, bytes(35)): "35 bytes",
    v2(0x21, 0x31, bytes(215)): "215 bytes",
    v2(0x21, 0x11, bytes(4097)): "4096",
    v2(0x20, 0x00, bytes(65535)): "4096",
}


def taken(*pieces: bytes) -> tuple[str, object, bytes]:
    """What comes of these pieces, one after the other: how it ends, the source, and what is behind the header."""
    header, rest = ProxyHeader(), b""
    for piece in pieces:
        try:
            rest += header.feed(piece)
        except ProxyError:
            return "refused", None, b""
    return ("whole", header.source, rest) if header.whole else ("wanting", None, rest)


@pytest.mark.parametrize("said", GOOD)
def test_a_header_says_whose_connection_it_is_and_what_is_behind_it_is_left(said: bytes) -> None:
    assert taken(said + b"hello") == ("whole", GOOD[said], b"hello")
    assert taken(said[:-1]) == ("wanting", None, b"")
    assert taken(said, b"hello") == ("whole", GOOD[said], b"hello")


@pytest.mark.parametrize("said", BAD)
def test_what_is_no_header_is_refused_with_the_reason(said: bytes) -> None:
    with pytest.raises(ProxyError, match=BAD[said]):
        ProxyHeader().feed(said)


@pytest.mark.parametrize("said", GOOD)
def test_who_reads_what_is_wanted_reads_nothing_behind_it(said: bytes) -> None:
    header, at, reads = ProxyHeader(), 0, 0
    while wanted := header.wanted_bytes:
        assert header.feed(said[at : at + wanted]) == b""
        at += wanted
        reads += 1
    assert (at, header.whole, header.source) == (len(said), True, GOOD[said])
    assert reads <= (3 if said.startswith(SIGNATURE) else 50)


split = st.lists(st.integers(0, 400), max_size=20)
anything = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([*GOOD, *BAD]),
    st.tuples(st.sampled_from([*GOOD]), st.binary(max_size=50)).map(b"".join),
    st.tuples(st.sampled_from([b"PROXY ", b"PROXY TCP4 ", b"PROXY TCP6 ::", SIGNATURE]), st.binary(max_size=200)).map(
        b"".join
    ),
)


@given(anything, split)
def test_any_split_of_the_bytes_gives_the_same_and_garbage_nothing_but_its_error(said: bytes, cuts: list[int]) -> None:
    ends = sorted({min(cut, len(said)) for cut in cuts} | {len(said)})
    pieces = [said[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    assert b"".join(pieces) == said
    assert taken(*pieces) == taken(said)


@given(anything)
def test_byte_by_byte_is_the_same_and_no_more_is_held_than_a_header(said: bytes) -> None:
    assert taken(*[said[i : i + 1] for i in range(len(said))]) == taken(said)
    header = ProxyHeader()
    with suppress(ProxyError):
        header.feed(said + bytes(100_000))
    assert len(header._received) <= BYTES_MAX
    wanted = header.wanted_bytes
    assert 0 <= wanted <= BYTES_MAX


@given(st.ip_addresses(), st.ip_addresses(v=4), st.binary(max_size=3000), st.binary(max_size=10))
def test_version_2_says_any_address(source: object, destination: object, tlvs: bytes, rest: bytes) -> None:
    other = str(destination) if ":" not in str(source) else f"::ffff:{destination}"
    kind, said, behind = taken(tcp(str(source), other, tlvs) + rest)
    assert (kind, behind) == ("whole", rest)
    assert socket.inet_pton(socket.AF_INET6 if ":" in str(said) else socket.AF_INET, str(said))
