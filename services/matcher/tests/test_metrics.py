"""Every metric has a name of ours and says what it is."""

from coldnotify_matcher import metrics
from prometheus_client import REGISTRY, generate_latest


def test_all_are_named_alike_and_described() -> None:
    ours = [metric for metric in REGISTRY.collect() if metric.name.startswith("coldnotify_matcher_")]

    assert len(ours) >= len(metrics.EVENTS) + 4
    assert all(metric.documentation for metric in ours)
    assert b"coldnotify_matcher_partitions_owned" in generate_latest(REGISTRY)
