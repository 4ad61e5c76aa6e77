"""What goes out: a tenant above out_per_s is told less often and of the newest at last; nobody else is thinned."""

import asyncio
import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from coldnotify import Connection, Message, Notification, Notify, State, aio
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.stack import Recorder, Up
from coldnotify_testkit.waiting import wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

SUBSCRIBERS = 50
OUT_PER_S = 20
BURST_S = 2
SECONDS_MIN = 15
PUBLISHES_MIN = 40
LIMIT_S = 300


def tenant(up: Up, *arguments: str) -> None:
    done = coldnotify("tenant", *arguments, **up.in_kafka)
    assert done.returncode == 0, done.stderr


def metric(up: Up, line: str) -> float:
    """A sample of the matcher's; 0 where it is not there."""
    for one in fetch(f"{up.matcher_url}/metrics").text.splitlines():
        if one.startswith(f"{line} "):
            return float(one.rpartition(" ")[2])
    return 0.0


def connection(up: Up) -> Connection:
    host, port = up.gateway
    return Connection(address=host, port=port)


class Crowd:
    """Subscribers of one object, each a client of its own, on an event loop of their own."""

    def __init__(self, up: Up, domain: str, object_: str) -> None:
        self._up, self._domain, self._object = up, domain, object_
        self.told = [0] * SUBSCRIBERS
        """The newest version of each."""
        self.deliveries = 0
        """Of all of them."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._clients: list[aio.Notify] = []

    def _on(self, number: int, notification: Notification) -> None:
        if notification.version is not None:
            assert notification.version > self.told[number], "nothing goes backwards"
            self.told[number] = notification.version
            self.deliveries += 1

    async def _connect(self) -> None:
        for number in range(SUBSCRIBERS):
            one = aio.Notify(self._domain, "g", f"ou-{number}", State(None), connection(self._up))
            one.register(self._object).subscribe(partial(self._on, number))
            await one.connect()
            self._clients.append(one)
        for one in self._clients:
            assert await one.wait_caught_up(LIMIT_S)

    async def _leave(self) -> None:
        await asyncio.gather(*(one.disconnect() for one in self._clients))

    @contextmanager
    def connected(self) -> Iterator["Crowd"]:
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._connect(), self._loop).result(LIMIT_S)
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(self._leave(), self._loop).result(LIMIT_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(LIMIT_S)
            self._loop.close()


def test_deliveries_settle_at_the_agreement_and_others_are_not_thinned(up: Up) -> None:
    """Fifty subscribers, and a publisher that asks for many times more than was agreed."""
    tenant(up, "set", "told", "--domain", "told.out", "--out-per-s", str(OUT_PER_S), "--burst-s", str(BURST_S))
    others = Recorder()
    other = Notify("others.out", "g", "ou", State(None), connection(up))
    with Crowd(up, "told.out", "o").connected() as crowd, other, up.publisher() as publisher:
        other.register("o").subscribe(others)
        assert other.wait_caught_up(LIMIT_S)
        version = 0

        def is_thinned() -> bool:
            nonlocal version
            version += 1
            publisher.publish("told.out", "g", "o", version=version)
            return metric(up, 'coldnotify_tenants_thinned_total{tenant="told"}') > 0

        wait_for(is_thinned, "the matcher holds the tenant to its agreement", LIMIT_S)
        began_s, before, first = time.monotonic(), crowd.deliveries, version
        calm = 0
        while (seconds := time.monotonic() - began_s) < SECONDS_MIN or version - first < PUBLISHES_MIN:
            assert seconds < LIMIT_S
            version += 1
            publisher.publish("told.out", "g", "o", version=version)
            if version % 10 == 0:
                calm += 1
                publisher.publish("others.out", "g", "o", version=calm)
                # Each is told before the next: an interval of conflation would merge some otherwise.
                wait_for(others.reaches("o", calm), "the other tenant is told")
        deliveries, seconds = crowd.deliveries - before, time.monotonic() - began_s
        asked = SUBSCRIBERS * (version - first)
        print(f"\n{seconds:.1f} s: {asked} asked for, {deliveries} told: {deliveries / seconds:.1f}/s of {OUT_PER_S}")
        # At most a burst and one fan-out more than agreed; what had been told before may have been under way.
        assert deliveries <= OUT_PER_S * seconds + OUT_PER_S * BURST_S + 3 * SUBSCRIBERS
        assert deliveries >= min(asked, OUT_PER_S * seconds) / 3 - SUBSCRIBERS

        wait_for(lambda: min(crowd.told) == version, "the newest version is told to all", LIMIT_S)
        told = [version for version in others.versions("o") if version is not None]
        assert told == list(range(1, calm + 1)), "nobody else is thinned"

        def shown() -> dict[str, Any]:
            now: dict[str, Any] = json.loads(fetch(f"{up.http_url}/v1/tenants/told").text)["now"] or {}
            return now

        wait_for(lambda: shown().get("per_min", {}).get("thinned", 0) > 0, "the usage job tells it", LIMIT_S)
        node = shown()["out_shares"]
        assert len(node) == 1, "there is one matcher"
    tenant(up, "remove", "told")


def test_messages_of_channels_are_delayed_and_none_is_missed(up: Up, tmp_path: Path) -> None:
    tenant(up, "set", "sent", "--domain", "sent.out", "--out-per-s", "10")
    heard: list[int] = []
    missed: list[object] = []

    def on(message: Message) -> None:
        assert isinstance(message.payload, int)
        heard.append(message.payload)

    with (
        Notify("sent.out", "g", "ou", State(str(tmp_path / "state")), connection(up)) as client,
        up.publisher() as publisher,
    ):
        client.channel("news", since="oldest").subscribe(on, on_missed=missed.append)
        assert client.wait_caught_up(LIMIT_S)
        publisher.send("sent.out", "g", "news", 0)
        wait_for(lambda: heard == [0], "the first is told", LIMIT_S)
        put_off = 'coldnotify_matcher_events_total{event="channel_sessions_put_off"}'
        before, sent = metric(up, put_off), 1

        def is_put_off() -> bool:
            nonlocal sent
            for _ in range(20):
                publisher.send("sent.out", "g", "news", sent)
                sent += 1
            return metric(up, put_off) > before

        wait_for(is_put_off, "its session comes by pages", LIMIT_S)
        tenant(up, "set", "sent", "--out-per-s", "1000")
        wait_for(lambda: len(heard) == sent, "all is told", LIMIT_S)
    assert heard == list(range(sent))
    assert missed == []
    tenant(up, "remove", "sent")


def test_who_asks_for_refusal_is_refused_for_what_would_go_out(up: Up) -> None:
    tenant(up, "set", "strict", "--domain", "strict.out", "--out-per-s", str(OUT_PER_S), "--over", "refuse")
    version = 0

    def publish() -> tuple[int, dict[str, Any]]:
        nonlocal version
        version += 1
        url = f"{up.http_url}/v1/domains/strict.out/groups/g/objects/o?outcome=no"
        request = urllib.request.Request(url, json.dumps({"version": version}).encode(), method="POST")
        answer = fetch(request)
        return answer.status, json.loads(answer.text)

    with Crowd(up, "strict.out", "o").connected() as crowd:
        began_s = time.monotonic()
        acknowledged = 0
        refused: list[dict[str, Any]] = []
        while len(refused) < 20:
            assert time.monotonic() < began_s + LIMIT_S, f"{acknowledged} acknowledged, {len(refused)} refused"
            status, body = publish()
            if status == 200:
                acknowledged = version
            else:
                assert status == 429
                refused.append(body)
        assert {(body["tenant"], body["limit"], body["allowed"]) for body in refused} == {
            ("strict", "out_per_s", OUT_PER_S)
        }
        assert all(body["retry_after_s"] > 0 and body["measured"] > 0 for body in refused)
        wait_for(lambda: min(crowd.told) >= acknowledged, "what was acknowledged last is told", LIMIT_S)
        assert max(crowd.told) == acknowledged, "what was refused is not there"
    tenant(up, "remove", "strict")
