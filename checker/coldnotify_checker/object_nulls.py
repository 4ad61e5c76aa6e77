"""Decides what nulls in a dump of the objects topic remove, by a reading of its own."""

import re
from dataclasses import dataclass

from coldnotify_checker.histories import Record

_SAID = re.compile(r"(\d{1,10})/(\d{1,19})(?:@[0-9a-f]{8}/(\d{1,19}))?", re.ASCII)


@dataclass(slots=True)
class KnownRecords:
    """The records of one object in the topic, up to some offset."""

    last: int = -1
    """The offset of the last record under its key, since it has a version."""
    described_last: int = -1
    """The same of its description."""


def removes(
    record: Record,
    known: KnownRecords,
    *,
    newest: tuple[int, int] | None,
    deleted: bool,
    described: int | None,
    describes: bool,
) -> bool:
    """Returns true if a null removes its object's newest version or, with `describes`, its description.

    It does not remove what is newer than it names, and removes nothing if the object has records that its owner had not
    read. A description stays as long as its object exists. `described`: the timestamp of the description.
    """
    said = _SAID.fullmatch(record.removes) if record.value is None else None
    if said is None:
        return False
    rank = int(said[1]), int(said[2])
    if (described is None or described > rank[1]) if describes else (newest is None or newest > rank):
        return False
    if said[3] is None:
        return True
    if describes and newest is not None and not deleted:
        return False
    return max(known.last if newest else -1, known.described_last if described is not None else -1) <= int(said[3])
