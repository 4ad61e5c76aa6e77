"""Parses the PROXY protocol's header, versions 1 and 2, in which a balancer names a connection's client. Pure.

A connection from a balancer begins with it, before TLS. Only trusted addresses may send it, so it is not read from
others. See https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt.
"""

import re
from ipaddress import IPv4Address, IPv6Address

_V1_BEGINS = b"PROXY "
_V1_BYTES_MIN = len(b"PROXY UNKNOWN\r\n")
_V1_BYTES_MAX = 107
_V1_UNKNOWN = b"PROXY UNKNOWN"
_V1 = re.compile(rb"PROXY (TCP4|TCP6) ([0-9A-Fa-f.:]+) ([0-9A-Fa-f.:]+) (\d{1,5}) (\d{1,5})")
_PORT_MAX = 65535
_V2_BEGINS = b"\r\n\r\n\x00\r\nQUIT\n"
_V2_HEAD_BYTES = 16
_V2_BYTES_MAX = 4096
"""Maximum size of addresses and TLVs. TLVs contain a certificate's name or a cloud network's id: some hundred bytes
together."""
_LOCAL, _PROXY = 0x20, 0x21
_UNSPECIFIED, _TCP4, _TCP6, _UNIX = 0x00, 0x11, 0x21, 0x31
_ADDRESSES_BYTES = {_UNSPECIFIED: 0, _TCP4: 12, _TCP6: 36, _UNIX: 216}


class ProxyError(ValueError):
    """The bytes are not a header: the message says what is wrong."""


class ProxyHeader:
    """Parses bytes, however they are split, until the header is complete; holds no more than that."""

    def __init__(self) -> None:
        self._received = b""
        self.whole = False
        self.source: str | None = None
        """The client's IP address, once the header is complete. None: the header does not name it, as for a balancer's
        own probes; then the connection's own address counts."""

    @property
    def wanted_bytes(self) -> int:
        """The number of bytes that may be read without reading past the header; 0: it is complete."""
        if self.whole:
            return 0
        received = self._received
        if received[:1] == _V2_BEGINS[:1]:
            return _v2_bytes(received) - len(received)
        if len(received) < _V1_BYTES_MIN:
            return _V1_BYTES_MIN - len(received)
        return 1 if received[-1:] == b"\r" else 2

    def feed(self, data: bytes) -> bytes:
        """Parses `data`; returns its part after the header. Raises ProxyError."""
        if self.whole:
            return data
        before = len(self._received)
        received = self._received + data[: _V2_HEAD_BYTES + _V2_BYTES_MAX]
        beginning = _V2_BEGINS if received[:1] == _V2_BEGINS[:1] else _V1_BEGINS
        if not received.startswith(beginning[: len(received)]):
            raise ProxyError("it begins with neither PROXY nor version 2's signature")
        size = self._take_v2(received) if beginning is _V2_BEGINS else self._take_v1(received)
        if size is None:
            self._received = received
            return b""
        self.whole = True
        self._received = b""
        return data[size - before :]

    # --- each version: returns the header's size once `received` contains all of it

    def _take_v1(self, received: bytes) -> int | None:
        end = received.find(b"\r\n", 0, _V1_BYTES_MAX)
        if end < 0:
            if len(received) >= _V1_BYTES_MAX:
                raise ProxyError(f"version 1: it has no end within {_V1_BYTES_MAX} bytes")
            return None
        line = received[:end]
        if line == _V1_UNKNOWN or line.startswith(_V1_UNKNOWN + b" "):
            return end + 2
        match = _V1.fullmatch(line)
        if match is None:
            raise ProxyError("version 1: it is not PROXY, TCP4 or TCP6 or UNKNOWN, two addresses and two ports")
        family, source, destination, *ports = match.groups()
        if any(int(port) > _PORT_MAX for port in ports):
            raise ProxyError(f"version 1: a port is above {_PORT_MAX}")
        make = IPv4Address if family == b"TCP4" else IPv6Address
        try:
            make(destination.decode("ascii"))
            self.source = _text(make(source.decode("ascii")))
        except ValueError:
            raise ProxyError(f"version 1: an address is not one of {family.decode('ascii')}") from None
        return end + 2

    def _take_v2(self, received: bytes) -> int | None:
        size = _v2_bytes(received)
        if len(received) < _V2_HEAD_BYTES:
            return None
        command, family = received[12], received[13]
        if command not in (_LOCAL, _PROXY):
            raise ProxyError(f"version 2: {command:#04x} is neither LOCAL nor PROXY of version 2")
        if size > _V2_HEAD_BYTES + _V2_BYTES_MAX:
            raise ProxyError(
                f"version 2: {size - _V2_HEAD_BYTES} bytes of addresses, at most {_V2_BYTES_MAX} are taken"
            )
        if command == _PROXY:
            if family not in _ADDRESSES_BYTES:
                raise ProxyError(f"version 2: {family:#04x} is not one of TCP4, TCP6, UNIX, UNSPEC")
            if size - _V2_HEAD_BYTES < _ADDRESSES_BYTES[family]:
                raise ProxyError(f"version 2: {size - _V2_HEAD_BYTES} bytes do not hold two addresses of this family")
        if len(received) < size:
            return None
        if command == _PROXY:  # the addresses of LOCAL must be skipped; TLVs are ignored
            if family == _TCP4:
                self.source = _text(IPv4Address(received[16:20]))
            elif family == _TCP6:
                self.source = _text(IPv6Address(received[16:32]))
        return size


def _v2_bytes(received: bytes) -> int:
    """Returns the size of the header that begins with `received`, as far as it is known."""
    if len(received) < _V2_HEAD_BYTES:
        return _V2_HEAD_BYTES
    return _V2_HEAD_BYTES + int.from_bytes(received[14:16], "big")


def _text(address: IPv4Address | IPv6Address) -> str:
    """Returns the address as a text. A balancer that listens on IPv6 sends IPv4 addresses as mapped ones."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
