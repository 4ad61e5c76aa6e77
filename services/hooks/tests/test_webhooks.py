"""Webhooks with a real stack and a real receiver: what is told, retried, taken over and given up.

Stands for: app, hook_client, partition_claims
"""

import itertools
import json
import os
import signal
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coldnotify_schemas.partitioner import partition_of
from coldnotify_testkit.child import Child
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.hook_receiver import HookReceiver, hooks_settings
from coldnotify_testkit.stack import Stacks, Up
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer
from standardwebhooks import Webhook

pytestmark = pytest.mark.kafka

SETTINGS: dict[str, str] = {}
"""The module's stack's, of webhooks."""
SLOW = 3
"""A busy machine may take so many times as long: no test depends on speed."""


@pytest.fixture(scope="module")
def receiver() -> Iterator[HookReceiver]:
    one = HookReceiver()
    yield one
    one.close()


@pytest.fixture(scope="module")
def up(stacks: Stacks, receiver: HookReceiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    directory = tmp_path_factory.mktemp("webhooks")
    settings = hooks_settings(directory, receiver)
    SETTINGS.update(settings)
    with stacks.running(directory, **settings) as running:
        yield running


def ask(up: Up, method: str, path: str, body: object = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    answer = fetch(urllib.request.Request(f"{up.http_url}/v1/domains/shop/groups/g/{path}", data, method=method))
    return answer.status, json.loads(answer.text)


def set_hook(up: Up, name: str, receiver: HookReceiver, **fields: object) -> str:
    status, shown = ask(up, "PUT", f"hooks/{name}", {"url": receiver.url(f"/{name}"), **fields})
    assert status == 201, shown
    return str(shown["secret"])


def publish(up: Up, name: str, version: int, payload: object = None) -> None:
    status, shown = ask(up, "POST", f"objects/{name}", {"version": version, "payload": payload})
    assert status == 200, shown


def test_a_version_is_posted_and_signed(up: Up, receiver: HookReceiver) -> None:
    secret = set_hook(up, "first", receiver, objects=["a"])
    publish(up, "a", 1, {"x": "ä"})
    wait_for(lambda: receiver.versions("/first", "a") == [1], "the call")
    (call,) = receiver.of("/first")
    assert call["body"] == {
        "type": "object", "domain": "shop", "group": "g", "object": "a", "version": 1, "payload": {"x": "ä"},
    }  # fmt: skip
    assert Webhook(secret).verify(call["raw"], call["headers"])
    assert call["headers"]["content-type"] == "application/json"
    assert int(call["headers"]["coldnotify-claim"]) >= 1
    assert call["headers"]["coldnotify-position"] == "1"
    publish(up, "a", 2)
    wait_for(lambda: receiver.versions("/first", "a") == [1, 2], "the next version")
    assert len({one["headers"]["webhook-id"] for one in receiver.of("/first")}) == 2


def test_members_of_a_query_and_messages_of_a_channel_are_posted(up: Up, receiver: HookReceiver) -> None:
    set_hook(up, "query", receiver, query='NAME STARTS WITH "q-"', format="cloudevents")
    set_hook(up, "channel", receiver, channels=["news"])
    publish(up, "q-1", 1, 1)
    publish(up, "other", 1, 1)
    publish(up, "q-2", 1, 2)
    wait_for(lambda: len(receiver.of("/query")) == 2, "both members")
    events = [call["body"] for call in receiver.of("/query")]
    assert {event["specversion"] for event in events} == {"1.0"}
    assert {event["type"] for event in events} == {"coldnotify.object"}
    assert {event["subject"] for event in events} == {"q-1", "q-2"}
    assert [event["id"] for event in events] == [call["headers"]["webhook-id"] for call in receiver.of("/query")]
    assert {call["headers"]["content-type"] for call in receiver.of("/query")} == {"application/cloudevents+json"}

    def registered() -> bool:
        status, shown = ask(up, "GET", "clients/hook.channel")
        return status == 200 and shown["online"]

    wait_for(registered, "the hook's client in the ledger")
    # A channel begins when it is registered: what is sent before that is not owed.
    sent = iter(range(1, 10_000))
    wait_for(lambda: send(up, "news", next(sent)) and receiver.of("/channel"), "the first message")
    first = receiver.of("/channel")[-1]["body"]["payload"]
    for _ in range(20):
        send(up, "news", next(sent))
    last = next(sent) - 1
    wait_for(lambda: receiver.of("/channel")[-1]["body"]["payload"] == last, "the last message")
    told = [call["body"]["payload"] for call in receiver.of("/channel")]
    assert told == list(range(told[0], last + 1))
    assert told[0] <= first


def send(up: Up, channel: str, payload: object) -> bool:
    status, shown = ask(up, "POST", f"channels/{channel}", {"payload": payload})
    assert status == 200, shown
    return True


def test_a_call_that_fails_is_repeated_with_the_same_id_and_holds_up_nobody(up: Up, receiver: HookReceiver) -> None:
    failures = {"/bad": 3}

    def status(call: dict[str, Any]) -> int:
        if call["path"] == "/bad" and call["body"]["object"] == "poison" and failures["/bad"] > 0:
            failures["/bad"] -= 1
            return 500
        return 200

    receiver.answer(status)
    set_hook(up, "bad", receiver, objects=["poison", "fine"])
    publish(up, "poison", 7)
    wait_for(lambda: receiver.of("/bad"), "the first call")
    publish(up, "fine", 1)
    wait_for(lambda: receiver.versions("/bad", "fine") == [1], "the other object")
    wait_for(lambda: len(receiver.versions("/bad", "poison")) == 4, "the fourth call")
    calls = [call for call in receiver.of("/bad") if call["body"]["object"] == "poison"]
    assert len({call["headers"]["webhook-id"] for call in calls}) == 1
    assert len({call["raw"] for call in calls}) == 1
    gaps = [after["at"] - before["at"] for before, after in itertools.pairwise(calls)]
    assert gaps == sorted(gaps)
    assert gaps[0] >= 0.9
    receiver.answer(lambda call: 204)


def test_a_receiver_that_says_429_is_left_alone_and_the_live_ones_beside_it_are_not(
    up: Up, receiver: HookReceiver
) -> None:
    receiver.answer(
        lambda call: 429 if call["path"] == "/busy" and len(receiver.of("/busy")) == 1 else 200, {"Retry-After": "4"}
    )
    set_hook(up, "busy", receiver, objects=["b-1", "b-2"])
    status, _ = ask(up, "PUT", "hooks/dead", {"url": "http://127.0.0.1:1/", "objects": ["b-1"]})
    assert status == 400  # that port is not allowed
    set_hook(up, "live", receiver, objects=["b-1"])
    publish(up, "b-1", 1)
    wait_for(lambda: receiver.versions("/live", "b-1") == [1], "the live one")
    wait_for(lambda: receiver.of("/busy"), "the busy one")
    publish(up, "b-2", 1)
    publish(up, "b-1", 2)
    wait_for(lambda: receiver.versions("/live", "b-1") == [1, 2], "the live one's next")
    wait_for(lambda: receiver.versions("/busy", "b-1")[-1:] == [2] and receiver.versions("/busy", "b-2"), "the rest")
    first, second = receiver.of("/busy")[:2]
    assert second["at"] - first["at"] >= 3.9
    receiver.answer(lambda call: 204)


def caller_beside(up: Up, directory: Path) -> Child:
    """A second caller of the same installation."""
    host, port = up.gateway
    settings = {**SETTINGS, "kafka": up.kafka, "topics_prefix": up.topics.prefix, "hooks_gateway": f"{host}:{port}"}
    environ = {**os.environ, **{f"COLDNOTIFY_{name.upper()}": value for name, value in settings.items()}}
    argv = [sys.executable, "-m", "coldnotify_cli.main", "hooks", "--hooks-port=0"]
    return Child(argv, directory / "hooks.log", environ)


def test_a_killed_caller_is_followed_by_the_next_within_ten_seconds(
    up: Up, receiver: HookReceiver, tmp_path: Path
) -> None:
    set_hook(up, "killed", receiver, objects=["k"])
    publish(up, "k", 1)
    wait_for(lambda: receiver.versions("/killed", "k") == [1], "the first caller")
    with caller_beside(up, tmp_path) as second:
        # The coordinator shares eight partitions out among both.
        wait_for(lambda: second.running and "hooks claimed" in second.output, "partitions of the second caller")
        up.kill("hooks")
        began_s = time.monotonic()
        publish(up, "k", 2)
        wait_for(lambda: receiver.versions("/killed", "k")[-1:] == [2], "the next caller")
        took_s = next(call["at"] for call in receiver.of("/killed") if call["body"]["version"] == 2) - began_s
        assert took_s < 10 * SLOW, f"the next caller called after {took_s:.1f} s"
        up.wait_ready()


def test_a_stopped_caller_calls_no_more_once_another_has_claimed(
    up: Up, receiver: HookReceiver, tmp_path: Path
) -> None:
    set_hook(up, "stopped", receiver, objects=["s"])
    publish(up, "s", 1)
    wait_for(lambda: receiver.versions("/stopped", "s") == [1], "the first caller")
    pid = up.report["pids"]["hooks"]
    os.kill(pid, signal.SIGSTOP)
    try:
        with caller_beside(up, tmp_path) as second:
            publish(up, "s", 2)
            wait_for(lambda: receiver.versions("/stopped", "s")[-1:] == [2], "the second caller")
            os.kill(pid, signal.SIGCONT)
            for version in range(3, 30):
                publish(up, "s", version)
                time.sleep(0.1)
            wait_for(lambda: receiver.versions("/stopped", "s")[-1:] == [29], "the last version")
            claims = [int(call["headers"]["coldnotify-claim"]) for call in receiver.of("/stopped")]
            assert claims == sorted(claims)
            assert receiver.versions("/stopped", "s") == sorted(receiver.versions("/stopped", "s"))
            assert second.running
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_hook_whose_state_was_wiped_is_told_everything_again(up: Up, receiver: HookReceiver) -> None:
    set_hook(up, "wiped", receiver, objects=["w"])
    publish(up, "w", 1)
    wait_for(lambda: receiver.versions("/wiped", "w") == [1], "the call")
    partition = partition_of("shop", "g", 8)
    pid = up.report["pids"]["hooks"]
    os.kill(pid, signal.SIGSTOP)  # so that it cannot write it again
    producer = Producer({"bootstrap.servers": up.kafka})
    producer.produce(up.topics.hooks_state, None, b"shop/g/wiped", partition=partition)
    assert producer.flush(10) == 0
    up.kill("hooks")
    wait_for(lambda: len(receiver.versions("/wiped", "w")) >= 2, "the call again")
    first, again = receiver.of("/wiped")[:2]
    assert first["headers"]["webhook-id"] == again["headers"]["webhook-id"]
    assert first["raw"] == again["raw"]
    up.wait_ready()


def test_the_command_sets_tests_rotates_lists_and_removes(up: Up, receiver: HookReceiver) -> None:
    def run(*arguments: str) -> Any:
        return coldnotify("hook", *arguments, http=up.http_url)

    done = run("set", "shop", "g", "shown", receiver.url("/shown"), "--object", "x")
    assert done.returncode == 0, done.stderr
    secret = done.stdout.split("secret: ")[1].split()[0]
    wait_for(lambda: run("test", "shop", "g", "shown").returncode == 0, "the test call")
    (call, *_) = receiver.of("/shown")
    assert call["body"]["type"] == "test"
    Webhook(secret).verify(call["raw"], call["headers"])
    new = run("rotate", "shop", "g", "shown").stdout.split("secret: ")[1].split()[0]
    assert new != secret

    def signed_by_both() -> bool:
        assert run("test", "shop", "g", "shown").returncode == 0
        last = receiver.of("/shown")[-1]
        Webhook(secret).verify(last["raw"], last["headers"])
        return " " in last["headers"]["webhook-signature"] and bool(Webhook(new).verify(last["raw"], last["headers"]))

    wait_for(signed_by_both, "both signatures")
    listed = run("list", "shop", "g")
    assert f"shown  {receiver.url('/shown')}  x" in listed.stdout
    assert secret not in listed.stdout
    receiver.answer(lambda call: 500)
    failed = run("test", "shop", "g", "shown")
    receiver.answer(lambda call: 204)
    assert failed.returncode == 1
    assert "not applied: status 500" in failed.stdout
    assert run("remove", "shop", "g", "shown").returncode == 0
    assert "shown" not in run("list", "shop", "g").stdout
    assert run("remove", "shop", "g", "shown").returncode == 1

    def forgets() -> bool:
        status, shown = ask(up, "GET", "clients/hook.shown")
        return status == 404 or not shown["registrations"]["items"]

    wait_for(forgets, "the client without registrations")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"objects": ["a"]}, "url"),
        ({"url": "https://user:pw@example.org/", "objects": ["a"]}, "url"),
        ({"url": "https://10.0.0.1/", "objects": ["a"]}, "url"),
        ({"url": "https://example.org/"}, "objects"),
        ({"url": "https://example.org/", "objects": ["a"], "query": "x"}, "query"),
        ({"url": "https://example.org/", "objects": []}, "objects"),
        ({"url": "https://example.org/", "objects": ["a"], "format": "xml"}, "format"),
        ({"url": "https://example.org/", "objects": ["a"], "secret": "x"}, "secret"),
        ([], "hook"),
    ],
)
def test_a_wrong_field_is_named(up: Up, fields: object, field: str) -> None:
    status, shown = ask(up, "PUT", "hooks/wrong", fields)
    assert (status, shown["field"]) == (400, field), shown
    assert ask(up, "GET", "hooks/wrong")[0] == 404
