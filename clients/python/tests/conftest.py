"""Fixtures of the clients' tests: a publisher over a real Kafka, and an address that says nothing."""

import socket
from collections.abc import Iterator

import pytest
from coldnotify.publisher import Publisher
from coldnotify_kafka.broker import EmbeddedBroker


@pytest.fixture
def bootstrap(fresh_kafka: EmbeddedBroker) -> str:
    """The broker's address; its topics are made anew."""
    return fresh_kafka.bootstrap


@pytest.fixture
def publisher(bootstrap: str) -> Iterator[Publisher]:
    """One that is patient with a busy machine."""
    with Publisher(bootstrap, timeout_s=60) as publisher:
        yield publisher


@pytest.fixture
def silent_address() -> Iterator[str]:
    """Somebody listens there and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"
