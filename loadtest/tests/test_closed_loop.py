"""Producers in a closed loop: against a played HTTP service in this process, and a real Kafka.

Stands for: closed_loop
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice

import pytest
from coldnotify.flow.beginnings import KAFKA
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_loadtest.closed_loop import DISTRIBUTIONS, ClosedLoopError, Place, Producers, Task, drawn
from coldnotify_loadtest.latency import Latencies
from coldnotify_loadtest.population import Population

BEGIN = KAFKA._replace(completions=20, seconds=0.05)
FEW = Population(1, 4, 2, domain="flow")


class Played:
    """Answers each request after 20 ms, as many at once as come."""

    def __init__(self) -> None:
        self.at_once = self.most = self.answered = 0
        self.status = 200
        self._lock = threading.Lock()
        played = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                played.count(1)
                time.sleep(0.02)
                played.count(-1)
                self.send_response(played.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """The producers cut their connections off."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def count(self, difference: int) -> None:
        """So many more are being answered."""
        with self._lock:
            self.at_once += difference
            self.most = max(self.most, self.at_once)
            self.answered += difference < 0

    def stop(self) -> None:
        """No more."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def played() -> Iterator[Played]:
    one = Played()
    yield one
    one.stop()


def test_http_never_has_more_in_flight_than_the_limit_and_says_what_each_took(played: Played) -> None:
    with Producers([Place("http", played.port, FEW, block) for block in (0, 1)]) as producers:
        loops = producers.run(Task("fixed", 1.0, 3, BEGIN))
    assert played.most <= 6
    assert 0 < sum(loop.acknowledged for loop in loops) <= played.answered
    for loop in loops:
        waits = Latencies()
        waits.merge(loop.waits)
        assert waits.count == loop.acknowledged
        assert loop.wait_s >= 0.02
        assert 0 < loop.sampled <= 3
        assert loop.windows
        assert {window.limit for window in loop.windows} == {3}


def test_refusals_are_failures(played: Played) -> None:
    played.status = 503
    with Producers([Place("http", played.port, FEW, 0)]) as producers:
        (loop,) = producers.run(Task("fixed", 0.3, 3, BEGIN))
    assert (loop.acknowledged, loop.failed > 0) == (0, True)


@pytest.mark.kafka
def test_kafka_acknowledges_what_is_written_and_the_limit_moves(fresh_kafka: EmbeddedBroker) -> None:
    with Producers([Place("kafka", int(fresh_kafka.bootstrap.rpartition(":")[2]), FEW, 0)]) as producers:
        until_s = time.monotonic() + 60
        limits: set[int] = set()
        while len(limits) < 2 and time.monotonic() < until_s:
            (loop,) = producers.run(Task("last-three-points", 0.5, 50, BEGIN._replace(first=2, delta=1), "poisson"))
            limits |= {window.limit for window in loop.windows}
            assert loop.failed == 0
        assert loop.acknowledged > 0
        assert len(limits) >= 2


def test_a_producer_that_cannot_connect_is_told() -> None:
    with (
        pytest.raises(ClosedLoopError),
        Producers([Place("http", 1, FEW, 0)]) as producers,
    ):
        producers.run(Task("fixed", 0.1, 1, BEGIN))


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_objects_are_drawn_around_the_middle_or_evenly(distribution: str) -> None:
    numbers = Counter(islice(drawn(distribution, 101, 1), 10_000))
    assert set(numbers) <= set(range(101))
    middle = sum(numbers[number] for number in range(40, 61))
    assert (1_500 < middle < 2_700) == (distribution == "uniform")
    assert set(islice(drawn(distribution, 1, 1), 100)) == {0}


def test_other_distributions_are_told() -> None:
    with pytest.raises(ValueError, match="'zipf' is none of uniform, normal, poisson"):
        next(drawn("zipf", 5, 1))
