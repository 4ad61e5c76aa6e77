"""Watches if Kafka answers this gateway; if not, asks other gateways, and sends clients to them."""

import asyncio
import time
from collections.abc import Callable, Sequence

import structlog
from coldnotify_common.kafka.kafka_stats import STATISTICS
from coldnotify_common.placement.isolation import HEARD_S, Isolation

from coldnotify_gateway.drain_pace import DrainPace
from coldnotify_gateway.peers import LOOK_UP_EVERY_S, Peers, Place
from coldnotify_gateway.shell import GatewayShell

log = structlog.get_logger()

_STEP_S = 0.05
_KNOWN_EVERY_S = 5.0
"""Interval at which the gateways that are known are compared with those that were looked up."""


class KafkaWatch:
    """The watch of one run. All of it runs in the event loop; `heard` may be called from any thread."""

    def __init__(
        self, isolated_after_s: float, drain_per_s: float, peers: Peers, known: Callable[[], Sequence[Place]]
    ) -> None:
        """`known`: the other gateways' HTTP ports."""
        self._isolation = Isolation(isolated_after_s)
        self._drain_per_s = drain_per_s
        self._peers = peers
        self._known = known
        self._known_last: Sequence[Place] = ()
        self._look_up_s = self._known_s = float("-inf")
        self._heard_s = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self._looking_up: asyncio.Task[None] | None = None

    def heard(self) -> None:
        """Notes an answer of Kafka."""
        self._heard_s = time.monotonic()

    @property
    def heard_s(self) -> float:
        """Returns the time since Kafka last answered anything, in s."""
        return max(0.0, time.monotonic() - max(self._heard_s, STATISTICS.heard_s))

    def readiness(self) -> str | None:
        """Returns None if Kafka answers, else the reason to be not ready."""
        if self._isolation.alone:
            return "cut off: Kafka answers other gateways, and not this one"
        return None if self.heard_s < HEARD_S else "Kafka does not answer"

    def tick(self, shell: GatewayShell) -> None:
        """Looks if Kafka has answered."""
        now_s = time.monotonic()
        before = self._isolation.silent
        ask = self._isolation.tick(now_s, max(self._heard_s, STATISTICS.heard_s))
        if before and not self._isolation.silent:
            log.info("Kafka answers again")
        if ask and self._task is None:
            log.warning("Kafka answers nothing, asking other gateways", gateways=len(self._peers))
            self._task = asyncio.create_task(self._ask(shell))
            self._task.add_done_callback(self._on_asked)
        if not self._isolation.silent:
            self._look_up(now_s)
        shell.gateway.on_kafka(silent=self._isolation.silent, alone=self._isolation.alone)

    def stop(self) -> None:
        """Ends questions under way."""
        for task in (self._task, self._looking_up):
            if task is not None:
                task.cancel()
        self._peers.close()

    def _look_up(self, now_s: float) -> None:
        if now_s < self._known_s:
            return
        self._known_s = now_s + _KNOWN_EVERY_S
        known = self._known()
        if self._looking_up is None and (now_s >= self._look_up_s or known != self._known_last):
            self._look_up_s, self._known_last = now_s + LOOK_UP_EVERY_S, known
            self._looking_up = asyncio.create_task(self._peers.look_up(known))
            self._looking_up.add_done_callback(self._on_looked_up)

    def _on_looked_up(self, task: asyncio.Task[None]) -> None:
        self._looking_up = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("other gateways could not be looked up", exc_info=error)

    async def _ask(self, shell: GatewayShell) -> None:
        self._isolation.answered(ready=await self._peers.any_ready())
        if not self._isolation.alone:
            log.warning("Kafka answers no other gateway either: clients stay", asked=len(self._peers))
            return
        shell.gateway.on_kafka(silent=True, alone=True)
        log.warning("cut off from Kafka, sending clients away", connections=shell.gateway.connection_count)
        pace = DrainPace(self._drain_per_s, time.monotonic())
        while self._isolation.alone and shell.gateway.session_count:
            shell.do(shell.gateway.cut_off(pace.take(time.monotonic()), asyncio.get_running_loop().time()))
            await asyncio.sleep(_STEP_S)

    def _on_asked(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("other gateways could not be asked", exc_info=error)
