"""Directories and files for their owner only: 0700 and 0600, whatever the umask, even if they already existed.

Records contain what applications publish, and who is registered for what. Anybody with write access could forge both.
"""

import logging
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Literal

from coldnotify_kafka.errors import DataDirectoryError

log = logging.getLogger(__name__)

UMASK = 0o077
"""The umask of processes that write there."""
_OURS = re.compile(
    r"lock|records|node-\d+|cluster\.(json(\.tmp)?|partial)|server\.properties(\.tmp)?|broker\.(log(\.\d+)?|out)"
    r"|up\.log(\.1)?|before-repair-\w+"
)
"""The files that our own processes put into a data directory. Others are left alone."""


def make_directory(directory: Path) -> None:
    """Creates the directory if it is missing. Existing files that are ours by name and owner lose others' permissions.

    The directory itself loses them if it contains nothing else: a directory shared for other purposes stays as it is.
    Raises DataDirectoryError for another user's that everybody may write to, and OSError.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = directory.stat()
    entries = list(directory.iterdir())
    if found.st_uid != os.geteuid():
        who = f"data directory {directory} is another user's (uid {found.st_uid})"
        if found.st_mode & stat.S_IWOTH:
            raise DataDirectoryError(
                f"{who}, and everybody may write there: whoever does could change what Kafka holds. Choose another "
                "directory with --data"
            )
        if found.st_mode & UMASK:
            log.warning("%s, and not only that one may look: its rights %o are left as they are", who, found.st_mode)
    elif all(_OURS.fullmatch(entry.name) for entry in entries):
        _tighten(directory)
    for entry in entries:
        if _OURS.fullmatch(entry.name):
            for path in _all_in(entry):
                with suppress(FileNotFoundError):
                    _tighten(path)


def open_file(path: Path, mode: Literal["xb", "ab"]) -> BinaryIO:
    """Opens a new file in place of an existing one, or one to append to; never through a link. Raises OSError."""
    if mode == "xb":
        path.unlink(missing_ok=True)
    how = os.O_EXCL if mode == "xb" else os.O_APPEND | os.O_NOFOLLOW
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | how, 0o600)
    with suppress(PermissionError):  # another user's file, which we may write to
        os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, mode)


def write(path: Path, content: bytes) -> None:
    """Writes the whole file, or leaves the previous one, even after a power cut. Raises OSError."""
    temporary = path.with_name(f"{path.name}.tmp")
    with open_file(temporary, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def open_lock(path: Path) -> int:
    """A descriptor of a file that is there for its lock alone; made where it is missing. Raises OSError."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _all_in(path: Path) -> Iterator[Path]:
    """Yields the path and everything in it; links are not followed."""
    if path.is_symlink():
        return
    yield path
    if path.is_dir():
        for directory, directories, files in os.walk(path):
            yield from (Path(directory, name) for name in (*directories, *files))


def _tighten(path: Path) -> None:
    found = path.lstat()
    if found.st_uid == os.geteuid() and found.st_mode & UMASK and not stat.S_ISLNK(found.st_mode):
        path.chmod(stat.S_IMODE(found.st_mode) & ~UMASK)
