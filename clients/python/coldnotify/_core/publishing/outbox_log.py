"""The bytes of an outbox's log: accepted and settled records, and the readable parts of a damaged log.

A log is a sequence of entries. Each is

    "CNo1" | length of the body, 4 bytes | CRC-32 of the body, 4 bytes | body

with big-endian numbers. A body begins with a letter:

    A | number, 8 bytes | length of the fields, 4 bytes | fields, JSON | payload    accepted
    S | number, 8 bytes | ...                                                       settled: need not be sent any more
    N | JSON: {"number": ..., "version": ..., "clock_ms": ..., "expires_at": ..., "service_ms": ...}    renumbered
    C | JSON: {"next": number, "floor": version}                                    begins a rewritten log

An entry that a power cut left half written is at the end, and nobody was told that it is accepted. Damage anywhere else
is reported, and what comes after it is found by the next "CNo1" that begins an entry whose CRC is right.
"""

import json
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from coldnotify._core.publishing.outgoing import Outgoing

MARK = b"CNo1"
_FAMILY = b"CNo"
HEAD_BYTES = 12
_NUMBER_BYTES = 8
BODY_BYTES_MAX = 1 << 20
"""Far more than the largest message: a length beyond it is damage."""
_DEFAULTS = Outgoing("", "", "")._asdict()
_FIELDS = [field for field in Outgoing._fields if field != "payload"]


class NewerLog(Exception):
    """The log was written by a newer library, in another format."""


class KeptEntry(NamedTuple):
    """An entry: `outgoing` was accepted as `number`."""

    number: int
    outgoing: Outgoing
    given: bool
    """The library gave its version."""
    accepted_ms: int
    """Unix time."""
    size_bytes: int
    """Size of the entry in the log."""
    before: tuple[int, ...] = ()
    """Versions of its object from before the clock stepped ahead, which may have been published, and which the
    rewritten log does not contain.
    """
    absorbed: tuple[int, ...] = ()
    """Numbers of those whose patches are in its own: they are settled with it."""


class Settled(NamedTuple):
    """An entry: these need not be sent any more."""

    numbers: Sequence[int]


class Renumbered(NamedTuple):
    """An entry: the accepted record `number` has these values from here on."""

    number: int
    version: int | None
    clock_ms: int | None
    expires_at: int | None
    service_ms: int
    """The service's clock when it was found that ours had been wrong."""

    def applied_to(self, kept: KeptEntry) -> KeptEntry:
        """The record, saying that."""
        said = kept.outgoing._replace(version=self.version, clock_ms=self.clock_ms, expires_at=self.expires_at)
        return kept._replace(outgoing=said)


class Checkpoint(NamedTuple):
    """An entry: where numbers and versions go on."""

    next_number: int
    floor: int
    """No version that the library gave was higher."""


Entry = KeptEntry | Settled | Renumbered | Checkpoint


class OutboxLog(NamedTuple):
    """A parsed log."""

    entries: list[Entry]
    damaged: list[tuple[int, int]]
    """Unreadable ranges, in bytes."""
    torn_at: int | None
    """Start of a half-written entry at the end; None: there is none."""


def accepted_entry(
    number: int, outgoing: Outgoing, *, given: bool, accepted_ms: int, before: Sequence[int] = ()
) -> bytes:
    """Returns the entry of an accepted record."""
    said: dict[str, Any] = {
        name: value for name, value in outgoing._asdict().items() if name != "payload" and value != _DEFAULTS[name]
    }
    said["at"] = accepted_ms
    if given:
        said["given"] = True
    if before:
        said["before"] = before
    if outgoing.payload is None:
        said["empty"] = True
    fields = json.dumps(said, ensure_ascii=True, separators=(",", ":")).encode()
    parts = (b"A", number.to_bytes(_NUMBER_BYTES), len(fields).to_bytes(4), fields, outgoing.payload or b"")
    return _entry(b"".join(parts))


def settled_entry(numbers: Iterable[int]) -> bytes:
    """Returns the entry of settled records."""
    return _entry(b"S" + b"".join(number.to_bytes(_NUMBER_BYTES) for number in numbers))


def renumbered_entry(renumbered: Renumbered) -> bytes:
    """Returns the entry of a renumbered record."""
    return _entry(b"N" + json.dumps(renumbered._asdict()).encode())


def checkpoint_entry(next_number: int, floor: int) -> bytes:
    """Returns the entry that begins a rewritten log."""
    return _entry(b"C" + json.dumps({"next": next_number, "floor": floor}).encode())


def _entry(body: bytes) -> bytes:
    return MARK + len(body).to_bytes(4) + zlib.crc32(body).to_bytes(4) + body


def read_log(data: bytes) -> OutboxLog:
    """Parses a log. Raises NewerLog."""
    if data[:3] == _FAMILY and len(data) > 3 and data[:4] != MARK and data[3:4].isdigit():
        raise NewerLog
    entries: list[Entry] = []
    damaged: list[tuple[int, int]] = []
    at = 0
    while at < len(data):
        found = _read_entry(data, at)
        if found is not None:
            entry, at = found
            entries.append(entry)
            continue
        begin, after = at, _next_entry(data, at + 1)
        if after is None:
            if _is_torn(data, begin):
                return OutboxLog(entries, damaged, begin)
            after = len(data)
        damaged.append((begin, after))
        at = after
    return OutboxLog(entries, damaged, None)


def _next_entry(data: bytes, at: int) -> int | None:
    while (at := data.find(MARK, at)) >= 0:
        if _read_entry(data, at) is not None:
            return at
        at += 1
    return None


def _is_torn(data: bytes, at: int) -> bool:
    """Returns true if the rest is a write that a power cut ended: less than an entry, or not written at all."""
    rest = data[at:]
    there = rest.rstrip(b"\0")  # the file had grown, and its last bytes were not there yet
    if len(there) <= HEAD_BYTES:
        return MARK.startswith(there[:4])
    end = HEAD_BYTES + int.from_bytes(rest[4:8])
    return rest[:4] == MARK and len(rest) < end <= HEAD_BYTES + BODY_BYTES_MAX


def _read_entry(data: bytes, at: int) -> tuple[Entry, int] | None:
    """Returns the entry that begins there, and its end; None if it is unreadable."""
    begin = at + HEAD_BYTES
    if data[at : at + 4] != MARK or begin > len(data):
        return None
    end = begin + int.from_bytes(data[at + 4 : at + 8])
    if end > min(len(data), begin + BODY_BYTES_MAX):
        return None
    body = data[begin:end]
    if zlib.crc32(body) != int.from_bytes(data[at + 8 : begin]):
        return None
    try:
        return _parse(body, end - at), end
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _parse(body: bytes, size_bytes: int) -> Entry:
    match body[:1]:
        case b"A":
            number, size = int.from_bytes(body[1:9]), int.from_bytes(body[9:13])
            said = json.loads(body[13 : 13 + size])
            fields = _DEFAULTS | {name: said[name] for name in _FIELDS if name in said}
            fields["to"] = tuple(said.get("to", ()))
            payload = None if said.get("empty") else body[13 + size :]
            outgoing = Outgoing(**fields | {"payload": payload})
            given, before = bool(said.get("given")), tuple(map(int, said.get("before", ())))
            return KeptEntry(number, outgoing, given, int(said["at"]), size_bytes, before)
        case b"S":
            return Settled([int.from_bytes(body[at : at + 8]) for at in range(1, len(body), _NUMBER_BYTES)])
        case b"N":
            said = json.loads(body[1:])
            times = said["version"], said["clock_ms"], said["expires_at"]
            return Renumbered(int(said["number"]), *times, int(said["service_ms"]))
        case b"C":
            said = json.loads(body[1:])
            return Checkpoint(int(said["next"]), int(said["floor"]))
    raise ValueError(f"{body[:1]!r} begins no entry")
