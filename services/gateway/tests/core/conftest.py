"""Fixtures of the tests of the gateway's core: its bench."""

import pytest
from coldnotify_testkit.gateway_bench import Bench


@pytest.fixture
def bench() -> Bench:
    """With limits as they are by default."""
    return Bench()
