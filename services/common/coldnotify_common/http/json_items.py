"""Reads lists and objects in a stranger's JSON item by item, so that items are counted before they are decoded.

Decoded at once, 8 MiB of `1,1,1` become four million objects before a limit of a thousand is checked. Here each item is
skipped, at about a microsecond each, and the caller stops when there are too many. Pure.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import TypeVar

import msgspec

T = TypeVar("T")
_SHOWN_CHARS = 80
_SPACES = b" \t\r\n"
_LOOK_BYTES, _LONG_LOOK_BYTES = 64, 64 * 1024
"""Bytes searched for the next character that is not white space: mostly it is the next byte."""
_ITEM_BYTES_MAX = 64 * 1024 * 1024
_BEHIND = re.compile(r"trailing characters \(byte (\d+)\)")
"""msgspec's error for JSON followed by other bytes: the number of the first byte after it, counted from 1."""
_skipper = msgspec.json.Decoder(msgspec.Raw)
_text_decoder = msgspec.json.Decoder(str)


class InvalidJson(ValueError):
    """The text is not JSON, or not of the expected kind."""


class ItemTooLong(ValueError):
    """An item has more bytes than allowed."""


class TooManyItems(ValueError):
    """There are more items than allowed."""


def counted(items: Iterator[T], most: int) -> list[T]:
    """Returns all items. Raises TooManyItems as soon as there is one more than allowed."""
    found = list(islice(items, most + 1))
    if len(found) > most:
        raise TooManyItems(f"are more than the {most} that are allowed")
    return found


def list_in(text: bytes, field: str, most: int, item_bytes_max: int) -> list[msgspec.Raw]:
    """Returns the items of {"field": [...]} without other fields. Raises InvalidJson, ItemTooLong, TooManyItems."""
    items = JsonItems(text, item_bytes_max)
    found: list[msgspec.Raw] | None = None
    for name in items.names():
        if name != field:
            raise unknown_field(name)
        found = counted(items.elements(), most)
    items.end()
    if found is None:
        raise InvalidJson(f"Object missing required field `{field}`")
    return found


def unknown_field(name: str) -> InvalidJson:
    """Returns the error for an unknown field."""
    return InvalidJson(f"Object contains unknown field `{name[:_SHOWN_CHARS]}`")


class JsonItems:
    """Reads one text from its beginning to its end. Each method raises InvalidJson and ItemTooLong."""

    def __init__(self, text: bytes, item_bytes_max: int = _ITEM_BYTES_MAX) -> None:
        """`item_bytes_max`: maximum size of each item, with the white space around it."""
        self._text = text
        self._view = memoryview(text)
        self._at = 0
        self._item_bytes_max = item_bytes_max

    def next(self) -> bytes:
        """Skips white space, and returns the next byte; b"" at the end."""
        look_bytes = _LOOK_BYTES
        while True:
            part = self._text[self._at : self._at + look_bytes]
            rest = part.lstrip(_SPACES)
            self._at += len(part) - len(rest)
            if rest or not part:
                return rest[:1]
            look_bytes = _LONG_LOOK_BYTES

    def end(self) -> None:
        """Checks that nothing but white space follows."""
        if byte := self.next():
            raise InvalidJson(f"{_shown(byte)} comes behind the end (byte {self._at})")

    def elements(self) -> Iterator[msgspec.Raw]:
        """Yields the items of a list."""
        for _ in self._items(b"[", b"]"):
            yield self.value()

    def members(self) -> Iterator[tuple[str, msgspec.Raw]]:
        """Yields names and values of an object; a name may come twice."""
        for name in self.names():
            yield name, self.value()

    def names(self) -> Iterator[str]:
        """Yields the names of an object's members. The caller has to read each value before it requests the next
        name."""
        for _ in self._items(b"{", b"}"):
            try:
                name = _text_decoder.decode(self.value())
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise InvalidJson(f"a name is no text: {error}") from None
            self._take(b":")
            yield name

    def value(self) -> msgspec.Raw:
        """Returns the next value undecoded, and moves behind it."""
        begin = self._at
        piece = self._view[begin : begin + self._item_bytes_max]
        try:
            _skipper.decode(piece)
            size = len(piece)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            behind = _BEHIND.search(str(error))
            if behind is None:
                if begin + len(piece) < len(self._text):
                    raise self._too_long() from None
                raise InvalidJson(str(error)) from None
            size = int(behind[1]) - 1
        self._at += size
        if size == len(piece) and self._at < len(self._text):
            raise self._too_long()
        return msgspec.Raw(piece[:size])

    def _items(self, opening: bytes, closing: bytes) -> Iterator[None]:
        self._take(opening)
        if self.next() == closing:
            self._at += 1
            return
        while True:
            yield
            if self.next() == closing:
                self._at += 1
                return
            self._take(b",")
            self.next()

    def _take(self, wanted: bytes) -> None:
        found = self.next()
        if found != wanted:
            raise InvalidJson(f"{_shown(wanted)} is wanted instead of {_shown(found)} (byte {self._at})")
        self._at += 1

    def _too_long(self) -> ItemTooLong:
        return ItemTooLong(f"has more than {self._item_bytes_max} bytes (byte {self._at})")


def _shown(byte: bytes) -> str:
    return repr(byte.decode("latin-1")) if byte else "the end"
