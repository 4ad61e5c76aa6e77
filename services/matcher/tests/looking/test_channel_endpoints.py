"""A group's channels, who is subscribed, who is behind, and the last messages, over a real port.

Stands for: channel_endpoints, channel_standing
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from types import SimpleNamespace
from typing import Any

import pytest
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.looking import channel_endpoints, state_endpoints
from coldnotify_matcher.looking.channel_standing import behind, cursor_of
from coldnotify_schemas import wire_pb2
from coldnotify_schemas.channels import MessageHeaders
from coldnotify_streams.core.partition_progress import OwningPhase
from coldnotify_testkit.channels_bench import LOG_EPOCH, ChannelsBench, channel, text
from coldnotify_testkit.engine_bench import DOMAIN, GROUP, PARTITION
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.served_routes import served_in_a_thread
from coldnotify_testkit.shares_bench import LEASE_S, SharesBench

BASE = f"/v1/domains/{DOMAIN}/groups/{GROUP}"
START = wire_pb2.SINCE_OLDEST


@pytest.fixture
def bench() -> ChannelsBench:
    return ChannelsBench()


@pytest.fixture
def port(bench: ChannelsBench) -> Iterator[int]:
    with served(bench) as port:
        yield port


@contextmanager
def served(bench: ChannelsBench) -> Iterator[int]:
    partition = SimpleNamespace(engine=bench.engine, phase=OwningPhase.OWNED, number=PARTITION)
    worker = SimpleNamespace(partitions={PARTITION: partition}, followed={}, lock=RLock())
    current: Any = SimpleNamespace(worker=worker)
    shown = [*channel_endpoints.routes(current), *state_endpoints.routes(current)]
    with served_in_a_thread(shown) as port:
        yield port


def look(port: int, path: str) -> Any:
    return fetch(f"http://127.0.0.1:{port}{BASE}/{path}").json()


def follow(bench: ChannelsBench, number: int, client: str, *channels: wire_pb2.Interest) -> None:
    """A session that has told its client all, which has not acknowledged it."""
    texts = [text(one.text, *one.attributes) for one in channels]
    bench.open(texts, list(channels), session=number, client=client)
    bench.settle()


def acknowledge(bench: ChannelsBench, client: str, complete: int) -> None:
    state = bench.engine.state
    state.acknowledge_channels(state.clients[f"{DOMAIN}/{GROUP}/{client}"], complete, 0)


def test_channels_with_how_many_are_behind(bench: ChannelsBench, port: int) -> None:
    for name in ("tasks", "news", "tasks"):
        bench.send(name)
    follow(bench, 1, "one", channel("tasks", since=START), channel("quiet"))
    follow(bench, 2, "two", channel("tasks", since=START))
    acknowledge(bench, "one", 2)

    first = look(port, "channels?limit=2")
    rest = look(port, f"channels?after={first['next']}")

    assert [*first["items"], *rest["items"]] == [
        {"channel": "news", "last": 1, "subscribers": 0, "online": 0, "behind": 0},
        {"channel": "quiet", "last": None, "subscribers": 1, "online": 1, "behind": 0},
        {"channel": "tasks", "last": 2, "subscribers": 2, "online": 2, "behind": 1},
    ]
    assert rest["next"] is None


def test_one_channel_with_its_subscribers_and_last_messages(bench: ChannelsBench, port: int) -> None:
    bench.send("site/tasks", b"0" * 300, MessageHeaders(id="m", source="one", expires_at=bench.now_ms + 9, to=("x",)))
    for number in range(1, 25):
        bench.send("site/tasks", str(number).encode())
    follow(bench, 1, "one", channel("site/tasks", "x", since=START))
    follow(bench, 2, "two", channel("site/tasks"))
    shown = look(port, "channels/site/tasks?limit=1")
    assert (shown["channel"], shown["last"], shown["retention"], shown["behind"]) == ("site/tasks", 24, "1d", 1)
    assert [message["offset"] for message in shown["messages"]] == list(range(5, 25))
    assert shown["messages"][-1]["payload_begins"] == "24"
    (one,) = shown["subscriptions"]["items"]
    assert isinstance(one.pop("since_ms"), int)
    assert one == {
        "client": "one", "attributes": ["x"], "state": "live", "behind": 25, "behind_at_least": False,
        "missed": False, "callbacks": None, "cursor": None,
    }  # fmt: skip
    assert shown["subscriptions"]["next"] == "one"
    (two,) = look(port, "channels/site/tasks?after=one")["subscriptions"]["items"]
    assert (two["client"], two["behind"]) == ("two", 0), "it began with what comes"
    refused = fetch(f"http://127.0.0.1:{port}{BASE}/channels/nothing")
    assert (refused.status, "has no messages and no subscribers" in refused.text) == (404, True)


def test_of_a_long_payload_the_begin(bench: ChannelsBench, port: int) -> None:
    bench.send("tasks", b"\xff" + b"0" * 300, MessageHeaders(id="m", source="one", expires_at=9**15, to=("x",)))
    bench.settle()
    (message,) = look(port, "channels/tasks")["messages"]
    published_ms = message.pop("published_ms")
    assert isinstance(published_ms, int)
    assert message == {
        "offset": 0, "id": "m", "source": "one", "expires_at": 9**15, "to": ["x"],
        "payload_bytes": 301, "payload_begins": "\N{REPLACEMENT CHARACTER}" + "0" * 199,
    }  # fmt: skip


def test_a_message_for_others_leaves_nobody_behind(bench: ChannelsBench, port: int) -> None:
    follow(bench, 1, "one", channel("tasks", "x"))
    bench.send("tasks", headers=MessageHeaders(to=("y",)))
    bench.settle()
    (shown,) = look(port, "channels")["items"]
    assert (shown["last"], shown["behind"]) == (0, 0)
    bench.send("tasks", headers=MessageHeaders(to=("x",)))
    bench.settle()
    (shown,) = look(port, "channels")["items"]
    assert shown["behind"] == 1


def test_who_was_not_as_far_as_retention_has_missed_some(bench: ChannelsBench) -> None:
    bench.send("tasks")
    follow(bench, 1, "one", channel("tasks", since=START))
    acknowledge(bench, "one", 0)
    bench.settle()
    for _ in range(3):
        bench.send("tasks")
    bench.settle()

    def missed() -> bool:
        state = bench.engine.state
        client = state.clients[f"{DOMAIN}/{GROUP}/one"]
        (registered,) = client.channels.values()
        return behind(client, registered, state.log_of(client)).missed

    for log_start, are_missed in ((1, False), (2, True)):
        bench.log_start = log_start
        bench.take_over()  # what a matcher has in memory it still tells
        bench.read()
        acknowledge(bench, "one", 0)
        assert missed() is are_missed
    acknowledge(bench, "one", 3)
    assert not missed()


def test_those_of_one_client(bench: ChannelsBench, port: int) -> None:
    bench.send("tasks")
    follow(bench, 1, "one", channel("tasks", since=START))
    shown = look(port, "clients/one")
    (tasks,) = shown["channels"]
    assert (tasks["channel"], tasks["attributes"], tasks["state"], tasks["behind"]) == ("tasks", [], "live", 1)
    assert shown["channels_cursor"] is None
    acknowledge(bench, "one", 0)
    shown = look(port, "clients/one")
    assert (shown["channels"][0]["behind"], shown["channels_cursor"]) == (0, 0)
    assert bench.engine.state.clients[f"{DOMAIN}/{GROUP}/one"].channels.epoch == LOG_EPOCH


def test_a_kept_cursor_of_channels_is_shown() -> None:
    client = RegisteredClient("farm/barn/lamp")
    assert cursor_of(client) is None
    client.keep("mqtt 5.0", 60)
    assert cursor_of(client) is None
    client.filters.place_channels(7, 41)
    assert cursor_of(client) == 41


def test_a_share_with_what_is_in_whose_hands() -> None:
    bench = SharesBench()
    bench.begin("one", session=1)
    first, _ = bench.send("tasks"), bench.send("tasks")
    bench.settle()
    with served(bench) as port:
        (share,) = look(port, "channels/tasks")["shares"]

    assert share == {
        "share": "workers",
        "attributes": [],
        "members": 1,
        "present": 1,
        "settled": -1,
        "held": 1,
        "waiting": 1,
        "waiting_more": False,
        "oldest_ms": bench.now_ms,
        "full": False,
        "hand_outs": [
            {
                "offset": first,
                "client": "one",
                "state": "held",
                "attempts": 0,
                "hand_out": 1,
                "held_s": 0,
                "left_s": LEASE_S,
            }
        ],
    }


def test_one_share_with_its_members() -> None:
    bench = SharesBench()
    bench.begin("one", session=1, prefetch=3)
    bench.join("other", session=2)
    first = bench.send("tasks")
    bench.settle()
    with served(bench) as port:
        share = look(port, "channels/tasks/shares/workers?limit=1")
        rest = look(port, "channels/tasks/shares/workers?after=one")

    assert (share["channel"], share["share"], share["last"], share["held"]) == ("tasks", "workers", first, 1)
    one = {"client": "one", "present": True, "prefetch": 3, "lease_s": LEASE_S, "held": 1}
    assert share["members_page"] == {"items": [one], "next": "one"}
    other = {"client": "other", "present": False, "prefetch": None, "lease_s": None, "held": 0}
    assert rest["members_page"] == {"items": [other], "next": None}
