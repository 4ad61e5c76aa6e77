"""Properties of MQTT 5.0 through Kafka, with paho-mqtt and mosquitto's clients, and with a back-end's own headers."""

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from coldnotify_testkit.paho_device import MQTT_3_1_1, MQTT_5, PahoDevice, ToldMessage
from coldnotify_testkit.stack import Up
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer
from paho.mqtt.enums import MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "animal.observer", "region-1"
SAID: dict[str, Any] = {
    "PayloadFormatIndicator": 1,
    "ContentType": "text/plain",
    "ResponseTopic": "answers/ä",
    "CorrelationData": b"\x00\xff",
    "UserProperty": [("b", "2"), ("a", "1"), ("b", "3")],
}


def port_of(up: Up) -> str:
    return str(up.report["mqtt"]).rpartition(":")[2]


def device_of(up: Up, client: str, protocol: MQTTProtocolVersion = MQTT_5, **said: object) -> PahoDevice:
    return PahoDevice(int(port_of(up)), f"{DOMAIN}/{GROUP}/{client}", protocol, said=said)


def shown(device: PahoDevice, place: int = -1) -> dict[str, object]:
    """The properties of a message, as they were said, and those that the service adds by name."""
    found = dict(device.properties[place])
    pairs = found.get("UserProperty", [])
    found["UserProperty"] = [(name, value) for name, value in pairs if not name.startswith("coldnotify-")]
    ours = [name for name, _ in pairs if name.startswith("coldnotify-")]
    assert [name for name, _ in pairs][len(found["UserProperty"]) :] == ours, "behind the publisher's"
    if "CorrelationData" in found:
        found["CorrelationData"] = bytes.fromhex(found["CorrelationData"])
    return found | {"ours": ours}


def test_a_publish_comes_with_its_properties_live_and_later(up: Up) -> None:
    with device_of(up, "p-sensor") as sensor, device_of(up, "p-panel") as panel:
        panel.subscribe("props/#")
        for retain, ours in ((True, ["coldnotify-version", "coldnotify-offset"]), (False, ["coldnotify-offset"])):
            sensor.publish("props/a", b"%d" % retain, retain=retain, **SAID)
            panel.wait_told("props/a", b"%d" % retain)
            assert shown(panel) == {**SAID, "ours": ours}
        sensor.publish("props/b", b"x", qos=0)
        panel.wait_told("props/b", b"x")
        assert panel.told[-1] == ToldMessage("props/b", b"x", qos=0), "no more than it was published with"
        with device_of(up, "p-late") as late, device_of(up, "p-old", MQTT_3_1_1) as old:
            for one in (late, old):
                one.subscribe("props/#")
                one.wait_told("props/a", b"1")
            assert shown(late)["UserProperty"] == SAID["UserProperty"]
        sensor.client.publish("props/a", b"x", 1, True, _too_many())
        wait_for(lambda: "Packet too large" in sensor.left, "it is refused")


def _too_many() -> Properties:
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.UserProperty = ("a", "x" * 2_100)
    return properties


def test_a_back_ends_headers_are_properties_and_hostile_ones_are_passed_over(up: Up) -> None:
    producer = Producer({"bootstrap.servers": up.kafka})
    headers: list[tuple[str, str | bytes | None]] = [
        ("mqtt-content-type", b"\xff\xfe"),
        ("mqtt-user-" + "n" * 70_000, b"x"),
        ("mqtt-content-type", b"text/plain"),
        ("mqtt-user-b", b"2"),
        ("mqtt-nonsense", b"1"),
        ("mqtt-user-a", b"1"),
    ]
    with device_of(up, "h-panel") as panel:
        panel.subscribe("headers/#")
        for topic in (up.topics.objects, up.topics.channels_1d):
            for number in range(2):  # one of them is in the wrong partition, and is moved
                producer.produce(
                    topic, b'{"version":%d}' % number, f"{DOMAIN}/{GROUP}/headers/a", headers=headers, partition=number
                )
        producer.flush(30)
        wait_for(lambda: len([one for one in panel.told if one.topic == "headers/a"]) >= 3, "of either log")
        for place in range(len(panel.told)):
            found = shown(panel, place)
            assert found["ContentType"] == "text/plain"
            assert found["UserProperty"] == [("b", "2"), ("a", "1")]


def test_the_time_left_is_told_and_nothing_after_it(up: Up) -> None:
    with device_of(up, "e-sensor") as sensor, device_of(up, "e-panel") as panel:
        panel.subscribe("expiring/#")
        sensor.publish("expiring/b", b"stays", retain=True)
        panel.wait_told("expiring/b", b"stays")
        published = time.monotonic()
        sensor.publish("expiring/a", b"x", retain=True, MessageExpiryInterval=4)
        panel.wait_told("expiring/a", b"x")
        assert 1 <= panel.properties[-1]["MessageExpiryInterval"] <= 4
        wait_for(lambda: time.monotonic() > published + 6, "it has expired")
        with device_of(up, "e-late") as late:
            late.subscribe("expiring/#")
            late.wait_told("expiring/b", b"stays")
            sensor.publish("expiring/c", b"last", retain=True)
            late.wait_told("expiring/c", b"last")
            assert [one.topic for one in late.told] == ["expiring/b", "expiring/c"]


def test_aliases_stand_for_topics_both_ways(up: Up) -> None:
    with device_of(up, "a-sensor") as sensor, device_of(up, "a-panel", TopicAliasMaximum=64) as panel:
        panel.subscribe("aliased/#")
        sensor.publish("aliased/topic", b"0", TopicAlias=16)
        for number in (1, 2):
            sensor.publish("", b"%d" % number, TopicAlias=16)
        wait_for(lambda: len(panel.told) == 3, "all")
        assert [one.payload for one in panel.told] == [b"0", b"1", b"2"]
        assert [one.topic for one in panel.told] == ["aliased/topic", "", ""], "paho leaves aliases to the application"
        assert len({said["TopicAlias"] for said in panel.properties}) == 1


@pytest.mark.skipif(shutil.which("mosquitto_sub") is None, reason="there is no mosquitto_sub here (make tools)")
def test_properties_of_mosquittos_clients(up: Up, tmp_path: Path) -> None:
    who = ["-V", "5", "-p", port_of(up), "-q", "1", "-i"]
    listener = ["mosquitto_sub", *who, f"{DOMAIN}/{GROUP}/m-listener", "-t", "m-props/#", "-F", "%j"]
    sender = ["mosquitto_pub", *who, f"{DOMAIN}/{GROUP}/m-sender", "-t", "m-props/a", "-l"]
    for name, *value in (
        ("content-type", "text/plain"), ("correlation-data", "7"), ("response-topic", "answers"),
        ("payload-format-indicator", "1"), ("message-expiry-interval", "3600"), ("topic-alias", "3"),
        ("user-property", "b", "2"), ("user-property", "a", "1"),
    ):  # fmt: skip
        sender += ["-D", "publish", name, *value]
    output = tmp_path / "told"
    with output.open("w") as file, subprocess.Popen(listener, stdout=file) as process:
        try:
            with device_of(up, "m-ready") as ready:
                wait_for(lambda: _is_told(ready, output), "it has subscribed")
            subprocess.run(sender, check=True, timeout=60, input=b"one\ntwo\n")
            wait_for(lambda: len(_said(output)) == 2, "both lines")
        finally:
            process.terminate()
    for one, payload in zip(_said(output), ("one", "two"), strict=True):
        assert (one["topic"], one["payload"], one["qos"]) == ("m-props/a", payload, 1)
        said = one["properties"]
        assert isinstance(said, dict)
        names = ("content-type", "correlation-data", "response-topic", "payload-format-indicator")
        assert [said[name] for name in names] == ["text/plain", "7", "answers", 1]
        assert 3500 < said["message-expiry-interval"] <= 3600
        assert json.dumps(said["user-properties"]).startswith('{"b": "2", "a": "1", "coldnotify-offset": ')


def _said(output: Path) -> list[dict[str, object]]:
    found = [json.loads(line) for line in output.read_text().splitlines() if line.endswith("}")]
    return [one for one in found if one["topic"] == "m-props/a"]


def _is_told(ready: PahoDevice, output: Path) -> bool:
    ready.publish("m-props/ready", b"x")
    return "m-props/ready" in output.read_text()
