"""Versions by arrival: the owner of a partition gives a record its version, in the order of the log.

Such a record has ARRIVAL_HEADER, and neither a version nor an incarnation. It means the version after the newest, or
its timestamp, if that is higher. Compaction may remove the records before it, so that it would mean another version.
Then its owner has written a *checkpoint* behind it: the newest version, with the place that it had read up to.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from coldnotify_schemas.whole_numbers import WHOLE_NUMBER_MAX, offset_in_epoch

if TYPE_CHECKING:
    from coldnotify_schemas.records import PublicRecord

ARRIVAL_HEADER = "coldnotify-arrival"
"""Header of a record by arrival, without a value; or of a checkpoint, with the value `epoch/offset`."""
TIMES_FROM = 10**12
"""Versions below are numbers that somebody counts; from here on they are times in ms, of 2001 or later."""


def arrival_version(newest: int, timestamp_ms: int) -> int:
    """Returns the version of a record by arrival. `newest`: the object's newest version; below 0: it has none."""
    if newest < 0:
        return timestamp_ms
    after = min(newest + 1, WHOLE_NUMBER_MAX)
    return after if newest < TIMES_FROM else max(after, timestamp_ms)


def arrival_of(headers: Iterable[tuple[str, str | bytes | None]]) -> bytes | None:
    """Returns the value of a record's ARRIVAL_HEADER, the last one if there are several; None: it has none."""
    found = None
    for name, value in headers:
        if name == ARRIVAL_HEADER:
            found = value if isinstance(value, bytes) else b""
    return found


def is_by_arrival(record: "PublicRecord", header: bytes | None) -> bool:
    """Returns true if the owner gives this record its version. `header`: the value of its ARRIVAL_HEADER; None: it has
    none."""
    return header is not None and record.version is None and record.incarnation is None


def arrival_header() -> tuple[str, bytes]:
    """Returns the header of a record by arrival."""
    return ARRIVAL_HEADER, b""


def checkpoint_header(epoch: int, read_to: int) -> tuple[str, bytes]:
    """Returns the header of a checkpoint. `read_to`: the last offset that its owner had read."""
    return ARRIVAL_HEADER, b"%08x/%d" % (epoch, read_to)


def checkpoint_of(record: "PublicRecord", header: bytes | None, epoch: int, offset: int) -> int | None:
    """Returns the last offset that a checkpoint at `offset` takes in; None: it is none, or of another epoch."""
    if not header or record.version is None or record.incarnation is None:
        return None
    return offset_in_epoch(header, epoch, offset)


def checkpoint_epoch(header: bytes | None) -> int | None:
    """Returns the epoch in a checkpoint's header, for readers that know no other one; None: there is none."""
    try:
        return int((header or b"").partition(b"/")[0], 16)
    except ValueError:
        return None
