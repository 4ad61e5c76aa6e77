from pathlib import Path

import pytest
from coldnotify_tools.metrics_doc import all_metrics, generate

DOC = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_document_is_up_to_date() -> None:
    assert DOC.read_text(encoding="utf-8") == generate(), (
        "docs/metrics.md is out of date: python -m coldnotify_tools.metrics_doc > docs/metrics.md"
    )


@pytest.mark.parametrize("service", ["matcher", "gateway", "http"])
def test_every_metric_is_named_after_its_service_and_says_what_it_counts(service: str) -> None:
    metrics = all_metrics()[service]
    assert metrics
    for metric in metrics:
        assert metric.name.startswith(f"coldnotify_{service}_")
        assert metric.meaning
        assert metric.name.endswith("_total") == (metric.kind == "counter")


def test_no_name_is_used_twice() -> None:
    names = [metric.name for metrics in all_metrics().values() for metric in metrics]
    assert len(names) == len(set(names))
