"""Free space on the disk of a data directory. Without any, Kafka ends, and few of its many log
lines give the reason.
"""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from coldnotify_kafka.errors import DiskFullError

FREE_BYTES_MIN = 64 * 1024 * 1024
"""With less, the broker is not started: it writes that much before it serves if it has to check many segments."""
FREE_SHARE_SOON = 0.05
"""With less, somebody should free space. The alert DiskNearlyFull uses the same number."""
_MIB = 1024 * 1024


class DiskRoom(NamedTuple):
    """The free space on the disk of a directory."""

    directory: Path
    free_bytes: int
    """That this user may use."""
    whole_bytes: int

    @property
    def is_full(self) -> bool:
        """True if Kafka cannot continue with it."""
        return self.free_bytes < FREE_BYTES_MIN

    @property
    def is_nearly_full(self) -> bool:
        """True if somebody should free space."""
        return self.free_bytes < self.whole_bytes * FREE_SHARE_SOON or self.is_full

    def __str__(self) -> str:
        free, whole = self.free_bytes // _MIB, self.whole_bytes // _MIB
        return f"{free} MiB of {whole} MiB are free on the disk of {self.directory}"


def room_of(directory: Path) -> DiskRoom:
    """Returns the room of a directory, or of the one in which it will be created. Raises OSError."""
    found = directory.absolute()
    while not found.exists() and found != found.parent:
        found = found.parent
    usage = shutil.disk_usage(os.path.realpath(found))
    return DiskRoom(directory, usage.free, usage.total)


def check_room(directory: Path) -> None:
    """Raises DiskFullError where Kafka could not go on."""
    try:
        room = room_of(directory)
    except OSError:
        return  # whether it can be used is seen when it is
    if room.is_full:
        raise DiskFullError(
            f"the disk is full: {room}, and Kafka needs {FREE_BYTES_MIN // _MIB} MiB to start. Make room, and do not "
            "delete any of Kafka's files by hand"
        )
