"""Devices that come by WebSocket and HTTP, with everything real: the same wakes and promises as over TCP."""

import asyncio
import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from coldnotify import Connection, Notify, State, aio
from coldnotify_testkit.stack import Recorder, Up
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "animal.observer", "web"
LIMIT_S = 120
MANY = [f"many/{i}" for i in range(150)]
"""More than a Hello carries: the whole set is said."""


def addresses(up: Up) -> dict[str, str]:
    web, http = up.report["web"], up.report["http"]
    return {
        "websocket": f"ws://{web}",
        "websocket-passed-on": f"ws://{http}",
    }


def connection(address: str) -> Connection:
    return Connection(address=address, backoff_max_s=2, address_rest_s=1)


def publish(up: Up, versions: dict[str, int]) -> None:
    with up.publisher() as publisher:
        for name, version in versions.items():
            publisher.publish(DOMAIN, GROUP, name, version=version)
        publisher.flush(60)


def curl(address: str, **asked: object) -> Any:
    request = urllib.request.Request(address, json.dumps(asked).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
        return json.load(answer)


def test_every_way_in_learns_what_is_published_also_after_the_gateway_was_killed(up: Up, tmp_path: Path) -> None:
    publish(up, {"a": 1})
    ways = addresses(up)
    told = {way: Recorder() for way in ways}
    clients = {
        way: Notify(DOMAIN, GROUP, way, State(tmp_path / way), connection(address)) for way, address in ways.items()
    }
    try:
        for way, client in clients.items():
            client.register("a").subscribe(told[way])
            client.connect()
        wait_for(lambda: all(one.newest("a") == 1 for one in told.values()), "all know version 1")
        publish(up, {"a": 2})
        wait_for(lambda: all(one.newest("a") == 2 for one in told.values()), "all were told live")
        # While they are connected: what is registered now, and a set that is too many for a Hello.
        publish(up, dict.fromkeys(MANY, 7))
        for way, client in clients.items():
            for name in MANY:
                client.register(name).subscribe(told[way])
        wait_for(
            lambda: all(one.newest(name) == 7 for one in told.values() for name in MANY),
            "all know what they registered",
        )
        client.unregister(MANY[0])
        pids = up.kill("gateway")
        publish(up, {"a": 3})
        up.wait_ready(other_than=pids)
        wait_for(lambda: all(one.newest("a") == 3 for one in told.values()), "all came back")
        for one in told.values():
            versions = [version for version in one.versions("a") if version is not None]
            assert versions == sorted(set(versions)), "nothing backwards, nothing twice"
    finally:
        for client in clients.values():
            client.disconnect()


@pytest.mark.parametrize("way", ["websocket", "websocket-passed-on"])
async def test_a_wake_for_asyncio(up: Up, tmp_path: Path, way: str) -> None:
    name = f"asyncio/{way}"

    def woken(told: Recorder) -> aio.Notify:
        client = aio.Notify(DOMAIN, GROUP, f"aio-{way}", State(tmp_path / "state"), connection(addresses(up)[way]))
        client.register(name).subscribe(told)
        return client

    first, second = Recorder(), Recorder()
    await asyncio.to_thread(publish, up, {name: 4})
    async with woken(first) as client:
        assert await client.wait_caught_up(LIMIT_S)
    assert first.versions(name) == [4]
    await asyncio.to_thread(publish, up, {name: 5})
    async with woken(second) as client:
        assert await client.wait_caught_up(LIMIT_S)
        assert second.versions(name) == [5]
        await asyncio.to_thread(publish, up, {name: 6})
        await asyncio.to_thread(wait_for, second.reaches(name, 6), "told while connected")
    assert second.versions(name) == [5, 6], "nothing is told twice"


def test_curl_wakes_by_json(up: Up) -> None:
    publish(up, {"curl/a": 1})
    asked = {"domain": DOMAIN, "group": GROUP, "client": "curl", "registrations": ["curl/a", "curl/b"]}
    address = f"http://{up.report['http']}/v1/sync"
    first = curl(address, **asked)
    assert {found["object"]: found["version"] for found in first["notifications"]} == {"curl/a": 1, "curl/b": None}
    publish(up, {"curl/b": 9})
    second = curl(address, **asked, cursor=first["cursor"], wait_s=60)
    assert second["notifications"] == [{"object": "curl/b", "version": 9}]
    third = curl(address, **asked, cursor=second["cursor"])
    assert (third["notifications"], third["cursor"], third["in_sync"]) == ([], second["cursor"], True)


def test_a_stale_publish_is_told_to_nobody_at_the_next_wake(up: Up) -> None:
    """The newest version is written down again then, which is nothing that a client lacks."""
    publish(up, {"stale": 5, "witness": 1})
    asked = {
        "domain": DOMAIN, "group": GROUP, "client": "curl-stale", "registrations": ["stale", "witness"], "wait_s": 0,
    }  # fmt: skip
    address = f"http://{up.report['http']}/v1/sync"
    first = curl(address, **asked, cursor=None)
    assert {one["object"]: one["version"] for one in first["notifications"]} == {"stale": 5, "witness": 1}

    publish(up, {"stale": 4})
    publish(up, {"witness": 2})
    second = curl(address, **asked, cursor=first["cursor"])
    assert second["notifications"] == [{"object": "witness", "version": 2}]
    # What that answer rested on was durable before, so by now it was written down again.
    assert curl(address, **asked, cursor=second["cursor"])["notifications"] == []
