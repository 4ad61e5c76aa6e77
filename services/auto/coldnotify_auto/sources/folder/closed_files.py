"""Linux' inotify: which files of a folder were closed after writing, moved here or removed."""

import ctypes
import os
import select
import struct
from pathlib import Path
from typing import NamedTuple

_CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x8, 0x40, 0x80, 0x100, 0x200
_IS_FOLDER, _OVERFLOW, _ONLY_FOLDERS = 0x4000_0000, 0x4000, 0x0100_0000
_MASK = _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLY_FOLDERS
_EVENT = struct.Struct("iIII")
_READ_BYTES = 64 * 1024


class FileEvents(NamedTuple):
    """Events since the last look."""

    complete: set[Path]
    """Files that were closed after writing, or moved here."""
    removed: set[Path]
    rescan: bool
    """True if folders came or went, or events were lost: everything must be looked at."""


class ClosedFiles:
    """Watches a folder and the folders in it."""

    def __init__(self) -> None:
        """Raises OSError where there is no inotify."""
        try:
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except AttributeError:
            raise OSError("no inotify") from None
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._folders: dict[int, Path] = {}

    def watch(self, folder: Path) -> None:
        """Watches this folder, without those in it. Watching it twice is once. Raises OSError."""
        number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), _MASK)
        if number < 0:
            raise OSError(ctypes.get_errno(), f"inotify: {folder}")
        self._folders[number] = folder

    def look(self, timeout_s: float) -> FileEvents:
        """Returns what happened; waits at most so long for the first event."""
        complete: set[Path] = set()
        removed: set[Path] = set()
        rescan = False
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        if not poll.poll(max(0.0, timeout_s) * 1000):
            return FileEvents(complete, removed, rescan)
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return FileEvents(complete, removed, rescan)
        at = 0
        while at < len(data):
            number, mask, _, length = _EVENT.unpack_from(data, at)
            name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
            at += _EVENT.size + length
            folder = self._folders.get(number)
            if mask & _OVERFLOW or mask & _IS_FOLDER:
                rescan = True
            elif folder is not None and name:
                path = folder / os.fsdecode(name)
                if mask & (_CLOSE_WRITE | _MOVED_TO):
                    removed.discard(path)
                    complete.add(path)
                elif mask & (_DELETE | _MOVED_FROM):
                    complete.discard(path)
                    removed.add(path)
        return FileEvents(complete, removed, rescan)

    def close(self) -> None:
        """Ends the watching."""
        os.close(self._descriptor)
