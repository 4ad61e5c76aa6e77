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
    assert set(metrics.OUTCOMES) <= {*metrics.EVENTS, *metrics.OTHER_EVENTS}


@pytest.mark.parametrize(
    ("event", "sample", "labels"),
    [
        ("blocks_unreadable", "coldnotify_matcher_events_total", {"event": "blocks_unreadable"}),
        ("altered:d", "coldnotify_matcher_events_total", {"event": "altered"}),
        ("messages", "coldnotify_matcher_messages_total", {"outcome": "followed"}),
        ("messages_rejected:made up", "coldnotify_matcher_messages_total", {"outcome": "rejected"}),
        ("messages_paged", "coldnotify_matcher_messages_told_total", {"way": "page"}),
        ("missed:lost", "coldnotify_matcher_missed_total", {"reason": "lost"}),
        ("rejected:key", "coldnotify_matcher_records_rejected_total", {"field": "key"}),
        ("rejected:made up", "coldnotify_matcher_records_rejected_total", {"field": "unknown_field"}),
    ],
)
def test_an_event_is_counted_under_its_label(event: str, sample: str, labels: dict[str, str]) -> None:
    before = REGISTRY.get_sample_value(sample, labels) or 0.0
    metrics.count(event, 3)
    assert REGISTRY.get_sample_value(sample, labels) == before + 3


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
