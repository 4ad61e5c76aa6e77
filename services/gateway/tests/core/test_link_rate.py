"""How large a session's pages are, and how much may wait for it: as its link was measured."""

import pytest
from coldnotify_gateway.core import HighWater, Limits, SessionState
from coldnotify_gateway.core.link_rate import PAGE_BYTES_FIRST, LinkRate, SessionLink
from coldnotify_schemas.internal_pb2 import Item, Newest, Opened, Page
from coldnotify_schemas.internal_protocol import PAGE_BYTES_MAX
from coldnotify_testkit.device_frames import ack
from coldnotify_testkit.gateway_bench import GatewayBench

HIGH_WATER_BYTES = 64 * 1024


def measured(size_bytes: int, took_s: float, rate: LinkRate | None = None) -> LinkRate:
    rate = rate or LinkRate(HIGH_WATER_BYTES)
    rate.begin(size_bytes, 100.0)
    rate.end(100.0 + took_s)
    return rate


@pytest.mark.parametrize(
    ("size_bytes", "took_s", "page_bytes", "high_water_bytes"),
    [
        (10_000, 2.0, 10_000, 10_000),
        (10_000, 4.0, 5_000, 5_000),
        (16_000, 1.6, 20_000, 20_000),
        # However fast, a page is at most twice as large as the one before; and nothing waits longer than it must.
        (16_000, 0.1, 2 * PAGE_BYTES_FIRST, HIGH_WATER_BYTES),
        (16_000, 0.0, 2 * PAGE_BYTES_FIRST, HIGH_WATER_BYTES),
        (16_000, -1.0, 2 * PAGE_BYTES_FIRST, HIGH_WATER_BYTES),
        (16_000, 1000.0, 4096, 4096),
        (1, 1000.0, 4096, 4096),
    ],
)
def test_pages_are_what_the_link_carries_in_two_seconds(size_bytes, took_s, page_bytes, high_water_bytes):
    rate = measured(size_bytes, took_s)
    assert (rate.page_bytes, rate.high_water_bytes) == (page_bytes, high_water_bytes)


def test_a_page_grows_to_the_largest_and_shrinks_at_once():
    rate = LinkRate(HIGH_WATER_BYTES)
    for _ in range(4):
        measured(rate.page_bytes, 0.1, rate)
    assert rate.page_bytes == PAGE_BYTES_MAX
    measured(60_000, 10, rate)
    assert rate.page_bytes == 12_000


def test_a_high_water_mark_below_the_smallest_page_stays_what_it_is():
    rate = measured(10_000, 2.0, LinkRate(1000))
    assert (rate.page_bytes, rate.high_water_bytes) == (10_000, 1000)


def test_what_had_something_in_front_measures_nothing():
    rate = LinkRate(HIGH_WATER_BYTES)
    rate.begin(10_000, 100.0)
    rate.begin(0, 101.0)
    assert not rate.end(102.0)
    assert not rate.end(103.0)
    assert (rate.page_bytes, rate.high_water_bytes) == (PAGE_BYTES_FIRST, HIGH_WATER_BYTES)


def page(ask: int, number: int, size_bytes: int, *, last: bool = False) -> Item:
    newest = [Newest(name="a", version=1, offset=5, payload=b"x" * size_bytes)]
    return Item(page=Page(session=1, ask=ask, page=number, newest=newest, last=last, complete=5))


def asked_bytes(bench: GatewayBench) -> int:
    (request,) = bench.take_requests("catch_up")
    return request.catch_up.page_bytes


@pytest.fixture
def bench() -> GatewayBench:
    return GatewayBench(Limits(high_water_bytes=HIGH_WATER_BYTES))


def test_the_next_page_is_as_large_as_the_last_one_says(bench):
    wire = bench.opening()
    (request,) = bench.take_requests("open")
    assert request.open.page_bytes == PAGE_BYTES_FIRST
    bench.inbox(Item(opened=Opened(session=1, ask=1, in_sync=True)), page(1, 1, 16_000))
    bench.now_s += 4
    bench.say(wire, ack(page=1))
    assert 8000 < asked_bytes(bench) < 8100
    bench.inbox(page(1, 2, 8000))
    bench.now_s += 1
    bench.say(wire, ack(page=2), ack(page=2))
    assert 16_000 < asked_bytes(bench) < 16_200


def test_the_connection_of_a_slow_link_is_full_earlier_and_that_of_a_fast_one_again_as_late_as_any(bench):
    wire = bench.opening()
    bench.inbox(Item(opened=Opened(session=1, ask=1, in_sync=True)), page(1, 1, 16_000))
    bench.now_s += 4
    outputs = bench.gateway.on_client_bytes(wire, ack(page=1), bench.now_s)
    (high_water,) = [output for output in outputs if isinstance(output, HighWater)]
    assert (high_water.peer, 8000 < high_water.size_bytes < 8100) == (wire, True)
    bench.inbox(page(1, 2, 8000))
    bench.now_s += 0.1
    outputs = bench.gateway.on_client_bytes(wire, ack(page=2), bench.now_s)
    assert HighWater(wire, HIGH_WATER_BYTES) in outputs
    bench.inbox(page(1, 3, 8000))
    bench.now_s += 0.1
    outputs = bench.gateway.on_client_bytes(wire, ack(page=3), bench.now_s)
    assert not any(isinstance(output, HighWater) for output in outputs), "it is what it was"


def test_the_link_is_measured_while_a_full_connection_is_drained_and_not_by_the_page_behind_it(bench):
    wire = bench.live()
    bench.gateway.on_blocked(wire, bench.now_s)
    assert bench.session(1).state is SessionState.SLOW
    bench.now_s += 16
    outputs = bench.gateway.on_drained(wire, bench.now_s)
    assert HighWater(wire, HIGH_WATER_BYTES // 8) in outputs
    bench.do(outputs)
    assert asked_bytes(bench) == HIGH_WATER_BYTES // 8
    bench.inbox(page(2, 1, 8000))
    bench.now_s += 10  # what the kernel had was in front of it
    bench.say(wire, ack(page=1))
    assert asked_bytes(bench) == HIGH_WATER_BYTES // 8


def test_a_link_that_was_never_measured_has_pages_of_the_first_size():
    link = SessionLink(HIGH_WATER_BYTES)
    link.leaves(0, 1.0)
    assert (link.page_bytes, link.reached(2.0)) == (PAGE_BYTES_FIRST, None)


def test_pages_are_as_large_as_the_link_was_measured_and_a_slow_one_is_full_earlier():
    link = SessionLink(HIGH_WATER_BYTES)
    link.leaves(10_000, 1.0)
    assert (link.reached(5.0), link.page_bytes) == (5_000, 5_000)
    link.fills(10.0)
    assert (link.reached(12.0), link.page_bytes) == (None, 5_000)


def test_a_connection_that_is_full_for_the_first_time_holds_the_high_water_mark():
    link = SessionLink(HIGH_WATER_BYTES)
    link.fills(10.0)
    assert link.reached(26.0) == HIGH_WATER_BYTES // 8
