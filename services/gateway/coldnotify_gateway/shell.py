"""The gateway's shell: passes input from devices and Kafka to the core, and carries out the core's outputs."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import cast

import structlog
from coldnotify_common.paced import Paced
from coldnotify_common.security.identity import ANYBODY, Identity
from coldnotify_common.steady import steady_s
from coldnotify_common.tracing import Tracer
from coldnotify_schemas.internal_pb2 import Inbox

from coldnotify_gateway.core import (
    Carry,
    Finish,
    Gateway,
    HighWater,
    Output,
    Overtake,
    PauseReading,
    Peer,
    Produce,
    PublishBatch,
    PublishRecord,
    Send,
    SendAll,
    SendUrgent,
    Violation,
)
from coldnotify_gateway.device_connection import ConnectionEvents, DeviceConnection, Proof
from coldnotify_gateway.hearing import Hearing
from coldnotify_gateway.inbox_reader import InboxMark, Read
from coldnotify_gateway.inbox_records import Aside
from coldnotify_gateway.inbox_turns import InboxTurns
from coldnotify_gateway.latency import Latency
from coldnotify_gateway.linked_sessions import LinkedSessions
from coldnotify_gateway.open_files import LINGERING_MAX
from coldnotify_gateway.publication_writer import PublicationWriter
from coldnotify_gateway.request_writer import RequestWriter
from coldnotify_gateway.settings import GatewaySettings
from coldnotify_gateway.writing import Writing

log = structlog.get_logger()
_paced = Paced(log)


class GatewayShell(ConnectionEvents):
    """The shell of one core. All of it runs in the event loop. It calls `broken(reason)` when the core's state may be
    wrong, and `forgotten(peer)` when a connection is gone."""

    def __init__(
        self,
        settings: GatewaySettings,
        gateway: Gateway,
        writer: RequestWriter,
        publications: PublicationWriter,
        *,
        broken: Callable[[str], None],
        forgotten: Callable[[Peer], None],
        identify: Callable[[Proof], Identity] = lambda _proof: ANYBODY,
        tracer: Tracer | None = None,
    ) -> None:
        """Creates the shell. `identify` raises Violation for an invalid proof."""
        self.gateway = gateway
        self._identify = identify
        self._settings = settings
        self._writer = writer
        self._publications = publications
        self._broken = broken
        self._forgotten = forgotten
        self._hearing = Hearing(self._on_bytes)
        self._open: set[DeviceConnection] = set()
        self._blocked: set[DeviceConnection] = set()
        self._links: dict[DeviceConnection, LinkedSessions] = {}
        """Connections that carry several sessions."""
        self._lingering: dict[DeviceConnection, None] = {}
        """Connections that the core has closed and whose sockets are still open, in the order of closing."""
        self.cut_off = 0
        """Number of connections cut off to limit open sockets or waiting bytes."""
        self._none_open = asyncio.Event()
        self._none_open.set()
        self.latency = Latency()
        self._writing = Writing(self.latency, tracer, self._bound_of)
        self._turns = InboxTurns(self._writing, self._on_record)

    async def all_closed(self, timeout_s: float) -> None:
        """Waits until no socket is open, at most so long. Sockets that the core has closed and forgotten count, too."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._none_open.wait()

    def abort_all(self) -> None:
        """Cuts off every connection."""
        for connection in list(self._open):
            connection.abort()

    def tick(self) -> None:
        """Runs the core's timed work, and limits the waiting bytes."""
        self.gateway.on_wall_clock(time.time(), steady_s())
        self.do(self.gateway.on_tick(steady_s()))
        self._bound_buffered()

    @property
    def buffered_bytes(self) -> int:
        """Returns the total size of waiting frames of all connections, in bytes."""
        return sum(connection.buffered_bytes for connection in self._open)

    def _bound_buffered(self) -> None:
        """Limits the total of waiting bytes, because many connections below their own limits could still fill the
        memory."""
        excess = sum(one.buffered_bytes for one in self._blocked) - self._settings.gateway_buffered_bytes_max
        if excess <= 0:
            return
        for connection in sorted(self._blocked, key=lambda one: one.buffered_bytes, reverse=True):
            excess -= connection.buffered_bytes
            self.do(self.gateway.on_overfull(connection, steady_s()))
            self._cut_off(connection)
            if excess <= 0:
                return

    def _bound_sockets(self) -> None:
        """Limits the sockets of refused and closed connections, because others need the files."""
        while self._lingering and len(self._open) > self.gateway.limits.connections_max + LINGERING_MAX:
            self._cut_off(next(iter(self._lingering)))

    def _cut_off(self, connection: DeviceConnection) -> None:
        self.cut_off += 1
        # Its connection_lost follows later, but its socket and its bytes no longer count.
        self._forget(connection)
        connection.abort()

    def _forget(self, connection: DeviceConnection) -> None:
        self._open.discard(connection)
        self._blocked.discard(connection)
        self._hearing.forget(connection)
        self._lingering.pop(connection, None)
        self._forgotten(connection)
        if not self._open:
            self._none_open.set()

    # --- from devices

    def identify(self, proof: Proof) -> Identity:
        """Returns the identity that a proof belongs to. Raises Violation, which is counted as a close."""
        try:
            return self._identify(proof)
        except Violation as violation:
            self.gateway.counters.closes[violation.code] += 1
            raise

    def on_connect(self, connection: DeviceConnection, transport: asyncio.Transport) -> None:
        """Handles a device's new connection."""
        settings = self._settings
        transport.set_write_buffer_limits(settings.gateway_high_water_bytes, settings.gateway_low_water_bytes)
        connection.set_high_water(settings.gateway_high_water_bytes, settings.gateway_low_water_bytes)
        self._open.add(connection)
        self._none_open.clear()
        now_s = steady_s()
        held, nobodys, dialect = connection.held, connection.nobodys, connection.dialect
        self.do(
            self.gateway.on_connect(connection, connection.address, now_s, held=held, nobodys=nobodys, dialect=dialect)
        )
        self._bound_sockets()

    def on_address(self, connection: DeviceConnection) -> None:
        """Handles the client's address, which a balancer has sent."""
        self.do(self.gateway.on_address(connection, connection.address, steady_s()))

    def on_sync_by_frames(self) -> None:
        """Counts a use of the deprecated form of POST /v1/sync."""
        self.gateway.counters.syncs_by_frames += 1

    def on_malformed_proxy_header(self) -> None:
        """Counts an invalid PROXY header of a balancer."""
        self.gateway.on_malformed_proxy_header()

    def on_bytes(self, connection: DeviceConnection, data: bytes) -> None:
        """Handles bytes from a connection."""
        self._hearing.take(connection, data)

    def _on_bytes(self, connection: DeviceConnection, data: bytes) -> None:
        try:
            if self._links and (link := self._links.get(connection)) is not None:
                link.feed(data)
            else:
                self.do(self.gateway.on_client_bytes(connection, data, steady_s()))
        except Exception:
            # One client's bytes must not harm the others.
            _paced.log("a client's bytes could not be handled", level="exception", address=connection.address)
            connection.abort()

    def on_blocked(self, connection: DeviceConnection) -> None:
        """Notes that a connection accepts no more bytes."""
        self._blocked.add(connection)
        for session in self._sessions_of(connection):
            self.gateway.on_blocked(session, steady_s())

    def on_drained(self, connection: DeviceConnection) -> None:
        """Notes that a connection accepts bytes again."""
        self._blocked.discard(connection)
        for session in self._sessions_of(connection):
            self.do(self.gateway.on_drained(session, steady_s()))

    def _sessions_of(self, connection: DeviceConnection) -> Sequence[DeviceConnection]:
        """Returns the sessions that a connection carries: itself, if it is no link."""
        link = self._links.get(connection)
        return (connection,) if link is None else link.sessions()

    def on_disconnected(self, connection: DeviceConnection) -> None:
        """Handles the end of a connection."""
        self._hearing.finish(connection)
        self._forget(connection)
        self.do(self.gateway.on_disconnected(connection, steady_s()))
        if (link := self._links.pop(connection, None)) is not None:
            for session in link.sessions():
                self.on_disconnected(session)

    # --- from links

    def on_session(self, connection: DeviceConnection) -> None:
        """Handles the beginning of a session on a link. It counts as a connection."""
        self._open.add(connection)
        address, dialect = connection.address, connection.dialect
        self.do(self.gateway.on_connect(connection, address, steady_s(), dialect=dialect))

    def on_heard(self, connections: Sequence[DeviceConnection]) -> None:
        """Handles a sign of life of a link's sessions."""
        self.gateway.on_heard(connections, steady_s())

    def on_violation(self, connection: DeviceConnection, violation: Violation) -> None:
        """Ends a session of a link."""
        self.do(self.gateway.on_violation(connection, violation, steady_s()))

    def on_emptied(self, carrier: DeviceConnection) -> None:
        """Ends a link without sessions."""
        carrier.finish()
        self._hearing.forget(carrier)
        if carrier in self._open:
            self._lingering[carrier] = None

    # --- from Kafka

    def on_records(self, records: Sequence[Read], handled: Callable[[], None]) -> None:
        """Handles inbox records, and calls `handled` afterwards."""
        self._turns.take(records, handled)

    def _on_record(self, record: Read) -> None:
        now_s = steady_s()
        try:
            match record:
                case Aside():
                    self._set_aside(record)
                case InboxMark.LOST:
                    self.do(self.gateway.on_inbox_lost(now_s))
                case Inbox():
                    intake = self.gateway.on_inbox(record, now_s)
                    self.do(intake.outputs)
                    for item in intake.items:
                        self.do(self.gateway.on_item(record.partition, item, now_s))
        except Exception as error:
            if not isinstance(record, Inbox):
                self._broken(f"the inbox could not be handled: {error!r}")
                return
            _paced.log(
                "an inbox record could not be handled", level="error", partition=record.partition, exc_info=error
            )
            reason = f"handling it raised {type(error).__name__}: {error}"
            self._set_aside(Aside(record.SerializeToString(), self.gateway.inbox, None, reason))
            self._close_all_of(record.partition, now_s)

    def _set_aside(self, aside: Aside) -> None:
        self.gateway.on_malformed_inbox()
        _paced.log(
            "inbox record set aside", level="warning", inbox=aside.inbox, offset=aside.offset, reason=aside.reason
        )
        self._writer.reject(aside)

    def _close_all_of(self, partition: int, now_s: float) -> None:
        """Closes the sessions of a partition, because some may have missed frames, and a new session repairs that."""
        try:
            self.do(self.gateway.on_fault(partition, now_s))
        except Exception as error:
            log.exception("the sessions of a partition could not be closed", partition=partition)
            self._broken(f"the sessions of partition {partition} could not be closed: {error!r}")

    def on_delivery_failed(self, failed: Produce) -> None:
        """Reports a request to the core that Kafka did not accept."""
        self.gateway.on_delivery_failed(failed, steady_s())

    def on_published(self, publication: PublishRecord, offset: int | None, reason: str) -> None:
        """Reports the result of a client's publish to the core."""
        self.do(self.gateway.on_published(publication, offset, reason, steady_s()))

    # --- doing what the core says

    def do(self, outputs: Iterable[Output]) -> None:
        """Carries out each output, in order."""
        for output in outputs:
            match output:
                case SendAll():
                    self._writing.send_all(output)
                case Send():
                    self._writing.send(output.peer, output.frames)
                case SendUrgent():
                    self._writing.send_urgent(output)
                case Overtake():
                    self._writing.overtake(output)
                case Produce():
                    if not self._writer.write(output):
                        self.on_delivery_failed(output)
                case PublishBatch():
                    refused, reason = self._publications.write(output)
                    for publication in refused:
                        self.on_published(publication, None, reason)
                case HighWater():
                    self._set_high_water(cast(DeviceConnection, output.peer), output.size_bytes)
                case PauseReading():
                    self._hearing.pause(cast(DeviceConnection, output.peer), output.seconds)
                case Carry():
                    carrier = cast(DeviceConnection, output.peer)
                    link = self._links[carrier] = LinkedSessions(carrier, self, self.gateway.limits.frame_bytes_max)
                    link.feed(output.data)
                case Finish():
                    self._writing.flush_of(output.peer)
                    output.peer.finish()
                    connection = cast(DeviceConnection, output.peer)
                    self._hearing.forget(connection)
                    if connection in self._open:
                        self._lingering[connection] = None

    def _set_high_water(self, connection: DeviceConnection, high_water_bytes: int) -> None:
        low_water_bytes = self._settings.gateway_low_water_bytes
        if high_water_bytes < self._settings.gateway_high_water_bytes:
            # The page requested then waits after the remaining bytes. The kernel holds enough for the round trip.
            low_water_bytes = min(low_water_bytes, high_water_bytes // 8)
        connection.set_high_water(high_water_bytes, low_water_bytes)

    def _bound_of(self, connection: DeviceConnection) -> None:
        if connection.buffered_bytes > self._settings.hard_water_bytes:
            self.do(self.gateway.on_overfull(connection, steady_s()))
