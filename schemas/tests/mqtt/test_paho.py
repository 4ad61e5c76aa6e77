"""paho-mqtt, the field's client, speaks over a real socket with a server that has nothing but the codec.

Every packet that paho sends is parsed, and every packet that the server sends is understood by paho, in both protocols.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from coldnotify_schemas.mqtt.encoding import encode
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion
from coldnotify_schemas.mqtt.packets import (
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    TopicSubscription,
    UnsubAck,
    Unsubscribe,
    Will,
)
from coldnotify_schemas.mqtt.parsing import PacketBuffer
from coldnotify_schemas.mqtt.properties import Properties
from coldnotify_schemas.mqtt.reasons import ReasonCode, ReturnCode
from coldnotify_testkit.waiting import wait_for
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as PahoProperties
from paho.mqtt.subscribeoptions import SubscribeOptions

V4, V5 = ProtocolVersion.MQTT_3_1_1, ProtocolVersion.MQTT_5
WAIT_S = 100
BOTH = pytest.mark.parametrize("protocol", list(ProtocolVersion))


class Server:
    """Serves one connection, and sends each PUBLISH back with the same QoS. Records what it received."""

    def __init__(self) -> None:
        self.received: list[Packet] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(WAIT_S)
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def join(self) -> None:
        """Returns when the client has gone."""
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        with self._listening:
            connection, _ = self._listening.accept()
        with connection:
            connection.settimeout(WAIT_S)
            buffer = PacketBuffer(1 << 20)
            while data := connection.recv(7):
                for packet in buffer.feed(data):
                    self.received.append(packet)
                    assert buffer.protocol is not None
                    for answer in self._answers(packet, buffer.protocol):
                        connection.sendall(encode(answer, buffer.protocol))

    def _answers(self, packet: Packet, protocol: ProtocolVersion) -> Iterator[Packet]:
        match packet:
            case Connect():
                if protocol is V5:
                    yield ConnAck(True, ReasonCode.SUCCESS, Properties(receive_max=10, topic_alias_max=3))
                else:
                    yield ConnAck(True, ReturnCode.ACCEPTED)
            case Subscribe():
                yield SubAck(packet.packet_id, tuple(ReasonCode(one.qos) for one in packet.subscriptions))
            case Unsubscribe():
                yield UnsubAck(packet.packet_id, (ReasonCode.NO_SUBSCRIPTION_EXISTED,) * len(packet.filters))
            case Publish():
                if packet.qos == 1:
                    yield PubAck(packet.packet_id or 0, ReasonCode.NO_MATCHING_SUBSCRIBERS)
                if packet.qos == 2:
                    yield PubRec(packet.packet_id or 0)
                mine = 700 + packet.qos if packet.qos else None
                yield Publish(packet.topic, packet.payload, packet.qos, packet.retain, False, mine, packet.properties)
            case PubRel():
                yield PubComp(packet.packet_id)
            case PubRec():
                yield PubRel(packet.packet_id)
            case PingReq():
                yield PingResp()


class Device:
    """A client of paho's, which notes what it is told."""

    def __init__(self, protocol: ProtocolVersion, **settings: Any) -> None:
        self.messages: list[MQTTMessage] = []
        self.told: list[str] = []
        self.client = Client(
            CallbackAPIVersion.VERSION2, "device", protocol=MQTTProtocolVersion(protocol.value), **settings
        )
        told = self.told.append
        self.client.on_message = lambda client, data, message: self.messages.append(message)
        self.client.on_connect = lambda client, data, flags, reason, held: told(
            f"connected {flags.session_present} {reason} {held or ''}"
        )
        self.client.on_subscribe = lambda client, data, mid, reasons, held: told(
            f"subscribed {[one.value for one in reasons]}"
        )
        self.client.on_unsubscribe = lambda client, data, mid, reasons, held: told(
            f"unsubscribed {[one.value for one in reasons]}"
        )
        self.client.on_publish = lambda client, data, mid, reason, held: told(f"published {reason}")

    def wait(self, *, told: int = 0, messages: int = 0) -> None:
        """Waits until it was told so much."""
        wait_for(lambda: len(self.told) >= told and len(self.messages) >= messages)


@contextmanager
def connected(device: Device, **how: Any) -> Iterator[Server]:
    """A server with this device at it, which has gone when the block is left."""
    server = Server()
    device.client.connect("127.0.0.1", server.port, keepalive=40, **how)
    device.client.loop_start()
    try:
        device.wait(told=1)
        yield server
    finally:
        device.client.disconnect()
        device.client.loop_stop()
        server.join()


@BOTH
def test_everything_that_a_device_does(protocol: ProtocolVersion) -> None:
    device = Device(protocol, clean_session=False if protocol is V4 else None)
    device.client.username_pw_set("ü", "token")
    device.client.will_set("units/device", b"\x00gone", 1, True)
    how = {"clean_start": False} if protocol is V5 else {}
    with connected(device, **how) as server:
        device.client.subscribe([("a/+", 1), ("#", 2)])
        device.wait(told=2)
        for qos in range(3):
            device.client.publish(f"a/{qos}", b"\x00\xff" * qos * 100, qos, retain=qos == 1)
            # paho says that it was published, and has it back.
            device.wait(told=3 + qos, messages=1 + qos)
        device.client.unsubscribe(["#", "b"])
        device.wait(told=6)
    first, second, *others = server.received
    assert first == Connect(protocol, "device", False, 40, "ü", b"token", Will("units/device", b"\x00gone", 1, True))
    assert second == Subscribe(1, (TopicSubscription("a/+", 1), TopicSubscription("#", 2)))
    published = [packet for packet in others if isinstance(packet, Publish)]
    assert published == [
        Publish("a/0", b"", 0),
        Publish("a/1", b"\x00\xff" * 100, 1, True, packet_id=3),
        Publish("a/2", b"\x00\xff" * 200, 2, packet_id=4),
    ]
    acknowledged = [packet for packet in others if isinstance(packet, PubAck | PubRec | PubRel | PubComp)]
    assert set(acknowledged) == {PubAck(701), PubRec(702), PubComp(702), PubRel(4)}
    assert others[-2:] == [Unsubscribe(5, ("#", "b")), Disconnect()]
    assert [(m.topic, m.payload, m.qos, m.retain) for m in device.messages] == [
        (packet.topic, packet.payload, packet.qos, packet.retain) for packet in published
    ]
    assert device.told[1] == "subscribed [1, 2]"
    assert device.told[-1] == ("unsubscribed [17, 17]" if protocol is V5 else "unsubscribed []")
    assert device.told[0].startswith("connected True Success")


def paho(kind: int, **values: Any) -> PahoProperties:
    """Properties of paho's."""
    held = PahoProperties(kind)
    for name, value in values.items():
        setattr(held, name, value)
    return held


def test_properties_of_mqtt_5() -> None:
    device = Device(V5)
    device.client.will_set(
        "w", b"", properties=paho(PacketTypes.WILLMESSAGE, WillDelayInterval=9, PayloadFormatIndicator=1)
    )
    held = paho(PacketTypes.CONNECT, SessionExpiryInterval=0xFFFFFFFF, ReceiveMaximum=3, MaximumPacketSize=9000)
    with connected(device, clean_start=True, properties=held) as server:
        options = SubscribeOptions(1, noLocal=True, retainAsPublished=True, retainHandling=2)
        identified = paho(PacketTypes.SUBSCRIBE, SubscriptionIdentifier=128)
        device.client.subscribe("a/#", options=options, properties=identified)
        device.wait(told=2)
        held = paho(
            PacketTypes.PUBLISH,
            MessageExpiryInterval=7,
            ContentType="text",
            ResponseTopic="r",
            CorrelationData=b"\x00",
            UserProperty=[("b", "1"), ("a", "2"), ("b", "1")],
            TopicAlias=2,
        )
        device.client.publish("a", b"x", 1, properties=held)
        device.wait(told=3, messages=1)
        device.client.disconnect(properties=paho(PacketTypes.DISCONNECT, SessionExpiryInterval=5))
    sent = Properties(
        message_expiry_s=7,
        content_type="text",
        response_topic="r",
        correlation_data=b"\x00",
        user_properties=(("b", "1"), ("a", "2"), ("b", "1")),
        topic_alias=2,
    )
    assert server.received == [
        Connect(
            V5,
            "device",
            keep_alive_s=40,
            will=Will("w", properties=Properties(payload_format=1, will_delay_s=9)),
            properties=Properties(session_expiry_s=0xFFFFFFFF, receive_max=3, packet_bytes_max=9000),
        ),
        Subscribe(1, (TopicSubscription("a/#", 1, True, True, 2),), Properties(subscription_ids=(128,))),
        Publish("a", b"x", 1, packet_id=2, properties=sent),
        PubAck(701),
        Disconnect(properties=Properties(session_expiry_s=5)),
    ]
    (message,) = device.messages
    assert message.properties is not None
    assert message.properties.json() == {
        "MessageExpiryInterval": 7,
        "ContentType": "text",
        "ResponseTopic": "r",
        "CorrelationData": "00",
        "UserProperty": [("b", "1"), ("a", "2"), ("b", "1")],
        "TopicAlias": 2,
    }
    assert device.told[2] == "published No matching subscribers"
    assert "ReceiveMaximum : 10" in device.told[0]
