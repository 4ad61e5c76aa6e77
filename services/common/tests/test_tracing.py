"""Spans: when there are any, to which trace they belong, and that nothing is imported where none are wanted."""

import subprocess
import sys

import pytest
from coldnotify_common.errors import SettingError
from coldnotify_common.settings import ServiceSettings
from coldnotify_common.tracing import Tracer, tracer_of
from coldnotify_schemas.traceparent import is_traceparent
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_SAMPLER"):
        monkeypatch.delenv(name, raising=False)


def test_steps_hang_on_one_another_in_the_trace_they_came_with() -> None:
    kept = InMemorySpanExporter()
    tracer = Tracer("matcher", kept, "matcher-1")
    first = tracer.begin("publish", PARENT, {"coldnotify.domain": "d"})
    second = tracer.begin("match", first.traceparent)
    second.end("broken")
    first.end()
    alone = tracer.begin("publish", "")
    alone.end()
    tracer.close()
    match, publish, other = kept.get_finished_spans()
    assert publish.context is not None
    assert publish.parent is not None
    assert match.parent is not None
    assert f"{publish.parent.trace_id:032x}-{publish.parent.span_id:016x}" == f"{TRACE}-{SPAN}"
    assert (match.parent.trace_id, match.parent.span_id) == (publish.context.trace_id, publish.context.span_id)
    assert (publish.attributes, match.status.description) == ({"coldnotify.domain": "d"}, "broken")
    assert match.resource.attributes["service.name"] == "coldnotify-matcher"
    assert match.resource.attributes["service.instance.id"] == "matcher-1"
    assert other.parent is None
    assert is_traceparent(alone.traceparent)


def test_what_is_not_sampled_costs_no_span_and_is_handed_on_as_it_came() -> None:
    kept = InMemorySpanExporter()
    tracer = Tracer("http", kept)
    span = tracer.begin("publish", PARENT[:-1] + "0")
    span.end()
    tracer.close()
    assert (span.traceparent, kept.get_finished_spans()) == (PARENT[:-1] + "0", ())


def test_a_sampler_that_drops_everything_leaves_no_gap_in_the_publishers_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    tracer = Tracer("http", InMemorySpanExporter())
    assert tracer.begin("publish", PARENT).traceparent == PARENT
    assert tracer.begin("publish", "").traceparent == ""
    tracer.close()


def test_there_are_none_unless_a_collector_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tracer_of(ServiceSettings(), "http") is None
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    assert tracer_of(ServiceSettings(), "http") is None
    monkeypatch.delenv("OTEL_TRACES_EXPORTER")
    tracer = tracer_of(ServiceSettings(), "http")
    assert tracer is not None
    tracer.close()


@pytest.mark.parametrize("endpoint", ["collector:4318", "ftp://collector", "http://"])
def test_an_endpoint_that_is_none_is_said_at_start(endpoint: str) -> None:
    with pytest.raises(SettingError, match="COLDNOTIFY_TRACE_ENDPOINT"):
        tracer_of(ServiceSettings(trace_endpoint=endpoint), "http")


def test_without_the_extra_the_setting_is_an_error_and_a_variable_of_others_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, EXPORTER, None)
    with pytest.raises(SettingError, match=r"coldnotify-server\[otel\]"):
        tracer_of(ServiceSettings(trace_endpoint="http://127.0.0.1:1"), "http")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    with capture_logs() as logs:
        assert tracer_of(ServiceSettings(), "http") is None
    assert [entry["log_level"] for entry in logs] == ["warning"]


def test_nothing_is_imported_by_services_and_publishers() -> None:
    code = (
        "import sys, coldnotify_gateway.app, coldnotify_matcher.app, coldnotify_http.app, coldnotify.publisher\n"
        "sys.exit(str([name for name in sys.modules if name.startswith('opentelemetry')] or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.stderr.strip() == ""
