"""Open-loop publishing: arrivals, the process, what it says.

Stands for: senders
"""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from coldnotify_kafka.broker.free_ports import free_port
from coldnotify_load.open_loop import PublisherError, PublisherHandle, PublishPlan
from coldnotify_load.population import Population
from coldnotify_loadtest.senders import KvSender, target_of

FEW = Population(fan_out=1, registrations=1)


@pytest.fixture
def sink() -> Iterator[tuple[int, Callable[[], bytes]]]:
    """A server that answers nothing: its port, and what the one connection has said once it has ended."""
    heard = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            connection, _ = server.accept()
            with connection:
                while data := connection.recv(65536):
                    heard.extend(data)

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()

        def all_heard() -> bytes:
            thread.join(60)
            assert not thread.is_alive()
            return bytes(heard)

        yield server.getsockname()[1], all_heard


def test_publishes_go_out_on_schedule_although_nothing_answers(sink: tuple[int, Callable[[], bytes]]) -> None:
    port, all_heard = sink
    with PublisherHandle(target_of("bare", "127.0.0.1", port, FEW)) as publisher:
        published = publisher.publish(PublishPlan(200, 0.5, poisson=False))
        assert (published.sent, published.acknowledged, published.failed) == (100, 100, 0)
        assert published.last_ns - published.first_ns >= 490_000_000
        assert publisher.once(blocks=3).sent == 3
    lines = all_heard().removeprefix(b"P").split()
    stamps = [int(line) for line in lines]
    assert len(stamps) == 103
    # One that is sent late is stamped with the time at which it was due, and so may be stamped before its predecessor.
    assert all(stamp >= published.first_ns + number * 5_000_000 - 1000 for number, stamp in enumerate(stamps[:100]))
    assert min(stamps[100:]) >= published.first_ns + 495_000_000
    assert published.last_ns >= stamps[99]


def test_a_server_that_is_not_there_is_named() -> None:
    port = free_port()
    with pytest.raises(PublisherError, match=f"nats at 127.0.0.1:{port}"):
        PublisherHandle(target_of("nats", "127.0.0.1", port, FEW))


def test_answers_are_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = target_of("nats-kv", "127.0.0.1", server.getsockname()[1], FEW)
        sender = target.sender(target)
        assert isinstance(sender, KvSender)
        good = b'INFO {}\r\nMSG _P.acks 1 30\r\n{"stream":"KV_bench", "seq":1}\r\n'
        assert sender.answers(good + b'MSG _P.acks 1 13\r\n{"err') == (1, 0, b'MSG _P.acks 1 13\r\n{"err')
        assert sender.answers(b'MSG _P.acks 1 12\r\n{"error":{}}\r\n') == (0, 1, b"")
        sender.close()
