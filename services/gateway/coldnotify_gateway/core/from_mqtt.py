"""Handles the packets of MQTT devices, and the matcher's answers to what they ask for."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.filters import InvalidFilter, check_filter
from coldnotify_schemas.internal_pb2 import Answered, Handed, Noted, Opened
from coldnotify_schemas.mqtt.errors import MqttError, ProtocolViolation, UnsupportedProtocol
from coldnotify_schemas.mqtt.packets import (
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PubAck,
    Publish,
    PubRel,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
)
from coldnotify_schemas.mqtt.parsing import bare_pubacks
from coldnotify_schemas.mqtt.properties import Properties
from coldnotify_schemas.mqtt.reasons import ReasonCode, ReturnCode
from coldnotify_schemas.protocol import OBJECTS_PER_FRAME_MAX, PROTOCOL_VERSION, PUBLISHES_UNANSWERED_MAX
from coldnotify_schemas.share_names import SHARES_NOT_SERVED, TOPIC_IS_AN_OBJECT
from coldnotify_schemas.wire_pb2 import (
    CAPABILITY_IN_ORDER,
    CAPABILITY_NAMES,
    CAPABILITY_RAW,
    KINDS_SHARES,
    Hello,
    Register,
    SyncChunk,
    Unregister,
)

from coldnotify_gateway.core.channels_stream import has_shares
from coldnotify_gateway.core.connections import Connections
from coldnotify_gateway.core.device_publishing import DevicePublishing
from coldnotify_gateway.core.from_client import FromClient
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.limits import Limits
from coldnotify_gateway.core.mqtt.client_ids import DeviceHome, assigned_id, client_of
from coldnotify_gateway.core.mqtt.client_pace import ClientPace
from coldnotify_gateway.core.mqtt.device import MqttSide, Request, SubscribeAsked
from coldnotify_gateway.core.mqtt.device_wills import check_will
from coldnotify_gateway.core.mqtt.held_filters import (
    NO_FILTERS,
    QOS_MAX,
    HeldFilter,
    hash_of,
    of_interests,
    of_subscription,
)
from coldnotify_gateway.core.mqtt.shared_filters import is_shared, why_not_shared
from coldnotify_gateway.core.mqtt.topic_aliases import CLIENT_ALIASES_MAX
from coldnotify_gateway.core.outputs import Finish, Output, PauseReading, Peer, Send
from coldnotify_gateway.core.requests import RequestMaker
from coldnotify_gateway.core.session_publishes import PAUSE_S
from coldnotify_gateway.core.timers import Timers
from coldnotify_gateway.core.to_mqtt import ToDevice, device_of
from coldnotify_gateway.core.told import Frame
from coldnotify_gateway.core.unidentified import Unidentified
from coldnotify_gateway.core.violation import Violation

CONNACK_S = 5.0
"""Time within which the matcher must have answered a CONNECT."""
REPEAT_S = 10.0
"""Time after which a request without an answer is repeated."""
PING_S = 10.0
"""Longest time for which the first PINGREQ waits for what the client lacks."""
UNREAD_BYTES_MAX = 256 * 1024
"""Most bytes that wait while packets are not read."""
_CAPABILITIES = CAPABILITY_NAMES | CAPABILITY_RAW | CAPABILITY_IN_ORDER
Begin = Callable[[Unidentified, Hello, int, float], list[Output]]
"""Begins a session for a Hello of so many bytes, or has it wait for its turn."""
HomeOf = Callable[[Peer, str], DeviceHome | None]
"""Returns the domain and group that a connection's proof (with this token) names alone, or that a setting says."""


def nowhere(_peer: Peer, _token: str) -> DeviceHome | None:
    """Returns None: the client identifier says domain and group."""
    return None


class FromDevice:
    """Handles bytes of MQTT connections. `begin` and `home_of`: see there."""

    def __init__(
        self,
        connections: Connections,
        requests: RequestMaker,
        publishes: DevicePublishing,
        from_client: FromClient,
        to_device: ToDevice,
        limits: Limits,
        timers: Timers[Unidentified | Identified],
        begin: Begin,
        home_of: HomeOf = nowhere,
    ) -> None:
        self._connections = connections
        self._requests = requests
        self._publishes = publishes
        self._from_client = from_client
        self._to_device = to_device
        self._limits = limits
        self._timers = timers
        self._begin = begin
        self._place_of = home_of
        self._taken_over, self._wrong_ones = ClientPace(), ClientPace()

    def on_bytes(
        self, connection: Unidentified | Identified, device: MqttSide, data: bytes, now_s: float
    ) -> list[Output]:
        """Handles received bytes: any part of a packet, or several packets."""
        if isinstance(connection, Identified):
            connection.hear(now_s)
            if device.connected and not len(device.buffer) and (packet_ids := bare_pubacks(data)):
                return self._to_device.acknowledge(connection, packet_ids, now_s)
        device.buffer.feed(data)
        return self.read(connection, device, now_s)

    def read(self, connection: Unidentified | Identified, device: MqttSide, now_s: float) -> list[Output]:
        """Handles the packets that have arrived. None is read between a CONNECT and its CONNACK, nor while too many
        wait for an answer.
        """
        outputs: list[Output] = []
        by_peer, peer = self._connections.by_peer, connection.peer
        try:
            if isinstance(connection, Unidentified):
                if device.protocol is None and (packet := next(device.buffer, None)) is not None:
                    return self._on_connect(connection, device, packet, now_s)
            elif device.connected:
                while device.reads and (packet := next(device.buffer, None)) is not None:
                    outputs += self._on_packet(connection, device, packet, now_s)
                    if by_peer.get(peer) is not connection:
                        return outputs
                if not device.reads and len(device.buffer):
                    outputs.append(PauseReading(peer, PAUSE_S))
            if len(device.buffer) > UNREAD_BYTES_MAX:
                raise ProtocolViolation("packet: too much came before it was answered", ReasonCode.QUOTA_EXCEEDED)
        except MqttError as error:
            outputs += self._close(by_peer[peer], device, error, now_s)
        except Violation as violation:
            closing = by_peer[peer]
            outputs += self._connections.close(closing, violation.code, violation.reason, now_s)
        return outputs

    def _close(
        self, connection: Unidentified | Identified, device: MqttSide, error: MqttError, now_s: float
    ) -> list[Output]:
        if isinstance(error, UnsupportedProtocol) and error.answered_in is not None:
            device.speak(error.answered_in)
        device.blame(error.reason)
        for_now = error.reason is ReasonCode.QUOTA_EXCEEDED
        if isinstance(connection, Identified) and not device.is_5 and not for_now:
            self._wrong_ones.wrong(connection.key.decode(), now_s)
        return self._connections.close(connection, CloseCode.PROTOCOL_ERROR, str(error), now_s)

    # --- connecting

    def _on_connect(self, connection: Unidentified, device: MqttSide, packet: Packet, now_s: float) -> list[Output]:
        assert isinstance(packet, Connect)  # the buffer lets no other one be the first
        device.connect(packet, self._limits.mqtt_keepalive_max_s, doubles=self._limits.mqtt_retained_both)
        if packet.will is not None:
            check_will(packet.will, self._limits.payload_bytes_max)
        if packet.properties.authentication_method is not None:
            words = "authentication method: a token is the password, no other is known"
            raise ProtocolViolation(words, ReasonCode.BAD_AUTHENTICATION_METHOD)
        client_id = packet.client_id
        if not client_id:
            if not device.is_5 and not packet.clean_start:
                words = "client identifier: is empty, and the session is not clean"
                raise ProtocolViolation(words, ReasonCode.CLIENT_IDENTIFIER_NOT_VALID)
            client_id = assigned_id()
            device.assign(client_id)
        if device.packet_bytes_max is not None:
            _check_fits(device, device.encode(self._connack(device, present=False)))
        try:
            token = (packet.password or b"").decode()
        except UnicodeDecodeError:
            raise Violation(CloseCode.NOT_AUTHENTICATED, "password: is not a token") from None
        client = client_of(client_id, self._place_of(connection.peer, token))
        key = "/".join(client)
        if not device.is_5 and self._wrong_ones.pause_s(key, now_s):
            words = "client identifier: what it published is never taken, it has to wait"
            raise ProtocolViolation(words, ReasonCode.SERVER_UNAVAILABLE)
        hello = Hello(protocol=PROTOCOL_VERSION, token=token, capabilities=_CAPABILITIES, **client._asdict())
        if pause_s := self._taken_over.pause_s(key, now_s):
            connection.wait_for(hello, now_s + pause_s)
            self._timers.look_at(connection, now_s)
            return []
        return self._begin(connection, hello, hello.ByteSize(), now_s)

    def on_waited(self, connection: Unidentified, hello: Hello, now_s: float) -> list[Output]:
        """Begins the session of a CONNECT that had to wait."""
        connection.wait()
        try:
            return self._begin(connection, hello, hello.ByteSize(), now_s)
        except Violation as violation:
            return self._connections.close(connection, violation.code, violation.reason, now_s)

    def displaced(self, session: Identified, now_s: float) -> None:
        """Notes that another connection of its client has taken a session over."""
        self._taken_over.taken_over(session.key.decode(), now_s)

    def begun(self, session: Identified, now_s: float) -> None:
        """Notes that the matcher was asked for the session of a CONNECT."""
        device_of(session).wait_for_connack(now_s + CONNACK_S)

    def on_opened(self, session: Identified, opened: Opened, now_s: float) -> list[Output]:
        """Answers a CONNECT, and reads what the client has sent since."""
        device = device_of(session)
        if device.connected:
            return []
        kept = opened.kept
        present = kept.present and not device.clean
        filters = of_interests(kept.filters) if present else NO_FILTERS
        device.begin(filters, f"{session.domain}/{session.group}", present=present)
        if present and kept.unreleased:
            device.received.begin(kept.unreleased)
        device.join_shares(now_s)
        connack = self._connack(device, present=present, shares=bool(opened.kinds & KINDS_SHARES))
        outputs: list[Output] = [Send(session.peer, [device.encode(connack)])]
        outputs += self._requests.say_held(session, now_s)
        return outputs + self.read(session, device, now_s)

    def on_handed(self, session: Identified, handed: Handed, now_s: float) -> list[Output]:
        """Tells a member of shares what it was handed."""
        return self._to_device.on_handed(session, handed, now_s)

    def _connack(self, device: MqttSide, *, present: bool, shares: bool = True) -> ConnAck:
        if not device.is_5:
            return ConnAck(present, ReturnCode.ACCEPTED)
        said = Properties(
            receive_max=PUBLISHES_UNANSWERED_MAX,
            topic_alias_max=CLIENT_ALIASES_MAX,
            packet_bytes_max=self._limits.packet_bytes_max,
            assigned_client_id=device.assigned_id or None,
            server_keep_alive_s=device.keepalive_s if device.keepalive_is_ours else None,
            shared_available=shares,
        )
        return ConnAck(present, properties=said)

    def sync(self, session: Identified, now_s: float) -> list[Output]:
        """Sends the matcher the whole set, because it holds another one."""
        if not device_of(session).connected:
            # Nothing is known of the set here: an empty one would end what the service has kept.
            reason = "the service does not say what it has kept"
            return self._connections.close(session, CloseCode.UNKNOWN_SESSION, reason, now_s)
        interests = [one.interest() for one in device_of(session).filters.by_text.values()]
        starts = range(0, max(1, len(interests)), OBJECTS_PER_FRAME_MAX)
        outputs: list[Output] = []
        for index, start in enumerate(starts):
            part = interests[start : start + OBJECTS_PER_FRAME_MAX]
            chunk = SyncChunk(index=index, last=index == len(starts) - 1, interests=part)
            outputs += self._requests.sync(session, chunk, now_s)
        return outputs

    # --- packets

    def _on_packet(self, session: Identified, device: MqttSide, packet: Packet, now_s: float) -> list[Output]:
        match packet:
            case Publish():
                return self._publishes.on_publish(session, device, packet, now_s)
            case PubAck():
                rejects = packet.reason >= ReasonCode.UNSPECIFIED_ERROR
                return self._to_device.acknowledge(session, (packet.packet_id,), now_s, rejects=rejects)
            case Subscribe():
                return self._on_subscribe(session, device, packet, now_s)
            case Unsubscribe():
                return self._on_unsubscribe(session, device, packet, now_s)
            case PingReq():
                return self._on_ping(session, device, now_s)
            case Disconnect():
                return self._on_disconnect(session, device, packet, now_s)
            case PubRel():
                return self._publishes.on_release(session, device, packet.packet_id, now_s)
            case _:
                raise ProtocolViolation(f"packet: {type(packet).__name__} answers nothing that was sent")

    def _on_ping(self, session: Identified, device: MqttSide, now_s: float) -> list[Output]:
        outputs = self._to_device.on_ping(session, now_s + PING_S)
        if not device.asking:
            # The service keeps the set, but only the gateway can notice that a new matcher has loaded another one.
            session.claim.say(device.filters.digest)
            outputs += self._from_client.check_digest(session, now_s)
        self._timers.look_at(session, now_s)
        return outputs

    def _on_disconnect(self, session: Identified, device: MqttSide, packet: Disconnect, now_s: float) -> list[Output]:
        expiry_s = packet.properties.session_expiry_s
        if expiry_s is not None:
            if expiry_s and not device.expiry_s:
                raise ProtocolViolation("session expiry: was 0, and stays so [MQTT-3.14.2-2]")
            device.expire_after(expiry_s)
        if packet.reason is ReasonCode.SUCCESS:
            device.drop_will()
        return [Finish(session.peer), *self._connections.remove(session, now_s, bye=True)]

    # --- subscribing

    def _on_subscribe(self, session: Identified, device: MqttSide, packet: Subscribe, now_s: float) -> list[Output]:
        identifiers = packet.properties.subscription_ids
        identifier = identifiers[0] if identifiers else 0
        wanted: dict[str, HeldFilter] = {}
        asking = SubscribeAsked(packet.packet_id, tuple(one.filter for one in packet.subscriptions), {})
        for one in packet.subscriptions:
            refused = why_not_shared(one.filter, one.qos) if is_shared(one.filter) else None
            if refused is not None:
                asking.refuse(one.filter, refused.code, refused.words)
            else:
                asking.codes[one.filter] = _code_of(one.filter, min(one.qos, QOS_MAX))
            if asking.codes[one.filter] <= QOS_MAX:
                wanted[one.filter] = of_subscription(one, identifier)
        for part in _parts(list(wanted.values())):
            number = device.take_request()
            asking.open[number] = Request(Register(request=number, interests=[one.interest() for one in part]))
        # They count from now on: the matcher may tell by them before it answers.
        device.subscribe(wanted.values())
        return self._ask(session, device, asking, now_s)

    def _on_unsubscribe(self, session: Identified, device: MqttSide, packet: Unsubscribe, now_s: float) -> list[Output]:
        codes = {one: _code_of(one, ReasonCode.SUCCESS) for one in packet.filters}
        gone = [one for one, code in codes.items() if code is ReasonCode.SUCCESS]
        asking = SubscribeAsked(packet.packet_id, packet.filters, codes, unsubscribes=True)
        for part in _parts(gone):
            number = device.take_request()
            asking.open[number] = Request(
                unregister=Unregister(request=number, interests=[hash_of(one) for one in part])
            )
        device.hold(device.filters.without(gone))
        device.join_shares(now_s)
        return self._ask(session, device, asking, now_s)

    def _ask(self, session: Identified, device: MqttSide, asking: SubscribeAsked, now_s: float) -> list[Output]:
        _check_fits(device, answer := self._sub_answer(device, asking))
        if not asking.open:
            return [Send(session.peer, [answer])]
        device.ask(asking, now_s + REPEAT_S)
        self._timers.look_at(session, now_s)
        return self._send_requests(session, asking.open.values(), now_s)

    def _send_requests(self, session: Identified, requests: Iterable[Request], now_s: float) -> list[Output]:
        outputs: list[Output] = []
        for register, unregister in requests:
            if register is not None:
                outputs += self._requests.register(session, register, now_s)
            if unregister is not None:
                outputs += self._requests.unregister(session, unregister, now_s)
        return outputs

    def on_answered(self, session: Identified, answered: Answered, now_s: float) -> list[Output]:
        """Answers a SUBSCRIBE or UNSUBSCRIBE once the matcher has answered all of its requests, then tells the versions
        that come with the answer.
        """
        device = device_of(session)
        outputs: list[Output] = []
        asking = device.asked(answered.request)
        if asking is not None:
            request = asking.open.pop(answered.request)
            refused = {one.interest: one.reason for one in answered.refused}
            there = set(answered.there)
            if request.register is not None:
                device.begin_answers(one.text for one in request.register.interests)
            for text, hash_ in [(one, hash_of(one)) for one, code in asking.codes.items() if code <= QOS_MAX]:
                if asking.unsubscribes and request.unregister is not None and hash_ in there:
                    asking.codes[text] = ReasonCode.NO_SUBSCRIPTION_EXISTED
                elif not asking.unsubscribes and hash_ in refused:
                    words = refused[hash_]
                    asking.refuse(text, _REFUSALS.get(words, ReasonCode.QUOTA_EXCEEDED), words)
                    device.hold(device.filters.without([text]))
            said = () if request.register is None else request.register.interests
            device.join_shares(now_s, registered=has_shares(said))
            outputs += self._requests.say_held(session, now_s)
            if not asking.open:
                device.answered(asking)
                outputs.append(Send(session.peer, [self._sub_answer(device, asking)]))
        pages_follow = answered.catch_up or any(one.catch_up for one in answered.streams)
        return outputs + self._to_device.on_answers(session, answered.newest, now_s, pages_follow=pages_follow)

    @staticmethod
    def _sub_answer(device: MqttSide, asking: SubscribeAsked) -> Frame:
        kind = UnsubAck if asking.unsubscribes else SubAck
        if asking.words and device.is_5 and device.wants_words:
            said = Properties(reason_string=asking.words)
            if device.fits(frame := device.encode(kind(asking.packet_id, asking.reasons, said))):
                return frame
        return device.encode(kind(asking.packet_id, asking.reasons))

    def on_noted(self, session: Identified, noted: Noted, now_s: float) -> list[Output]:
        """Handles the matcher's word that it holds publishes of QoS 2, or holds them no more; then reads on."""
        if session.device is None:
            return []  # no matcher says so of such a session
        device = session.device
        try:
            outputs = self._publishes.on_noted(session, device, noted, now_s)
        except MqttError as error:
            return self._close(session, device, error, now_s)
        return outputs + self.read(session, device, now_s)

    def on_results(self, session: Identified, now_s: float) -> list[Output]:
        """Handles what became of a device's publishes, and reads on."""
        device = device_of(session)
        try:
            outputs = self._publishes.on_results(session, now_s)
        except MqttError as error:
            return self._close(session, device, error, now_s)
        return outputs + self.read(session, device, now_s)

    # --- time

    def on_due(self, session: Identified, now_s: float) -> list[Output]:
        """Does the work of an MQTT session that is due."""
        device = device_of(session)
        if device.due_s <= now_s:
            device.blame(ReasonCode.SERVER_UNAVAILABLE)
            reason = "the service does not answer for now"
            return self._connections.close(session, CloseCode.OVERLOADED, reason, now_s)
        outputs: list[Output] = []
        if device.ping_due_s <= now_s:
            outputs += self._to_device.answer_pings(session)
        if device.repeat_s <= now_s:
            device.repeat_at(now_s + REPEAT_S)
            for asking in device.asking:
                outputs += self._send_requests(session, asking.open.values(), now_s)
        outputs += self._requests.say_held(session, now_s)
        outputs += self._publishes.on_due(session, device, now_s)
        if device.wake_s <= now_s and device.publishes.again_s <= now_s:
            outputs += self._publishes.again(session, device, now_s)
            outputs += self.on_results(session, now_s)
        return outputs


def _check_fits(device: MqttSide, answer: Frame) -> None:
    """Raises ProtocolViolation if the client takes no packet of an answer's size, which no reason in it changes."""
    if not device.fits(answer):
        words = f"maximum packet size: is {device.packet_bytes_max}, and the answer has {len(answer.data)} bytes"
        raise ProtocolViolation(words, ReasonCode.PACKET_TOO_LARGE)


_REFUSALS = {
    TOPIC_IS_AN_OBJECT: ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED,
    SHARES_NOT_SERVED: ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
}
"""The codes for what the service refuses with these words; all else is a limit."""


def _code_of(text: str, good: int) -> ReasonCode:
    """Returns the code for a filter: `good`, if it is one."""
    if is_shared(text):
        return ReasonCode(good) if why_not_shared(text, 1) is None else ReasonCode.TOPIC_FILTER_INVALID
    try:
        check_filter(text)
    except InvalidFilter:
        return ReasonCode.TOPIC_FILTER_INVALID
    return ReasonCode(good)


_T = TypeVar("_T")


def _parts(found: list[_T]) -> list[list[_T]]:
    return [found[start : start + OBJECTS_PER_FRAME_MAX] for start in range(0, len(found), OBJECTS_PER_FRAME_MAX)]
