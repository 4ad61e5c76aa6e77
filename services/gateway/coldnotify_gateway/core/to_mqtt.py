"""Tells MQTT devices what the matcher sends: fan-outs, pages, answers. Handles what they acknowledge of it."""

from collections.abc import Iterable, Sequence

from coldnotify_schemas.internal_pb2 import Entry, FanOut, Handed, Newest, Page
from coldnotify_schemas.mqtt.kept_properties import decode_kept
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion
from coldnotify_schemas.mqtt.packets import PACKET_ID_MAX, PingResp
from coldnotify_schemas.wire_pb2 import EXPIRED, Message

from coldnotify_gateway.core.counters import Counters
from coldnotify_gateway.core.encoding import complete_of
from coldnotify_gateway.core.from_client import FromClient
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.mqtt.deliveries import Due
from coldnotify_gateway.core.mqtt.device import MqttSide
from coldnotify_gateway.core.mqtt.device_shares import DeviceShares
from coldnotify_gateway.core.mqtt.held_filters import QOS_MAX, HeldFilter, Manner, manner
from coldnotify_gateway.core.mqtt.publish_frames import bare, missed_words, payload_of, publish_frame
from coldnotify_gateway.core.mqtt.shared_filters import topic_of
from coldnotify_gateway.core.mqtt.topic_aliases import NO_ALIAS, Alias
from coldnotify_gateway.core.outputs import Output, Peer, Send, SendAll
from coldnotify_gateway.core.partition_view import PartitionView
from coldnotify_gateway.core.recovery import Recovery
from coldnotify_gateway.core.requests import RequestMaker
from coldnotify_gateway.core.stream import CHANNELS, NONE, OBJECTS, Stream
from coldnotify_gateway.core.timers import NEVER_S
from coldnotify_gateway.core.told import Frame

View = PartitionView[Identified]
_Filters = Sequence[HeldFilter]


class ToDevice:
    """Tells sessions of MQTT devices. Their sessions have a `device`."""

    def __init__(self, recovery: Recovery, from_client: FromClient, requests: RequestMaker, counters: Counters) -> None:
        self._recovery = recovery
        self._from_client = from_client
        self._requests = requests
        self._counters = counters
        self._last_id = 0
        """The packet identifier of the last fan-out: all sessions that have it free get the same bytes."""

    # --- fan-outs

    def of_object(self, view: View, fan_out: FanOut, numbers: Iterable[int]) -> list[Output]:
        """Tells a publish to live sessions with these numbers, each by its filters. What is of high priority is told
        in its turn.
        """
        newest, name = fan_out.newest, fan_out.newest.name
        complete, left_ms = complete_of(newest), _left_ms(newest)
        if left_ms == 0:
            return []
        told = _OneForMany(self._next_id(), fan_out, newest.properties, left_ms, fan_out.published_ms)
        for number in numbers:
            session = view.sessions[number]
            device = device_of(session)
            filters = device.filters.fitting(name)
            if not filters:
                continue
            if not device.deliveries.takes:
                self._slow(session)
                continue
            complete_before = session.complete_in(session.objects)
            if not device.deliveries.rows[OBJECTS].take_offset(newest.offset, complete_before, name):
                continue
            told.to(session, device, told.version(newest, complete, filters))
            # The partition's position may be unknown yet. By its own, a session tells a new matcher where it is.
            session.objects.told(complete)
        return self._told(told)

    def of_message(self, view: View, fan_out: FanOut, numbers: Iterable[int]) -> list[Output]:
        """Tells a channel's message, or a Missed, to sessions with these numbers whose channels are live."""
        entry = fan_out.entry
        published_ms = entry.message.published_ms
        told = _OneForMany(self._next_id(), fan_out, entry.properties, _left_ms(entry), published_ms)
        for number in numbers:
            session = view.sessions[number]
            device, channels = device_of(session), session.channels
            if channels is None:
                continue
            if entry.HasField("missed"):
                self._miss(device, entry)
                continue
            message = entry.message
            filters = _heard(device.filters.fitting(message.name), message, session)
            if filters and not device.deliveries.takes:
                self._slow(session)
                continue  # the message is not passed over: catching up begins below it
            if filters and device.deliveries.rows[CHANNELS].take_offset(message.offset, session.complete_in(channels)):
                told.to(session, device, _due_of(entry, filters, device, message.offset))
            channels.told(message.offset)
        return self._told(told)

    def _slow(self, session: Identified) -> None:
        """Makes a live session slow, as if its socket were full: its client owes too many acknowledgements."""
        session.block()
        self._counters.slowed()

    def _next_id(self) -> int:
        self._last_id = self._last_id % PACKET_ID_MAX + 1
        return self._last_id

    def _told(self, told: "_OneForMany") -> list[Output]:
        self._counters.delivered(told.deliveries, told.sent_bytes)
        return told.outputs()

    # --- pages and answers

    def on_page(self, session: Identified, stream: Stream, page: Page, now_s: float) -> list[Output]:
        """Tells a page that was due. It is acknowledged when all in it are, or were taken by the socket."""
        device = device_of(session)
        for newest in page.newest:
            self._wait_object(session, device, newest, now_s)
        for entry in page.entries:
            self._wait_entry(session, device, entry, now_s)
        device.deliveries.wait(Due(stream.place, stream.complete, 0 if page.last else page.page))
        return self.go_on(session, now_s)

    def on_answers(
        self, session: Identified, answers: Iterable[Newest], now_s: float, *, pages_follow: bool
    ) -> list[Output]:
        """Tells versions that answer a registration. `pages_follow`: what else it lacks is asked for now."""
        device = device_of(session)
        for newest in answers:
            self._wait_object(session, device, newest, now_s)
        return self.go_on(session, now_s, pages_follow=pages_follow)

    @staticmethod
    def _wait_object(session: Identified, device: MqttSide, newest: Newest, now_s: float) -> None:
        row = device.deliveries.rows[OBJECTS]
        left_ms = _left_ms(newest)
        qos_max = _qos_of(newest.properties)
        if newest.answer:
            filters: _Filters = device.filters.named(newest.answers)
            if not filters or newest.deleted or not newest.HasField("version") or left_ms == 0:
                return
            is_first = device.take_answer(filters, newest.offset, newest.name)
            if not row.take_offset(newest.offset, NONE, newest.name):
                if not (is_first and device.subscribed_by(filters)):
                    return  # told on this connection, and no SUBSCRIBE since, or none on it, asks for it
            elif newest.offset > session.objects.acked:
                # It was published since: it is not told again by the other filters that fit it.
                filters = device.filters.fitting(newest.name)
            said = _version_due(newest, NONE, payload_of(newest), manner(filters, retain=True, qos_max=qos_max))
            device.deliveries.wait(_expiring(said, left_ms, now_s))
            return
        complete = complete_of(newest)
        filters = device.filters.fitting(newest.name)
        if not filters or left_ms == 0 or not row.take_offset(newest.offset, NONE, newest.name):
            device.deliveries.wait(Due(OBJECTS, complete))
            return
        how = manner(filters, retain=_retains(filters), qos_max=qos_max)
        device.deliveries.wait(_expiring(_version_due(newest, complete, payload_of(newest), how), left_ms, now_s))

    def _wait_entry(self, session: Identified, device: MqttSide, entry: Entry, now_s: float) -> None:
        if entry.HasField("missed"):
            self._miss(device, entry)
            return
        message = entry.message
        filters = _heard(device.filters.fitting(message.name), message, session)
        if not filters or not device.deliveries.rows[CHANNELS].take_offset(message.offset, NONE):
            return
        # It is part of a page, whose end moves the cursor.
        device.deliveries.wait(_expiring(_due_of(entry, filters, device, NONE), _left_ms(entry), now_s))

    @staticmethod
    def _miss(device: MqttSide, entry: Entry) -> None:
        missed = entry.missed
        if device.is_5 and missed.reason != EXPIRED:
            device.miss(missed.channel, missed_words(missed))

    # --- tasks of shares

    def on_handed(self, session: Identified, handed: Handed, now_s: float) -> list[Output]:
        """Tells a member of shares what it was handed, also where it is slow, or behind."""
        device = device_of(session)
        shares = device.shares
        if shares is None:
            return []
        if handed.HasField("leases"):
            shares.answered(handed.leases)
        for entry in handed.entries:
            self._hand(device, shares, entry, now_s)
        if device.socket_full:
            return self._requests.say_held(session, now_s)
        return self.go_on(session, now_s)

    @staticmethod
    def _hand(device: MqttSide, shares: DeviceShares, entry: Entry, now_s: float) -> None:
        if entry.HasField("missed"):
            missed = entry.missed
            first = missed.after + 1 if missed.HasField("after") else 0
            notice = shares.take(missed.channel, first, missed.hand_out)
            if notice is not None:
                if device.is_5:
                    device.miss(missed.channel, missed_words(missed))
                shares.settle(notice)
            return
        message = entry.message
        lease = shares.take(message.channel, message.offset, message.hand_out)
        filters = device.filters.named([message.channel])
        if lease is None or not filters:
            return
        due = Due(
            CHANNELS,
            topic=topic_of(filters[0].text).channel,
            payload=message.payload,
            manner=manner(filters, retain=False),
            missed=device.take_missed([message.channel]) if device.missed else (),
            properties=entry.properties,
            offset=message.offset,
            lease=lease,
            dup=message.attempts > 0,
        )
        device.deliveries.wait(_expiring(due, _left_ms(entry), now_s))

    # --- what devices acknowledge

    def acknowledge(
        self, session: Identified, packet_ids: Iterable[int], now_s: float, *, rejects: bool = False
    ) -> list[Output]:
        """Handles PUBACKs that came together. `rejects`: with a reason that says that it is not taken."""
        device = device_of(session)
        deliveries = device.deliveries
        for packet_id in packet_ids:
            deliveries.acknowledge(packet_id)
            if device.shares is not None:
                device.shares.acknowledge(packet_id, rejects=rejects)
        if device.shares is not None:
            return self.go_on(session, now_s)
        if deliveries.waits or session.blocked or device.pings:
            return self.go_on(session, now_s)
        return self._settle(session, now_s)

    def drained(self, session: Identified, now_s: float) -> list[Output]:
        """Goes on with a session whose socket has taken all bytes."""
        device_of(session).drain()
        return self.go_on(session, now_s)

    def go_on(self, session: Identified, now_s: float, *, pages_follow: bool = False) -> list[Output]:
        """Sends what may be sent now, and asks for more where that is acknowledged. `pages_follow`: nothing that waits
        for all it lacks is answered yet.
        """
        device = device_of(session)
        frames: list[Frame] = []
        for due, packet_id in device.deliveries.take(written=not device.socket_full):
            lease, shares = due.lease, device.shares
            if lease is not None and (shares is None or not shares.may_send(lease, now_s)):
                device.deliveries.acknowledge(packet_id)
                continue
            alias, protocol = device.alias_of(due.topic), protocol_of(device)
            left_ms = None if due.expires_s == NEVER_S else max(0, round((due.expires_s - now_s) * 1000))
            if lease is not None and left_ms is not None:
                left_ms = max(left_ms, 1)  # who holds it may finish it
            frame = publish_frame(due, packet_id, protocol, alias, left_ms)
            if not device.fits(frame):
                alias, frame = NO_ALIAS, publish_frame(bare(due), packet_id, protocol, left_ms=left_ms)
            if device.fits(frame) and left_ms != 0:
                device.told(alias)
                frames.append(frame)
                if lease is not None and shares is not None:
                    shares.begin(lease, packet_id)
            elif packet_id:
                device.deliveries.acknowledge(packet_id)
                if lease is not None and shares is not None:
                    shares.reject(lease)
        outputs = self._requests.say_held(session, now_s)  # what begins is said before it begins
        if frames:
            outputs.append(Send(session.peer, frames))
        outputs += self._settle(session, now_s)
        if session.blocked and not device.socket_full and device.deliveries.takes_again:
            session.drain()
            for stream in session.streams:
                if stream.slow:
                    outputs += self._recovery.catch_up(session, stream, now_s)
        if device.pings and not pages_follow and self._is_complete(session, device):
            outputs += self.answer_pings(session)
        return outputs

    @staticmethod
    def answer_pings(session: Identified) -> list[Output]:
        """Answers the PINGREQs that wait."""
        device = device_of(session)
        return [Send(session.peer, [device.encode(PingResp())] * device.take_pings())]

    def on_ping(self, session: Identified, due_s: float) -> list[Output]:
        """Handles a PINGREQ. The first one of a connection is answered behind what the client lacks, by `due_s` at the
        latest, and no other one before it.
        """
        device = device_of(session)
        session.reach()
        if not device.pings and (device.woken or self._is_complete(session, device)):
            device.wake()
            return [Send(session.peer, [device.encode(PingResp())])]
        device.ping(due_s)
        return []

    @staticmethod
    def _is_complete(session: Identified, device: MqttSide) -> bool:
        # A SUBSCRIBE before the PINGREQ may lack what its answer brings.
        return not (device.asking or device.deliveries.waits) and all(stream.live for stream in session.streams)

    def _settle(self, session: Identified, now_s: float) -> list[Output]:
        outputs: list[Output] = []
        for stream in session.streams:
            for page in _settle_cursor(session, stream):
                outputs += self._from_client.on_page_arrived(session, stream, page, now_s)
        return outputs


class _OneForMany:
    """A fan-out in the making: the bytes for each manner and protocol, and the connections that get them."""

    def __init__(
        self, packet_id: int, fan_out: FanOut, properties: bytes, left_ms: int | None, published_ms: int
    ) -> None:
        self._packet_id = packet_id
        self._qos_max = _qos_of(properties)
        self._left_ms = left_ms
        self._published_ms = published_ms
        self._traceparent = fan_out.traceparent
        self._manners: dict[int, tuple[_Filters, Manner]] = {}
        self._versions: dict[int, Due] = {}
        self._frames: dict[
            tuple[ProtocolVersion, Manner, tuple[str, ...], int, int, Alias], tuple[Frame, list[Peer]]
        ] = {}
        self.deliveries = 0
        self.sent_bytes = 0

    def version(self, newest: Newest, complete: int, filters: _Filters) -> Due:
        """Returns the version that is fanned out, as it is told by these filters, which like sessions share."""
        found = self._versions.get(id(filters))
        if found is None:
            found = _version_due(newest, complete, payload_of(newest), self.manner(filters))
            self._versions[id(filters)] = found
        return found

    def manner(self, filters: _Filters) -> Manner:
        """Returns the manner for these filters, which like sessions share."""
        found = self._manners.get(id(filters))
        if found is None:
            found = self._manners[id(filters)] = (
                filters,
                manner(filters, retain=_retains(filters), qos_max=self._qos_max),
            )
        return found[1]

    def to(self, session: Identified, device: MqttSide, said: Due) -> None:
        """Adds a session, and notes what its client owes."""
        packet_id = 0
        if said.manner.qos:
            packet_id = self._packet_id
            if not device.deliveries.is_free_id(packet_id):
                packet_id = device.deliveries.other_id()
        alias = device.alias_of(said.topic)
        frame, peers = self._frame(said, packet_id, protocol_of(device), alias)
        if not device.fits(frame):
            alias = NO_ALIAS
            frame, peers = self._frame(bare(said), packet_id, protocol_of(device), alias)
        if not device.fits(frame):
            _pass_over(session, device, said)
            return
        device.told(alias)
        if packet_id:
            device.deliveries.send(said, packet_id)
        else:
            _pass_over(session, device, said)
        peers.append(session.peer)
        self.deliveries += 1
        self.sent_bytes += len(frame.data)

    def _frame(self, said: Due, packet_id: int, protocol: ProtocolVersion, alias: Alias) -> tuple[Frame, list[Peer]]:
        key = protocol, said.manner, said.missed, said.offset, packet_id, alias
        if key not in self._frames:
            self._frames[key] = publish_frame(said, packet_id, protocol, alias, self._left_ms), []
        return self._frames[key]

    def outputs(self) -> list[Output]:
        """Returns the writes to the connections."""
        return [
            SendAll(peers, frame, self._published_ms, self._traceparent)
            for frame, peers in self._frames.values()
            if peers
        ]


def device_of(session: Identified) -> MqttSide:
    """Returns the MQTT side of a session that has one."""
    assert session.device is not None
    return session.device


def protocol_of(device: MqttSide) -> ProtocolVersion:
    """Returns the protocol of a device that has connected."""
    assert device.protocol is not None
    return device.protocol


def _pass_over(session: Identified, device: MqttSide, said: Due) -> None:
    """Notes a live message for which its client owes no acknowledgement. No page is on its way to the session."""
    if device.deliveries.send_unowed(said):
        session.applied(session.streams[said.place], said.complete)


def _settle_cursor(session: Identified, stream: Stream) -> tuple[int, ...]:
    """Moves the acknowledged cursor of a stream as far as it goes. Returns the pages that are acknowledged."""
    complete, pages = device_of(session).deliveries.rows[stream.place].settle()
    if complete != NONE:
        session.applied(stream, complete)
    return pages


def _left_ms(said: Newest | Entry) -> int | None:
    """Returns the time until it expires; None: it does not."""
    return said.expires_in_ms if said.HasField("expires_in_ms") else None


def _expiring(due: Due, left_ms: int | None, now_s: float) -> Due:
    return due if left_ms is None else due._replace(expires_s=now_s + left_ms / 1000)


def _qos_of(properties: bytes) -> int:
    """Returns the QoS that these properties allow."""
    qos = decode_kept(properties).qos
    return QOS_MAX if qos is None else qos


def _version_due(newest: Newest, complete: int, payload: bytes, how: Manner) -> Due:
    return Due(
        OBJECTS,
        complete,
        topic=newest.name,
        payload=payload,
        manner=how,
        properties=newest.properties,
        version=newest.version,
        offset=newest.offset,
    )


def _due_of(entry: Entry, filters: _Filters, device: MqttSide, complete: int) -> Due:
    """Returns a channel's message as it is told by these filters, with what is to be said of missing ones before."""
    message, retained = entry.message, decode_kept(entry.properties).retained
    return Due(
        CHANNELS,
        complete,
        topic=message.name,
        payload=message.payload,
        manner=manner(filters, retain=retained and _retains(filters), qos_max=_qos_of(entry.properties)),
        missed=device.take_missed([one.hash for one in filters]) if device.missed else (),
        properties=entry.properties,
        offset=message.offset,
    )


def _retains(filters: _Filters) -> bool:
    return any(one.retain_as_published for one in filters)


def _heard(filters: _Filters, message: Message, session: Identified) -> _Filters:
    """Returns the filters by which a client hears a message: not those with No Local, if it is its own."""
    if message.source != session.client:
        return filters
    return [one for one in filters if not one.no_local]
