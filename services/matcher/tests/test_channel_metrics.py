"""What the shell counts of channels has a metric."""

import pytest
from coldnotify_matcher import channel_metrics, metrics
from prometheus_client import REGISTRY


@pytest.mark.parametrize("name", channel_metrics.EVENTS)
def test_each_event_is_counted(name: str) -> None:
    sample = f"coldnotify_matcher_{name}_total"
    before = REGISTRY.get_sample_value(sample) or 0.0
    metrics.count(name, 3)
    assert REGISTRY.get_sample_value(sample) == before + 3
