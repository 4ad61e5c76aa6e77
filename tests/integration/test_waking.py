"""A client that was away: only the newest is told, and when nothing changed the exchange is short and constant."""

from pathlib import Path

import pytest
from coldnotify_testkit.proxy import in_front_of
from coldnotify_testkit.stack import Recorder, Up, notify
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.kafka


def test_away_for_1000_publishes_over_50_objects(up: Up, tmp_path: Path) -> None:
    names = [f"away/{i}" for i in range(50)]
    state = tmp_path / "state.json"
    with notify(up, "away", state) as ou:
        for name in names:
            ou.register(name).subscribe(lambda _: None)
        assert ou.wait_caught_up(60)
        wait_for(lambda: ou.status.pending == 0, "all registrations are settled")

    with up.publisher() as publisher:
        for i in range(1000):
            publisher.publish("animal.observer", "region-1", names[i * 7 % 50], version=i)

    told = Recorder()
    with notify(up, "away", state) as ou:
        for name in names:
            ou.register(name).subscribe(told)
        assert ou.wait_caught_up(60)
    newest = {names[i * 7 % 50]: i for i in range(1000)}
    print(f"\n1000 publishes over 50 objects while away: {len(told.seen)} notifications")
    assert {n.object_id: n.version for n in told.seen} == newest
    assert len(told.seen) <= 50


def unchanged_wake(
    up: Up, tmp_path: Path, names: list[str], published: bool
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Bytes to and from the gateway of a wake that misses nothing: until complete, and with the good-bye."""
    client = f"wake-{len(names):04}"
    state = tmp_path / f"{client}.json"
    told = Recorder()
    with notify(up, client, state) as ou:
        for name in names:
            ou.register(name).subscribe(told)
        assert ou.wait_caught_up(60)
        wait_for(lambda: ou.status.pending == 0, "all registrations are settled")
        if published:
            with up.publisher() as publisher:
                publisher.publish("animal.observer", "region-1", names[0], version=len(names))
            wait_for(lambda: told.newest(names[0]) == len(names), "told live")
            wait_for(lambda: ou.status.cursor is not None, "the cursor is there")
        seen = len(told.seen)
    with in_front_of(*up.gateway) as proxy:
        with notify(up, client, state, port=proxy.port) as ou:
            for name in names:
                ou.register(name).subscribe(told)
            assert ou.wait_caught_up(60)
            exchange = (proxy.up_bytes, proxy.down_bytes)
        whole = (proxy.up_bytes, proxy.down_bytes)
    assert len(told.seen) == seen, "nothing was missed, nothing is told"
    return exchange, whole


@pytest.mark.parametrize("published", [False, True])
def test_nothing_missed_costs_the_same_for_1_and_for_1000_registrations(
    up: Up, tmp_path: Path, published: bool
) -> None:
    exchanges, wholes = {}, {}
    for registrations in (1, 1000):
        exchanges[registrations], wholes[registrations] = unchanged_wake(
            up, tmp_path, [f"wake/{published}/{i}" for i in range(registrations)], published
        )
    print(f"\nunchanged wake, bytes to and from the gateway by registrations, until complete: {exchanges}")
    print(f"and with the good-bye: {wholes}")
    assert exchanges[1] == exchanges[1000]
    assert wholes[1] == wholes[1000]
    assert sum(wholes[1]) <= 120
