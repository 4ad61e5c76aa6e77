"""Fixtures of the matcher's tests over a real Kafka: its address, and who plays gateway and publisher."""

from collections.abc import Iterator

import pytest
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_testkit.matcher_process import Player


@pytest.fixture
def bootstrap(fresh_kafka: EmbeddedBroker) -> str:
    """The broker's address; its topics are made anew."""
    return fresh_kafka.bootstrap


@pytest.fixture
def player(bootstrap: str) -> Iterator[Player]:
    """A gateway and a publisher; closed at the test's end."""
    one = Player(bootstrap)
    yield one
    one.close()
