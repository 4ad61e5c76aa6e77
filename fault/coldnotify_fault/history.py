"""Writes a history: each line with its time, written before the call returns."""

import threading
from pathlib import Path
from typing import Any

from coldnotify_checker.histories import Event, HistoryWriter, now_us


class HistoryFile:
    """One file of a history. Safe to use from many threads; a killed process loses at most the line it is writing."""

    def __init__(self, path: Path) -> None:
        """Appends to `path`. Raises OSError."""
        self._lock = threading.Lock()
        self._writer = HistoryWriter(path)

    def write(self, event: str, **fields: Any) -> int:
        """Adds a line with the time; returns that time, Unix time in microseconds. Raises HistoryError, OSError."""
        with self._lock:
            t = now_us()
            self._writer.write({"t": t, "event": event, **fields})
        return t

    def append(self, event: Event) -> None:
        """Adds an event that has its time. Raises OSError."""
        self._writer.write(event)

    def close(self) -> None:
        """Nothing more is written."""
        self._writer.close()
