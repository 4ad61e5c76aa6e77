"""The lines on the terminal: a column of names, coloured where somebody looks."""

import os
import zlib
from typing import TextIO

_NAME_COLUMNS = 11
_COLOURS = (31, 32, 33, 34, 35, 36, 91, 92, 93, 94, 95, 96)
_BOLD, _GREEN, _RED = 1, 32, 41


class Terminal:
    """Writes lines to a stream; in colour only on a terminal without NO_COLOR (no-color.org)."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._coloured = stream.isatty() and not os.environ.get("NO_COLOR")

    def line(self, name: str, words: str) -> None:
        """Writes words of `name`, which always has the same colour."""
        for part in words.splitlines() or [""]:
            colour = _COLOURS[zlib.crc32(name.encode()) % len(_COLOURS)]
            self._write(f"{self._paint(f'{name:<{_NAME_COLUMNS}}', colour)}| {part}")

    def title(self, words: str) -> None:
        """The beginning of an act."""
        self._write("")
        self._write(self._paint(f"-- {words}", _BOLD))

    def outcome(self, words: str, kept: bool) -> None:
        """A promise, kept or not."""
        mark = self._paint("ok", _GREEN) if kept else self._paint("FAILED", _RED)
        self._write(f"{'':<{_NAME_COLUMNS}}= {mark}: {words}")

    def plain(self, words: str = "") -> None:
        """Writes words unchanged."""
        self._write(words)

    def _paint(self, words: str, colour: int) -> str:
        return f"\x1b[{colour}m{words}\x1b[0m" if self._coloured else words

    def _write(self, line: str) -> None:
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except BrokenPipeError:
            # Whoever read (`| head`) has had enough: the play goes on, its exit code still counts. The interpreter
            # would complain at its end about what could not be written.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
