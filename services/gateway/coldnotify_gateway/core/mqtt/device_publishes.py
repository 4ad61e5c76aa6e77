"""The publishes of an MQTT device that are under way: which packet each belongs to, and what is tried again.

A retained PUBLISH is a version of the object of its topic, by arrival, and a message before, if a setting says so
(`doubled_versions`); a PUBLISH without retain is a message of the channel of its topic. Where Kafka or an agreement
refuses one for now, nothing is answered and nothing more is read: it is published again, with all that come after it,
for at most AGAIN_S. A retained one may describe its object, too: its user property DESCRIBE is not kept, but merged.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from coldnotify_schemas.description_patches import parse_description_patch
from coldnotify_schemas.filters import can_be_said
from coldnotify_schemas.message_places import MessagePlace
from coldnotify_schemas.mqtt.kept_properties import Header, TooManyProperties, headers_of_publish
from coldnotify_schemas.mqtt.packets import Publish as PublishPacket
from coldnotify_schemas.mqtt.reasons import ReasonCode
from coldnotify_schemas.names import InvalidName, check_object
from coldnotify_schemas.protocol import MESSAGE_BYTES_MAX
from coldnotify_schemas.records import PAYLOAD_BYTES_MAX, InvalidRecord
from coldnotify_schemas.wire_pb2 import Publish
from msgspec.structs import replace

from coldnotify_gateway.core.mqtt.doubled_versions import DoubledVersion
from coldnotify_gateway.core.timers import NEVER_S

DESCRIBE = "describe"
"""The user property of a retained PUBLISH with a JSON merge patch of its object's description."""
AGAIN_S = 30.0
"""Time for which a publish is tried again."""


class Wrong(NamedTuple):
    """A PUBLISH that can never be taken."""

    reason: ReasonCode
    words: str


class UnderWay(NamedTuple):
    """A PUBLISH that is not answered."""

    packet_id: int
    """0: with QoS 0."""
    qos: int
    publish: Publish
    headers: tuple[Header, ...] = ()
    """The headers of its record that keep the packet's properties."""


def fault_of(packet: PublishPacket, object_bytes_max: int = PAYLOAD_BYTES_MAX) -> Wrong | None:
    """Returns what is wrong with a PUBLISH for ever, as far as it can be seen by itself.

    `object_bytes_max`: of a version's payload.
    """
    if not can_be_said(packet.topic):
        return Wrong(ReasonCode.TOPIC_NAME_INVALID, f"topic: {packet.topic[:80]!r} begins with $, or has a wildcard")
    try:
        check_object(packet.topic, "topic")
    except InvalidName as error:
        return Wrong(ReasonCode.TOPIC_NAME_INVALID, str(error))
    size_max = object_bytes_max if packet.retain else MESSAGE_BYTES_MAX
    if len(packet.payload) > size_max:
        words = f"payload: has {len(packet.payload)} bytes (at most {size_max} are allowed)"
        return Wrong(ReasonCode.PACKET_TOO_LARGE, words)
    try:
        if patch := patch_in(packet):
            parse_description_patch(patch)
    except InvalidRecord as error:
        return Wrong(ReasonCode.PAYLOAD_FORMAT_INVALID, f"{DESCRIBE}: {error}")
    try:
        headers_of_publish(_without_patch(packet))
    except TooManyProperties as error:
        return Wrong(ReasonCode.PACKET_TOO_LARGE, str(error))
    return None


def publish_of(packet: PublishPacket, request: int, wall_ms: int = 0) -> Publish:
    """Returns the publish of a PUBLISH, as sessions say it. `wall_ms`: the wall clock, Unix ms."""
    expiry_s = packet.properties.message_expiry_s
    expires_at = 0 if expiry_s is None else wall_ms + expiry_s * 1000
    return Publish(
        request=request,
        object=packet.topic if packet.retain else "",
        channel="" if packet.retain else packet.topic,
        payload=packet.payload,
        deleted=packet.retain and not packet.payload,
        expires_at=expires_at,
        describe=patch_in(packet),
    )


def patch_in(packet: PublishPacket) -> bytes:
    """Returns the patch of its object's description that a retained PUBLISH has; b"": none."""
    said = [value for name, value in packet.properties.user_properties if name == DESCRIBE] if packet.retain else []
    return said[-1].encode() if said else b""


def _without_patch(packet: PublishPacket) -> PublishPacket:
    """Returns the packet as those are told it who have its topic."""
    properties = packet.properties
    others = tuple((name, value) for name, value in properties.user_properties if name != DESCRIBE)
    if not packet.retain or len(others) == len(properties.user_properties):
        return packet
    return replace(packet, properties=replace(properties, user_properties=others))


def _headers(packet: PublishPacket) -> tuple[Header, ...]:
    try:
        return headers_of_publish(_without_patch(packet))
    except TooManyProperties:
        return ()  # it is refused


class PubackDue(NamedTuple):
    """The answer to a PUBLISH."""

    packet_id: int
    """0: it was of QoS 0, and none is sent."""
    qos: int
    """2: it is a PUBREC."""
    reason: ReasonCode


@dataclass(slots=True)
class DevicePublishes:
    """The publishes of one device. Times are seconds of the core's clock."""

    under_way: dict[int, UnderWay] = field(default_factory=dict)
    """Those that are not answered, by the number of the request, in the client's order."""
    again: list[int] = field(default_factory=list)
    """The requests that were refused for now, in order."""
    again_s: float = NEVER_S
    """The time at which they are published again; NEVER_S: none waits."""
    _since_s: float = NEVER_S
    """The time of the first refusal since one was taken."""
    _answers: dict[int, ReasonCode] = field(default_factory=dict)
    """Answers that wait for those to earlier ones, because PUBACKs are sent in the order of the PUBLISHes."""
    _doubled: dict[int, DoubledVersion] = field(default_factory=dict)
    """Versions that are messages, too, by the number of the request."""
    _last_request: int = 0

    def take(self, packet: PublishPacket, wall_ms: int = 0) -> Publish:
        """Returns the next publish, of this packet. `wall_ms`: the wall clock, Unix ms."""
        self._last_request += 1
        publish = publish_of(packet, self._last_request, wall_ms)
        self.under_way[self._last_request] = UnderWay(packet.packet_id or 0, packet.qos, publish, _headers(packet))
        return publish

    def headers_of(self, request: int) -> tuple[Header, ...]:
        """Returns the headers that keep the properties of a publish under way."""
        found, doubled = self.under_way.get(request), self._doubled.get(request)
        headers = () if found is None else found.headers
        return headers if doubled is None else (*headers, *doubled.headers())

    def double(self, request: int, message_id: str) -> None:
        """Has a version be a message of this id, too."""
        self._doubled[request] = DoubledVersion(message_id)

    def message_of(self, publish: Publish) -> Publish | None:
        """Returns the message that is written before a publish; None: there is none, or it is in Kafka."""
        found = self._doubled.get(publish.request)
        return None if found is None else found.message_of(publish)

    def message_written(self, request: int, place: MessagePlace) -> None:
        """Notes that the message that is written before a publish is in Kafka."""
        self._doubled[request].written(place)

    def published(self, request: int) -> list[PubackDue]:
        """Notes that a publish is in Kafka. Returns the answers that can be sent."""
        self._since_s = NEVER_S
        return self.answer(request, ReasonCode.SUCCESS)

    def answer(self, request: int, reason: ReasonCode) -> list[PubackDue]:
        """Notes the answer to a publish. Returns the answers that can be sent."""
        if request in self.under_way:
            self._answers[request] = reason
        found = []
        while self.under_way and (first := next(iter(self.under_way))) in self._answers:
            one = self.under_way.pop(first)
            self._doubled.pop(first, None)
            found.append(PubackDue(one.packet_id, one.qos, self._answers.pop(first)))
        return found

    def refuse(self, request: int) -> None:
        """Notes that a publish was refused for now."""
        if request in self.under_way:
            self.again.append(request)

    def retry(self, now_s: float, after_s: float) -> bool:
        """Sets the time at which refused publishes are tried again. Returns false if that has lasted too long."""
        self._since_s = min(self._since_s, now_s)
        self.again_s = min(self.again_s, now_s + after_s)
        return now_s - self._since_s <= AGAIN_S

    def take_again(self) -> list[Publish]:
        """Returns the publishes that are tried again now, in order."""
        found = [self.under_way[one].publish for one in self.again]
        self.again.clear()
        self.again_s = NEVER_S
        return found

    def give_up(self) -> list[int]:
        """Ends the wait of publishes that were refused for too long. Returns their requests."""
        requests, self._since_s = [one.request for one in self.take_again()], NEVER_S
        return requests
