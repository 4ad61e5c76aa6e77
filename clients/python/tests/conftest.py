"""Fixtures of the clients' tests: a publisher over a real Kafka, a silent address, threaded clients of a service."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from coldnotify import Notify
from coldnotify.publisher import Publisher
from coldnotify.testing import FakeService, Service
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_testkit.threaded_clients import threaded_clients


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


@pytest.fixture
def service() -> Iterator[FakeService]:
    """One in memory, with small pages."""
    with FakeService(Service(page_objects=3)) as service:
        yield service


@pytest.fixture
def make(tmp_path: Path, service: FakeService) -> Iterator[Callable[..., Notify]]:
    """What makes threaded clients of the service."""
    with threaded_clients(tmp_path, service) as make:
        yield make
