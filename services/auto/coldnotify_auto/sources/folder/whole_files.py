"""Reading files whole: never one that is being written."""

import errno
import fcntl
import os
import signal
from pathlib import Path
from typing import NamedTuple


class FileStamp(NamedTuple):
    """Tells one state of a file from another."""

    mtime_ns: int
    size: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> "FileStamp":
        """Returns the stamp of a file's status."""
        return cls(status.st_mtime_ns, status.st_size, status.st_ino)


class StillWritten(Exception):
    """The file is open for writing, or changed while it was read."""


class TooLarge(Exception):
    """The file is larger than a payload may be."""


class WholeFile(NamedTuple):
    """A file's content."""

    stamp: FileStamp
    content: bytes


def read_whole(path: Path, bytes_max: int) -> WholeFile:
    """Returns the content of a regular file. Raises StillWritten, TooLarge, OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        before = FileStamp.of(os.fstat(descriptor))
        if _has_writer(descriptor):
            raise StillWritten
        if before.size > bytes_max:
            raise TooLarge
        content = file.read(bytes_max + 1)
        after = FileStamp.of(os.fstat(descriptor))
        if before != after or len(content) != after.size or FileStamp.of(path.stat()) != after:
            raise StillWritten
        return WholeFile(after, content)


def _has_writer(descriptor: int) -> bool:
    """Returns true if somebody has the file open for writing. Linux grants no lease then; others have no leases."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        # Whoever opens it at this moment waits for the lease's end; its signal is one that is ignored by default.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        # Others' files grant no lease to anybody but root: then its stamps must do.
        return error.errno == errno.EAGAIN
    return False
