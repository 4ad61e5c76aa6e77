"""At most one log line a second of each kind: what strangers can cause at any rate is said, and does not fill the log.

The next line of a kind says, as `left_out`, how many were not written since the last one.
"""

import logging
import re
import threading
import time
from collections.abc import Callable
from typing import Any

EVERY_S = 1.0
_KINDS_MAX = 256
"""Kinds that are remembered. A kind is to be a constant of the code; what libraries log may hold a stranger's words."""
_KIND_CHARS_MAX = 100
_REASON_CHARS_MAX = 200
_OF_WORDS = re.compile(r"[:'\"\n]")
_MALFORMED_HTTP = "aiohttp.http_exceptions"
"""By name: what serves HTTP is imported when there is time for it."""


class Pace:
    """Whether one more of a kind may be said. Any thread may ask."""

    def __init__(self, every_s: float = EVERY_S, now_s: Callable[[], float] = time.monotonic) -> None:
        self._every_s = every_s
        self._now_s = now_s
        self._lock = threading.Lock()
        self._said: dict[str, tuple[float, int]] = {}
        """When a kind was said last, and how many were left out since; in the order of the former."""

    def take(self, kind: str) -> int | None:
        """How many of this kind were left out since the last one that was said; None: this one is left out, too."""
        with self._lock:
            now_s = self._now_s()
            said_s, left_out = self._said.get(kind, (now_s - self._every_s, 0))
            if now_s - said_s < self._every_s:
                self._said[kind] = (said_s, left_out + 1)
                return None
            self._said.pop(kind, None)
            self._said[kind] = (now_s, 0)
            if len(self._said) > _KINDS_MAX:
                del self._said[next(iter(self._said))]
            return left_out


class Paced:
    """A structlog logger whose lines are paced, each event by itself. Any thread may log."""

    def __init__(self, logger: Any, every_s: float = EVERY_S, now_s: Callable[[], float] = time.monotonic) -> None:
        """`logger`: what structlog.get_logger() gives."""
        self._logger = logger
        self._pace = Pace(every_s, now_s)

    def log(self, event: str, *, level: str = "info", raised: BaseException | None = None, **fields: object) -> None:
        """Writes the line, or counts it. `event` is the kind: words of the code, none of a stranger's.

        `raised`: what went wrong where nobody expected it, shown with its traceback; its kind and where it was raised
        are part of the line's, so one that strangers cause all the time hides no other.
        """
        kind = event
        if raised is not None:
            kind, fields["exc_info"] = f"{event} {_where(raised)}", raised
        left_out = self._pace.take(kind)
        if left_out is None:
            return
        if left_out:
            fields["left_out"] = left_out
        getattr(self._logger, level)(event, **fields)


class PacedRecords(logging.Filter):
    """The same for a logger of the standard library that is a library's: a kind is a message before its arguments."""

    def __init__(self, every_s: float = EVERY_S, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._pace = Pace(every_s, now_s)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is written. One that is has `left_out`, where there were any."""
        # asyncio puts what differs each time (the transport, the protocol) into further lines.
        kind = f"{record.name} {record.levelno} {str(record.msg).partition(chr(10))[0][:_KIND_CHARS_MAX]}"
        left_out = self._pace.take(kind)
        if left_out:
            record.left_out = left_out
        return left_out is not None and _as_a_strangers(record)


def _where(raised: BaseException) -> str:
    """Which error, and the place in the code that raised it."""
    at = raised.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    place = "" if at is None else f" {at.tb_frame.f_code.co_filename}:{at.tb_lineno}"
    return f"{type(raised).__name__}{place}"


def _as_a_strangers(record: logging.LogRecord) -> bool:
    """Malformed HTTP is no error of ours, and where it was found is of no use: the reason is enough."""
    error = record.exc_info[1] if record.exc_info else None
    if type(error).__module__ != _MALFORMED_HTTP:
        return True
    # What was malformed stands behind the first words, and may be a token.
    reason = _OF_WORDS.split(str(getattr(error, "message", "")), 1)[0].strip()[:_REASON_CHARS_MAX]
    record.msg, record.args = f"{record.getMessage()}: {reason}", None
    record.exc_info, record.levelno, record.levelname = None, logging.INFO, "INFO"
    return logging.getLogger(record.name).isEnabledFor(logging.INFO)
