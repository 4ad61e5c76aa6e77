"""One run of the gateway: waits for Kafka, serves devices, and closes their connections at its end.

A run ends when it is stopped, or with Reload when topics or producers that it relies on have changed. Then it closes
its clients' connections (they reconnect, here or elsewhere), and the process begins another run, with another id and
inbox.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVarTuple

import structlog
from coldnotify_common.memory import Ebb
from coldnotify_common.nodes_reader import NodesReader
from coldnotify_common.placement.fair_shares import NOTHING_KNOWN, Balance, outlook
from coldnotify_common.security.authentication import Authenticator
from coldnotify_common.security.inside_tls import InsideTls
from coldnotify_common.security.tls import ServerTls
from coldnotify_common.steady import steady_s
from coldnotify_common.tracing import Tracer

from coldnotify_gateway.admission import Admission
from coldnotify_gateway.core import Gateway, Peer, Produce, PublishRecord
from coldnotify_gateway.core.limits import TICK_S
from coldnotify_gateway.core.session_publishes import AskedAgreements, WithoutLimits
from coldnotify_gateway.drain_pace import DrainPace
from coldnotify_gateway.errors import Reload
from coldnotify_gateway.inbox_reader import InboxReader, Read
from coldnotify_gateway.kafka_watch import KafkaWatch
from coldnotify_gateway.latency import Latency
from coldnotify_gateway.listeners.listener import Listener, Serving
from coldnotify_gateway.listeners.port import LINGER_S
from coldnotify_gateway.listeners.row import ListenerRow
from coldnotify_gateway.neighbours import Neighbours
from coldnotify_gateway.open_files import connections_possible
from coldnotify_gateway.peers import Peers
from coldnotify_gateway.publication_writer import PublicationWriter
from coldnotify_gateway.request_writer import RequestWriter
from coldnotify_gateway.settings import GatewaySettings, peers_of
from coldnotify_gateway.shell import GatewayShell
from coldnotify_gateway.topics_watch import GatewayTopics, GatewayTopicsWatch

log = structlog.get_logger()
Arguments = TypeVarTuple("Arguments")

_HELLOS_STEP_S = 0.025
"""Interval at which waiting Hellos are taken. Acks and Pings are heard between."""
_LOOK_AROUND_S = 5.0
"""Interval of comparisons with other gateways, which write their numbers as often."""
_DRAIN_STEP_S = 0.05
_FLUSH_SHARE = 0.3
"""Share of the time for stopping that is reserved for the last writes to Kafka."""


class GatewayService:
    """One run of the gateway. Create it in the event loop that `run` runs in."""

    def __init__(
        self,
        settings: GatewaySettings,
        listeners: Mapping[ListenerRow, Listener],
        authenticator: Authenticator,
        tls: ServerTls,
        tracer: Tracer | None = None,
        agreements: AskedAgreements | None = None,
        inside: InsideTls | None = None,
        neighbours: Neighbours | None = None,
    ) -> None:
        self._settings = settings
        self._agreements = agreements or WithoutLimits()
        self._tracer = tracer
        self._authenticator = authenticator
        self._tls = tls
        self._listeners = listeners
        self._serving: list[Serving] = []
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[Any] = self._loop.create_future()
        self._inboxes: asyncio.Future[Any] = self._loop.create_future()
        self._assigned: asyncio.Future[Any] = self._loop.create_future()
        self._topics: GatewayTopics | None = None
        self._unavailable: str | None = "Kafka was not reached yet"
        self._accepting = False
        self._writer = RequestWriter(
            settings, self._from_thread(self._on_delivery_failed), self._from_thread(self._end)
        )
        self._publications = PublicationWriter(settings, self._from_thread(self._on_published))
        self._retentions = settings.retentions()
        self._neighbours = neighbours or Neighbours(NodesReader(settings), "", peers_of(settings.gateway_peers))
        self._balance = Balance()
        self._look_around_s = float("-inf")
        self._kafka = KafkaWatch(
            settings.gateway_isolated_after_s,
            settings.gateway_drain_per_s,
            Peers(None if inside is None else inside.client),
            self._neighbours.places,
        )
        self._shell: GatewayShell | None = None
        self.reader: InboxReader | None = None
        self.clock_offset_s = time.time() - steady_s()
        """Unix time minus the core's clock."""

    @property
    def gateway(self) -> Gateway | None:
        """Returns the core, or None until the topics are known."""
        return self._shell.gateway if self._shell is not None else None

    @property
    def host(self) -> str:
        """Returns the address that devices connect to, from the settings."""
        return self._settings.gateway_host

    @property
    def ports(self) -> dict[str, int]:
        """Returns the devices' ports by their shown names."""
        return {row.port_key: listener.port for row, listener in self._listeners.items()}

    @property
    def buffered_bytes(self) -> int:
        """Returns the total size of waiting frames of all connections, in bytes."""
        return self._shell.buffered_bytes if self._shell is not None else 0

    @property
    def cut_off(self) -> int:
        """Returns the number of connections cut off to limit open sockets or waiting bytes."""
        return self._shell.cut_off if self._shell is not None else 0

    @property
    def latency(self) -> Latency:
        """Returns the histogram of live notifications' times from the publish to the socket."""
        return self._shell.latency if self._shell is not None else Latency()

    @property
    def kafka_heard_s(self) -> float:
        """Returns the time since Kafka last answered anything, in s."""
        return self._kafka.heard_s

    def now_s(self) -> float:
        """Returns the time of the core's clock, which counts sleep: by another one, what was told long before the
        machine slept would look fresh."""
        return steady_s()

    def readiness(self) -> str | None:
        """Returns None if devices are served, else the reason."""
        if self._unavailable is not None:
            return self._unavailable
        if not self._assigned.done():
            return "the inbox is not assigned yet"
        if (reason := self._kafka.readiness()) is not None:
            return reason
        return None if self._accepting and len(self._serving) == len(self._listeners) else "no connections are accepted"

    async def run(self, stop: asyncio.Event) -> None:
        """Serves until `stop`, then stops in order. Raises Reload (after stopping in order, too) and ListenError."""
        stopped: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())
        watch = GatewayTopicsWatch(
            self._settings, self._from_thread(self._on_topics), self._from_thread(self._on_unavailable)
        )
        watch.start()
        self._writer.start()
        ticking: asyncio.Task[None] | None = None
        try:
            shell = await self._come_up(stopped)
            if shell is not None:
                ticking = asyncio.create_task(self._tick(shell))
                ticking.add_done_callback(self._on_task_ended)
                await self._serve(shell, stopped)
                await self._drain(shell)
                ticking.cancel()
                # These are the last requests to Kafka, so that no others follow them.
                shell.do(shell.gateway.flush_acks())
                shell.do(shell.gateway.last_beats())
        finally:
            if ticking is not None:
                ticking.cancel()
            stopped.cancel()
            watch.stop()
            self._kafka.stop()
            for serving in self._serving:
                await serving.stop()
            await self._stop_threads()
        if self._ended.done() and not stop.is_set():
            self._ended.result()

    async def _come_up(self, stopped: "asyncio.Future[Any]") -> GatewayShell | None:
        """Waits for the topics, then for the inbox. Returns None if the run ended before."""
        await asyncio.wait({stopped, self._inboxes}, return_when=asyncio.FIRST_COMPLETED)
        if not self._inboxes.done() or self._topics is None:
            return None
        settings, inboxes = self._settings, self._inboxes.result()
        gateway_id, inbox = secrets.randbelow((1 << 64) - 1) + 1, secrets.randbelow(inboxes)
        limits = settings.limits(connections_possible(settings.gateway_connections_max))
        admission = Admission(self._authenticator, self._on_expired, settings.mqtt_home())
        gateway = Gateway(
            gateway_id,
            inbox,
            self._topics.requests_partitions,
            limits,
            admission.admit,
            self._retentions,
            self._agreements,
            settings.topics,
            admission.home_of,
        )
        self._shell = GatewayShell(
            settings,
            gateway,
            self._writer,
            self._publications,
            broken=self._end,
            forgotten=admission.forget,
            identify=admission.identify,
            tracer=self._tracer,
        )
        self.reader = InboxReader(
            settings,
            gateway_id,
            inbox,
            on_assigned=self._from_thread(self._on_assigned),
            on_records=self._from_thread(self._on_records),
        )
        self.reader.start()
        await asyncio.wait({stopped, self._assigned, self._ended}, return_when=asyncio.FIRST_COMPLETED)
        if not self._assigned.done():
            return None
        log.info("inbox assigned", gateway=f"{gateway_id:016x}", inbox=inbox)
        return self._shell

    async def _serve(self, shell: GatewayShell, stopped: "asyncio.Future[Any]") -> None:
        first, *others = self._listeners.values()
        await self._serve_at(first, shell)
        self._accepting = True
        log.info("gateway ready", host=self._settings.gateway_host, **self.ports)
        tasks = [asyncio.create_task(self._serve_at(listener, shell)) for listener in others]
        for task in tasks:
            task.add_done_callback(self._on_task_ended)
        try:
            await asyncio.wait({stopped, self._ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._accepting = False
            for task in tasks:
                task.cancel()
            for serving in self._serving:
                serving.stop_listening()

    async def _serve_at(self, listener: Listener, shell: GatewayShell) -> None:
        self._serving.append(await listener.serve(shell, self._tls))

    async def _tick(self, shell: GatewayShell) -> None:
        """Runs the timers until the last client has left, because clients need them during the drain, too."""
        ebb = Ebb()
        while True:
            shell.tick()
            connections, peak = shell.gateway.connection_count, shell.gateway.take_connection_peak()
            for serving in self._serving:
                serving.tick()
                connections += serving.connections
                peak += serving.take_connection_peak()
            ebb.tick(connections, self.now_s(), peak)
            self._kafka.tick(shell)
            self._look_around(shell)
            next_s = self.now_s() + TICK_S
            while (left_s := next_s - self.now_s()) > 0:
                if shell.gateway.hellos_waiting:
                    shell.do(shell.gateway.take_hellos(self.now_s()))
                    left_s = min(left_s, _HELLOS_STEP_S)
                await asyncio.sleep(left_s)

    def _look_around(self, shell: GatewayShell) -> None:
        """Compares this gateway with the others, and sends clients away if it has far more than its share."""
        now_s, gateway, balances = self.now_s(), shell.gateway, self._settings.gateway_balance
        if now_s < self._look_around_s or not self._accepting:
            return
        self._look_around_s = now_s + _LOOK_AROUND_S
        own, others = gateway.share(self._settings.node_weight), self._neighbours.shares()
        known = NOTHING_KNOWN if others is None else outlook(own, others)
        gateway.on_gateways(known, balances=balances)
        if balances and others is not None and (count := self._balance.tick(now_s, own, known)):
            shell.do(gateway.balance(count, now_s))

    def _on_task_ended(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        log.error("the gateway cannot go on", exc_info=error)
        if not self._ended.done():
            self._ended.set_exception(error)

    # --- the end

    async def _drain(self, shell: GatewayShell) -> None:
        """Closes the clients' connections at the configured pace, or faster if the time would not suffice."""
        gateway, settings = shell.gateway, self._settings
        time_s = settings.gateway_drain_s * (1 - _FLUSH_SHARE)
        begun_s = self.now_s()
        needed_per_s = gateway.connection_count / max(time_s - LINGER_S, time_s / 2)
        pace = DrainPace(max(settings.gateway_drain_per_s, needed_per_s), begun_s)
        log.info("sending clients away", connections=gateway.connection_count)
        while gateway.connection_count:
            shell.do(gateway.go_away(pace.take(self.now_s()), self.now_s()))
            await asyncio.sleep(_DRAIN_STEP_S)
        await shell.all_closed(max(0.0, begun_s + time_s - self.now_s()))
        shell.abort_all()

    async def _stop_threads(self) -> None:
        if self.reader is not None:
            await asyncio.to_thread(self.reader.stop)
        unpublished = await asyncio.to_thread(self._publications.stop, self._settings.gateway_drain_s * _FLUSH_SHARE)
        if unpublished:
            log.warning("what clients published was not written", publications=unpublished)
        left = await asyncio.to_thread(self._writer.stop, self._settings.gateway_drain_s * _FLUSH_SHARE)
        if left:
            log.warning("requests were not written", requests=left)

    def _on_expired(self, peer: Peer) -> None:
        assert self._shell is not None
        self._shell.do(self._shell.gateway.on_expired(peer, self.now_s()))

    # --- from Kafka's threads

    def _from_thread(self, handler: Callable[[*Arguments], None]) -> Callable[[*Arguments], None]:
        """Wraps `handler` so that other threads can call it. It then runs in the event loop."""

        def call(*arguments: *Arguments) -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(handler, *arguments)

        return call

    def _on_topics(self, topics: GatewayTopics, inboxes: int) -> None:
        self._kafka.heard()
        if self._unavailable is not None:
            log.info("Kafka is there", kafka=self._settings.kafka)
        self._unavailable = None
        if self._topics is None:
            self._topics = topics
            self._inboxes.set_result(inboxes)
        elif topics != self._topics:
            self._end("the topics were made anew, or have another number of partitions")

    def _on_unavailable(self, reason: str) -> None:
        if self._unavailable != reason:
            log.warning("waiting for Kafka", reason=reason)
        self._unavailable = reason

    def _on_assigned(self) -> None:
        if not self._assigned.done():
            self._assigned.set_result(None)

    def _on_records(self, records: Sequence[Read]) -> None:
        self._kafka.heard()
        assert self._shell is not None
        assert self.reader is not None
        self._shell.on_records(records, self.reader.handled)

    def _on_delivery_failed(self, failed: Produce) -> None:
        assert self._shell is not None
        self._shell.on_delivery_failed(failed)

    def _on_published(self, publication: PublishRecord, offset: int | None, reason: str) -> None:
        if self._shell is not None:
            self._shell.on_published(publication, offset, reason)

    def _end(self, reason: str) -> None:
        if not self._ended.done():
            log.warning("beginning anew", reason=reason)
            self._ended.set_exception(Reload(reason))
            self._ended.exception()  # marks it as retrieved: the end of the run raises it
