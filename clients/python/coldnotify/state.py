"""The state file: one document, written so that a power cut leaves the old one or the new one.

Beside the file are `<filename>.lock`, held while a client is connected, and for the time of a write `<filename>.new`.
All of them are for their owner only, because whoever can write them controls this client.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from coldnotify._forked import in_children
from coldnotify.errors import StateError, StateInUse


class State:
    """Stores what must survive a power cut. One client of one process at a time may use it."""

    shared = False
    """True for a group's part of a file of several."""

    def __init__(self, filename: str | os.PathLike[str] | None) -> None:
        """`filename`: None keeps the state in memory, for tests and for looking on."""
        if filename is not None and not os.fspath(filename):
            raise ValueError("filename: is empty")
        self._path = None if filename is None else Path(filename).absolute()
        self._memory: bytes | None = None
        self._lock: int | None = None
        self._in_use = False
        in_children(self)

    def forked(self) -> None:
        """A child has not opened it, whatever its parent has: the lock stays its parent's."""
        self.close()

    def __repr__(self) -> str:
        return f"State({None if self._path is None else str(self._path)!r})"

    def open(self) -> None:
        """Take it. Raises StateInUse, StateError."""
        if self._in_use:
            raise StateInUse(f"{self}: is in use by another Notify")
        if self._path is not None:
            try:
                lock = os.open(self._beside("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            except OSError as error:
                raise StateError(f"{self._path}: cannot be locked: {error}") from error
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(lock)
                raise StateInUse(f"{self._path}: is in use by another client: {error}") from None
            self._lock = lock
        self._in_use = True

    def close(self) -> None:
        """Let it go."""
        self._in_use = False
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def read(self) -> bytes | None:
        """Returns what was last written; None if nothing was. Raises StateError."""
        if self._path is None:
            return self._memory
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateError(f"{self._path}: cannot be read: {error}") from error

    def write(self, data: bytes) -> None:
        """Make `data` the content: when this returns, it survives a power cut. Raises StateError; the old content
        stays then."""
        if self._path is None:
            self._memory = data
            return
        new = self._beside("new")
        try:
            # Another one may lie there, of a power cut, that others may write to.
            new.unlink(missing_ok=True)
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
            self._sync_directory()
        except OSError as error:
            with suppress(OSError):
                new.unlink(missing_ok=True)
            raise StateError(f"{self._path}: cannot be written: {error}") from error

    def set_aside(self) -> str:
        """Moves damaged content to another name, which is returned, so that the client can start without. Raises
        StateError.
        """
        if self._path is None:
            self._memory = None
            return "memory"
        number = 1
        while (aside := self._beside(f"damaged-{number}")).exists():
            number += 1
        try:
            self._path.rename(aside)
            self._sync_directory()
        except OSError as error:
            raise StateError(f"{self._path}: is damaged, and cannot be renamed: {error}") from error
        return str(aside)

    def __str__(self) -> str:
        return "state in memory" if self._path is None else str(self._path)

    def _beside(self, ending: str) -> Path:
        assert self._path is not None
        return self._path.with_name(f"{self._path.name}.{ending}")

    def _sync_directory(self) -> None:
        assert self._path is not None
        directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
