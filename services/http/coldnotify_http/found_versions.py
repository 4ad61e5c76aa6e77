"""The versions of an object's records, as their owner gave them. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from coldnotify_schemas.arrival_versions import (
    arrival_of,
    arrival_version,
    checkpoint_epoch,
    checkpoint_of,
    is_by_arrival,
)
from coldnotify_schemas.records import PAYLOAD_BYTES_MAX, InvalidRecord, PublicRecord, parse_public_record, says_raw

from coldnotify_http.object_history import FoundRecord


class _Read(NamedTuple):
    found: FoundRecord
    said: PublicRecord
    arrival: bytes | None

    def rank(self, incarnation: int, newest: int) -> tuple[int, int]:
        if is_by_arrival(self.said, self.arrival):
            return incarnation, arrival_version(newest, self.found.timestamp_ms)
        own = self.said.incarnation
        return incarnation if own is None else own, self.said.version_at(self.found.timestamp_ms)


def versions_of(found: Sequence[FoundRecord], payload_bytes_max: int = PAYLOAD_BYTES_MAX) -> dict[int, int]:
    """Returns the version of each valid record, by its offset. `found`: the latest ones, the newest first.

    A record by arrival counts on those before it, and these may lie further back, or be compacted away. A checkpoint
    says what the newest version was at the place that it names: from there on records are read again.
    """
    versions: dict[int, int] = {}
    read: list[_Read] = []
    newest = 0, -1
    for one in reversed(found):
        if (its := _read(one, payload_bytes_max)) is None:
            continue
        rank = its.rank(*newest)
        versions[one.offset] = rank[1]
        read_to = _read_to(its)
        if read_to is None:
            newest = max(newest, rank)
        else:
            newest = rank
            for behind in (other for other in read if other.found.offset > read_to):
                rank = behind.rank(*newest)
                versions[behind.found.offset] = rank[1]
                newest = max(newest, rank)
        read.append(its)
    return versions


def _read(found: FoundRecord, payload_bytes_max: int) -> _Read | None:
    try:
        said = parse_public_record(found.value or b"", raw=says_raw(found.headers), payload_bytes_max=payload_bytes_max)
    except InvalidRecord:
        return None
    return _Read(found, said, arrival_of(found.headers))


def _read_to(read: _Read) -> int | None:
    epoch = checkpoint_epoch(read.arrival)
    return None if epoch is None else checkpoint_of(read.said, read.arrival, epoch, read.found.offset)
