"""Limits log lines to one a second of each kind, so that strangers who cause lines at any rate cannot fill the log.

The next line of a kind carries the number of omitted lines as `left_out`.
"""

import logging
import re
import threading
import time
from collections.abc import Callable
from typing import Any

EVERY_S = 1.0
_KINDS_MAX = 256
"""Number of kinds kept. A kind should be a constant of the code, but messages of libraries may contain a stranger's
words."""
_KIND_CHARS_MAX = 100
_REASON_CHARS_MAX = 200
_OF_WORDS = re.compile(r"[:'\"\n]")
_MALFORMED_HTTP = "aiohttp.http_exceptions"
"""The module's name, because aiohttp is imported only after the process has become ready."""


class Pace:
    """Decides if another line of a kind may be logged. Safe to call from any thread."""

    def __init__(self, every_s: float = EVERY_S, now_s: Callable[[], float] = time.monotonic) -> None:
        self._every_s = every_s
        self._now_s = now_s
        self._lock = threading.Lock()
        self._said: dict[str, tuple[float, int]] = {}
        """Time of the last line of each kind, and the number of lines omitted since; ordered by that time."""

    def take(self, kind: str) -> int | None:
        """Returns the number of lines of this kind omitted since the last one logged; None: omit this one, too."""
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
    """A structlog logger that limits the lines of each event separately. Any thread may log."""

    def __init__(self, logger: Any, every_s: float = EVERY_S, now_s: Callable[[], float] = time.monotonic) -> None:
        """`logger`: a logger that structlog.get_logger() returned."""
        self._logger = logger
        self._pace = Pace(every_s, now_s)

    def log(self, event: str, *, level: str = "info", raised: BaseException | None = None, **fields: object) -> None:
        """Writes the line, or counts it. `event` is the kind: a constant of the code, without a stranger's words.

        `raised`: an unexpected exception, logged with its traceback. Its class and the place that raised it are part of
        the kind, so an exception that strangers cause all the time does not hide another.
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
    """Limits the lines of a library's standard logger. A kind is a message without its arguments."""

    def __init__(self, every_s: float = EVERY_S, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._pace = Pace(every_s, now_s)

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns true if the record is logged. A logged record has `left_out` if records were omitted before it."""
        # asyncio puts the parts that vary (the transport, the protocol) on further lines.
        kind = f"{record.name} {record.levelno} {str(record.msg).partition(chr(10))[0][:_KIND_CHARS_MAX]}"
        left_out = self._pace.take(kind)
        if left_out:
            record.left_out = left_out
        return left_out is not None and _as_a_strangers(record)


def _where(raised: BaseException) -> str:
    """Returns the exception's class and the place in the code that raised it."""
    at = raised.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    place = "" if at is None else f" {at.tb_frame.f_code.co_filename}:{at.tb_lineno}"
    return f"{type(raised).__name__}{place}"


def _as_a_strangers(record: logging.LogRecord) -> bool:
    """Logs malformed HTTP as INFO with its reason only, because it is not our error and its traceback is of no use."""
    error = record.exc_info[1] if record.exc_info else None
    if type(error).__module__ != _MALFORMED_HTTP:
        return True
    # The malformed text follows the first words, and may be a token.
    reason = _OF_WORDS.split(str(getattr(error, "message", "")), 1)[0].strip()[:_REASON_CHARS_MAX]
    record.msg, record.args = f"{record.getMessage()}: {reason}", None
    record.exc_info, record.levelno, record.levelname = None, logging.INFO, "INFO"
    return logging.getLogger(record.name).isEnabledFor(logging.INFO)
