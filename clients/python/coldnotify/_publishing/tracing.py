"""The trace context of a publish: passed by the application, or OpenTelemetry's current span, if it uses that."""

import sys

from coldnotify_schemas.traceparent import is_traceparent


def trace_of(traceparent: str | None) -> str | None:
    """Returns `traceparent` if it is passed, else that of the current span, if it is sampled. Raises ValueError.

    OpenTelemetry is not imported: if the application has not imported it, there is no span.
    """
    if traceparent is not None:
        if not isinstance(traceparent, str) or not is_traceparent(traceparent):
            raise ValueError(f"traceparent: {traceparent!r} is not a W3C trace context, 00-<trace>-<span>-<flags>")
        return traceparent
    current_span = getattr(sys.modules.get("opentelemetry.trace"), "get_current_span", None)
    if current_span is None:  # not imported, or not whole yet
        return None
    context = current_span().get_span_context()
    if not context.is_valid or not context.trace_flags.sampled:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags) & 0xFF:02x}"
