"""For tests: an MQTT device made of paho-mqtt, unchanged. It keeps what it is told and what it is answered."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from coldnotify_testkit.waiting import wait_for

MQTT_5, MQTT_3_1_1 = MQTTProtocolVersion.MQTTv5, MQTTProtocolVersion.MQTTv311
_PING_S = 60


class ToldMessage(NamedTuple):
    """A PUBLISH as the device's application gets it."""

    topic: str
    payload: bytes
    retain: bool = False
    qos: int = 1


class PahoDevice:
    """One device, in a thread of paho's. It connects at once, and reconnects by itself."""

    def __init__(
        self,
        port: int,
        client_id: str,
        protocol: MQTTProtocolVersion = MQTT_5,
        *,
        clean: bool = True,
        expiry_s: int = 0,
        websocket: bool = False,
        headers: Mapping[str, str] | None = None,
        said: Mapping[str, object] | None = None,
    ) -> None:
        """`clean`: of MQTT 3.1.1 the clean session, of 5.0 the clean start. `headers`: of the WebSocket's handshake.
        `said`: further properties of CONNECT.
        """
        self.told: list[ToldMessage] = []
        self.properties: list[dict[str, Any]] = []
        """Those of each message in `told`, as paho shows them; of 5.0."""
        self.present: list[bool] = []
        """Session Present of each CONNACK."""
        self.acknowledged: set[int] = set()
        """Packet identifiers of publishes that were acknowledged."""
        self.left: list[str] = []
        """The reasons for which connections ended."""
        self._granted: dict[int, list[str]] = {}
        options: dict[str, Any] = {} if protocol == MQTT_5 else {"clean_session": clean}
        if websocket:
            options["transport"] = "websockets"
        self.client = paho.Client(CallbackAPIVersion.VERSION2, client_id, protocol=protocol, **options)
        if websocket:
            self.client.ws_set_options("/mqtt", dict(headers or {}))
        for event in ("on_connect", "on_disconnect", "on_message", "on_publish", "on_subscribe"):
            setattr(self.client, event, getattr(self, f"_{event}"))
        self.client.reconnect_delay_set(1, 2)
        if protocol == MQTT_5:
            properties = _properties(PacketTypes.CONNECT, {"SessionExpiryInterval": expiry_s, **(said or {})})
            self.client.connect("127.0.0.1", port, _PING_S, clean_start=clean, properties=properties)
        else:
            self.client.connect("127.0.0.1", port, _PING_S)
        self.client.loop_start()

    def __enter__(self) -> Self:
        wait_for(lambda: self.present or self.left, "a CONNACK")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def subscribe(self, filter_: str, qos: int = 1) -> list[str]:
        """Subscribes, and returns the codes of the SUBACK."""
        _, packet_id = self.client.subscribe(filter_, qos)
        assert packet_id is not None
        wait_for(lambda: packet_id in self._granted, "a SUBACK")
        return self._granted[packet_id]

    def publish(self, topic: str, payload: bytes, *, retain: bool = False, qos: int = 1, **said: Any) -> None:
        """Publishes, and waits for the PUBACK, or until it is sent. `said`: its properties, by paho's names."""
        properties = _properties(PacketTypes.PUBLISH, said) if said else None
        packet_id = self.client.publish(topic, payload, qos, retain, properties).mid
        wait_for(lambda: packet_id in self.acknowledged, "a PUBACK")

    def last(self, topic: str) -> bytes | None:
        """Returns the payload that it was told last of a topic."""
        return next((one.payload for one in reversed(self.told) if one.topic == topic), None)

    def wait_told(self, topic: str, payload: bytes) -> None:
        """Waits until this is what it was told last of a topic."""
        wait_for(lambda: self.last(topic) == payload, f"{payload!r} of {topic}")

    def _on_connect(self, _client: object, _data: object, flags: Any, reason: Any, _properties: object) -> None:
        if reason.is_failure:
            self.left.append(str(reason))
        else:
            self.present.append(flags.session_present)

    def _on_disconnect(self, _client: object, _data: object, _flags: object, reason: Any, _properties: object) -> None:
        self.left.append(str(reason))

    def _on_message(self, _client: object, _data: object, message: Any) -> None:
        self.told.append(ToldMessage(message.topic, message.payload, bool(message.retain), message.qos))
        self.properties.append({} if message.properties is None else message.properties.json())

    def _on_publish(self, _client: object, _data: object, mid: int, _reason: object, _properties: object) -> None:
        self.acknowledged.add(mid)

    def _on_subscribe(self, _client: object, _data: object, mid: int, reasons: Any, _properties: object) -> None:
        self._granted[mid] = [str(reason) for reason in reasons]


def _properties(packet: int, said: Mapping[str, object]) -> Properties:
    properties = Properties(packet)  # type: ignore[no-untyped-call]
    for name, value in said.items():
        setattr(properties, name, value)
    return properties
