"""The gateway's core: the only ways in, and what the connections need as time passes.

Handlers return outputs, which the shell does in order. `now_s` is any steady clock, in seconds.
"""

from collections.abc import Callable

from coldnotify_common.security.shares import Shares
from coldnotify_schemas.channels import Retentions
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.frames import FrameError, ack_complete
from coldnotify_schemas.internal_pb2 import Inbox, Item
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.wire_pb2 import Hello

from coldnotify_gateway.core import encoding
from coldnotify_gateway.core.connections import Connections
from coldnotify_gateway.core.counters import Counters
from coldnotify_gateway.core.fan_outs import FanOuts
from coldnotify_gateway.core.from_client import FromClient
from coldnotify_gateway.core.from_matcher import FromMatcher, RecordIntake
from coldnotify_gateway.core.identified import Identified
from coldnotify_gateway.core.limits import Limits
from coldnotify_gateway.core.outputs import HighWater, Output, Peer, Produce, PublishRecord, Send
from coldnotify_gateway.core.partition_view import PartitionView
from coldnotify_gateway.core.requests import RequestMaker
from coldnotify_gateway.core.session_publishes import AskedAgreements, Publishing, WithoutLimits
from coldnotify_gateway.core.timers import NEVER_S, Timers
from coldnotify_gateway.core.told import size_of
from coldnotify_gateway.core.unidentified import Unidentified
from coldnotify_gateway.core.violation import Violation, of_frame_error

EVERYWHERE_A_DAY = Retentions()
NOTHING_AGREED = WithoutLimits()
Admit = Callable[[Peer, Hello], bool]
"""Decides whether this connection may be the client that its Hello names, and returns whether that may publish to its
domain. Raises Violation if it may not be the client."""


def admit_all(_peer: Peer, _hello: Hello) -> bool:
    """Nobody is asked."""
    return True


class Gateway:
    """`gateway_id`: 64 random bits. `inbox`: its partition of notifications. `partitions`: how many requests has.

    `retentions`, `topics`: in which topics domains' channels are. `agreements`: what domains' tenants have agreed.
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
    ) -> None:
        self.id = gateway_id
        self.inbox = inbox
        self.limits = limits
        self._admit = admit
        self.counters = Counters()
        self._timers: Timers[Unidentified | Identified] = Timers()
        self._requests = RequestMaker(gateway_id, inbox, limits, self.counters, self._timers)
        self._connections = Connections(partitions, limits, self.counters, self._requests, self._timers)
        self._publishing = Publishing(
            topics or TopicNames(), retentions, limits, agreements, self._requests, self.counters
        )
        self._from_client = FromClient(self._connections, self._requests, self._publishing)
        self._fan_outs = FanOuts(self.counters)
        self._from_matcher = FromMatcher(
            gateway_id,
            self._connections,
            self._requests,
            self._from_client,
            self._publishing,
            limits,
            self.counters,
        )
        self._acks_due_s = NEVER_S
        self._ticked_s: float | None = None
        self._going_away = False

    # --- looking in

    @property
    def connection_count(self) -> int:
        """Connections that are not closed, identified or not."""
        return len(self._connections.by_peer)

    def take_connection_peak(self) -> int:
        """The most connections at one time since this was asked last."""
        return self._connections.take_peak()

    @property
    def unidentified_count(self) -> int:
        """Those of them that have not said Hello yet."""
        return self._connections.unidentified_count

    @property
    def views(self) -> list[PartitionView[Identified]]:
        """Each partition as this gateway sees it."""
        return self._connections.views

    @property
    def shares(self) -> Shares:
        """Connections by address."""
        return self._connections.shares

    def sessions(self) -> list[Identified]:
        """All sessions, by rising number."""
        return self._connections.sessions()

    # --- from the client's side

    def hold(self, address: str) -> bool:
        """Whether there is room for a connection that sessions come and go in; it counts to its `release`."""
        try:
            self._connections.hold(address)
        except Violation:
            self.counters.connections += 1
            self.counters.refused_connections += 1
            return False
        return True

    def release(self, address: str) -> None:
        """It is gone."""
        self._connections.release(address)

    def on_connect(
        self, peer: Peer, address: str, now_s: float, *, held: bool = False, nobodys: bool = False
    ) -> list[Output]:
        """A connection was accepted, or (`held`) begins within one that `hold` counts.

        `nobodys`: it comes from a balancer, which says next (`on_address`) whose it is. Until then it takes no place of
        those who have said no Hello: a balancer says so at once, and a burst of such connections, were they all its
        own, would drive out the first of them.
        """
        self.counters.connections += 1
        try:
            if self._going_away:
                raise Violation(CloseCode.GOING_AWAY, "the gateway is being stopped")
            connection = self._connections.add(peer, address, now_s, held=held)
        except Violation as violation:
            self.counters.refused_connections += 1
            return self._counted(self._connections.refuse(peer, violation.code, violation.reason))
        self._timers.look_at(connection, now_s)
        return [] if nobodys else self._take_place(connection, now_s)

    def on_address(self, peer: Peer, address: str, now_s: float) -> list[Output]:
        """The balancer that this connection came from has said whose it is (its own, where it left that open)."""
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
        """A connection from a balancer began in another way; the shell closes it."""
        self.counters.malformed_proxy_headers += 1

    def _take_place(self, connection: Unidentified, now_s: float) -> list[Output]:
        surplus = self._connections.take_place(connection)
        if surplus is None:
            return []
        self.counters.dropped_unidentified += 1
        reason = f"more than {self.limits.unidentified_max} connections have said no hello, or too many of this address"
        return self._counted(self._connections.close(surplus, CloseCode.OVERLOADED, reason, now_s))

    def on_client_bytes(self, peer: Peer, data: bytes, now_s: float) -> list[Output]:
        """Bytes came; any part of a frame, or several. What comes from a connection that is closed is ignored."""
        connection = self._connections.by_peer.get(peer)
        if connection is None:
            return []
        self.counters.received_bytes += len(data)
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
                        break  # it said Bye
            except FrameError as error:
                raise of_frame_error(error) from None
        except Violation as violation:
            closing = self._connections.by_peer[peer]
            outputs += self._connections.close(closing, violation.code, violation.reason, now_s)
        return self._counted(outputs)

    def _on_client_frame(self, connection: Unidentified | Identified, body: bytes, now_s: float) -> list[Output]:
        if isinstance(connection, Identified):
            return self._from_client.on_frame(connection, body, now_s)
        hello = connection.on_frame(body)
        if hello is None:
            return []
        may_publish = self._admit(connection.peer, hello)
        if hello.HasField("cursor"):
            self.counters.hellos_returning += 1
        else:
            self.counters.hellos_new += 1
        session = self._connections.identify(connection, hello, now_s, may_publish=may_publish)
        output = self._requests.open(session, now_s)
        self._timers.look_at(session, now_s)
        return [output]

    def on_disconnected(self, peer: Peer, now_s: float) -> list[Output]:
        """The connection is gone, whoever closed it."""
        connection = self._connections.by_peer.get(peer)
        return [] if connection is None else self._connections.remove(connection, now_s)

    def on_blocked(self, peer: Peer, now_s: float) -> None:
        """More than the high-water mark waits to be written: a live session is slow from here on."""
        session = self._connections.by_peer.get(peer)
        if isinstance(session, Identified) and session.block():
            session.link.fills(now_s)
            self.counters.slow_phases += 1

    def on_drained(self, peer: Peer, now_s: float) -> list[Output]:
        """Less than the low-water mark waits: a slow session is caught up."""
        session = self._connections.by_peer.get(peer)
        if not isinstance(session, Identified):
            return []
        session.drain()
        outputs: list[Output] = []
        if session.channels is not None and session.channels.slow:
            outputs = self._requests.catch_up_channels(session, now_s)
        if not session.slow:
            return outputs
        high_water_bytes = session.link.reached(now_s)
        outputs += self._from_matcher.catch_up(session, now_s)
        if high_water_bytes is not None:
            outputs.append(HighWater(peer, high_water_bytes))
        return outputs

    def on_overfull(self, peer: Peer, now_s: float) -> list[Output]:
        """More than the hard limit waits to be written: the client does not read what it asked for."""
        connection = self._connections.by_peer.get(peer)
        if connection is None:
            return []
        return self._connections.close(connection, CloseCode.TOO_SLOW, "too much waits to be read", now_s)

    def on_expired(self, peer: Peer, now_s: float) -> list[Output]:
        """What proved who this client is holds no longer."""
        connection = self._connections.by_peer.get(peer)
        if connection is None:
            return []
        reason = "the certificate or token has expired"
        return self._counted(self._connections.close(connection, CloseCode.EXPIRED, reason, now_s))

    # --- from the matcher's side

    def on_inbox(self, inbox: Inbox, now_s: float) -> RecordIntake:
        """A record of the inbox: its head. The caller does the outputs, then hands each item to `on_item`."""
        return self._from_matcher.on_inbox(inbox, now_s)

    def on_item(self, partition: int, item: Item, now_s: float) -> list[Output]:
        """An item that `on_inbox` returned; the outputs are done before the next one is handed in.

        So what comes of doing them (a connection that is full, gone, or cut off) is known by then.
        """
        if item.HasField("fan_out"):
            return self._fan_outs.of_object(self._connections.views[partition], item.fan_out)
        if item.HasField("channel_fan_out"):
            return self._fan_outs.of_channel(self._connections.views[partition], item.channel_fan_out)
        return self._counted(self._from_matcher.on_item(partition, item, now_s))

    def on_malformed_inbox(self) -> None:
        """A record of the inbox was set aside. If it was ours, its number will be missed."""
        self.counters.malformed_records += 1

    def on_fault(self, partition: int, now_s: float) -> list[Output]:
        """Handling a record of this partition has raised: its sessions end here, their clients come back at once."""
        if partition >= len(self._connections.views):
            return []
        reason = "the service has made a mistake with this session"
        outputs: list[Output] = []
        for session in list(self._connections.views[partition].sessions.values()):
            outputs += self._connections.close(session, CloseCode.UNKNOWN_SESSION, reason, now_s)
        return self._counted(outputs)

    def on_inbox_lost(self, now_s: float) -> list[Output]:
        """The inbox is read from its end again: what came meanwhile is lost, of every partition."""
        outputs: list[Output] = []
        for view in self._connections.views:
            view.lost_number()
            self.counters.gaps += 1
            outputs += self._from_matcher.after_loss(view, now_s)
        return outputs

    def on_delivery_failed(self, failed: Produce, now_s: float) -> None:
        """Kafka did not take a request. Only Leave is repeated: timers, or the client, ask again for what is wanted."""
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
        """What a client published is in Kafka at `offset`; None: it is not known to be, for this reason."""
        session = self._connections.by_peer.get(publication.peer)
        if not isinstance(session, Identified) or session.number != publication.session:
            return []  # it has gone; in its next session it publishes again what was not answered
        return self._counted(self._publishing.on_outcome(session, offset, reason, now_s))

    # --- time

    def on_wall_clock(self, unix_s: float, now_s: float) -> None:
        """The wall clock says this. What clients say of times by their own clocks is held against it."""
        self._publishing.on_wall_clock(unix_s, now_s)

    def on_tick(self, now_s: float) -> list[Output]:
        """Time has passed; to be called about every quarter of a second."""
        self._doubt(now_s)
        outputs: list[Output] = []
        for connection in self._timers.due(now_s):
            if self._connections.by_peer.get(connection.peer) is connection:
                outputs += self._on_due(connection, now_s)
                if self._connections.by_peer.get(connection.peer) is connection:
                    self._timers.look_at(connection, now_s)
        outputs += self._periodic(now_s)
        return self._counted(outputs)

    def _doubt(self, now_s: float) -> None:
        last_s, self._ticked_s = self._ticked_s, now_s
        stopped = last_s is not None and now_s - last_s > self.limits.unheard_s
        for view in self._connections.views:
            if stopped or now_s - view.unanswered_since_s > self.limits.unheard_s:
                view.unheard(now_s, stopped=stopped)

    def _on_due(self, connection: Unidentified | Identified, now_s: float) -> list[Output]:
        if isinstance(connection, Unidentified):
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
            outputs.append(Send(connection.peer, [encoding.wait(self.limits.wait_s)]))
        question = connection.question
        if question.answer_due_s <= now_s and not question.put_off(now_s, self.limits, connection.view.beats_handled):
            outputs += self._from_matcher.again(connection, now_s)
        if connection.channels is not None and connection.channels.due_s <= now_s:
            outputs += self._requests.channels_again(connection, now_s)
        return outputs + self._publishing.on_due(connection, now_s)

    def _periodic(self, now_s: float) -> list[Output]:
        outputs: list[Output] = []
        if self._acks_due_s == NEVER_S or now_s >= self._acks_due_s:
            self._acks_due_s = now_s + self.limits.acks_s
            outputs += self.flush_acks()
        for view in self._connections.views:
            if now_s >= view.beat_due_s:
                outputs += self._beat(view)
                view.beat_sent(now_s, self.limits.beat_s)
        return outputs

    def _beat(self, view: PartitionView[Identified]) -> list[Output]:
        leaves = list(view.leaves)
        view.leaves.clear()
        return [*leaves, self._requests.beat(view)]

    def matchers_away(self, now_s: float) -> int:
        """Partitions with sessions whose matcher has not answered a Beat for too long."""
        return sum(now_s - view.unanswered_since_s > self.limits.beat_answer_s for view in self._connections.views)

    # --- the end

    def flush_acks(self) -> list[Output]:
        """What clients acknowledged, now."""
        return [output for view in self._connections.views for output in self._requests.acks(view)]

    def go_away(self, count: int, now_s: float) -> list[Output]:
        """Sends away up to `count` of the connections, and every new one: until none is left."""
        self._going_away = True
        outputs: list[Output] = []
        for connection in list(self._connections.by_peer.values())[:count]:
            outputs += self._connections.close(connection, CloseCode.GOING_AWAY, "the gateway is being stopped", now_s)
        return self._counted(outputs)

    def last_beats(self) -> list[Output]:
        """Of each partition whose matcher does not know yet that its last session is gone."""
        due = [view for view in self._connections.views if view.beat_due_s != NEVER_S]
        return [output for view in due for output in self._beat(view)]

    def _counted(self, outputs: list[Output]) -> list[Output]:
        for output in outputs:
            if isinstance(output, Send):
                self.counters.sent_bytes += size_of(output.frames)
        return outputs
