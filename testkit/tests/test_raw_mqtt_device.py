"""The raw MQTT device against a broker of this test, and against mosquitto: what it writes, and what is judged of it.

Stands for: raw_mqtt_link, link_thread, mqtt_story
"""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from coldnotify_checker.histories import (
    Event,
    HistoryWriter,
    MqttConnected,
    MqttDisconnected,
    MqttPublished,
    MqttTold,
    now_us,
    read_histories,
)
from coldnotify_cli.noting import message_payload
from coldnotify_kafka.broker.free_ports import free_port
from coldnotify_schemas.mqtt.encoding import encode
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion
from coldnotify_schemas.mqtt.packets import (
    ConnAck,
    PubAck,
    Publish,
    TopicSubscription,
    Will,
)
from coldnotify_schemas.mqtt.parsing import PacketBuffer
from coldnotify_schemas.mqtt.reasons import ReasonCode, ReturnCode
from coldnotify_testkit.child import Child
from coldnotify_testkit.mqtt_double import HOST, MqttDouble
from coldnotify_testkit.mqtt_story import GROUP, NOTHING, MqttStory
from coldnotify_testkit.raw_mqtt_device import MqttManner, RawMqttDevice
from coldnotify_testkit.raw_mqtt_link import MqttPauses, RawMqttLink
from coldnotify_testkit.waiting import WAIT_S, wait_for

MQTT_5, MQTT_3 = ProtocolVersion.MQTT_5, ProtocolVersion.MQTT_3_1_1
PAUSES = MqttPauses(back_off_s=0.1, ping_s=0.2)
Kind = TypeVar("Kind", bound=Event)
ROOM = TopicSubscription("room/#", 1)


class House:
    """Devices with their histories."""

    def __init__(self, directory: Path, port: int) -> None:
        self.file = directory / "history.jsonl"
        self.writer = HistoryWriter(self.file)
        self.port = port
        self.links: list[RawMqttLink] = []

    def device(self, name: str, protocol: ProtocolVersion = MQTT_5, **more: Any) -> RawMqttLink:
        device = RawMqttDevice(f"{GROUP}/{name}", self.writer.write, MqttManner(protocol, **more))
        link = RawMqttLink(device, [(HOST, self.port)], pauses=PAUSES)
        self.links.append(link)
        link.start()
        return link

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in read_histories([self.file]) if isinstance(event, kind)]

    def story(self) -> MqttStory:
        """What was written, to go on with by hand."""
        story = MqttStory()
        story.events = read_histories([self.file])
        story.t = now_us()
        return story

    def close(self) -> None:
        for link in self.links:
            link.stop()
        self.writer.close()


@pytest.fixture
def broker() -> Iterator[MqttDouble]:
    with MqttDouble() as broker:
        yield broker
        broker.shutdown()


@pytest.fixture
def house(tmp_path: Path, broker: MqttDouble) -> Iterator[House]:
    house = House(tmp_path, broker.port)
    yield house
    house.close()


def does(link: RawMqttLink, what: Callable[[RawMqttDevice], None]) -> None:
    """Returns when the link's thread has done it."""
    done = threading.Event()
    link.do(what)
    link.do(lambda device: done.set())
    assert done.wait(WAIT_S)


def connects(link: RawMqttLink, **how: Any) -> None:
    """Returns behind its first PINGRESP."""
    link.connect(**how)
    wait_for(lambda: link.device.pongs, "a PINGRESP")


def leaves(link: RawMqttLink, how: str = "sleep") -> None:
    getattr(link, how)()
    wait_for(lambda: link.device.over, "the end of the connection")


def subscribes(link: RawMqttLink, *filters: TopicSubscription) -> None:
    link.do(lambda device: device.subscribe(*filters))
    wait_for(lambda: filters[0].filter in link.device.filters, "the SUBACK")


def publishes(link: RawMqttLink, topic: str, payload: bytes, *, retain: bool = False) -> None:
    does(link, lambda device: device.publish(topic, payload, retain=retain))
    wait_for(lambda: not link.device.unanswered, "the PUBACK")


def hears(link: RawMqttLink, topic: str, payload: bytes) -> None:
    wait_for(lambda: any((one.topic, one.payload) == (topic, payload) for one in link.device.told), f"{payload!r}")


def a_day(house: House, protocol: ProtocolVersion) -> RawMqttLink:
    """A panel sleeps and crashes while a sensor publishes. Each payload comes once."""
    sensor, panel = house.device("sensor"), house.device("panel", protocol)
    connects(sensor)
    publishes(sensor, "room/light", b'"first"', retain=True)
    connects(panel)
    subscribes(panel, ROOM)
    hears(panel, "room/light", b'"first"')
    publishes(sensor, "room/bell", b"\x00\x01")
    hears(panel, "room/bell", b"\x00\x01")
    leaves(panel)
    publishes(sensor, "room/bell", b'{"n": 2}')
    publishes(sensor, "room/light", b'"second"', retain=True)
    connects(panel)
    hears(panel, "room/light", b'"second"')
    does(panel, lambda device: setattr(device, "acknowledges", False))
    publishes(sensor, "room/bell", b'{"n": 3}')
    hears(panel, "room/bell", b'{"n": 3}')
    leaves(panel, "crash")
    publishes(sensor, "room/light", b"", retain=True)
    does(panel, lambda device: setattr(device, "acknowledges", True))
    connects(panel)
    hears(panel, "room/light", b"")
    return panel


def dump(story: MqttStory, broker: MqttDouble) -> MqttStory:
    versions: dict[str, tuple[int, Any]] = {}
    for topic, (version, payload) in broker.versions.items():
        versions[topic] = version, message_payload(payload) if payload else NOTHING
    messages = [(at, topic, message_payload(payload)) for at, (topic, payload) in enumerate(broker.messages)]
    return story.finish(versions, messages)


@pytest.mark.parametrize("protocol", [MQTT_5, MQTT_3])
def test_a_day_is_written_down_and_judged_as_clean(house: House, broker: MqttDouble, protocol: ProtocolVersion) -> None:
    panel = a_day(house, protocol)
    story = dump(house.story(), broker)
    assert story.violations() == {}
    told = [one for one in story.events if isinstance(one, MqttTold)]
    assert [one.payload for one in told].count({"n": 3}) == 2, "it was not acknowledged"
    assert (told[0].version, told[0].retain) == (1 if protocol is MQTT_5 else None, True)
    assert [one.by for one in story.events if isinstance(one, MqttDisconnected)] == ["device", "crash"]
    assert [one.present for one in story.events if isinstance(one, MqttConnected)] == [False, False, True, True]
    assert panel.device.filters == {"room/#": 1}


@pytest.mark.parametrize("protocol", [MQTT_5, MQTT_3])
def test_a_broker_that_forgets_what_it_sent_is_found_out(
    house: House, broker: MqttDouble, protocol: ProtocolVersion
) -> None:
    broker.forgets = True
    a_day(house, protocol)
    assert dump(house.story(), broker).violations().keys() & {"M8", "P7"}


def test_a_connection_without_pingresp_is_given_up(house: House, broker: MqttDouble) -> None:
    broker.pongs = False
    device = RawMqttDevice(f"{GROUP}/panel", house.writer.write)
    link = RawMqttLink(device, [(HOST, broker.port)], pauses=MqttPauses(back_off_s=0.1, pong_s=0.3))
    house.links.append(link)
    link.start()
    link.connect()
    wait_for(lambda: bool(house.of(MqttDisconnected)), "it gives up")
    assert house.of(MqttDisconnected)[0].reason == "no PINGRESP"
    broker.pongs = True
    wait_for(lambda: device.pongs, "a PINGRESP in another connection")


def test_every_connection_of_a_clean_device_begins_a_session(house: House, broker: MqttDouble) -> None:
    panel = house.device("panel", clean=True)
    connects(panel)
    subscribes(panel, ROOM)
    leaves(panel, "crash")
    connects(panel)
    assert [one.present for one in house.of(MqttConnected)] == [False, False]
    assert panel.device.filters == {}


def test_random_crashes_lose_nothing(house: House, broker: MqttDouble) -> None:
    sensor = house.device("sensor")
    device = RawMqttDevice(f"{GROUP}/panel", house.writer.write)
    panel = RawMqttLink(device, [(HOST, broker.port)], pauses=PAUSES, crashes=0.3)
    house.links.append(panel)
    panel.start()
    connects(sensor)
    panel.connect()
    wait_for(lambda: device.connected, "a CONNACK")
    for _ in range(100):
        wait_for(lambda: device.connected, "a CONNACK")
        does(panel, lambda device: device.subscribe(ROOM) if device.connected else None)
        if ROOM.filter in device.filters:
            break
    for n in range(30):
        publishes(sensor, "room/bell", b"%d" % n)
    hears(panel, "room/bell", b"29")
    panel.crashes = 0.0
    wait_for(lambda: device.connected and not broker.sessions[device.client].due, "all acknowledgements")
    assert dump(house.story(), broker).violations() == {}
    assert any(isinstance(one, MqttDisconnected) for one in house.story().events)


def test_a_publish_without_its_puback_is_sent_again_with_another_line() -> None:
    lines: list[Event] = []
    device = RawMqttDevice(f"{GROUP}/sensor", lines.append, first_id=0)
    connack = encode(ConnAck(True, ReasonCode.SUCCESS), MQTT_5)
    device.connect()
    device.receive(connack)
    device.publish("room/bell", b"1")
    first = PacketBuffer(1 << 20).feed(device.bytes_to_send())
    sent = [packet for packet in first if isinstance(packet, Publish)]
    device.ended("crash")
    device.connect()
    device.receive(connack)
    again = [packet for packet in PacketBuffer(1 << 20).feed(device.bytes_to_send()) if isinstance(packet, Publish)]
    assert sent[0].packet_id == again[0].packet_id is not None
    assert (sent[0].dup, again[0].dup) == (False, True)
    device.receive(encode(PubAck(again[0].packet_id), MQTT_5))
    assert [line.id for line in lines if isinstance(line, MqttPublished)] == [2]
    assert not device.unanswered


@pytest.mark.parametrize("protocol", [MQTT_5, MQTT_3])
def test_a_refused_connection_is_an_end(protocol: ProtocolVersion) -> None:
    lines: list[Event] = []
    device = RawMqttDevice(f"{GROUP}/sensor", lines.append, MqttManner(protocol, password=b"token"))
    device.connect(clean=True)
    refused = ReasonCode.NOT_AUTHORIZED if protocol is MQTT_5 else ReturnCode.NOT_AUTHORIZED
    device.receive(encode(ConnAck(False, refused), protocol))
    assert device.over == "NOT_AUTHORIZED"
    (_, end) = lines
    assert isinstance(end, MqttDisconnected)
    assert (end.by, end.reason) == ("service", "NOT_AUTHORIZED")


def test_nonsense_ends_a_connection() -> None:
    device = RawMqttDevice(f"{GROUP}/sensor", lambda line: None)
    device.connect()
    device.receive(b"\x00\x00")
    assert device.over
    assert "not MQTT" in device.over


@pytest.mark.skipif(shutil.which("mosquitto", path="/usr/sbin:/usr/bin") is None, reason="there is no mosquitto")
@pytest.mark.parametrize("protocol", [MQTT_5, MQTT_3])
def test_mosquitto_keeps_the_promises_of_a_day(tmp_path: Path, protocol: ProtocolVersion) -> None:
    """Without versions and offsets, and without a dump: the payloads alone tell which is which."""
    port = free_port(HOST)
    root = "user root\n" if os.geteuid() == 0 else ""
    config = tmp_path / "mosquitto.conf"
    config.write_text(f"listener {port} {HOST}\nallow_anonymous true\npersistence false\n{root}")
    program = shutil.which("mosquitto", path="/usr/sbin:/usr/bin")
    assert program is not None
    with Child([program, "-c", str(config)], tmp_path / "mosquitto.log"):
        house = House(tmp_path, port)
        lamp = house.device("lamp", will=Will("room/alive", b'"gone"', 1, retain=True))
        connects(lamp)
        panel = a_day(house, protocol)
        leaves(lamp, "crash")
        hears(panel, "room/alive", b'"gone"')
        found = house.story().finish().violations()
        house.close()
    assert found == {}
