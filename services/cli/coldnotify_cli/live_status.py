"""The live status of `coldnotify up` on a terminal: each part and how it is; log lines go to a file meanwhile."""

import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from coldnotify_kafka.broker.private import make_directory, open_file
from coldnotify_schemas.visible import visible_lines
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from coldnotify_cli.supervisor import Part

LOG_BYTES_MAX = 32 * 1024 * 1024
"""Limit on the log, and on its predecessor."""
_REFRESH_PER_S = 2
_STYLES = {"ready": "green", "starting": "yellow", "down": "red", "waiting": "dim", "stopped": "dim"}


class LiveStatus:
    """The live display; `say` and `show` may be called at any time."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.headline = "ColdNotify is starting"
        self.parts: Sequence[Part] = ()

    def say(self, headline: str) -> None:
        """Shows this above the parts."""
        self.headline = headline

    def show(self, parts: Sequence[Part]) -> None:
        """Shows these parts."""
        self.parts = parts

    def __rich__(self) -> RenderableType:
        """Renders the present state."""
        now_s = time.monotonic()
        table = Table(box=None, pad_edge=False, expand=True)
        for name in ("part", "pid", "state", "for", "deaths"):
            table.add_column(name, justify="right" if name in ("pid", "for", "deaths") else "left", overflow="fold")
        for part in self.parts:
            status = part.status(now_s)
            # A reason may be the end of a log, in which strangers' words stand.
            word = status.word if status.reason is None else f"{status.word}: {visible_lines(status.reason)}"
            pid = str(part.process.pid) if part.process is not None else "-"
            seconds = "-" if status.seconds is None else f"{status.seconds:.0f} s"
            table.add_row(part.name, pid, Text(word, style=_STYLES[status.word]), seconds, str(status.deaths))
        foot = Text(f"Log lines: {self._log}   Ctrl-C stops everything, in order", style="dim")
        return Group(Text(self.headline, style="bold"), table, foot)


@contextmanager
def live_status(log: Path) -> Iterator[LiveStatus]:
    """Shows it while the block runs. Output of this process and its children on stderr is appended to `log`.

    A log that has grown too long becomes `log`.1, replaces the previous one, and starts again. Both are for their owner
    only. Raises DataDirectoryError, OSError.
    """
    make_directory(log.parent)
    status = LiveStatus(log)

    def refreshed() -> LiveStatus:
        _bound(log)
        return status

    _bound(log)
    sys.stderr.flush()
    terminal = os.dup(2)
    with open_file(log, "ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        with Live(get_renderable=refreshed, refresh_per_second=_REFRESH_PER_S, redirect_stderr=False):
            yield status
    finally:
        sys.stderr.flush()
        os.dup2(terminal, 2)
        os.close(terminal)


def _bound(log: Path) -> None:
    with suppress(OSError):  # then another time
        if log.stat().st_size > LOG_BYTES_MAX:
            # Copied, not moved: the parts go on writing to this file, each time at its end.
            with log.open("rb") as begun, open_file(log.with_name(f"{log.name}.1"), "xb") as before:
                shutil.copyfileobj(begun, before)
            os.truncate(log, 0)
