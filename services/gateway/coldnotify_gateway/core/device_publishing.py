"""Publishes of MQTT devices: which can be taken, when they are tried again, and what is answered."""

from collections.abc import Iterable

from coldnotify_schemas.mqtt.errors import ProtocolViolation
from coldnotify_schemas.mqtt.packets import Publish
from coldnotify_schemas.mqtt.reasons import PUBACK_REASONS, ReasonCode

from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.limits import Limits
from coldnotify_gateway.core.mqtt.device import MqttSide
from coldnotify_gateway.core.mqtt.device_publishes import PubackDue, Wrong, fault_of
from coldnotify_gateway.core.mqtt.held_filters import QOS_MAX
from coldnotify_gateway.core.outputs import Output, Send
from coldnotify_gateway.core.session_publishes import RETRY_MS, Publishing
from coldnotify_gateway.core.timers import Timers
from coldnotify_gateway.core.to_mqtt import device_of
from coldnotify_gateway.core.unidentified import Unidentified


class DevicePublishing:
    """Handles the PUBLISH packets of MQTT devices."""

    def __init__(self, publishing: Publishing, limits: Limits, timers: Timers[Unidentified | Identified]) -> None:
        self._publishing = publishing
        self._limits = limits
        self._timers = timers

    def on_publish(self, session: Identified, device: MqttSide, packet: Publish, now_s: float) -> list[Output]:
        """Handles a PUBLISH. Raises ProtocolViolation if it ends the connection."""
        if packet.qos > QOS_MAX:
            raise ProtocolViolation(f"qos: is {packet.qos}, at most {QOS_MAX} is served", ReasonCode.QOS_NOT_SUPPORTED)
        packet = device.resolved(packet)
        publish = device.publishes.take(packet)
        if (wrong := fault_of(packet, self._limits.payload_bytes_max)) is not None:
            return self._wrong(session, device, publish.request, wrong)
        return self._publishing.on_publish(session, publish, now_s) + self.after_publishing(session, now_s)

    def again(self, session: Identified, device: MqttSide, now_s: float) -> list[Output]:
        """Publishes again what was refused for now."""
        return [
            output
            for publish in device.publishes.take_again()
            for output in self._publishing.on_publish(session, publish, now_s)
        ]

    def after_publishing(self, session: Identified, now_s: float) -> list[Output]:
        """Handles what became of a device's publishes: refusals, and what may be read again."""
        device = device_of(session)
        outputs: list[Output] = []
        for request, words in device.take_rejected():
            outputs += self._wrong(session, device, request, Wrong(ReasonCode.NOT_AUTHORIZED, words))
        publishes = device.publishes
        if publishes.again and not publishes.retry(now_s, RETRY_MS / 1000):
            outputs += self._give_up(session, device)
        self._timers.look_at(session, now_s)
        return outputs

    def _wrong(self, session: Identified, device: MqttSide, request: int, wrong: Wrong) -> list[Output]:
        """Answers a PUBLISH that can never be taken. Raises ProtocolViolation where the protocol has no such answer."""
        packet_id = device.publishes.under_way[request].packet_id
        too_large = wrong.reason is ReasonCode.PACKET_TOO_LARGE
        if device.is_5 and packet_id and wrong.reason in PUBACK_REASONS:
            return self._pubacks(session, device, device.publishes.answer(request, wrong.reason), wrong.words)
        if not device.is_5 and too_large:
            # The device would send it again at each connection, and nothing else.
            return self._pubacks(session, device, device.publishes.answer(request, ReasonCode.SUCCESS))
        raise ProtocolViolation(wrong.words, wrong.reason)

    def _give_up(self, session: Identified, device: MqttSide) -> list[Output]:
        if not device.is_5:
            raise ProtocolViolation("publish: was refused for too long", ReasonCode.QUOTA_EXCEEDED)
        return self._pubacks(session, device, device.publishes.give_up())

    @staticmethod
    def _pubacks(session: Identified, device: MqttSide, answers: Iterable[PubackDue], words: str = "") -> list[Output]:
        frames = device.pubacks(answers, words)
        return [Send(session.peer, frames)] if frames else []
