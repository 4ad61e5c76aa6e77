"""Logging: structlog over the standard library, one line per event on stderr, for people or as JSON.

Log records of libraries (aiohttp, librdkafka through our configuration) get the same format. Lines that strangers can
make aiohttp and asyncio write are limited to one a second of each kind. In the format for people, no character of a
value can control a terminal or begin a new line; JSON escapes such characters itself.
"""

import io
import logging
import sys
from typing import TextIO

import structlog
from coldnotify_schemas.visible import visible_lines
from structlog.typing import EventDict, ExcInfo, Processor, WrappedLogger

from coldnotify_common.paced import PacedRecords

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_OF_STRANGERS = ("aiohttp.server", "aiohttp.web", "aiohttp.websocket", "asyncio")
"""Loggers whose lines anybody who reaches a port can cause: malformed HTTP, connections that end during the
handshake."""

_OF_LINES = ("event", "stack", "exception")


def configure(log_format: str, log_level: str, service: str) -> None:
    """Sets up logging for this process. `log_format`: console or json; `service`: added to every line."""
    level = _LEVELS[log_level]

    def name_service(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event.setdefault("service", service)
        return event

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        name_service,
        structlog.processors.StackInfoRenderer(),
    ]
    final: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if log_format == "json":
        final += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    else:
        final += [
            _steers_nothing,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_traceback),
        ]

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=[*shared, _left_out], processors=final))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _OF_STRANGERS:
        logging.getLogger(name).filters[:] = [PacedRecords()]
    structlog.configure(
        processors=[
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        # Filters before any processor runs, so that an unwanted debug line costs next to nothing.
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=False,
    )


def _left_out(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    left_out = getattr(event.get("_record"), "left_out", None)
    if left_out is not None:
        event["left_out"] = left_out
    return event


class _Quoted:
    """A text that the console renderer shows in quotes, as it does a text with spaces."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return repr(self._text)


def _steers_nothing(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replaces unprintable characters in texts, which the renderer would write unchanged. It shows other values by
    repr(), which escapes such characters, too."""
    for name, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[name] = visible_lines(value) if name in _OF_LINES else _Quoted(value)
    return event


def _traceback(lines: TextIO, exc_info: ExcInfo) -> None:
    text = io.StringIO()
    structlog.dev.plain_traceback(text, exc_info)
    lines.write(visible_lines(text.getvalue()))
