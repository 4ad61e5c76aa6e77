"""The gateway's core: its entry points, and the timed work for its connections.

Handlers return outputs, which the shell carries out in order. `now_s` is the time of any steady clock, in seconds.
"""

from collections.abc import Callable, Iterable
from itertools import islice

from coldnotify_common.placement.fair_shares import BALANCE_NOT_HERE_S, REST_S, GatewayShare, Outlook
from coldnotify_common.security.publish_rights import EVERY_NAME, PublishRight
from coldnotify_common.security.shares import Shares
from coldnotify_schemas.channels import Retentions
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.frames import FrameError, ack_complete
from coldnotify_schemas.internal_pb2 import Inbox, Item, Will
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.wire_pb2 import Hello

from coldnotify_gateway.core import encoding
from coldnotify_gateway.core.come_back import ComeBack
from coldnotify_gateway.core.connections import Connections
from coldnotify_gateway.core.counters import Counters
from coldnotify_gateway.core.device_publishing import DevicePublishing
from coldnotify_gateway.core.dialects import CRC
from coldnotify_gateway.core.fan_outs import FanOuts
from coldnotify_gateway.core.freshness import STALE_S
from coldnotify_gateway.core.from_client import FromClient
from coldnotify_gateway.core.from_matcher import FromMatcher, RecordIntake
from coldnotify_gateway.core.from_mqtt import FromDevice, HomeOf, nowhere
from coldnotify_gateway.core.hello_pace import HelloPace, WaitingHello
from coldnotify_gateway.core.hello_refusals import CUT_OFF_NOT_HERE_S, HelloRefusals
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.limits import Limits
from coldnotify_gateway.core.mqtt.device_wills import check_will_right, size_of_will
from coldnotify_gateway.core.outputs import Carry, HighWater, Output, Peer, Produce, PublishRecord, Send
from coldnotify_gateway.core.pages import Pages
from coldnotify_gateway.core.partition_view import PartitionView
from coldnotify_gateway.core.recovery import Recovery
from coldnotify_gateway.core.requests import RequestMaker
from coldnotify_gateway.core.session_publishes import AskedAgreements, Publishing, WithoutLimits
from coldnotify_gateway.core.timers import NEVER_S, Timers
from coldnotify_gateway.core.to_mqtt import ToDevice
from coldnotify_gateway.core.told import Dialect, size_of
from coldnotify_gateway.core.unidentified import Unidentified
from coldnotify_gateway.core.violation import Violation, of_frame_error
from coldnotify_gateway.core.waiting_publishes import Result

EVERYWHERE_A_DAY = Retentions()
NOTHING_AGREED = WithoutLimits()
Admit = Callable[[Peer, Hello], PublishRight]
"""Checks that this connection may be the client that its Hello names, and returns the client's right to publish. Raises
Violation if it may not be the client."""


def admit_all(_peer: Peer, _hello: Hello) -> PublishRight:
    """Admits every client, and lets it publish."""
    return EVERY_NAME


class Gateway:
    """The gateway's core, with its connections and its views of all partitions.

    `gateway_id`: 64 random bits. `inbox`: its partition of notifications. `partitions`: number of partitions of
    requests.

    `retentions`, `topics`: decide the topic of a domain's channels. `agreements`: the limits of domains' tenants.

    `home_of`: says where MQTT connections belong.
    """

    def __init__(
        self,
        gateway_id: int,
        inbox: int,
        partitions: int,
        limits: Limits,
        admit: Admit = admit_all,
        retentions: Retentions = EVERYWHERE_A_DAY,
        agreements: AskedAgreements = NOTHING_AGREED,
        topics: TopicNames | None = None,
        home_of: HomeOf = nowhere,
    ) -> None:
        self.id = gateway_id
        self.inbox = inbox
        self.limits = limits
        self._admit = admit
        self._agreements = agreements
        self.counters = Counters()
        self._timers: Timers[Unidentified | Identified] = Timers()
        self._requests = RequestMaker(gateway_id, inbox, limits, self.counters, self._timers)
        self._connections = Connections(partitions, limits, self.counters, self._requests, self._timers)
        self._publishing = Publishing(
            topics or TopicNames(), retentions, limits, agreements, self._requests, self.counters
        )
        self._recovery = Recovery(self._connections, self._requests, limits, self.counters)
        self._from_client = FromClient(self._connections, self._requests, self._publishing)
        to_device = ToDevice(self._recovery, self._from_client, self._requests, self.counters)
        self._to_device = to_device
        self._from_device = FromDevice(
            self._connections,
            self._requests,
            DevicePublishing(self._publishing, self._requests, limits, self._timers),
            self._from_client,
            to_device,
            limits,
            self._timers,
            self._on_hello,
            home_of,
        )
        self._fan_outs = FanOuts(self.counters, to_device)
        self._from_matcher = FromMatcher(
            gateway_id,
            self._connections,
            self._requests,
            self._recovery,
            Pages(self._requests, self._recovery, self._from_client, to_device, self.counters),
            self._publishing,
            self._from_device,
            self.counters,
        )
        self._hello_refusals = HelloRefusals()
        self._pace = HelloPace(limits.hellos_per_s)
        self._acks_due_s = NEVER_S
        self._ticked_s: float | None = None
        self._going_away = False

    # --- looking in

    @property
    def connection_count(self) -> int:
        """Returns the number of open connections, identified or not."""
        return len(self._connections.by_peer)

    @property
    def session_count(self) -> int:
        """Returns the number of sessions."""
        return sum(len(view.sessions) for view in self._connections.views)

    @property
    def home_count(self) -> int:
        """Returns the number of sessions whose client is at home here."""
        return self._connections.home_count

    @property
    def hellos_waiting(self) -> int:
        """Returns the number of Hellos that wait for their turn."""
        return len(self._pace)

    def share(self, weight: float = 1.0) -> GatewayShare:
        """Returns the numbers by which gateways compare themselves."""
        return GatewayShare(self.connection_count, self.limits.connections_max, weight, self.home_count)

    def take_connection_peak(self) -> int:
        """Returns the highest number of simultaneous connections since the last call."""
        return self._connections.take_peak()

    @property
    def unidentified_count(self) -> int:
        """Returns the number of open connections without a Hello."""
        return self._connections.unidentified_count

    @property
    def views(self) -> list[PartitionView[Identified]]:
        """Returns the gateway's view of each partition."""
        return self._connections.views

    @property
    def shares(self) -> Shares:
        """Returns the counts of connections by address."""
        return self._connections.shares

    def sessions(self) -> list[Identified]:
        """Returns all sessions, sorted by number."""
        return self._connections.sessions()

    # --- from the client's side

    def hold(self, address: str) -> bool:
        """Counts a connection that carries changing sessions, until its `release`. Returns false if the gateway is
        full."""
        try:
            self._connections.hold(address)
        except Violation:
            self.counters.connections += 1
            self.counters.refused_connections += 1
            return False
        return True

    def release(self, address: str) -> None:
        """Stops counting a connection that `hold` counted."""
        self._connections.release(address)

    def on_connect(
        self,
        peer: Peer,
        address: str,
        now_s: float,
        *,
        held: bool = False,
        nobodys: bool = False,
        dialect: Dialect | None = None,
    ) -> list[Output]:
        """Handles a new connection. `held`: it begins within one that `hold` counts. `dialect`: the one that it states;
        None: its Hello decides.

        `nobodys`: it comes from a balancer, which next sends the client's address (`on_address`). Until then it takes
        no place among the connections without a Hello. A balancer sends the address at once, and if a burst of such
        connections all counted as the balancer's own, the later ones would displace the first.
        """
        self.counters.connections += 1
        try:
            if self._going_away:
                raise Violation(CloseCode.GOING_AWAY, "the gateway is being stopped")
            connection = self._connections.add(peer, address, now_s, held=held, dialect=dialect)
        except Violation as violation:
            self.counters.refused_connections += 1
            return self._counted(self._connections.refuse(peer, violation.code, violation.reason, dialect))
        self._timers.look_at(connection, now_s)
        return [] if nobodys else self._take_place(connection, now_s)

    def on_address(self, peer: Peer, address: str, now_s: float) -> list[Output]:
        """Handles the client's address that a balancer has sent for this connection (the balancer's own if it sent
        none)."""
        connection = self._connections.by_peer.get(peer)
        if not isinstance(connection, Unidentified):
            return []  # closed already
        try:
            self._connections.move(connection, address)
        except Violation as violation:
            self.counters.refused_connections += 1
            return self._counted(self._connections.close(connection, violation.code, violation.reason, now_s))
        return self._take_place(connection, now_s)

    def on_malformed_proxy_header(self) -> None:
        """Counts a connection from a balancer without a valid PROXY header, which the shell closes."""
        self.counters.malformed_proxy_headers += 1

    def _take_place(self, connection: Unidentified, now_s: float) -> list[Output]:
        surplus = self._connections.take_place(connection)
        if surplus is None:
            return []
        self.counters.dropped_unidentified += 1
        reason = f"more than {self.limits.unidentified_max} connections have said no hello, or too many of this address"
        return self._counted(self._connections.close(surplus, CloseCode.OVERLOADED, reason, now_s))

    def on_client_bytes(self, peer: Peer, data: bytes, now_s: float) -> list[Output]:
        """Handles received bytes: any part of a frame, or several frames. Ignores bytes of a closed connection."""
        connection = self._connections.by_peer.get(peer)
        if connection is None:
            return []
        self.counters.received_bytes += len(data)
        if connection.device is not None:
            return self._counted(self._from_device.on_bytes(connection, connection.device, data, now_s))
        if isinstance(connection, Identified):
            complete = ack_complete(data)
            connection.hear(now_s)
            if complete is not None and not len(connection.frames):
                connection.applied(connection.objects, complete)
                return []
        outputs: list[Output] = []
        try:
            try:
                for body in connection.frames.feed(data):
                    outputs += self._on_client_frame(self._connections.by_peer[peer], body, now_s)
                    if peer not in self._connections.by_peer:
                        break  # it said Bye, or is a link
            except FrameError as error:
                raise of_frame_error(error) from None
        except Violation as violation:
            outputs += self._refuse(self._connections.by_peer[peer], violation, now_s)
        if isinstance(connection, Unidentified) and connection.carried:
            outputs.append(Carry(peer, connection.carried + connection.frames.take_rest()))
        return self._counted(outputs)

    def on_heard(self, peers: Iterable[Peer], now_s: float) -> None:
        """Handles a sign of life of these sessions, whose link has brought something."""
        for peer in peers:
            session = self._connections.by_peer.get(peer)
            if isinstance(session, Identified):
                session.hear(now_s)

    def on_violation(self, peer: Peer, violation: Violation, now_s: float) -> list[Output]:
        """Closes a connection because of what its client sent; it may be unknown here."""
        connection = self._connections.by_peer.get(peer)
        if connection is None:
            return self._counted(self._connections.refuse(peer, violation.code, violation.reason, None))
        return self._counted(self._refuse(connection, violation, now_s))

    def _refuse(self, closing: Unidentified | Identified, violation: Violation, now_s: float) -> list[Output]:
        return self._connections.close(closing, violation.code, violation.reason, now_s, come_back=violation.come_back)

    def _on_client_frame(self, connection: Unidentified | Identified, body: bytes, now_s: float) -> list[Output]:
        if isinstance(connection, Identified):
            return self._from_client.on_frame(connection, body, now_s)
        if connection.kept is not None:
            return self._keep(connection, body)
        hello = connection.on_frame(body)
        if connection.carried:
            return self._connections.remove(connection, now_s)
        return [] if hello is None else self._on_hello(connection, hello, len(body), now_s)

    def _on_hello(self, connection: Unidentified, hello: Hello, size_bytes: int, now_s: float) -> list[Output]:
        self._check_hello(hello)
        publish_right = self._admit(connection.peer, hello)
        if self._pace.takes_at_once(now_s):
            return self._begin(connection, hello, now_s, publish_right)
        seconds = self._pace.backlog_s
        if self._pace.full:
            reason = "too many clients wait for their turn"
            raise Violation(CloseCode.OVERLOADED, reason, ComeBack(retry_after_s=seconds))
        self._pace.wait(WaitingHello(connection.peer, hello, publish_right, size_bytes))
        self._connections.wait(connection)
        return [Send(connection.peer, [encoding.wait(seconds, (connection.dialect or CRC).encode)])]

    def _check_hello(self, hello: Hello) -> None:
        own = self.share()
        self._hello_refusals.check(hello, own._replace(connections=own.connections - 1))

    def _keep(self, connection: Unidentified, body: bytes) -> list[Output]:
        """Keeps a frame that came while the Hello waits."""
        assert connection.kept is not None
        if self._pace.full or sum(map(len, connection.kept)) + len(body) > self.limits.frame_bytes_max:
            raise Violation(CloseCode.PROTOCOL_ERROR, "too much came before Welcome")
        connection.kept.append(body)
        self._pace.kept(len(body))
        return []

    def take_hellos(self, now_s: float) -> list[Output]:
        """Takes the waiting Hellos whose turn has come."""
        outputs: list[Output] = []
        while (waiting := self._pace.next(now_s)) is not None:
            connection = self._connections.by_peer.get(waiting.peer)
            if not isinstance(connection, Unidentified) or connection.kept is None:
                self._pace.give_back()
                continue
            try:
                self._check_hello(waiting.hello)
                outputs += self._begin(connection, waiting.hello, now_s, waiting.publish_right)
                for body in connection.kept:
                    session = self._connections.by_peer.get(waiting.peer)
                    if session is not None:
                        outputs += self._on_client_frame(session, body, now_s)
            except Violation as violation:
                outputs += self._refuse(self._connections.by_peer[waiting.peer], violation, now_s)
        return self._counted(outputs)

    def _begin(self, connection: Unidentified, hello: Hello, now_s: float, publish_right: PublishRight) -> list[Output]:
        if hello.HasField("cursor"):
            self.counters.hellos_returning += 1
        else:
            self.counters.hellos_new += 1
        if connection.device is not None and connection.device.will is not None:
            self._check_will(connection.device.will, hello, publish_right)
        session = self._connections.identify(connection, hello, now_s, publish_right)
        outputs: list[Output] = []
        if session.device is not None:
            # Its client may be connected here already: the service begins behind what that session has acknowledged.
            outputs += self._requests.acks(session.view)
            self._from_device.begun(session, now_s)
        outputs.append(self._requests.open(session, now_s))
        self._timers.look_at(session, now_s)
        return outputs

    def _check_will(self, will: Will, hello: Hello, publish_right: PublishRight) -> None:
        """Checks that a client may publish its will, which counts as one more publish of its tenant from here on."""
        check_will_right(will, hello.client, publish_right)
        too_much = self._agreements.ask(hello.domain, size_of_will(will, hello.domain, hello.group))
        if too_much is not None:
            raise Violation(CloseCode.ABOVE_AGREEMENT, f"will: {too_much.reason}")

    def on_disconnected(self, peer: Peer, now_s: float) -> list[Output]:
        """Removes a closed connection. Either side may have closed it."""
        connection = self._connections.by_peer.get(peer)
        return [] if connection is None else self._connections.remove(connection, now_s)

    def on_blocked(self, peer: Peer, now_s: float) -> None:
        """Makes a live session slow, because more bytes than the high-water mark wait to be written."""
        session = self._connections.by_peer.get(peer)
        if not isinstance(session, Identified):
            return
        if session.device is not None:
            session.device.fill()
        if session.block():
            session.link.fills(now_s)
            self.counters.slowed()

    def on_drained(self, peer: Peer, now_s: float) -> list[Output]:
        """Catches a slow session up, because fewer bytes than the low-water mark wait to be written."""
        session = self._connections.by_peer.get(peer)
        if not isinstance(session, Identified):
            return []
        if session.device is not None:
            return self._counted(self._to_device.drained(session, now_s))
        session.drain()
        outputs: list[Output] = []
        if session.channels is not None and session.channels.slow:
            outputs = self._recovery.catch_up(session, session.channels, now_s)
        if not session.slow:
            return outputs
        high_water_bytes = session.link.reached(now_s)
        outputs += self._recovery.catch_up(session, session.objects, now_s)
        if high_water_bytes is not None:
            outputs.append(HighWater(peer, high_water_bytes))
        return outputs

    def on_overfull(self, peer: Peer, now_s: float) -> list[Output]:
        """Closes a connection with more waiting bytes than the hard limit, because its client does not read."""
        connection = self._connections.by_peer.get(peer)
        if connection is None:
            return []
        return self._connections.close(connection, CloseCode.TOO_SLOW, "too much waits to be read", now_s)

    def on_expired(self, peer: Peer, now_s: float) -> list[Output]:
        """Closes a connection whose certificate or token has expired."""
        connection = self._connections.by_peer.get(peer)
        if connection is None:
            return []
        reason = "the certificate or token has expired"
        return self._counted(self._connections.close(connection, CloseCode.EXPIRED, reason, now_s))

    # --- from the matcher's side

    def on_inbox(self, inbox: Inbox, now_s: float) -> RecordIntake:
        """Handles the head of an inbox record. The caller carries out the outputs, then passes each item to
        `on_item`."""
        return self._from_matcher.on_inbox(inbox, now_s)

    def on_item(self, partition: int, item: Item, now_s: float) -> list[Output]:
        """Handles an item that `on_inbox` returned. The caller carries out its outputs before it passes the next item.

        So their effects (a full, closed or aborted connection) are known by then.
        """
        if item.HasField("fan_out"):
            return self._fan_outs.of_object(self._connections.views[partition], item.fan_out)
        if item.HasField("stream_fan_out"):
            return self._fan_outs.of_stream(self._connections.views[partition], item.stream_fan_out)
        return self._counted(self._from_matcher.on_item(partition, item, now_s))

    def on_malformed_inbox(self) -> None:
        """Counts an unreadable inbox record. If it was for this gateway, the gap in the numbers will show that."""
        self.counters.malformed_records += 1

    def on_fault(self, partition: int, now_s: float) -> list[Output]:
        """Closes all sessions of a partition because handling one of its records has raised. Their clients reconnect at
        once."""
        if partition >= len(self._connections.views):
            return []
        reason = "the service has made a mistake with this session"
        outputs: list[Output] = []
        for session in list(self._connections.views[partition].sessions.values()):
            outputs += self._connections.close(session, CloseCode.UNKNOWN_SESSION, reason, now_s)
        return self._counted(outputs)

    def on_inbox_lost(self, now_s: float) -> list[Output]:
        """Handles a restart of reading at the inbox's end: records of every partition are lost in between."""
        outputs: list[Output] = []
        for view in self._connections.views:
            view.lost_number()
            self.counters.gaps += 1
            outputs += self._recovery.after_loss(view, now_s)
        return outputs

    def on_delivery_failed(self, failed: Produce, now_s: float) -> None:
        """Handles a request that Kafka did not accept. Repeats only a Leave, because timers or clients repeat the
        others."""
        kind = failed.request.WhichOneof("body") or ""
        self.counters.failed_requests[kind] += 1
        view = self._connections.views[failed.partition]
        if kind == "leave":
            view.owe_leave(failed, now_s, self.limits.beat_s)
        session = view.sessions.get(failed.request.session)
        if session is not None:
            session.question.not_taken()
            self._requests.channels_not_taken(session, failed.request, now_s)

    def on_published(self, publication: PublishRecord, offset: int | None, reason: str, now_s: float) -> list[Output]:
        """Handles the result of a publish: its offset in Kafka; or None with a reason, if it may not be in Kafka."""
        session = self._connections.by_peer.get(publication.peer)
        if not isinstance(session, Identified) or session.number != publication.session:
            return []  # it has ended; in its next session the client repeats unanswered publishes
        outputs = self._publishing.on_result(session, publication.number, Result(offset, reason), now_s)
        if session.device is not None:
            outputs += self._from_device.on_results(session, now_s)
        return self._counted(outputs)

    # --- time

    def on_wall_clock(self, unix_s: float, now_s: float) -> None:
        """Sets the wall clock, which clients' times are compared with."""
        self._publishing.on_wall_clock(unix_s, now_s)

    def on_tick(self, now_s: float) -> list[Output]:
        """Does the work that is due. The shell calls it about every quarter of a second."""
        self._doubt(now_s)
        outputs: list[Output] = []
        for connection in self._timers.due(now_s):
            if self._connections.by_peer.get(connection.peer) is connection:
                outputs += self._on_due(connection, now_s)
                if self._connections.by_peer.get(connection.peer) is connection:
                    self._timers.look_at(connection, now_s)
        outputs += self._periodic(now_s)
        return self._counted(outputs) + self.take_hellos(now_s)

    def _doubt(self, now_s: float) -> None:
        last_s, self._ticked_s = self._ticked_s, now_s
        stopped = last_s is not None and now_s - last_s > self.limits.unheard_s
        for view in self._connections.views:
            if stopped or now_s - view.unanswered_since_s > self.limits.unheard_s:
                view.unheard(now_s, stopped=stopped)

    def _on_due(self, connection: Unidentified | Identified, now_s: float) -> list[Output]:
        if isinstance(connection, Unidentified):
            if connection.held_hello is not None:
                return self._from_device.on_waited(connection, connection.held_hello, now_s)
            return self._connections.close(
                connection, CloseCode.HANDSHAKE_TIMEOUT, f"no hello within {self.limits.handshake_s:g} s", now_s
            )
        if connection.silent_s <= now_s:
            return self._connections.close(
                connection, CloseCode.SILENT, f"nothing was heard for {now_s - connection.heard_s:.0f} s", now_s
            )
        outputs: list[Output] = []
        if connection.question.wait_due_s <= now_s:
            connection.question.waiting_said(now_s, self.limits)
            outputs.append(Send(connection.peer, [encoding.wait(self.limits.wait_s, connection.dialect.encode)]))
        question = connection.question
        if question.answer_due_s <= now_s and not question.put_off(now_s, self.limits, connection.view.beats_handled):
            outputs += self._recovery.again(connection, now_s)
        if connection.channels is not None and connection.channels.due_s <= now_s:
            outputs += self._requests.channels_again(connection, now_s)
        publish_was_due = connection.publish_due_s <= now_s
        outputs += self._publishing.on_due(connection, now_s)
        if publish_was_due and connection.device is not None:
            outputs += self._from_device.on_results(connection, now_s)
        if connection.device is not None and self._connections.by_peer.get(connection.peer) is connection:
            outputs += self._from_device.on_due(connection, now_s)
        return outputs

    def _periodic(self, now_s: float) -> list[Output]:
        outputs: list[Output] = []
        if self._acks_due_s == NEVER_S or now_s >= self._acks_due_s:
            self._acks_due_s = now_s + self.limits.acks_s
            outputs += self.flush_acks()
        views = self._connections.views
        # Each request to Kafka, and each step of a matcher, costs more than what is in it: the Beats of partitions with
        # sessions leave in one round.
        begins = any(view.sessions and now_s >= view.beat_due_s for view in views)
        soon_s = now_s + self.limits.beat_s / 2 if begins else now_s
        for view in views:
            if now_s >= view.beat_due_s or (view.sessions and view.beat_due_s < soon_s):
                outputs += self._beat(view)
                view.beat_sent(now_s, self.limits.beat_s)
        return outputs

    def _beat(self, view: PartitionView[Identified]) -> list[Output]:
        leaves = list(view.leaves)
        view.leaves.clear()
        return [*leaves, self._requests.beat(view)]

    def matchers_away(self, now_s: float) -> int:
        """Returns the number of partitions with sessions whose matcher has not answered a Beat for too long."""
        return sum(now_s - view.unanswered_since_s > self.limits.beat_answer_s for view in self._connections.views)

    # --- other gateways

    def on_kafka(self, *, silent: bool, alone: bool) -> None:
        """Notes that Kafka answers nothing here (`silent`), although it answers another gateway (`alone`)."""
        self._hello_refusals.hear_kafka(silent=silent, alone=alone)

    def on_gateways(self, known: Outlook, *, balances: bool) -> None:
        """Notes how full other gateways are. `balances`: this one keeps to its share."""
        self._hello_refusals.look_around(known, balances=balances)

    def cut_off(self, count: int, now_s: float) -> list[Output]:
        """Closes up to `count` sessions, because their clients are better off at another gateway."""
        identified = (one for one in self._connections.by_peer.values() if isinstance(one, Identified))
        sessions = list(islice(identified, count))
        return self._send_away(sessions, "this gateway is cut off from Kafka", CUT_OFF_NOT_HERE_S, now_s)

    def balance(self, count: int, now_s: float) -> list[Output]:
        """Closes up to `count` sessions that may move, because other gateways have fewer."""
        sessions = list(islice(self._connections.sessions_to_move(now_s - REST_S), count))
        return self._send_away(sessions, "other gateways have fewer clients", BALANCE_NOT_HERE_S, now_s)

    def _send_away(self, sessions: list[Identified], reason: str, not_here_s: int, now_s: float) -> list[Output]:
        outputs: list[Output] = []
        for session in sessions:
            outputs += self._connections.close(
                session, CloseCode.GOING_AWAY, reason, now_s, come_back=ComeBack(not_here_s=not_here_s)
            )
        return self._counted(outputs)

    def stale_sessions(self, now_s: float) -> int:
        """Returns the number of live sessions for which nothing proves that they know what is older than STALE_S."""
        bound_s = now_s - STALE_S
        views = (view for view in self._connections.views if view.freshness.oldest_s < bound_s)
        return sum(
            session.objects.live and session.oldest_s < bound_s for view in views for session in view.sessions.values()
        )

    # --- the end

    def flush_acks(self) -> list[Output]:
        """Returns requests with all collected acknowledgements."""
        return [output for view in self._connections.views for output in self._requests.acks(view)]

    def go_away(self, count: int, now_s: float) -> list[Output]:
        """Closes up to `count` connections, and refuses every new one. The shell repeats this until none is left."""
        self._going_away = True
        outputs: list[Output] = []
        for connection in list(self._connections.by_peer.values())[:count]:
            outputs += self._connections.close(connection, CloseCode.GOING_AWAY, "the gateway is being stopped", now_s)
        return self._counted(outputs)

    def last_beats(self) -> list[Output]:
        """Returns the Beats that are still due, so that each matcher learns that the partition's last session has
        ended."""
        due = [view for view in self._connections.views if view.beat_due_s != NEVER_S]
        return [output for view in due for output in self._beat(view)]

    def _counted(self, outputs: list[Output]) -> list[Output]:
        for output in outputs:
            if isinstance(output, Send):
                self.counters.sent_bytes += size_of(output.frames)
        return outputs
