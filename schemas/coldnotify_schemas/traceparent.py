"""The W3C trace context that may come with a publish, as text: `00-<trace id>-<span id>-<flags>`. Pure."""

import re
from collections.abc import Iterable

TRACEPARENT_HEADER = "traceparent"
"""Header of a Kafka record, and of an HTTP request."""
_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII | re.DOTALL)
_BYTES_MAX = 512
"""Limit on a header: a later version of the standard may be longer than today's 55 characters."""
_SAMPLED = 1


def is_traceparent(text: str) -> bool:
    """Returns true if the text is a trace context by the standard."""
    form = _FORM.fullmatch(text) if len(text) <= _BYTES_MAX else None
    if form is None:
        return False
    version, trace, span, _, rest = form.groups()
    return version != "ff" and trace.strip("0") != "" and span.strip("0") != "" and not (version == "00" and rest)


def is_sampled(traceparent: str) -> bool:
    """Returns true if a valid one asks for the spans to be kept."""
    return bool(int(traceparent[53:55], 16) & _SAMPLED)


def sampled_in(headers: Iterable[tuple[str, str | bytes | None]]) -> str:
    """The trace context among a Kafka record's headers, if it is valid and sampled; else ""."""
    for name, value in headers:
        if name == TRACEPARENT_HEADER:
            text = value.decode("ascii", "replace") if isinstance(value, bytes) else value or ""
            return text[:55] if is_traceparent(text) and is_sampled(text) else ""
    return ""
