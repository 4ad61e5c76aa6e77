"""Whole wakes in one request, with a gateway's process and a real Kafka; the test plays the matcher.

Stands for: event_stream
"""

import json
import signal
import threading
import urllib.error
import urllib.request

import pytest
from coldnotify_gateway.listeners.web.sync import FRAMES_TYPE, not_answered
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.protocol import AGE_UNSAID_S
from coldnotify_schemas.wire_pb2 import Close
from coldnotify_testkit.device_frames import hello, parse, sync
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.gateway_process import GatewayProcess, MatcherOnKafka
from coldnotify_testkit.kafka import reset_topics
from coldnotify_testkit.raw_client import RawClient
from coldnotify_testkit.server_sent_events import events_of
from coldnotify_testkit.waiting import WAIT_S, wait_for

pytestmark = pytest.mark.kafka

PARTITIONS = 8
PARTITION = partition_of("animal.observer", "region-1", PARTITIONS)


@pytest.fixture(scope="module")
def matcher(kafka):
    reset_topics(kafka.bootstrap)
    with MatcherOnKafka(kafka.bootstrap, PARTITIONS) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(kafka, matcher):
    with GatewayProcess(kafka.bootstrap) as running:
        yield running.wait_ready()


def post(gateway, data, content_type="application/json", query=""):
    request = urllib.request.Request(
        f"http://127.0.0.1:{gateway.web_port}/v1/sync{query}", data=data, headers={"Content-Type": content_type}
    )
    return fetch(request, WAIT_S)


def ask(gateway, *registrations, **more):
    fields = {"domain": "animal.observer", "group": "region-1", "client": "client-1", "registrations": registrations}
    answer = post(gateway, json.dumps({**fields, **more}).encode())
    return answer.status, answer.json()


def versions(answer):
    return {found["object"]: found["version"] for found in answer["notifications"]}


def test_a_wake_is_one_request_and_is_told_once(matcher, gateway):
    matcher.publish(PARTITION, "wake/a", 3, b'{"fps": 5}')
    status, first = ask(gateway, "wake/a", "wake/b")
    assert status == 200
    assert {"object": "wake/a", "version": 3, "payload": {"fps": 5}} in first["notifications"]
    assert (versions(first), first["in_sync"]) == ({"wake/a": 3, "wake/b": None}, False)

    # Nothing new: one exchange of constant size.
    _, second = ask(gateway, "wake/a", "wake/b", cursor=first["cursor"])
    assert second.keys() == {"notifications", "cursor", "in_sync", "held_s", "age_s"}
    assert (second["notifications"], second["cursor"], second["in_sync"]) == ([], first["cursor"], True)

    # The answer with what was registered in addition may be lost: whoever asks again is told again.
    matcher.publish(PARTITION, "wake/c", 1)
    _, lost = ask(gateway, "wake/a", "wake/b", "wake/c", cursor=second["cursor"])
    _, again = ask(gateway, "wake/a", "wake/b", "wake/c", cursor=second["cursor"])
    assert versions(lost)["wake/c"] == versions(again)["wake/c"] == 1

    matcher.publish(PARTITION, "wake/b", 1)
    matcher.publish(PARTITION, "wake/b", 2)
    _, missed = ask(gateway, "wake/a", "wake/b", "wake/c", cursor=again["cursor"])
    assert versions(missed) == {"wake/b": 2}
    wait_for(lambda: not gateway.json("/v1/sessions")["items"], "no session stays")


def test_an_answer_says_how_old_it_is_by_when_it_was_asked_for(matcher, gateway):
    _, first = ask(gateway, "old/a")
    assert (first["held_s"], first["age_s"]) == (0, AGE_UNSAID_S)
    _, held = ask(gateway, "old/a", cursor=first["cursor"], wait_s=2)
    # The matcher here tells no age, so what was known at the beginning is all there is.
    assert held["notifications"] == []
    assert held["held_s"] - held["age_s"] >= -AGE_UNSAID_S
    assert held["held_s"] >= 2


def test_many_objects_leave_page_by_page_and_the_cursor_comes_last(matcher, gateway):
    names = [f"object-{number}" for number in range(150)]
    for number, name in enumerate(names):
        matcher.publish(PARTITION, name, number)
    _, answer = ask(gateway, *names)
    assert versions(answer) == {name: number for number, name in enumerate(names)}
    _, nothing = ask(gateway, *names, cursor=answer["cursor"])
    assert (nothing["notifications"], nothing["in_sync"]) == ([], True)


def test_what_is_wrong_is_named(gateway):
    assert ask(gateway, "a", domain="no/name")[0] == 400
    assert ask(gateway, "a", wait_s=100) == (
        400,
        {"error": "wait_s: 100 is not from 0 to 60", "field": "wait_s"},
    )
    assert post(gateway, b"\xff" * 10, FRAMES_TYPE)[0] == 400
    assert post(gateway, b"{}", "application/json", "?wait_s=1")[0] == 400


def test_a_matcher_that_is_away(matcher, kafka):
    with GatewayProcess(kafka.bootstrap, gateway_sync_s=2, gateway_wait_after_s=0.5) as gateway:
        gateway.wait_ready()
        matcher.answering = False
        try:
            status, body, headers = post(gateway, hello("away"), FRAMES_TYPE)
            assert (status, headers["Retry-After"]) == (503, "1"), body
            status, answer = ask(gateway, "a", client="away")
            assert (status, "cannot tell yet" in answer["error"]) == (503, True)
            looking = f"http://127.0.0.1:{gateway.web_port}/v1/events?domain=animal.observer&group=region-1&object=a"
            with urllib.request.urlopen(looking, timeout=WAIT_S) as stream:
                said = [line.decode().strip() for line in stream]
            assert "event: waiting" in said
            assert "cannot tell yet" in next(line for line in said if line.startswith('data: {"error'))
        finally:
            matcher.answering = True


def test_frames_are_the_same_session_and_the_set_is_taken_from_the_body(matcher, gateway):
    matcher.publish(PARTITION, "a", 10)
    said = hello("frames", wanted=("a", "b"))
    before = gateway.metric("coldnotify_gateway_syncs_by_frames_total")
    _, body, headers = post(gateway, said, FRAMES_TYPE)
    assert headers["Content-Type"] == FRAMES_TYPE
    assert headers["Deprecation"].startswith("@")
    assert gateway.metric("coldnotify_gateway_syncs_by_frames_total") == before + 1
    (welcome,) = parse(body)
    assert not welcome.welcome.in_sync
    _, body, _ = post(gateway, said + sync(0, "a", "b", last=True), FRAMES_TYPE)
    kinds = [frame.WhichOneof("frame") for frame in parse(body)]
    assert (kinds[0], kinds[-1], kinds.count("notification")) == ("welcome", "caught_up", 2)
    complete = parse(body)[-1].caught_up.complete

    def publish():
        wait_for(lambda: [one["state"] for one in gateway.json("/v1/sessions")["items"]] == ["live"], "it waits")
        matcher.publish(PARTITION, "b", 17)

    thread = threading.Thread(target=publish)
    thread.start()
    _, body, _ = post(gateway, hello("frames", wanted=("a", "b"), cursor=complete), FRAMES_TYPE, "?wait_s=60")
    thread.join(WAIT_S)
    assert parse(body)[-1].notification.version == 17
    _, body, _ = post(gateway, hello(protocol=0), FRAMES_TYPE)
    assert "protocol: 0" in parse(body)[0].close.reason


def test_a_page_that_looks_is_told_and_leaves_nothing_behind(matcher, gateway):
    matcher.publish(PARTITION, "look/a", 30, b'{"on": true}')
    base = f"http://127.0.0.1:{gateway.web_port}/v1/events?domain=animal.observer&group=region-1"
    with urllib.request.urlopen(f"{base}&object=look/a&object=look/b", timeout=WAIT_S) as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        assert stream.headers["X-Accel-Buffering"] == "no"

        def event():
            lines = []
            while (line := stream.readline().decode().rstrip("\n")) or not lines:
                lines += [line] if line else []
            return lines

        assert event() == ["retry: 1000"]
        first = [json.loads(event()[0].removeprefix("data: ")) for _ in range(2)]
        assert {"object": "look/a", "version": 30, "payload": {"on": True}} in first
        assert {"object": "look/b", "version": None} in first
        caught_up = event()
        assert caught_up[0] == "event: caught-up"
        assert caught_up[-1].startswith(": age_s ")
        matcher.publish(PARTITION, "look/b", 31, b'{\r\n\n "on":\nfalse}')
        assert event() == ['data: {"object":"look/b","version":31,"payload":{    "on": false}}']
        (session,) = gateway.json("/v1/sessions")["items"]
        assert session["client"].startswith("look.")
    wait_for(lambda: not gateway.json("/v1/sessions")["items"], "its session ends")

    def unregistered():
        return [one for one in matcher.of_kind("unregister") if one.client == session["client"]]

    wait_for(unregistered, "it is unregistered")
    (unregister,) = unregistered()
    assert list(unregister.unregister.objects) == ["look/a", "look/b"]
    wait_for(lambda: [one.client for one in matcher.of_kind("leave")][-1:] == [session["client"]], "and leaves")
    for wrong, field in (("&object=", "object"), ("", "object"), ("&object=a&objects=b", "objects")):
        with pytest.raises(urllib.error.HTTPError) as error, urllib.request.urlopen(base + wrong, timeout=WAIT_S):
            pass
        with error.value:
            assert (error.value.code, json.load(error.value)["field"]) == (400, field)


def test_no_session_begins_for_who_asks_for_the_head_only(gateway):
    address = f"http://127.0.0.1:{gateway.web_port}/v1/events?domain=animal.observer&group=region-1&object=a"
    request = urllib.request.Request(address, method="HEAD")
    assert fetch(request, WAIT_S).status == 405


@pytest.mark.parametrize("path", ["/v1/sync", "/v1/events"])
def test_a_page_of_the_same_address_may_ask_first(gateway, path):
    address = f"http://127.0.0.1:{gateway.web_port}"
    for origin, status in ((address, 204), ("https://other.test", 403), ("http://[", 403)):
        request = urllib.request.Request(f"{address}{path}", method="OPTIONS", headers={"Origin": origin})
        answer = fetch(request, WAIT_S)
        allowed = answer.headers["Access-Control-Allow-Origin"]
        assert (answer.status, allowed) == (status, origin if status == 204 else None)


@pytest.fixture
def gateway_of_its_own(kafka, matcher):
    """One that a test may end."""
    with GatewayProcess(kafka.bootstrap) as running:
        yield running.wait_ready()


def test_waiting_ends_with_the_first_publish_with_another_session_and_with_the_gateway(matcher, gateway_of_its_own):
    gateway = gateway_of_its_own
    answers = [ask(gateway, "a", client="waits")]

    def wait():
        answers.append(ask(gateway, "a", client="waits", cursor=answers[0][1]["cursor"], wait_s=60))

    def waiting():
        def sessions():
            found = gateway.json("/v1/sessions")["items"]
            return [one["session"] for one in found if one["state"] == "live"]

        thread = threading.Thread(target=wait)
        before = set(sessions())
        thread.start()
        wait_for(lambda: set(sessions()) - before, "it waits")
        return thread

    one = waiting()
    matcher.publish(PARTITION, "a", 20)
    one.join(WAIT_S)
    assert versions(answers[-1][1]) == {"a": 20}
    answers[0] = answers[-1]

    two = waiting()
    with RawClient(gateway.port) as same_client:
        same_client.send(hello("waits", wanted=("a",)))
        same_client.until("welcome")
        two.join(WAIT_S)
    assert (answers[-1][0], answers[-1][1]["close"]) == (409, "DISPLACED")

    three = waiting()
    gateway.process.send_signal(signal.SIGTERM)
    three.join(WAIT_S)
    assert (answers[-1][0], answers[-1][1]["notifications"]) == (200, [])
    assert gateway.process.wait(WAIT_S) == 0


def test_a_page_hears_that_its_gateway_goes_and_comes_back(matcher, gateway_of_its_own):
    gateway = gateway_of_its_own
    address = f"http://127.0.0.1:{gateway.web_port}/v1/events?domain=animal.observer&group=region-1&object=goes"
    with urllib.request.urlopen(address, timeout=WAIT_S) as stream:
        told = events_of(stream)
        assert [next(told).data, next(told).name] == [{"object": "goes", "version": None}, "caught-up"]
        gateway.process.send_signal(signal.SIGTERM)
        (last,) = told
    assert (last.name, last.data["close"]) == ("unavailable", "GOING_AWAY")


def test_who_is_one_client_too_many_is_told_when_to_ask_again() -> None:
    response = not_answered(Close(code=CloseCode.ABOVE_AGREEMENT, reason="tenant acme is above its agreement"))
    assert (response.status, response.headers["Retry-After"]) == (429, "10")
    assert json.loads(response.text or "") == {
        "error": "tenant acme is above its agreement",
        "close": "ABOVE_AGREEMENT",
    }


def test_an_answer_ends_at_bytes_max_and_the_next_goes_on(matcher, gateway):
    names = [f"long-{number:02}" for number in range(60)]
    for number, name in enumerate(names):
        matcher.publish(PARTITION, name, number + 1, json.dumps("x" * 200).encode())
    cursor, told, sizes = None, [], []
    for _ in range(40):
        _, answer = ask(gateway, *names, "never", client="small", cursor=cursor, bytes_max=2048)
        told += [found["object"] for found in answer["notifications"]]
        sizes.append(sum(len(json.dumps(found, separators=(",", ":"))) + 1 for found in answer["notifications"]))
        cursor = answer["cursor"]
        if not answer.get("more"):
            break
        assert answer["age_s"] is None
    assert (sorted(told), max(sizes) <= 2048, len(sizes) > 5) == (sorted([*names, "never"]), True, True), sizes
    _, nothing = ask(gateway, *names, "never", client="small", cursor=cursor, bytes_max=2048)
    assert (nothing["notifications"], nothing["in_sync"], "more" in nothing) == ([], True, False)

    # One that is longer than all that was asked for comes alone.
    matcher.publish(PARTITION, "long-00", 100, json.dumps("x" * 3000).encode())
    matcher.publish(PARTITION, "long-01", 100)
    _, one = ask(gateway, *names, "never", client="small", cursor=cursor, bytes_max=1024)
    assert (versions(one), one["more"]) == ({"long-00": 100}, True)
    _, other = ask(gateway, *names, "never", client="small", cursor=one["cursor"], bytes_max=1024)
    assert (versions(other), "more" in other) == ({"long-01": 100}, False)
