"""The data types of MQTT: integers, UTF-8 texts, binary data, pairs of texts. A `Reader` reads them one by one."""

from coldnotify_schemas.mqtt.errors import MalformedPacket, NotEncodable

VARINT_MAX = 268_435_455
"""The highest number that four groups of seven bits hold; so a packet's length is bounded."""
LENGTH_MAX = 0xFFFF
"""Bytes of a text or of binary data."""


class Reader:
    """Reads a packet's body from its beginning. Each method takes the field's name, for the words of its error.

    All of them raise MalformedPacket.
    """

    __slots__ = ("_body", "at", "end")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.at = 0
        """The place of the next byte."""
        self.end = len(body)

    def byte(self, field: str) -> int:
        """Reads one byte."""
        at = self.at
        if at >= self.end:
            raise MalformedPacket(f"{field}: the packet ends before it")
        self.at = at + 1
        return self._body[at]

    def two_bytes(self, field: str) -> int:
        """Reads an integer of two bytes."""
        at = self.at
        if at + 2 > self.end:
            raise MalformedPacket(f"{field}: the packet ends before it")
        self.at = at + 2
        return self._body[at] << 8 | self._body[at + 1]

    def four_bytes(self, field: str) -> int:
        """Reads an integer of four bytes."""
        return int.from_bytes(self._take(4, field), "big")

    def varint(self, field: str) -> int:
        """Reads an integer of one to four bytes, in as few as it needs [MQTT-1.5.5-1]."""
        number = 0
        for shift in (0, 7, 14, 21):
            byte = self.byte(field)
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                if shift and not byte:
                    raise MalformedPacket(f"{field}: has more bytes than it needs")
                return number
        raise MalformedPacket(f"{field}: has more than four bytes")

    def binary(self, field: str) -> bytes:
        """Reads bytes behind their length."""
        return self._take(self.two_bytes(field), field)

    def text(self, field: str) -> str:
        """Reads UTF-8 without U+0000 or surrogates [MQTT-1.5.4-1] [MQTT-1.5.4-2]. U+FEFF stays [MQTT-1.5.4-3]."""
        data = self._take(self.two_bytes(field), field)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise MalformedPacket(f"{field}: {data[:80]!r} is not valid UTF-8") from None
        if "\x00" in text:
            raise MalformedPacket(f"{field}: {text[:80]!r} has the character U+0000")
        return text

    def pair(self, field: str) -> tuple[str, str]:
        """Reads two texts."""
        return self.text(field), self.text(field)

    def rest(self) -> bytes:
        """Reads all that is left."""
        at, self.at = self.at, self.end
        return self._body[at:]

    def finish(self) -> None:
        """Checks that nothing is left."""
        if self.at != self.end:
            raise MalformedPacket(f"packet: {self.end - self.at} bytes are left behind its last field")

    def _take(self, length: int, field: str) -> bytes:
        at = self.at
        if at + length > self.end:
            raise MalformedPacket(f"{field}: the packet ends within it")
        self.at = at + length
        return self._body[at : at + length]


def varint_bytes(number: int) -> bytes:
    """Returns an integer as one to four bytes, the lowest seven bits first. Raises NotEncodable."""
    if 0 <= number < 0x80:
        return bytes((number,))
    if not 0 <= number <= VARINT_MAX:
        raise NotEncodable(f"{number} is not within 0 and {VARINT_MAX}")
    groups = bytearray()
    while number >= 0x80:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def text_bytes(text: str, field: str) -> bytes:
    """Returns UTF-8 behind its length. `field` is for the error's words. Raises NotEncodable."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise NotEncodable(f"{field}: {text[:80]!r} is not valid UTF-8") from None
    if b"\x00" in data:
        raise NotEncodable(f"{field}: {text[:80]!r} has the character U+0000")
    return binary_bytes(data, field)


def binary_bytes(data: bytes, field: str) -> bytes:
    """Returns bytes behind their length. `field` is for the error's words. Raises NotEncodable."""
    length = len(data)
    if length > LENGTH_MAX:
        raise NotEncodable(f"{field}: has {length} bytes (at most {LENGTH_MAX} are allowed)")
    return length.to_bytes(2, "big") + data


def pair_bytes(pair: tuple[str, str], field: str) -> bytes:
    """Returns two texts, each behind its length. `field` is for the error's words. Raises NotEncodable."""
    name, value = pair
    return text_bytes(name, field) + text_bytes(value, field)
