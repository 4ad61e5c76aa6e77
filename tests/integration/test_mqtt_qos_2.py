"""QoS 2 upwards: the gateway is killed between each two of the six steps, and exactly one record is told of each."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from coldnotify import Message
from coldnotify_schemas.channels import MessageHeaders
from coldnotify_schemas.mqtt.encoding import encode
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion, Side
from coldnotify_schemas.mqtt.packets import ConnAck, Connect, Packet, PubComp, Publish, PubRec, PubRel
from coldnotify_schemas.mqtt.parsing import PacketBuffer
from coldnotify_schemas.mqtt.properties import Properties
from coldnotify_testkit.channels_bench import ChannelsBench
from coldnotify_testkit.engine_bench import DOMAIN, GATEWAY, GROUP, OTHER_GATEWAY, EngineBench
from coldnotify_testkit.mqtt_bench import MqttBench
from coldnotify_testkit.stack import Recorder, Stacks, Up, notify
from coldnotify_testkit.waiting import WAIT_S, wait_for

MQTT_5 = ProtocolVersion.MQTT_5
STEPS = ("PUBLISH", "held", "in Kafka", "PUBREC", "released", "PUBCOMP")


def a_connect(client_id: str) -> Connect:
    return Connect(MQTT_5, client_id, clean_start=False, keep_alive_s=60, properties=Properties(session_expiry_s=3600))


class Kept:
    """The device's side of one PUBLISH, over all of its connections."""

    def __init__(self, *, retain: bool) -> None:
        self.publish = Publish("door", b"open", 2, retain, packet_id=1)
        self.has_pubrec = self.has_pubcomp = False

    def next(self, *, again: bool) -> Packet:
        if self.has_pubrec:
            return PubRel(1)
        packet = self.publish
        return Publish(packet.topic, packet.payload, 2, packet.retain, again, packet_id=1)

    def take(self, packets: list[Packet]) -> bool:
        """Takes what came. Returns true if something is to be sent."""
        for packet in packets:
            self.has_pubrec |= isinstance(packet, PubRec)
            self.has_pubcomp |= isinstance(packet, PubComp)
        return any(isinstance(packet, PubRec) for packet in packets)


class Gateway1(MqttBench):
    GATEWAY = GATEWAY


class Gateway2(MqttBench):
    GATEWAY = OTHER_GATEWAY


class World:
    """The cores of a matcher and of one gateway after the other, and Kafka's part between them, step by step."""

    def __init__(self, *, retain: bool) -> None:
        self.matcher: EngineBench | ChannelsBench = EngineBench() if retain else ChannelsBench()
        self.device = Kept(retain=retain)
        self.written: list[bytes] = []
        """The id of each message, or the value of each version."""
        self._gateways: Iterator[MqttBench] = iter((Gateway1(), Gateway2()))
        self.start_gateway()

    def start_gateway(self) -> None:
        self.gateway = next(self._gateways)
        self.wire = self.gateway.device()
        self.gateway.send(self.wire, a_connect(f"{DOMAIN}/{GROUP}/lamp"))
        self.ask()
        self.hear()
        assert any(isinstance(one, ConnAck) for one in self.wire.packets())

    def send(self, *, again: bool) -> None:
        self.gateway.send(self.wire, self.device.next(again=again))

    def ask(self) -> None:
        """The gateway's requests come to the matcher, and what comes of them is durable."""
        for request in self.gateway.take_requests():
            if request.HasField("open") or request.HasField("receive"):
                kind = request.WhichOneof("body") or ""
                self.matcher.request(request.session, request.client, request.gateway, **{kind: getattr(request, kind)})
        self.matcher.settle()

    def hear(self) -> None:
        """The matcher's answers come to the gateway."""
        told, id_ = self.matcher, self.gateway.GATEWAY
        items = told.take(id_) if isinstance(told, ChannelsBench) else told.items(id_)
        wanted = [one for one in items if one.WhichOneof("item") in ("opened", "page", "noted")]
        if wanted:
            self.gateway.inbox(*wanted)

    def write(self) -> None:
        """The gateway hears from the matcher, and Kafka takes its records."""
        self.hear()
        for record in self.gateway.publications:
            if isinstance(self.matcher, EngineBench):
                self.matcher.log.append(record.topic, record.key, record.value, headers=record.headers)
                self.written.append(record.value)
            else:
                id_ = dict(record.headers)["id"]
                self.matcher.send("", record.value, MessageHeaders(id=id_.decode()), key=record.key)
                self.written.append(id_)
        self.gateway.publications.clear()
        self.matcher.settle()

    def report(self) -> None:
        """The gateway hears from Kafka. The device answers a PUBREC."""
        while self.gateway.unanswered:
            record = self.gateway.unanswered.pop(0)
            self.gateway.do(self.gateway.gateway.on_published(record, 1, "", self.gateway.now_s))
        self.answer()

    def answer(self) -> None:
        if self.device.take(self.wire.packets()):
            self.send(again=False)

    def release(self) -> None:
        """The gateway hears from the matcher."""
        self.hear()
        self.answer()

    def run(self, steps: int = 5) -> None:
        """Does so many of the steps behind PUBLISH."""
        for step in (self.ask, self.write, self.report, self.ask, self.release)[:steps]:
            step()

    @property
    def told(self) -> int:
        """How many records are new to those who are told."""
        if isinstance(self.matcher, EngineBench):
            return len(set(self.written))
        return self.matcher.engine.state.counts.get("messages", 0)


@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("done", range(len(STEPS)), ids=STEPS)
def test_a_gateway_is_killed_behind_a_step(retain: bool, done: int) -> None:
    world = World(retain=retain)
    world.send(again=False)
    world.run(done)
    if not world.device.has_pubcomp:
        world.start_gateway()
        world.send(again=True)
        world.run()
    assert world.device.has_pubcomp
    assert world.told == 1
    assert len(set(world.written)) == 1, "what is written again is the same"


class Device:
    """A device over a real socket."""

    def __init__(self, port: int, client_id: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), WAIT_S)
        self._packets = PacketBuffer(1 << 20, MQTT_5, Side.SERVER)
        self.send(a_connect(client_id))
        self.wait(ConnAck)

    def send(self, *packets: Packet) -> None:
        self._socket.sendall(b"".join(encode(one, MQTT_5) for one in packets))

    def wait(self, *kinds: type) -> None:
        """Waits for packets of these kinds, in any order."""
        left = list(kinds)
        while left:
            data = self._socket.recv(4096)
            assert data, "the connection has ended"
            for packet in self._packets.feed(data):
                assert not getattr(packet, "reason", 0), packet
                left.remove(type(packet))

    def close(self) -> None:
        self._socket.close()


@pytest.mark.kafka
def test_real_gateways_are_killed(stacks: Stacks, tmp_path: Path) -> None:
    versions, messages = Recorder(), list[Message]()
    with stacks.running(tmp_path) as up, notify(up, "reader", tmp_path / "state") as reader:
        reader.channel("knocks").subscribe(messages.append)
        objects = [f"door-{number}" for number in range(3)]
        for name in objects:
            reader.register(name).subscribe(versions)
        for number, name in enumerate(objects):
            packets = [
                Publish("knocks", b"%d" % number, 2, packet_id=1),
                Publish(name, b"open", 2, retain=True, packet_id=2),
            ]
            again = [Publish(one.topic, one.payload, 2, one.retain, True, packet_id=one.packet_id) for one in packets]
            device = connected(up)
            device.send(*packets)
            if number:
                device.wait(PubRec, PubRec)
            if number == 2:
                device.send(PubRel(1), PubRel(2))
            up.wait_ready(other_than=up.kill("gateway"))
            device.close()
            device = connected(up)
            if number == 0:
                device.send(*again)
                device.wait(PubRec, PubRec)
            device.send(PubRel(1), PubRel(2))
            if number < 2:
                device.wait(PubComp, PubComp)
            device.close()
        wait_for(lambda: len(messages) >= 3, "each message")
        for name in objects:
            wait_for(lambda name=name: versions.newest(name) is not None, f"a version of {name}")  # type: ignore[misc]
        device = connected(up)
        for _ in range(3):
            device.send(Publish("knocks", b"last", 2, packet_id=1))
            device.wait(PubRec)
            device.send(PubRel(1))
            device.wait(PubComp)
        device.close()
        wait_for(lambda: len(messages) >= 6, "one payload three times")
        assert [one.payload for one in messages] == [0, 1, 2, b"last", b"last", b"last"]
        assert all(len([one for one in versions.versions(name) if one is not None]) == 1 for name in objects)


def connected(up: Up) -> Device:
    """The device, connected to the gateway that is there."""
    found: list[Device] = []

    def connects() -> bool:
        with contextlib.suppress(OSError, AssertionError):
            found.append(Device(int(up.report["mqtt"].rpartition(":")[2]), "animal.observer/region-1/lamp"))
        return bool(found)

    wait_for(connects, "a gateway takes the device")
    return found[0]
