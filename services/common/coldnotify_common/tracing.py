"""Traces: spans of publish, match and deliver, sent to an OpenTelemetry collector. Needs coldnotify-server[otel].

OpenTelemetry is imported only if the setting, or OpenTelemetry's own variables, name a collector. Everywhere else, a
trace context is a text (`traceparent`). Spans wait in OpenTelemetry's queue (2,048 of them; further ones are dropped),
and a thread of its own sends them: no service waits for its collector.
"""

import os
import socket
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import structlog

from coldnotify_common.errors import SettingError
from coldnotify_common.settings import ServiceSettings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span as OtelSpan

log = structlog.get_logger()
Attributes = Mapping[str, str | int]
"""Attributes of a span, by name."""

STOP_S_MAX = 2.0
"""Time for the last spans to reach the collector. It may be away, and the process does not wait longer."""
_PATH = "/v1/traces"
_SETTING = "COLDNOTIFY_TRACE_ENDPOINT / --trace-endpoint"
_EXTRA = "coldnotify-server[otel]"
_OTEL_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_ON = "true"


class Span:
    """A span: one step of a publish on its way to devices."""

    __slots__ = ("_span", "traceparent")

    def __init__(self, span: "OtelSpan", parent: str) -> None:
        self._span = span
        context = span.get_span_context()
        # A span that is not recorded leaves no gap: the next span takes this one's parent as its own.
        own = f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags) & 0xFF:02x}"
        self.traceparent = own if span.is_recording() else parent
        """The trace context for the next step; "" if there is none to pass on."""

    def end(self, error: str = "") -> None:
        """Ends the span. `error`: a message if the step failed."""
        if error:
            from opentelemetry.trace import StatusCode

            self._span.set_status(StatusCode.ERROR, error)
        self._span.end()


class Tracer:
    """Creates a service's spans. Any thread may use it."""

    def __init__(self, service: str, exporter: "SpanExporter", instance: str = "") -> None:
        """`service`: matcher, gateway or http. Raises ImportError if the extra is not installed."""
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        about = {"service.instance.id": instance or f"{socket.gethostname()}:{os.getpid()}"}
        if not os.environ.get("OTEL_SERVICE_NAME"):
            about["service.name"] = f"coldnotify-{service}"
        # By default, a publisher's trace is kept if the publisher sampled it, and publishes without a trace are all
        # kept; OTEL_TRACES_SAMPLER overrides this.
        self._provider = TracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("coldnotify")

    def begin(self, name: str, parent: str, attributes: Attributes | None = None) -> Span:
        """Begins a span in the trace of `parent`, a valid traceparent; "" begins a new trace."""
        from opentelemetry.context import Context
        from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

        context = Context()
        if parent:
            _, trace, span, flags = parent.split("-")[:4]
            above = SpanContext(int(trace, 16), int(span, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))
            context = set_span_in_context(NonRecordingSpan(above), context)
        return Span(self._tracer.start_span(name, context, attributes=attributes), parent)

    def close(self) -> None:
        """Sends the remaining spans, for at most STOP_S_MAX."""
        # The shutdown itself takes up to 30 s if the collector does not answer.
        thread = threading.Thread(target=self._provider.shutdown, name="last-spans", daemon=True)
        thread.start()
        thread.join(STOP_S_MAX)


def tracer_of(settings: ServiceSettings, service: str, instance: str = "") -> Tracer | None:
    """Returns the service's tracer; None if traces are not configured. Raises SettingError."""
    endpoint = settings.trace_endpoint
    if endpoint:
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise SettingError(f"{_SETTING}: {endpoint!r} must be an address like http://collector:4318")
    elif not _wanted_by_environment(os.environ):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        url = None if not endpoint else endpoint.rstrip("/").removesuffix(_PATH) + _PATH
        tracer = Tracer(service, OTLPSpanExporter(url), instance)
    except ImportError as error:
        if endpoint:
            raise SettingError(f"{_SETTING}: needs the extra {_EXTRA} ({error})") from None
        log.warning("no traces are sent", reason=f"OTEL_... is set, but {_EXTRA} is not installed: {error}")
        return None
    log.info("traces are sent", endpoint=url or "as OTEL_EXPORTER_OTLP_... says")
    return tracer


def _wanted_by_environment(environ: Mapping[str, str]) -> bool:
    if environ.get("OTEL_SDK_DISABLED", "").lower() == _ON or environ.get("OTEL_TRACES_EXPORTER", "otlp") == "none":
        return False
    return any(environ.get(name) for name in _OTEL_ENDPOINTS)
