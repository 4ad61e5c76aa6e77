"""Marks: a publish's stamp with its number, in its payload, so that every device can say what it was told. Pure.

A payload is a JSON string, `"cnb BOOT RUN TOPIC SEQ VERSION NS xxx"`, filled up to its size.
"""

import re
from pathlib import Path
from typing import NamedTuple

PREFIX = b'"cnb '
BYTES_MIN = 100
"""The longest mark without filling."""
_MARK = re.compile(rb'"cnb ([0-9a-f]{8}) ([0-9a-f]{8}) (\d{1,9}) (\d{1,12}) (\d{1,16}) (\d{1,19}) x*"')
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Mark(NamedTuple):
    """One publish, as its publisher said it."""

    boot: str
    """The publisher's machine since its start: only there its times mean something."""
    run: str
    """The publisher's process."""
    topic: int
    seq: int
    """The number of this publish among those of its run and topic, from 1."""
    version: int
    """Unix ms at which it was published, or one more than the one before of its topic."""
    at_ns: int
    """The same by the monotonic clock of `boot`."""


Stamp = int | Mark
"""A number is the load test's: the monotonic time in ns."""


def boot_id() -> str:
    """Returns 8 hexadecimal digits that this machine has until it is started again."""
    return _BOOT_ID.read_text().strip().replace("-", "")[:8]


def payload_of(mark: Mark, size: int) -> bytes:
    """Returns the mark as a payload of `size` bytes (at least those that it takes)."""
    said = b'"cnb %b %b %d %d %d %d ' % (mark.boot.encode(), mark.run.encode(), *mark[2:])
    return said + b"x" * (size - len(said) - 1) + b'"'


def stamp_of(payload: bytes) -> Stamp | None:
    """Returns the stamp in a payload; None: nobody stamped it."""
    if payload.isdigit():
        return int(payload)
    return mark_of(payload) if payload.startswith(PREFIX) else None


def mark_of(payload: bytes) -> Mark | None:
    """Returns the mark in a payload; None: it has none."""
    found = _MARK.fullmatch(payload)
    if found is None:
        return None
    boot, run, *numbers = found.groups()
    return Mark(boot.decode(), run.decode(), *map(int, numbers))
