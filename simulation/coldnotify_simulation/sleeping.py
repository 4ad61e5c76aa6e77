"""Units that sleep in RAM in a random schedule, some for so long that their connections die meanwhile.

A separate random generator draws all of it, at times of its own: the rest of the schedule stays unchanged.
"""

from functools import partial
from random import Random

from coldnotify_simulation.client import SETTINGS, SimulatedClient
from coldnotify_simulation.world import World

_SHARE = 0.4
"""The share of schedules in which units sleep."""
_DIES = 0.6
"""The probability that a connection dies meanwhile."""


class Sleeping:
    """The sleep of one schedule."""

    def __init__(self, seed: int, world: World) -> None:
        self.random = Random(seed ^ 0x51EE)
        self.world = world
        self.on = self.random.random() < _SHARE
        self._pace_s = self.random.choice([1.0, 4.0])
        self._later()

    def _later(self) -> None:
        if self.on:
            self.world.clock.later(self.random.expovariate(1 / self._pace_s), self._act)

    def _act(self) -> None:
        if not self.on:
            return
        client = self.random.choice(self.world.clients)
        asleep_s, dies = self.random.choice([4.0, 12.0, 12.0, 30.0]), self.random.random() < _DIES
        dies_after_s = self.random.uniform(0.0, asleep_s) if dies else None
        if client.driver is not None and not client.stopped:
            # Mostly behind its next Ping: what answers that comes while it sleeps.
            in_s = (
                client.driver.deadline() - self.world.clock.now_s + self.random.uniform(0.0, self.world.witness.late_s)
            )
            asked = self.random.random() < 0.7 and in_s < SETTINGS.keepalive_s
            self.world.clock.later(in_s if asked else 0.0, lambda: self.sleep(client, asleep_s, dies_after_s))
        self._later()

    def sleep(self, client: SimulatedClient, asleep_s: float, dies_after_s: float | None = None) -> None:
        """Puts a client to sleep, and wakes it after so long. `dies_after_s`: when its connection dies, without notice
        to it.
        """
        if not self.on or not client.alive or client.stopped:
            return
        self.world.trace(client.name, "sleeps for", round(asleep_s, 1))
        client.stop()
        stops, link = client.stops, client.link
        if link is not None and dies_after_s is not None:
            gateway_notices_s = self.random.choice([0.0, float("inf")])
            how = {"client_notices_s": float("inf"), "gateway_notices_s": gateway_notices_s}
            cut = partial(link.cut, "died while its client slept", **how)
            self.world.clock.later(dies_after_s, lambda: cut() if self.on else None)

        def wake() -> None:
            if client.stopped and client.stops == stops:
                client.go_on()

        self.world.clock.later(asleep_s, wake)

    def end(self) -> None:
        """Nobody sleeps any more."""
        self.on = False
