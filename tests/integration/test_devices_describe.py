"""Devices say what they are on their sessions: in order, in force before a value is told, whatever is killed."""

import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from coldnotify import Notification, Notify
from coldnotify.http_publisher import HttpPublisher
from coldnotify_testkit.paho_device import PahoDevice
from coldnotify_testkit.stack import Up, notify
from coldnotify_testkit.waiting import WAIT_S, wait_for

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "animal.observer", "describing-1"


@pytest.fixture
def device(up: Up, tmp_path: Path) -> Iterator[Notify]:
    device = notify(up, "lamp", tmp_path / "lamp", group=GROUP)
    device.connect(WAIT_S)
    yield device
    device.disconnect()


@pytest.fixture
def by_http(up: Up) -> HttpPublisher:
    return HttpPublisher(up.http_url)


def described(by_http: HttpPublisher, object_: str) -> dict[str, Any]:
    return by_http.description(DOMAIN, GROUP, object_).description or {}


def test_a_value_is_told_with_its_description_and_never_before(
    up: Up, device: Notify, by_http: HttpPublisher, tmp_path: Path
) -> None:
    told: list[tuple[int, Any]] = []

    def on(notification: Notification) -> None:
        if notification.version is not None and notification.payload is not None:
            told.append((notification.payload, dict(notification.description or {})))

    looking = notify(up, "looking", tmp_path / "looking", group=GROUP)
    looking.register_query("Kind = lamp", descriptions=True).subscribe(on)
    looking.connect(WAIT_S)
    device.describe("lamp-1", {"Kind": "lamp", "Step": 0}).wait(WAIT_S)
    stop, undone = threading.Event(), []

    def others() -> None:
        for number in count():
            if stop.is_set():
                break
            try:
                by_http.describe(DOMAIN, GROUP, "lamp-1", {f"h{number % 20}": number})
            except Exception as error:  # the matcher is away, for example
                undone.append(error)

    thread = threading.Thread(target=others)
    thread.start()
    pids: dict[str, int] = {}
    try:
        for step in range(1, 61):
            one = device.publish(
                "lamp-1", payload=step, version=step, description={"Step": step, f"d{step % 20}": step}
            )
            if step == 20:
                pids = up.kill("matcher")
            if step % 10 == 0:
                one.wait(WAIT_S)
    finally:
        stop.set()
        thread.join()
    up.wait_ready(other_than=pids)
    wait_for(lambda: bool(told) and told[-1][0] == 60, "the last value")
    looking.disconnect()
    assert all(said["Step"] >= step for step, said in told), "a value was told before its description"
    final = described(by_http, "lamp-1")
    assert final["Step"] == 60
    assert {name: said for name, said in final.items() if name[0] == "d"} == {f"d{n % 20}": n for n in range(41, 61)}
    assert any(name.startswith("h") for name in final), "changes by HTTP are there, too"


def test_a_refused_patch_is_told_and_refuses_its_value(device: Notify, by_http: HttpPublisher) -> None:
    device.describe("lamp-2", {f"a{number}": number for number in range(64)}).wait(WAIT_S)
    one = device.publish("lamp-2", payload=1, description={"b": 1})
    with pytest.raises(Exception, match="description: has 65 keys"):
        one.wait(WAIT_S)
    assert device.publish("lamp-2", payload=2, description={"a1": None, "b": 1}).outcome(WAIT_S).outcome == "published"
    assert described(by_http, "lamp-2") == {**{f"a{n}": n for n in range(64) if n != 1}, "b": 1}


def test_an_mqtt_device_says_it_in_a_user_property(up: Up, by_http: HttpPublisher) -> None:
    port = int(str(up.report["mqtt"]).rpartition(":")[2])
    with PahoDevice(port, f"{DOMAIN}/{GROUP}/meter") as meter, PahoDevice(port, f"{DOMAIN}/{GROUP}/panel") as panel:
        panel.subscribe("meters/#")
        said = [("describe", '{"Kind":"meter","Unit":"kWh"}'), ("place", "hall")]
        meter.publish("meters/1", b"7", retain=True, UserProperty=said)
        panel.wait_told("meters/1", b"7")
        assert described(by_http, "meters/1") == {"Kind": "meter", "Unit": "kWh"}
        names = [name for name, _ in panel.properties[-1]["UserProperty"]]
        assert names[0] == "place"
        assert "describe" not in names
