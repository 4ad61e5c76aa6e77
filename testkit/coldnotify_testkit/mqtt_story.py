"""Writes histories of MQTT devices by hand, a second for each line, for tests of what the checker says of them."""

from collections.abc import Iterable, Mapping
from typing import Any, Self

from coldnotify_checker import judge
from coldnotify_checker.histories import (
    End,
    Event,
    MqttAcknowledge,
    MqttConnect,
    MqttConnected,
    MqttDisconnected,
    MqttFilter,
    MqttPong,
    MqttPublish,
    MqttPublished,
    MqttSubscribe,
    MqttSubscribed,
    MqttTold,
    MqttWill,
    Record,
    Topic,
)
from coldnotify_schemas.topics import TopicNames

TOPICS = TopicNames()
GROUP = "home/house-1"
NOTHING: Any = {"base64": ""}
"""A payload of no bytes."""
FOR_EVER_S = 0xFFFF_FFFF
_S = 1_000_000


class MqttStory:
    """A history. Devices are named without their group; `panel` is the one that is told, `sensor` the one that says."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.t = 0
        self._ids = 0

    def say(self, event: Event) -> Self:
        """The next line, a second later."""
        self.t += _S
        fields = {name: getattr(event, name) for name in event.__struct_fields__}
        self.events.append(type(event)(**fields | {"t": self.t}))
        return self

    def waits(self, seconds: float) -> Self:
        """Nothing happens."""
        self.t += round(seconds * _S)
        return self

    def connects(
        self, device: str = "panel", *, present: bool = False, expiry_s: int = FOR_EVER_S, **said: Any
    ) -> Self:
        """CONNECT and CONNACK."""
        self.say(MqttConnect(client=_client(device), expiry_s=expiry_s, **said))
        return self.say(MqttConnected(client=_client(device), present=present))

    def subscribes(self, filter_: str, device: str = "panel", *, code: int = 1, **options: Any) -> Self:
        """SUBSCRIBE and SUBACK."""
        self._ids += 1
        asked = [MqttFilter(filter=filter_, qos=options.pop("qos", 1), **options)]
        self.say(MqttSubscribe(client=_client(device), id=self._ids, filters=asked))
        return self.say(MqttSubscribed(client=_client(device), id=self._ids, codes=[code]))

    def told(
        self, topic: str, payload: Any, device: str = "panel", *, qos: int = 1, acknowledged: bool = True, **said: Any
    ) -> Self:
        """PUBLISH and PUBACK."""
        self._ids += 1
        packet_id = self._ids if qos else None
        self.say(MqttTold(client=_client(device), topic=topic, payload=payload, qos=qos, packet_id=packet_id, **said))
        if packet_id is not None and acknowledged:
            self.acknowledges(packet_id, device)
        return self

    def acknowledges(self, packet_id: int, device: str = "panel") -> Self:
        """PUBACK."""
        return self.say(MqttAcknowledge(client=_client(device), packet_id=packet_id))

    def pings(self, device: str = "panel", *, seconds: float = 0.5) -> Self:
        """PINGREQ, and its PINGRESP."""
        return self.waits(seconds).say(MqttPong(client=_client(device), asked=self.t - round(seconds * _S) + _S // 4))

    def ends(self, by: Any = "device", device: str = "panel") -> Self:
        """The connection is over."""
        return self.say(MqttDisconnected(client=_client(device), by=by))

    def publishes(
        self, topic: str, payload: Any, device: str = "sensor", *, code: int | None = 0, qos: int = 1, **said: Any
    ) -> Self:
        """PUBLISH and, unless `code` is None, PUBACK."""
        self._ids += 1
        self.say(MqttPublish(client=_client(device), id=self._ids, topic=topic, payload=payload, qos=qos, **said))
        if qos and code is not None:
            self.say(MqttPublished(client=_client(device), id=self._ids, code=code))
        return self

    def retains(self, topic: str, payload: Any, **said: Any) -> Self:
        """The same with retain."""
        return self.publishes(topic, payload, retain=True, **said)

    def finish(
        self,
        versions: Mapping[str, tuple[int, Any]] | None = None,
        messages: Iterable[tuple[int, str, Any]] | None = None,
        connected: Iterable[str] = ("panel",),
    ) -> Self:
        """All is at rest; then the topics are dumped. `versions`: the newest of each topic; None: there is no dump."""
        self.say(End(connected=[_client(device) for device in connected]))
        if versions is not None:
            for offset, (topic, (version, payload)) in enumerate(versions.items()):
                raw = isinstance(payload, dict) and payload.keys() == {"base64"}
                said = {"payload": payload["base64"] if raw else payload}
                if payload == NOTHING:
                    raw, said = False, {"deleted": True}
                record = Record(topic=TOPICS.objects, partition=0, offset=offset, key=f"{GROUP}/{topic}", raw=raw)
                self._append(record, value={"version": version, **said})
            self.say(Topic(topic=TOPICS.objects, partitions=1))
        if messages is not None:
            for offset, topic, payload in messages:
                record = Record(topic=TOPICS.channels_1d, partition=0, offset=offset, key=f"{GROUP}/{topic}")
                self._append(record, value=payload)
            for name in TOPICS.channels:
                self.say(Topic(topic=name, partitions=1))
        return self

    def registers(self, device: str, filters: Iterable[str]) -> Self:
        """The dump has the topic of registrations, with these filters of the device."""
        record = Record(topic=TOPICS.registrations, partition=0, offset=0, key=f"{_client(device)}/0")
        interests = [{"kind": "filter", "text": text} for text in filters]
        self._append(record, value={"format": 3, "generation": 1, "applied": 1, "objects": [], "interests": interests})
        return self.say(Topic(topic=TOPICS.registrations, partitions=1))

    def _append(self, record: Record, *, value: Any) -> None:
        fields = {name: getattr(record, name) for name in record.__struct_fields__}
        self.events.append(Record(**fields | {"value": value}))

    def violations(self) -> dict[str, list[str]]:
        """Returns what the checker finds, by promise."""
        found: dict[str, list[str]] = {}
        for violation in judge(self.events).violations:
            found.setdefault(violation.promise, []).append(violation.what)
        return found


def will(topic: str, payload: Any, **said: Any) -> MqttWill:
    """Returns a will for a CONNECT."""
    return MqttWill(topic=topic, payload=payload, **said)


def _client(device: str) -> str:
    return f"{GROUP}/{device}"
