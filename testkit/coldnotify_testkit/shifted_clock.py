"""A real process whose wall clock is wrong: `ShiftedClock(directory)` gives its environment, and moves the clock.

It holds for all of the process, librdkafka and Java as well as Python, and may change while it runs. Monotonic clocks
stay as they are. A child that such a process starts has the same clock.
"""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_suffix(".c")
_COMPILE_S = 60
_NS = 1_000_000_000


class ShiftedClock:
    """A clock that several processes may share. Skips the test if there is no C compiler."""

    def __init__(self, directory: Path, by_s: float = 0.0) -> None:
        """Its files are in `directory`. `by_s`: how far it is ahead of ours; below 0: behind."""
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("no C compiler: a process's clock cannot be shifted")
        library = directory / "shifted_clock.so"
        if not library.exists():
            argv = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
            subprocess.run(argv, check=True, timeout=_COMPILE_S)
        self._file = directory / "clock"
        self._file.write_bytes(struct.pack("=q", 0))
        self.shift(by_s)
        self.environ = {"LD_PRELOAD": str(library), "COLDNOTIFY_TEST_CLOCK": str(self._file)}
        """Variables that the process needs in its environment."""

    def shift(self, by_s: float) -> None:
        """Sets how far it is ahead of ours from now on, in s; below 0: behind."""
        with self._file.open("r+b") as file:  # in place: it is mapped
            file.write(struct.pack("=q", round(by_s * _NS)))
