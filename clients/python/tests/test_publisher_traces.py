"""The trace that a publish belongs to: given, or that of OpenTelemetry's current span.

Stands for: tracing
"""

import pytest
from coldnotify._publishing.tracing import trace_of
from opentelemetry import trace

TRACE, SPAN = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
TEXT = f"00-{TRACE:032x}-{SPAN:016x}-01"


def current(flags: int) -> trace.NonRecordingSpan:
    return trace.NonRecordingSpan(trace.SpanContext(TRACE, SPAN, is_remote=False, trace_flags=trace.TraceFlags(flags)))


def test_the_current_span_is_taken_if_it_is_sampled() -> None:
    assert trace_of(None) is None
    with trace.use_span(current(1)):
        assert trace_of(None) == TEXT
        assert trace_of(TEXT.replace("b7", "b8")) == TEXT.replace("b7", "b8"), "what is given counts"
    with trace.use_span(current(0)):
        assert trace_of(None) is None


@pytest.mark.parametrize("given", ["", "00-1-2-3", TEXT + "x", 5])
def test_an_invalid_trace_context_is_refused_by_name(given: str) -> None:
    with pytest.raises(ValueError, match=r"^traceparent: "):
        trace_of(given)
