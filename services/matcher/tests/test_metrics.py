"""Every metric has a name of ours and says what it is."""

import pytest
from coldnotify_matcher import metrics
from coldnotify_matcher.engine.objects import history
from prometheus_client import REGISTRY, generate_latest


def test_all_are_named_alike_and_described() -> None:
    ours = [metric for metric in REGISTRY.collect() if metric.name.startswith("coldnotify_matcher_")]

    assert len(ours) >= len(metrics.EVENTS) + 4
    assert all(metric.documentation for metric in ours)
    assert b"coldnotify_matcher_partitions_owned" in generate_latest(REGISTRY)


def test_each_outcome_of_a_publish_has_its_metric() -> None:
    assert {history.PUBLISHED, history.REPEATED, history.ALTERED, history.STALE} == set(metrics.OUTCOMES)
    assert set(metrics.OUTCOMES) <= set(metrics.EVENTS)


def test_domains_have_rows_once_they_have_stale_publishes_and_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "DOMAINS_MAX", 2)
    monkeypatch.setattr(metrics, "_domains", set())
    for event in ("published:d1", "stale:d1", "published:d1", "stale:d2", "published:d3", "stale:d3", "stale:d1"):
        metrics.count(event, 2)

    def counted(domain: str, outcome: str) -> float | None:
        labels = {"domain": domain, "outcome": outcome}
        return REGISTRY.get_sample_value("coldnotify_matcher_domain_publishes_total", labels)

    assert (counted("d1", "published"), counted("d1", "stale"), counted("d1", "altered")) == (2, 4, 0)
    assert (counted("d2", "stale"), counted("d3", "stale")) == (2, None)
    assert (counted("(others)", "published"), counted("(others)", "stale")) == (2, 2)
