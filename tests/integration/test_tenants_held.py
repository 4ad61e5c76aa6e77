"""How many objects, clients and registrations a tenant may have: who comes on top is told why, who is there stays."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from coldnotify import Connection, Notify, Publication, State
from coldnotify.errors import RegistrationRefused
from coldnotify_schemas.wire_pb2 import GatewayFrame, NotPublished, Publish
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.device_frames import hello
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.raw_client import RawClient
from coldnotify_testkit.stack import Recorder, Up
from coldnotify_testkit.waiting import wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

LIMIT_S = 300


def tenant(up: Up, *arguments: str) -> None:
    done = coldnotify("tenant", *arguments, **up.in_kafka)
    assert done.returncode == 0, done.stderr


def publish(up: Up, domain: str, object_: str, **record: object) -> tuple[int, dict[str, Any]]:
    url = f"{up.http_url}/v1/domains/{domain}/groups/g/objects/{object_}?outcome=no"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(record).encode()), timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def there_are(up: Up, name: str) -> dict[str, int]:
    """Objects, clients and registrations, as the usage job has measured them."""
    now = fetch(f"{up.http_url}/v1/tenants/{name}").json()["now"]
    found: dict[str, int] = {} if now is None else now.get("gauges", {})
    return found


@contextmanager
def device(up: Up, domain: str, client: str, *objects: str) -> Iterator[tuple[Notify, Recorder, list[Exception]]]:
    """A client that connects, and comes back soon if it is sent away; what it is told, and its errors."""
    host, port = up.gateway
    errors: list[Exception] = []
    recorder = Recorder()
    connection = Connection(address=host, port=port, backoff_min_s=0.1, backoff_max_s=0.5)
    notify = Notify(domain, "g", client, State(None), connection, on_error=errors.append)
    for object_ in objects:
        notify.register(object_).subscribe(recorder)
    notify.connect()
    try:
        yield notify, recorder, errors
    finally:
        notify.disconnect()


def test_an_object_more_is_refused_and_those_that_are_there_are_published(up: Up) -> None:
    domain, numbers, there = "held.shelf", iter(range(10**9)), ["a", "b"]

    def one_more() -> dict[str, Any] | None:
        """The refusal; None: it was let in, and is there from now on."""
        name = f"new-{next(numbers)}"
        status, answer = publish(up, domain, name)
        if status == 200:
            there.append(name)
            return None
        assert status == 429
        return answer | {"name": name}

    tenant(up, "set", "shelf", "--domain", domain, "--objects-max", "2")
    assert [publish(up, domain, name)[0] for name in there] == [200, 200]
    answer = wait_for(one_more, "both are counted", LIMIT_S)
    assert (answer["tenant"], answer["limit"], answer["allowed"]) == ("shelf", "objects_max", 2)
    assert (answer["outcome"], answer["retry_after_s"]) == ("not published", 10)
    assert f"object {answer['name']} is none of them" in answer["error"]
    assert [publish(up, domain, name)[0] for name in there] == [200] * len(there), "they are there"
    wait_for(lambda: there_are(up, "shelf").get("objects") == len(there), "all are counted", LIMIT_S)
    metrics = fetch(f"{up.http_url}/metrics").text
    assert 'coldnotify_tenants_refused_total{limit="objects_max",tenant="shelf"}' in metrics

    # Who deletes one has room for another; lowered below what there is, all of them stay.
    tenant(up, "set", "shelf", "--objects-max", str(len(there)))
    wait_for(one_more, "it is full", LIMIT_S)
    for name in there[1:]:
        assert publish(up, domain, name, deleted=True)[0] == 200
    del there[1:]
    wait_for(lambda: one_more() is None, "the others were deleted", LIMIT_S)
    tenant(up, "set", "shelf", "--objects-max", "1")
    wait_for(one_more, "there are too many", LIMIT_S)
    assert [publish(up, domain, name)[0] for name in there] == [200] * len(there)
    shown = coldnotify("tenant", "usage", "shelf", http=up.http_url).stdout
    assert "shelf has: objects " in shown
    tenant(up, "set", "shelf", "--objects-max", "none")
    wait_for(lambda: one_more() is None, "nothing limits it any more", LIMIT_S)
    tenant(up, "remove", "shelf")


def refused_at_gateways(up: Up, name: str) -> float:
    """Publishes on sessions that would have made one object too many."""
    line = f'coldnotify_tenants_refused_total{{limit="objects_max",tenant="{name}"}} '
    texts = [fetch(f"http://{gateway}/metrics").text for gateway in up.report["gateways_http"]]
    return sum(float(one.removeprefix(line)) for text in texts for one in text.splitlines() if one.startswith(line))


def test_an_object_more_is_refused_on_a_session_in_the_same_words(up: Up) -> None:
    domain, requests, there = "held.session", iter(range(1, 10**9)), ["a"]
    tenant(up, "set", "session", "--domain", domain, "--objects-max", "1")
    with RawClient(up.gateway[1]) as device:
        device.send(hello("ou-1", domain=domain, group="g"))
        device.until("caught_up")

        def said(object_: str, request: int | None = None) -> GatewayFrame:
            number = next(requests) if request is None else request
            device.say(publish=Publish(request=number, object=object_, payload=b"1"))
            while (frame := device.frame()) is not None:
                if frame.WhichOneof("frame") in ("published", "not_published"):
                    return frame
            raise AssertionError("the connection ended")

        def one_more() -> tuple[str, NotPublished] | None:
            """The refusal; None: it was let in, and is there from now on."""
            name = f"new-{len(there)}"
            frame = said(name)
            if frame.HasField("published"):
                there.append(name)
                return None
            return name, frame.not_published

        assert said("a").HasField("published")
        name, refusal = wait_for(one_more, "what is there is counted", LIMIT_S)
        words = (
            r"tenant session is above its agreement: objects_max is 1; there are \d+, and object (.*) is none of them"
        )
        matched = re.fullmatch(words, refusal.reason)
        assert matched is not None
        assert (matched[1], refusal.retry_after_ms) == (name, 10_000)
        assert refused_at_gateways(up, "session") == 1
        # Order is kept: the refused one is to come again before any other, and it is refused again.
        assert said("a").not_published.reason == "an earlier publish was refused: it is to come again first"
        assert said(name, refusal.request).not_published.reason.endswith("is none of them")
        # What is there may be published; and deleted, also what is not there.
        assert said("a", refusal.request).HasField("published")
        for object_ in there:
            assert said(object_).HasField("published"), object_
        device.say(publish=Publish(request=next(requests), object=name, deleted=True))
        assert device.until("published")
        tenant(up, "set", "session", "--objects-max", "none")
        # Each time with the number of the one before: where that was refused, it is to come first.
        wait_for(lambda: said(name, refusal.request).HasField("published"), "there is no limit any more", LIMIT_S)
    tenant(up, "remove", "session")


def test_over_a_websocket_a_client_publishes_one_object_more_once_there_is_room(up: Up) -> None:
    domain, there, numbers = "held.socket", ["a"], iter(range(10**9))
    tenant(up, "set", "socket", "--domain", domain, "--objects-max", "1")
    connection = Connection(address=f"ws://{up.report['web']}")
    notify = Notify(domain, "g", "ou-1", State(None), connection)
    notify.connect()
    try:
        first = notify.publish("a")
        assert first is not None
        first.wait(LIMIT_S)

        def is_full() -> bool:
            status, _ = publish(up, domain, f"new-{len(there)}")
            there.extend([f"new-{len(there)}"] * (status == 200))
            return status == 429

        wait_for(is_full, "what is there is counted", LIMIT_S)

        def refused() -> Publication | None:
            """The publish that is refused; None: the gateway did not know yet how many there are."""
            one_more = notify.publish(f"one-more-{next(numbers)}")
            assert one_more is not None
            wait_for(
                lambda: one_more.published or refused_at_gateways(up, "socket") >= 1, "published or refused", LIMIT_S
            )
            return None if one_more.published else one_more

        one_more = wait_for(refused, "the gateway knows what is there", LIMIT_S)
        assert publish(up, domain, "a", version=10**15)[0] == 200
        tenant(up, "set", "socket", "--objects-max", "none")
        one_more.wait(LIMIT_S)
    finally:
        notify.disconnect()
    tenant(up, "remove", "socket")


def test_a_client_more_is_told_why_and_comes_in_when_more_is_agreed(up: Up) -> None:
    domain = "held.crowd"
    tenant(up, "set", "crowd", "--domain", domain, "--clients-max", "2")
    with ExitStack() as stack:
        seen: list[Recorder] = []
        for client in ("ou-1", "ou-2"):
            notify, recorder, _ = stack.enter_context(device(up, domain, client, "a"))
            assert notify.wait_caught_up(LIMIT_S)
            seen.append(recorder)

        def is_sent_away() -> bool:
            """Once the matcher knows the agreement."""
            with device(up, domain, "ou-probe") as (probe, _, _):
                wait_for(lambda: probe.caught_up or probe.status.last_problem is not None, "it is in, or not", LIMIT_S)
                return not probe.caught_up

        wait_for(is_sent_away, "the matcher knows what was agreed", LIMIT_S)
        third, recorder, errors = stack.enter_context(device(up, domain, "ou-3", "a"))
        words = "ABOVE_AGREEMENT: tenant crowd is above its agreement: clients_max is 2"
        wait_for(lambda: third.status.last_problem == words, "it is told why", LIMIT_S)
        path = f"/v1/domains/{domain}/groups/g/clients/ou-3/explanation"
        explained = fetch(f"{up.http_url}{path}").json()
        assert explained["verdict"] == "refused"
        assert any("clients_max is 2" in event["text"] for event in explained["timeline"])
        line = 'coldnotify_tenants_refused_total{limit="clients_max",tenant="crowd"}'
        wait_for(lambda: line in fetch(f"{up.matcher_url}/metrics").text, "it is counted", LIMIT_S)

        tenant(up, "set", "crowd", "--clients-max", "3")
        assert third.wait_caught_up(LIMIT_S), "without a restart of anything"
        assert errors == []
        seen.append(recorder)
        wait_for(lambda: there_are(up, "crowd").get("clients") == 3, "it is counted", LIMIT_S)

        # Nobody is sent away who is there; each is still told everything.
        tenant(up, "set", "crowd", "--clients-max", "1")
        with device(up, domain, "ou-4") as (fourth, _, _):
            words = "ABOVE_AGREEMENT: tenant crowd is above its agreement: clients_max is 1"
            wait_for(lambda: fourth.status.last_problem == words, "that counts for who comes", LIMIT_S)
        assert publish(up, domain, "a", version=7)[0] == 200
        for one in seen:
            wait_for(one.reaches("a", 7), "it is told", LIMIT_S)
        assert third.connected
    tenant(up, "remove", "crowd")


def test_a_registration_more_is_refused_with_the_reason(up: Up) -> None:
    domain = "held.wishes"
    tenant(up, "set", "wishes", "--domain", domain, "--registrations-max", "2")
    reason = "tenant wishes is above its agreement: registrations_max is 2"
    with device(up, domain, "ou-1", "a", "b") as (notify, recorder, errors):
        assert notify.wait_caught_up(LIMIT_S)
        numbers = iter(range(10**9))

        def is_refused() -> bool:
            """Once the matcher knows the agreement."""
            before, name = len(errors), f"c{next(numbers)}"
            notify.register(name).subscribe(recorder)
            wait_for(lambda: notify.status.pending == 0, "it is answered", LIMIT_S)
            wait_for(lambda: len(errors) > before or recorder.versions(name) != [], "one way or the other", LIMIT_S)
            return len(errors) > before

        wait_for(is_refused, "the matcher knows what was agreed", LIMIT_S)
        refused = errors[-1]
        assert isinstance(refused, RegistrationRefused)
        assert refused.reason == reason
        # The others are there as before.
        assert publish(up, domain, "a", version=5)[0] == publish(up, domain, "b", version=6)[0] == 200
        wait_for(recorder.reaches("a", 5), "a is told", LIMIT_S)
        wait_for(recorder.reaches("b", 6), "b is told", LIMIT_S)
        tenant(up, "set", "wishes", "--registrations-max", "none")
        wait_for(lambda: not is_refused(), "more is agreed", LIMIT_S)
        wait_for(
            lambda: sum(one["turned_away"] for one in usage_rows(up, "wishes")) == len(errors),
            "all are counted",
            LIMIT_S,
        )
    tenant(up, "remove", "wishes")


def usage_rows(up: Up, name: str) -> list[dict[str, int]]:
    rows: list[dict[str, int]] = fetch(f"{up.http_url}/v1/tenants/{name}/usage").json()["items"]
    return rows
