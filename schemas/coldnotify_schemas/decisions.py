"""Decisions about conditional records, as headers of the plain records that owners write behind them.

A conditional record counts by what was decided of it, and not by itself: compaction may have removed the version that
it names. So its owner writes what is in force behind it, whoever has won, and DECIDED_HEADER says once for each
conditional record what became of it: `epoch/offset won VERSION INCARNATION`, or `epoch/offset lost`. Where nothing is
in force the record is a null.
"""

from enum import Enum
from typing import NamedTuple

from coldnotify_schemas.records import VERSION_MAX
from coldnotify_schemas.whole_numbers import offset_in_epoch, whole_number

DECIDED_HEADER = "coldnotify-decided"
REPEATS_OFFSETS_MAX = 10_000
"""Offsets of a partition within which a repeated `id` gets the outcome of its first record."""
_AGAIN = b"again"


class ConditionVerdict(Enum):
    """The outcome of a conditional record, as its owner decides it."""

    WON = "won"
    """It is a version. It was the newest at its place."""
    LOST = "lost"
    """Its condition did not hold, or its version was not above the newest one."""
    SAME = "same"
    """It says what the newest version said already."""
    UNKNOWN = "unknown"
    """Its condition does not hold, and may have held when a record with its id came, further back than ids are
    remembered. It is no version itself."""


class Decided(NamedTuple):
    """One conditional record, and what was decided."""

    offset: int
    """The conditional record's place."""
    verdict: ConditionVerdict
    version: int = 0
    incarnation: int = 0
    """With `version`: the version that it is, if it has won."""
    again: bool = False
    """True if it repeats the id of one that was decided before, whose verdict this is: it is no version itself."""

    @property
    def is_version(self) -> bool:
        """True if the record itself brought a version."""
        return self.verdict is ConditionVerdict.WON and not self.again


def decided_header(epoch: int, decided: Decided) -> tuple[str, bytes]:
    """Returns the header that says what was decided."""
    words = b"%08x/%d %b" % (epoch, decided.offset, decided.verdict.value.encode())
    if decided.verdict is ConditionVerdict.WON:
        words += b" %d %d" % (decided.version, decided.incarnation)
    return DECIDED_HEADER, words + b" " + _AGAIN if decided.again else words


def decided_of(value: bytes, epoch: int, most: int) -> Decided | None:
    """Returns what a header's value says of a record at an offset up to `most`; None: it is of another epoch, or not of
    this form."""
    place, *words = value.split(b" ")
    offset = offset_in_epoch(place, epoch, most)
    again = words[-1:] == [_AGAIN]
    said = words[:-1] if again else words
    verdict = next((one for one in ConditionVerdict if said[:1] == [one.value.encode()]), None)
    if offset is None or verdict is None:
        return None
    if verdict is not ConditionVerdict.WON:
        return Decided(offset, verdict, again=again) if len(said) == 1 else None
    numbers = [whole_number(one, VERSION_MAX) for one in said[1:]]
    if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
        return None
    return Decided(offset, verdict, numbers[0], numbers[1], again)
