"""A connection: bytes in order each way, until it is cut. Either end may learn of that later than the other, or not."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random
from typing import Protocol

from coldnotify_gateway.core import CRC, Dialect, Frame, Urgent, WaitingFrames, joined

from coldnotify_simulation.clock import Act, Clock

HIGH_WATER_BYTES = 200
"""So many bytes may wait for a client that does not read, before its gateway treats it as slow."""


class LinkEnd(Protocol):
    """A process that a link leads to."""

    life: int
    """The number of its current life: what was meant for another one is lost."""

    def later(self, delay_s: float, act: Act) -> None:
        """Do it later, unless the process is dead by then."""

    def on_bytes(self, link: SimulatedLink, data: bytes) -> None:
        """The other end has sent this."""


class ClientEnd(LinkEnd, Protocol):
    """The interface of a client that a link uses."""

    def on_broken(self, link: SimulatedLink, reason: str) -> None:
        """The link has ended."""


class GatewayEnd(LinkEnd, Protocol):
    """The interface of a gateway that a link uses."""

    name: str

    def on_broken(self, link: SimulatedLink) -> None:
        """The link has ended."""

    def on_blocked(self, link: SimulatedLink) -> None:
        """More waits for the client than it takes."""

    def on_drained(self, link: SimulatedLink) -> None:
        """Nothing waits for the client any more."""


class SimulatedLink:
    """Between one client and one gateway. It is the gateway core's Peer."""

    dialect: Dialect | None = None
    """The dialect that its listener states to the core."""

    def __init__(self, clock: Clock, random: Random, client: ClientEnd, gateway: GatewayEnd, late_s: float) -> None:
        self._clock = clock
        self._random = random
        self._late_s = late_s
        self.client = client
        self.gateway = gateway
        self.is_cut = False
        self._unnoticed = False
        """The client has not heard that it is cut, and will not: what had arrived can be read."""
        self.stalled = False
        """The client does not read."""
        self._waiting = WaitingFrames((self.dialect or CRC).encode)
        self._blocked = False
        self._finished = False
        self._up_at_s = self._down_at_s = 0.0
        self._client_life, self._gateway_life = client.life, gateway.life

    # ---- up

    def up(self, data: bytes) -> None:
        """The client sends."""
        self._up_at_s = max(self._up_at_s, self._clock.now_s + self._delay())
        self._clock.later(self._up_at_s - self._clock.now_s, lambda: self._arrive_up(data))

    def _arrive_up(self, data: bytes) -> None:
        if not self.is_cut and self.gateway.life == self._gateway_life:
            self.gateway.later(0.0, lambda: None if self.is_cut else self.gateway.on_bytes(self, data))

    def end_sending(self) -> None:
        """The client sends nothing more: its gateway closes the connection once all has arrived."""
        self._up_at_s = max(self._up_at_s, self._clock.now_s + self._delay())
        self._clock.later(self._up_at_s - self._clock.now_s, self._arrive_end)

    def _arrive_end(self) -> None:
        if not self.is_cut and self.gateway.life == self._gateway_life:
            self.gateway.later(0.0, lambda: self.cut("closed by the gateway", client_notices_s=self._delay()))

    # ---- down

    def send(self, frames: Sequence[Frame], /) -> None:
        """The gateway's core sends frames."""
        if self.is_cut:
            return
        self._waiting.add(*frames)
        self._wait_or_flow()

    def send_urgent(self, urgent: Urgent, /) -> None:
        """The same, in front of what waits."""
        if self.is_cut:
            return
        self._waiting.add_urgent(urgent)
        self._wait_or_flow()

    def overtake(self, channels: Collection[int], repeats: Sequence[Frame], /) -> None:
        """Moves what waits of these channels in front of what waits of others."""
        if not self.is_cut:
            self._waiting.overtake(channels, repeats)
            self._wait_or_flow()

    def _wait_or_flow(self) -> None:
        if self.stalled:
            if not self._blocked and self._waiting.size_bytes > HIGH_WATER_BYTES:
                self._blocked = True
                self.gateway.on_blocked(self)
        else:
            self._flow()

    def finish(self) -> None:
        """The gateway closes it once everything sent is flushed."""
        self._finished = True
        self._flow()
        self._clock.later(
            max(0.0, self._down_at_s - self._clock.now_s) + 0.01, lambda: self.cut("closed by the gateway")
        )

    def one_frame(self) -> bool:
        """The client, which does not read, reads one frame all the same. Whether there was one."""
        return self._hand_over(1)

    def _flow(self) -> None:
        self._hand_over(self._waiting.size_bytes)

    def _hand_over(self, size_bytes: int) -> bool:
        frames = self._waiting.take_frames(size_bytes)
        if frames:
            self._down_at_s = max(self._down_at_s, self._clock.now_s + self._delay())
            self._clock.later(self._down_at_s - self._clock.now_s, lambda: self._arrive_down(frames))
        return bool(frames)

    def _arrive_down(self, frames: Sequence[Frame]) -> None:
        if not self.is_cut and self.client.life == self._client_life:
            self.client.later(0.0, lambda: self._read(frames))

    def _read(self, frames: Sequence[Frame]) -> None:
        if not self.is_cut or self._unnoticed:
            self._hand_to_client(frames)

    def _hand_to_client(self, frames: Sequence[Frame]) -> None:
        self.client.on_bytes(self, joined(frames))

    def stall(self, seconds: float) -> None:
        """The client does not read for a while."""
        if not self.stalled:
            self.stalled = True
            self._clock.later(seconds, self.read_on)

    def read_on(self) -> None:
        """The client reads again."""
        self.stalled = False
        if self.is_cut:
            return
        self._flow()
        if self._blocked:
            self._blocked = False
            if self.gateway.life == self._gateway_life:
                self.gateway.later(0.0, lambda: self.gateway.on_drained(self))

    # ---- its end

    def cut(self, reason: str, *, client_notices_s: float = 0.0, gateway_notices_s: float = 0.0) -> None:
        """Loses everything in transit. Each end notices after its time; infinity: by its timers only."""
        if self.is_cut:
            return
        self.is_cut = True
        self._unnoticed = client_notices_s == float("inf")
        if client_notices_s != float("inf") and self.client.life == self._client_life:
            self.client.later(client_notices_s, lambda: self.client.on_broken(self, reason))
        if gateway_notices_s != float("inf") and self.gateway.life == self._gateway_life:
            self.gateway.later(gateway_notices_s, lambda: self.gateway.on_broken(self))

    def _delay(self) -> float:
        return self._random.uniform(0.0005, self._late_s)
