"""Fixtures of the tests of the gateway's core: its bench."""

import pytest
from coldnotify_testkit.gateway_bench import GatewayBench


@pytest.fixture
def bench() -> GatewayBench:
    """With limits as they are by default."""
    return GatewayBench()
