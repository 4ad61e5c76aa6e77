"""Publishes of MQTT devices: which can be taken, when they are tried again, and what is answered."""

from collections.abc import Iterable

from coldnotify_schemas.internal_pb2 import Noted, Unreleased
from coldnotify_schemas.mqtt.errors import ProtocolViolation
from coldnotify_schemas.mqtt.packets import PubComp, Publish, PubRec
from coldnotify_schemas.mqtt.reasons import PUBACK_REASONS, ReasonCode

from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.limits import Limits
from coldnotify_gateway.core.mqtt.device import MqttSide
from coldnotify_gateway.core.mqtt.device_publishes import PubackDue, Wrong, fault_of
from coldnotify_gateway.core.mqtt.received import Received
from coldnotify_gateway.core.outputs import Output, Send
from coldnotify_gateway.core.requests import RequestMaker
from coldnotify_gateway.core.session_publishes import RETRY_MS, Publishing
from coldnotify_gateway.core.timers import Timers
from coldnotify_gateway.core.to_mqtt import device_of
from coldnotify_gateway.core.unidentified import Unidentified

REPEAT_S = 10.0
"""Time after which a request to hold publishes is repeated."""
_NOT_FOUND = ReasonCode.PACKET_IDENTIFIER_NOT_FOUND


class DevicePublishing:
    """Handles the PUBLISH and PUBREL packets of MQTT devices."""

    def __init__(
        self,
        publishing: Publishing,
        requests: RequestMaker,
        limits: Limits,
        timers: Timers[Unidentified | Identified],
    ) -> None:
        self._publishing = publishing
        self._requests = requests
        self._limits = limits
        self._timers = timers

    def on_publish(self, session: Identified, device: MqttSide, packet: Publish, now_s: float) -> list[Output]:
        """Handles a PUBLISH. Raises ProtocolViolation if it ends the connection."""
        packet = device.resolved(packet)
        if packet.qos > 1:
            return self._on_received(session, device, packet, now_s)
        publish = device.publishes.take(packet, self._publishing.wall_ms(now_s))
        if publish.object and self._limits.mqtt_retained_both:
            device.publishes.double(publish.request, self._requests.message_id(session, publish.request))
        if (wrong := fault_of(packet, self._limits.payload_bytes_max)) is not None:
            return self._wrong(session, device, publish.request, wrong, now_s)
        if device.receives and device.received.waiting:
            device.received.wait(publish)
            return self._go_on(session, device, now_s)
        return self._publishing.on_publish(session, publish, now_s) + self._after_publishing(session, now_s)

    def again(self, session: Identified, device: MqttSide, now_s: float) -> list[Output]:
        """Publishes again what was refused for now."""
        return [
            output
            for publish in device.publishes.take_again()
            for output in self._publishing.on_publish(session, publish, now_s)
        ]

    def on_results(self, session: Identified, now_s: float) -> list[Output]:
        """Handles what became of a device's publishes, once Kafka or the matcher has answered."""
        device = device_of(session)
        if device.receives and device.received.waiting:
            return self._go_on(session, device, now_s)
        return self._after_publishing(session, now_s)

    def _after_publishing(self, session: Identified, now_s: float) -> list[Output]:
        """Handles what became of a device's publishes: refusals, and what may be read again."""
        device = device_of(session)
        outputs: list[Output] = []
        for request, words in device.take_rejected():
            outputs += self._wrong(session, device, request, Wrong(ReasonCode.NOT_AUTHORIZED, words), now_s)
        publishes = device.publishes
        if publishes.again and not publishes.retry(now_s, RETRY_MS / 1000):
            outputs += self._give_up(session, device, now_s)
        self._timers.look_at(session, now_s)
        return outputs

    def _wrong(self, session: Identified, device: MqttSide, request: int, wrong: Wrong, now_s: float) -> list[Output]:
        """Answers a PUBLISH that can never be taken. Raises ProtocolViolation where the protocol has no such answer."""
        packet_id = device.publishes.under_way[request].packet_id
        too_large = wrong.reason is ReasonCode.PACKET_TOO_LARGE
        if device.is_5 and packet_id and wrong.reason in PUBACK_REASONS:
            return self._refuse(session, device, request, wrong, now_s)
        if not device.is_5 and too_large:
            # The device would send it again at each connection, and nothing else.
            return self._pubacks(session, device, device.publishes.answer(request, ReasonCode.SUCCESS))
        raise ProtocolViolation(wrong.words, wrong.reason)

    def _give_up(self, session: Identified, device: MqttSide, now_s: float) -> list[Output]:
        too_long = Wrong(ReasonCode.QUOTA_EXCEEDED, "publish: was refused for too long")
        if not device.is_5:
            raise ProtocolViolation(too_long.words, too_long.reason)
        session.publishes.refuse(0)  # the refused one does not come again
        requests = device.publishes.give_up()
        return [output for one in requests for output in self._refuse(session, device, one, too_long, now_s)]

    def _refuse(self, session: Identified, device: MqttSide, request: int, wrong: Wrong, now_s: float) -> list[Output]:
        packet_id, qos, _, _ = device.publishes.under_way[request]
        if qos > 1 and (one := device.received.entries[packet_id]).held:
            one.refuse(wrong.reason)
            return self._release(session, device, one, now_s)
        return self._pubacks(session, device, device.publishes.answer(request, wrong.reason), wrong.words)

    @staticmethod
    def _pubacks(session: Identified, device: MqttSide, answers: Iterable[PubackDue], words: str = "") -> list[Output]:
        frames = device.pubacks(answers, words)
        return [Send(session.peer, frames)] if frames else []

    # --- QoS 2

    def _on_received(self, session: Identified, device: MqttSide, packet: Publish, now_s: float) -> list[Output]:
        """Handles a PUBLISH of QoS 2: a new one, or one that comes again."""
        identifier = packet.packet_id or 0
        received = device.received
        one = received.entries.get(identifier)
        if one is not None:
            if one.releasing:
                raise ProtocolViolation(f"packet identifier: {identifier} is not free before PUBCOMP")
            if one.request:
                return []  # its PUBREC follows
            if one.written:
                return [Send(session.peer, [device.encode(PubRec(identifier))])]
        publish = device.publishes.take(packet, self._publishing.wall_ms(now_s))
        if one is None:
            is_message = not publish.object or self._limits.mqtt_retained_both
            message_id = self._requests.message_id(session, publish.request) if is_message else ""
            one = received.entries[identifier] = Received(identifier, message_id, publish.object)
        if one.object and one.id:
            device.publishes.double(publish.request, one.id)
        one.begin(publish.request)
        wrong = fault_of(packet, self._limits.payload_bytes_max)
        if wrong is None and (words := self._publishing.fault_of(session, publish)) is not None:
            wrong = Wrong(ReasonCode.NOT_AUTHORIZED, words)
        if wrong is not None:
            return self._wrong(session, device, publish.request, wrong, now_s)
        received.wait(publish)
        if received.overfull:
            words = "publish: too many wait for PUBRELs of earlier ones"
            raise ProtocolViolation(words, ReasonCode.RECEIVE_MAXIMUM_EXCEEDED)
        return self._go_on(session, device, now_s)

    def on_release(self, session: Identified, device: MqttSide, identifier: int, now_s: float) -> list[Output]:
        """Handles a PUBREL. PUBCOMP follows once the service holds its PUBLISH no more."""
        one = device.received.entries.get(identifier) if device.receives else None
        if one is None:
            return [Send(session.peer, [device.encode(PubComp(identifier, _NOT_FOUND))])]
        if one.request:
            raise ProtocolViolation(f"pubrel: {identifier} has had no PUBREC")
        if one.releasing:
            return []
        if not one.held:
            del device.received.entries[identifier]
            return [Send(session.peer, [device.encode(PubComp(identifier))]), *self._go_on(session, device, now_s)]
        return self._release(session, device, one, now_s)

    def on_noted(self, session: Identified, device: MqttSide, noted: Noted, now_s: float) -> list[Output]:
        """Handles the answer to a Receive. Raises ProtocolViolation if the service holds no more."""
        received = device.received
        asked = received.answered(noted.ask)
        if asked is None:
            return []
        held = {one.identifier: one for one in noted.received}
        if any(one.identifier not in held for one in asked.received):
            raise ProtocolViolation("publish: the service holds no more", ReasonCode.QUOTA_EXCEEDED)
        for one in held.values():
            received.hold(one)
        outputs: list[Output] = []
        for identifier in asked.released:
            gone = received.entries.pop(identifier)
            if gone.refused is None:
                outputs.append(Send(session.peer, [device.encode(PubComp(identifier))]))
            else:
                outputs += self._pubacks(session, device, device.publishes.answer(gone.request, gone.refused))
        return outputs + self._go_on(session, device, now_s)

    def on_due(self, session: Identified, device: MqttSide, now_s: float) -> list[Output]:
        """Repeats requests to hold publishes that have no answer."""
        if not device.receives or device.received.repeat_s > now_s:
            return []
        return [self._requests.receive(session, said) for said in device.received.again(now_s + REPEAT_S)]

    def _release(self, session: Identified, device: MqttSide, one: Received, now_s: float) -> list[Output]:
        one.release()
        said = device.received.ask(now_s + REPEAT_S, released=[one.identifier])
        self._timers.look_at(session, now_s)
        return [self._requests.receive(session, said)]

    def _go_on(self, session: Identified, device: MqttSide, now_s: float) -> list[Output]:
        """Asks the service to hold what it may hold now, and hands on what waits no more."""
        outputs = self._hold(session, device, now_s)
        own, received = device.publishes, device.received
        while received.waiting and not own.again:
            packet_id, qos, publish, _ = own.under_way[received.waiting[0]]
            if qos > 1:
                one = received.entries[packet_id]
                if not (one.held or (one.placed and not _is_held(device, one))):
                    break
                publish = one.publish_of(publish)
            received.take(publish)
            outputs += self._publishing.on_publish(session, publish, now_s)
        return outputs + self._after_publishing(session, now_s)

    def _hold(self, session: Identified, device: MqttSide, now_s: float) -> list[Output]:
        received, by_arrival = device.received, False
        room, said = received.room, []
        for packet_id, qos, publish, _ in device.publishes.under_way.values():
            if qos < 2:
                by_arrival |= bool(publish.object)
                continue
            one = received.entries[packet_id]
            if one.placed:
                continue
            # A version is given behind those that the client has published before.
            if room <= 0 or (one.object and by_arrival):
                break
            one.place()
            room -= 1
            if _is_held(device, one):
                said.append(Unreleased(identifier=packet_id, id=one.id, object=one.object))
        if not said:
            return []
        return [self._requests.receive(session, received.ask(now_s + REPEAT_S, said))]


def _is_held(device: MqttSide, one: Received) -> bool:
    """Returns true if the service has to hold it. A version is the service's to give."""
    return bool(device.expiry_s or one.object)
