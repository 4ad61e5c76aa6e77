"""The header of a null that removes an object or its description: which version, and what had been read by then."""

import re
from typing import NamedTuple

from coldnotify_schemas.whole_numbers import whole_number

REMOVES_HEADER = "coldnotify-removes"
"""Header of the null by which an owner removes what retention does not keep; its value is as `removes_header` has it.
"""

_VALUE = re.compile(rb"(\d{1,19})/(\d{1,19})(?:@([0-9a-f]{8})/(\d{1,19}))?", re.ASCII)


class Removal(NamedTuple):
    """The content of such a header."""

    incarnation: int
    """0 for a description."""
    version: int
    """The highest version that is removed. Of a description: the timestamp in ms of its record."""
    epoch: int | None
    """Epoch of `read_to`; None if the header has neither."""
    read_to: int
    """The offset of the last record of the object and of its description that was known to who wrote the null."""

    def removes(self, incarnation: int, version: int, last_offset: int, epoch: int) -> bool:
        """Returns true if it removes this version, which precedes it.

        `last_offset`: of the last earlier record of the object and of its description. It does not remove a newer
        version, and nothing at all if a record came since its owner read. For another epoch that is unknown: its owner
        may have read a topic that no longer exists.
        """
        if (incarnation, version) > (self.incarnation, self.version):
            return False
        return self.epoch is None or (self.epoch == epoch and last_offset <= self.read_to)


def removes_header(incarnation: int, version: int, epoch: int, read_to: int) -> tuple[str, bytes]:
    """`incarnation/version@epoch/offset`."""
    return REMOVES_HEADER, b"%d/%d@%08x/%d" % (incarnation, version, epoch, read_to)


def removal_of(value: bytes) -> Removal | None:
    """Parses a REMOVES_HEADER; None if it is invalid."""
    found = _VALUE.fullmatch(value)
    if found is None:
        return None
    incarnation, said_version, epoch, said_read_to = found.groups()
    version, read_to = whole_number(said_version), whole_number(said_read_to or b"0")
    if version is None or read_to is None:
        return None
    return Removal(int(incarnation), version, None if epoch is None else int(epoch, 16), read_to)
