"""MQTT devices as they are: paho-mqtt and mosquitto's clients through gateway, Kafka and matcher, beside all else."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from coldnotify.http_publisher import HttpPublisher
from coldnotify_schemas.mqtt.encoding import encode
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion, Side
from coldnotify_schemas.mqtt.packets import ConnAck, Connect, Packet, PubAck, Publish
from coldnotify_schemas.mqtt.parsing import PacketBuffer
from coldnotify_testkit.paho_device import MQTT_3_1_1, MQTT_5, PahoDevice, ToldMessage
from coldnotify_testkit.stack import Recorder, Stacks, Up, get_json, notify
from coldnotify_testkit.waiting import WAIT_S, wait_for
from paho.mqtt.enums import MQTTProtocolVersion
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "animal.observer", "region-1"
LIMIT_S = 60
MQTT = Subprotocol("mqtt")


WEBSOCKETS = pytest.mark.parametrize("way", ["web", "http"])
"""A gateway's own port, and the HTTP service, which passes it on."""


def port_of(up: Up, way: str = "mqtt") -> int:
    return int(str(up.report[way]).rpartition(":")[2])


def websocket_url(up: Up, way: str) -> str:
    return f"ws://127.0.0.1:{port_of(up, way)}/mqtt"


def device_of(
    up: Up,
    client: str,
    protocol: MQTTProtocolVersion = MQTT_5,
    *,
    clean: bool = True,
    expiry_s: int = 0,
    way: str = "mqtt",
) -> PahoDevice:
    """`way`: the port's name in the ready report."""
    client_id = f"{DOMAIN}/{GROUP}/{client}"
    return PahoDevice(port_of(up, way), client_id, protocol, clean=clean, expiry_s=expiry_s, websocket=way != "mqtt")


@pytest.mark.parametrize("protocol", [MQTT_3_1_1, MQTT_5])
def test_versions_from_http_are_retained_messages(up: Up, protocol: MQTTProtocolVersion) -> None:
    topic = f"retained-{protocol}"
    with HttpPublisher(up.http_url) as publisher, device_of(up, f"subscriber-{protocol}", protocol) as device:
        publisher.publish(DOMAIN, GROUP, f"{topic}/1", {"on": True})
        assert device.subscribe(f"{topic}/#") in (["Granted QoS 1"], ["1"])
        device.wait_told(f"{topic}/1", b'{"on": true}')
        publisher.publish(DOMAIN, GROUP, f"{topic}/2", b"\xff\x00")
        device.wait_told(f"{topic}/2", b"\xff\x00")
        publisher.publish(DOMAIN, GROUP, f"{topic}/1", deleted=True)
        device.wait_told(f"{topic}/1", b"")
        assert [one.retain for one in device.told] == [True, False, False]
        assert device.told[0] == ToldMessage(f"{topic}/1", b'{"on": true}', True, 1)
    with device_of(up, f"late-{protocol}", protocol) as late:
        late.subscribe(f"{topic}/+", 0)
        late.wait_told(f"{topic}/2", b"\xff\x00")
        assert late.told == [ToldMessage(f"{topic}/2", b"\xff\x00", True, 0)], "a deletion is never told on subscribing"


def test_a_device_publishes_to_devices_of_either_kind(up: Up, tmp_path: Path) -> None:
    told = Recorder()
    with (
        notify(up, "native", tmp_path / "state") as native,
        device_of(up, "sensor", MQTT_3_1_1) as sensor,
        device_of(up, "panel") as panel,
    ):
        native.register("from-mqtt/a").subscribe(told)
        panel.subscribe("from-mqtt/+")
        sensor.publish("from-mqtt/a", b'{"t": 1}', retain=True)
        panel.wait_told("from-mqtt/a", b'{"t": 1}')
        wait_for(lambda: told.versions("from-mqtt/a"), "the native client was told")
        for number in range(50):
            sensor.publish("from-mqtt/b", b"%d" % number, retain=True)
        panel.wait_told("from-mqtt/b", b"49")
        numbers = [int(one.payload) for one in panel.told if one.topic == "from-mqtt/b"]
        assert numbers == sorted(set(numbers)), "in order, none twice"


def test_a_kept_session_wakes_with_what_it_lacks_alone(up: Up) -> None:
    with HttpPublisher(up.http_url) as publisher:
        for number in range(30):
            publisher.publish(DOMAIN, GROUP, f"kept/{number}", payload=number)
        with device_of(up, "sleeper", expiry_s=3600) as device:
            assert device.present == [False]
            device.subscribe("kept/#")
            wait_for(lambda: len(device.told) == 30, "all retained messages")
        publisher.publish(DOMAIN, GROUP, "kept/7", payload=77)
        publisher.publish(DOMAIN, GROUP, "kept/8", deleted=True)
        publisher.publish(DOMAIN, GROUP, "kept/7", payload=78)
        with device_of(up, "sleeper", clean=False, expiry_s=3600) as awake:
            assert awake.present == [True]
            awake.wait_told("kept/7", b"78")
            awake.wait_told("kept/8", b"")
            publisher.publish(DOMAIN, GROUP, "kept/last", payload=1)
            awake.wait_told("kept/last", b"1")
            assert {one.topic for one in awake.told} == {"kept/7", "kept/8", "kept/last"}
        with device_of(up, "sleeper", clean=True) as clean:
            assert clean.present == [False]
            publisher.publish(DOMAIN, GROUP, "kept/7", payload=79)
            clean.subscribe("kept/last")
            clean.wait_told("kept/last", b"1")
            assert len(clean.told) == 1


@pytest.mark.skipif(shutil.which("mosquitto_sub") is None, reason="there is no mosquitto_sub here (make tools)")
def test_the_clients_of_mosquitto(up: Up, tmp_path: Path) -> None:
    told = Recorder()
    who = ["-p", str(port_of(up)), "-q", "1", "-i"]
    sleeper = ["mosquitto_sub", *who, f"{DOMAIN}/{GROUP}/sleeper-2", "-c", "-t", "mosquitto/#", "-F", "%r %t %p"]

    def lines(output: Path) -> list[str]:
        return output.read_text().splitlines()

    def put(topic: str, payload: str, *flags: str) -> None:
        sender = ["mosquitto_pub", *who, f"{DOMAIN}/{GROUP}/sender", "-t", topic, "-m", payload, *flags]
        subprocess.run(sender, check=True, timeout=60)

    with HttpPublisher(up.http_url) as publisher, notify(up, "beside", tmp_path / "state") as native:
        native.register("mosquitto/door").subscribe(told)
        publisher.publish(DOMAIN, GROUP, "mosquitto/lamp", payload=1)
        with running(sleeper, tmp_path / "awake"):
            wait_for(lambda: lines(tmp_path / "awake") == ["1 mosquitto/lamp 1"], "what was there")
            put("mosquitto/door", "open", "-r")
            put("mosquitto/knocks", "1")
            wait_for(lambda: len(lines(tmp_path / "awake")) == 3, "a version and a message")
            assert set(lines(tmp_path / "awake")[1:]) == {"0 mosquitto/door open", "0 mosquitto/knocks 1"}
        wait_for(lambda: told.versions("mosquitto/door"), "the native client was told")
        for number in (2, 3, 4):
            publisher.publish(DOMAIN, GROUP, "mosquitto/lamp", payload=number)
            put("mosquitto/knocks", str(number))
        with running(sleeper, tmp_path / "woken"):
            # It subscribes anew each time, and is answered with what is retained.
            wait_for(lambda: "1 mosquitto/door open" in lines(tmp_path / "woken"), "what is retained")
            wait_for(lambda: "0 mosquitto/knocks 4" in lines(tmp_path / "woken"), "each message")
        woken = lines(tmp_path / "woken")
        assert [line for line in woken if "knocks" in line] == [f"0 mosquitto/knocks {n}" for n in (2, 3, 4)]
        assert {line[2:] for line in woken if "lamp" in line} == {"mosquitto/lamp 4"}, "never one between"


@pytest.mark.skipif(shutil.which("paho_c_sub") is None, reason="there is no paho_c_sub here (make tools)")
@pytest.mark.parametrize("programs", ["paho_c", "paho_cs"])
@pytest.mark.parametrize("protocol", ["311", "5"])
def test_the_clients_of_paho_in_c(up: Up, tmp_path: Path, programs: str, protocol: str) -> None:
    name = f"{programs}-{protocol}"
    who = ["-p", str(port_of(up)), "-V", protocol, "-i"]
    topic = f"{name}/lamp"
    listener = [f"{programs}_sub", *who, f"{DOMAIN}/{GROUP}/{name}-sub", "-q", "1", "-t", f"{name}/#"]

    def put(qos: int, payload: str, *flags: str) -> None:
        sender = [f"{programs}_pub", *who, f"{DOMAIN}/{GROUP}/{name}-pub", "-q", str(qos), "-t", topic, "-m", payload]
        subprocess.run([*sender, *flags], check=True, timeout=60)

    def told() -> list[str]:
        lines = [line.split("\t") for line in (tmp_path / "told").read_text().splitlines()]
        return [line[1] for line in lines if line[0].endswith(topic) and len(line) == 2]

    with HttpPublisher(up.http_url) as publisher:
        publisher.publish(DOMAIN, GROUP, topic, payload=1)
    with running(["stdbuf", "-oL", *listener], tmp_path / "told"):
        wait_for(lambda: told() == ["1"], "what is retained")
        for qos in (0, 1, 2):
            put(qos, f"message-{qos}")
            wait_for(lambda: told()[-1] == f"message-{qos}", "a message")  # noqa: B023
        put(2, "4", "-r")
        wait_for(lambda: told()[-1] == "4", "a version")
    assert told() == ["1", "message-0", "message-1", "message-2", "4"]


@contextmanager
def running(argv: list[str], output: Path) -> Iterator[None]:
    """Runs a program, whose output goes to a file, until the end."""
    with output.open("w") as file, subprocess.Popen(argv, stdout=file) as process:
        try:
            yield
        finally:
            process.terminate()


def test_a_second_connection_takes_over(up: Up) -> None:
    with device_of(up, "twice", expiry_s=60) as first:
        first.client.reconnect_delay_set(60, 60)
        first.subscribe("twice/#")
        with device_of(up, "twice", clean=False, expiry_s=60) as second, HttpPublisher(up.http_url) as publisher:
            wait_for(lambda: first.left, "the first one is told")
            assert first.left == ["Session taken over"]
            assert second.present == [True]
            publisher.publish(DOMAIN, GROUP, "twice/a", payload=1)
            second.wait_told("twice/a", b"1")


def test_sessions_outlive_the_matcher_and_the_gateway(stacks: Stacks, tmp_path: Path) -> None:
    with (
        stacks.running(tmp_path) as up,
        HttpPublisher(up.http_url) as publisher,
        device_of(up, "lamp", clean=False, expiry_s=3600) as device,
    ):
        device.subscribe("lamps/#")
        publisher.publish(DOMAIN, GROUP, "lamps/1", payload=1)
        device.wait_told("lamps/1", b"1")
        before = up.kill("matcher")
        publisher.publish(DOMAIN, GROUP, "lamps/1", payload=2)
        device.wait_told("lamps/1", b"2")
        up.wait_ready(other_than=before)
        assert device.subscribe("more/#") == ["Granted QoS 1"], "after the takeover"
        up.kill("gateway")
        wait_for(lambda: len(device.present) == 2, "it is connected again")
        assert device.present == [False, True]
        publisher.publish(DOMAIN, GROUP, "more/1", payload=3)
        device.wait_told("more/1", b"3")
        device.publish("lamps/2", b"4", retain=True)
        device.wait_told("lamps/2", b"4")
        assert device.last("lamps/1") == b"2"


def test_explain_says_that_a_version_is_too_large_for_a_device(up: Up) -> None:
    client_id = f"{DOMAIN}/{GROUP}/small"
    with (
        HttpPublisher(up.http_url) as publisher,
        PahoDevice(port_of(up), client_id, MQTT_5, said={"MaximumPacketSize": 100}) as device,
    ):
        device.subscribe("sizes/#")
        publisher.publish(DOMAIN, GROUP, "sizes/large", b"x" * 200)
        publisher.publish(DOMAIN, GROUP, "sizes/small", b"x")
        device.wait_told("sizes/small", b"x")
        base = f"{up.http_url}/v1/domains/{DOMAIN}/groups/{GROUP}/clients/small/explanation"
        assert get_json(f"{base}?object=sizes/large")["verdict"] == "too_large"
        assert get_json(f"{base}?object=sizes/small")["verdict"] != "too_large"
    assert [one.topic for one in device.told] == ["sizes/small"]


def test_messages_of_channels_are_told_each_in_order_also_to_who_was_away(up: Up) -> None:
    with device_of(up, "talker", MQTT_3_1_1) as talker:
        with device_of(up, "listener", expiry_s=3600) as device:
            device.subscribe("chat/#")
            for number in range(20):
                talker.publish("chat/a", b"%d" % number)
            wait_for(lambda: len(device.told) == 20, "all messages")
        for number in range(20, 40):
            talker.publish("chat/b", b"%d" % number)
        with device_of(up, "listener", clean=False, expiry_s=3600) as awake:
            wait_for(lambda: len(awake.told) == 20, "all messages that came meanwhile")
            talker.publish("chat/a", b"40")
            awake.wait_told("chat/a", b"40")
    told = [int(one.payload) for one in device.told + awake.told]
    assert told == list(range(41))
    assert not any(one.retain for one in device.told + awake.told)


@WEBSOCKETS
@pytest.mark.parametrize("protocol", [MQTT_3_1_1, MQTT_5])
def test_retained_messages_cross_a_websocket_both_ways(up: Up, way: str, protocol: MQTTProtocolVersion) -> None:
    topic = f"{way}-{protocol}"
    with (
        HttpPublisher(up.http_url) as publisher,
        device_of(up, f"over-{topic}", protocol, way=way) as device,
        device_of(up, f"beside-{topic}") as beside,
    ):
        publisher.publish(DOMAIN, GROUP, f"{topic}/1", payload=1)
        device.subscribe(f"{topic}/#")
        beside.subscribe(f"{topic}/#")
        device.wait_told(f"{topic}/1", b"1")
        publisher.publish(DOMAIN, GROUP, f"{topic}/1", payload=2)
        device.wait_told(f"{topic}/1", b"2")
        large = b"x" * 4_000
        device.publish(f"{topic}/2", large, retain=True)
        for one in (device, beside):
            one.wait_told(f"{topic}/2", large)
        beside.publish(f"{topic}/2", b"", retain=True)
        device.wait_told(f"{topic}/2", b"")
        device.publish(f"{topic}/chat", b"m")
        beside.wait_told(f"{topic}/chat", b"m")


@WEBSOCKETS
def test_a_session_is_kept_from_one_websocket_to_another(up: Up, way: str) -> None:
    client, topic = f"kept-{way}", f"kept-{way}/a"
    with HttpPublisher(up.http_url) as publisher:
        publisher.publish(DOMAIN, GROUP, topic, payload=1)
        with device_of(up, client, expiry_s=3600, way=way) as device:
            assert device.present == [False]
            device.subscribe(f"{topic}/#")
            device.wait_told(topic, b"1")
        publisher.publish(DOMAIN, GROUP, topic, payload=2)
        with device_of(up, client, clean=False, expiry_s=3600, way=way) as awake:
            assert awake.present == [True]
            awake.wait_told(topic, b"2")
            assert len(awake.told) == 1
        with device_of(up, client, clean=False, expiry_s=0) as over_tcp:
            assert over_tcp.present == [True], "the same session"


@WEBSOCKETS
def test_a_websocket_of_another_subprotocol_is_refused(up: Up, way: str) -> None:
    for offered in (None, [Subprotocol("mqttv3.1")]):
        with pytest.raises(InvalidStatus) as refused:
            connect(websocket_url(up, way), subprotocols=offered, compression=None, open_timeout=WAIT_S)
        assert refused.value.response.status_code == 400
    with connect(
        websocket_url(up, way), subprotocols=[Subprotocol("mqttv3.1"), MQTT], compression=None, open_timeout=WAIT_S
    ) as session:
        assert session.subprotocol == MQTT
        session.send("text")
        with pytest.raises(ConnectionClosed):
            session.recv(LIMIT_S)


def test_a_page_of_another_origin_gets_no_websocket(stacks: Stacks, tmp_path: Path) -> None:
    with stacks.running(tmp_path) as up:
        for way in ("web", "http"):
            url = websocket_url(up, way)
            with pytest.raises(InvalidStatus) as refused:
                connect(
                    url, subprotocols=[MQTT], origin=Origin("https://other.test"), compression=None, open_timeout=WAIT_S
                )
            assert refused.value.response.status_code == 403
            own = Origin(url.removesuffix("/mqtt").replace("ws", "http", 1))
            with connect(url, subprotocols=[MQTT], origin=own, compression=None, open_timeout=WAIT_S) as session:
                assert session.subprotocol == MQTT


@WEBSOCKETS
def test_packets_cross_messages_and_share_one(up: Up, way: str) -> None:
    topic = f"cut-{way}"
    spoken = ProtocolVersion.MQTT_5
    told = PacketBuffer(1_000_000, spoken, Side.SERVER)
    packets: list[Packet] = []
    with connect(websocket_url(up, way), subprotocols=[MQTT], compression=None, open_timeout=WAIT_S) as session:
        for byte in encode(Connect(spoken, f"{DOMAIN}/{GROUP}/{topic}"), spoken):
            session.send(bytes([byte]))
        one, two = (
            encode(Publish(topic, payload, 1, packet_id=n), spoken) for n, payload in ((1, b"1" * 4000), (2, b"2"))
        )
        session.send(one[:100])
        session.send(one[100:] + two)
        while len(packets) < 3:
            data = session.recv(LIMIT_S)
            assert isinstance(data, bytes)
            packets += told.feed(data)
    assert isinstance(packets[0], ConnAck)
    assert packets[1:] == [PubAck(1), PubAck(2)]
