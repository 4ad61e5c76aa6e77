"""MQTT's experiments, tiny.

Stands for: mqtt_publishing
"""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_every_publish_on_a_connection_is_acknowledged(rows_of: Callable[..., list[dict[str, Any]]]) -> None:
    rows = rows_of("mqtt-publishing", "servers=ColdNotify MQTT", "window=8")
    assert [row["kind"] for row in rows] == ["messages", "retained"]
    for row in rows:
        assert row["published"] >= 8
        assert 0 < row["p50_ms"] <= row["p99_ms"]
