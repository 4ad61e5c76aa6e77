"""A line on stderr for a command that waits for somebody else: whoever typed it learns for whom, and for how long."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from coldnotify_cli.printing import echo

_AFTER_S = 2.0
"""Seconds without an answer, from which on a person wonders."""


@contextmanager
def waiting_notice(for_whom: str, timeout_s: float) -> Iterator[None]:
    """Prints a notice once, if the block takes longer than some seconds. `timeout_s`: the block's longest wait."""
    words = f"waiting for {for_whom}: no answer yet; giving up after {timeout_s:g} s"
    timer = threading.Timer(_AFTER_S, lambda: echo(words, err=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
