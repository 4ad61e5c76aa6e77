"""A publisher's flow control: how many records may be on their way, who waits, and what moves the limit."""

import asyncio
import concurrent.futures
import time
from typing import Any

import pytest
from coldnotify.flow.beginnings import KAFKA
from coldnotify.publisher import Published, Publisher, PublishManyError, PublishTimeout

DOMAIN, GROUP = "animal.observer", "region-1"


def test_a_controller_that_there_is_not_is_told() -> None:
    with pytest.raises(ValueError, match=r"^flow: unknown value 'reno', expected one of bottleneck, "):
        Publisher(flow="reno")


@pytest.mark.kafka
async def test_more_publishes_than_may_be_on_their_way_wait_and_none_is_lost(bootstrap: str) -> None:
    async with Publisher(bootstrap, timeout_s=60, flow="fixed", queue_max=5) as publisher:
        most = 0
        tasks = [asyncio.ensure_future(publisher.publish_async(DOMAIN, GROUP, f"o{i}", version=i)) for i in range(300)]
        while not all(task.done() for task in tasks):
            most = max(most, publisher.flow.in_flight)
            await asyncio.sleep(0)
        assert 1 <= most <= 5
        assert publisher.flow[:3] == (5, 0, 0)
    assert len({task.result().offset for task in tasks}) == 300


@pytest.mark.kafka
def test_whoever_has_its_result_finds_its_room_free(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_result = concurrent.futures.Future.set_result

    def set_it_and_linger(future: "concurrent.futures.Future[Any]", result: Any) -> None:
        set_result(future, result)
        time.sleep(0.05)  # the other threads come first

    with Publisher(bootstrap, timeout_s=60, flow="fixed", queue_max=1) as publisher:
        publisher.publish(DOMAIN, GROUP, "o", version=0)
        monkeypatch.setattr(concurrent.futures.Future, "set_result", set_it_and_linger)
        for version in range(1, 4):
            publisher.publish(DOMAIN, GROUP, "o", version=version)
            assert publisher.flow.in_flight == 0


@pytest.mark.kafka
async def test_a_cancelled_waiter_releases_its_room(bootstrap: str) -> None:
    async with Publisher(bootstrap, timeout_s=60, flow="fixed", queue_max=1) as publisher:
        await publisher.publish_async(DOMAIN, GROUP, "first", version=1)
        tasks = [asyncio.ensure_future(publisher.publish_async(DOMAIN, GROUP, f"o{i}", version=i)) for i in range(60)]
        while not publisher.flow.waiting:  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(isinstance(one, Published) for one in done) >= 30
        # What a cancelled one had handed over may still be on its way.
        assert await asyncio.to_thread(publisher.flush, 60) == 0
        assert publisher.flow.in_flight == 0
        assert (await publisher.publish_async(DOMAIN, GROUP, "last", version=1)).version == 1


def test_a_publish_that_waits_too_long_times_out_and_was_not_sent(silent_address: str) -> None:
    """Kafka acknowledges nothing: the first record holds the only permit."""
    with Publisher(silent_address, timeout_s=0.3, flow="fixed", queue_max=1) as publisher:
        publisher._sender._partitions, publisher._sender._partitions_at_s = 8, time.monotonic()
        with pytest.raises(PublishManyError) as caught:
            publisher.publish_many(DOMAIN, GROUP, {"a": {}, "b": {}})
        first, second = caught.value.outcomes
        assert isinstance(first, PublishTimeout)
        assert isinstance(second, PublishTimeout)
        assert "as many records are on their way" in str(second)
        assert (first.indeterminate, second.indeterminate) == (True, False)


@pytest.mark.kafka
def test_the_limit_moves_by_what_acknowledgements_take(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify._publishing.sender.KAFKA", KAFKA._replace(first=20, completions=50, seconds=0.05))
    with Publisher(bootstrap, timeout_s=60) as publisher:
        limits: set[int] = set()
        until_s = time.monotonic() + 60
        while len(limits) < 3 and time.monotonic() < until_s:
            publisher.publish_many(DOMAIN, GROUP, {f"o{i}": {} for i in range(500)})
            limits.add(publisher.flow.limit)
        assert len(limits) >= 3
        window = publisher.flow.window
        assert window is not None
        assert window.completions_per_s > 0
        assert window.wait_s > 0
