import socket
import time

import pytest
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.broker.readiness import (
    NotReadyInTimeError,
    java_hash_code,
    names_for_partitions,
    wait_until_ready,
)


def test_hash_codes_are_javas() -> None:
    # From Java: "".hashCode(), "a".hashCode(), "polygenelubricants".hashCode() (Integer.MIN_VALUE), "hello".hashCode()
    assert [java_hash_code(text) for text in ("", "a", "polygenelubricants", "hello")] == [0, 97, -(2**31), 99162322]


def test_each_partition_has_a_name() -> None:
    names = names_for_partitions(16)
    assert [abs(java_hash_code(name)) % 16 for name in names] == list(range(16))


def test_a_port_alone_is_not_readiness() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(NotReadyInTimeError, match="no metadata"):
            wait_until_ready("127.0.0.1", port, time.monotonic() + 1, lambda: None)


def test_a_missing_broker_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(NotReadyInTimeError, match=f"nothing listens on 127.0.0.1:{port}.*refused"):
        wait_until_ready("127.0.0.1", port, time.monotonic() + 0.2, lambda: None)


def test_the_end_of_the_process_ends_the_wait() -> None:
    def dead() -> None:
        raise ChildProcessError

    with pytest.raises(ChildProcessError):
        wait_until_ready("127.0.0.1", 1, time.monotonic() + 60, dead)


@pytest.mark.kafka
def test_a_ready_broker_is_found_ready_again(kafka: EmbeddedBroker) -> None:
    wait_until_ready("127.0.0.1", kafka.port, time.monotonic() + 60, lambda: None)
