"""What several of these tests look at; a test that looks at something else has a `bench` of its own."""

import pytest
from coldnotify_testkit.engine_bench import EngineBench


@pytest.fixture
def bench() -> EngineBench:
    """Three clients: c1 lacks a version of b, c2 has acknowledged nothing, c3 is away."""
    bench = EngineBench()
    bench.opened("a", "b", session=1, client="c1")
    bench.opened("a", session=2, client="c2")
    bench.opened("b", session=3, client="c3")
    bench.publish("a", b'{"version":1}', timestamp_ms=1000)
    bench.publish("b", b'{"version":1}', timestamp_ms=2000)
    bench.settle()
    bench.acks({1: 1, 2: 0})
    bench.leave(session=3, client="c3")
    bench.publish("b", b'{"version":2}', timestamp_ms=3000)
    bench.settle()
    return bench
