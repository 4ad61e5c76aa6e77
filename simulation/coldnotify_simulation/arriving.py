"""Publishers by arrival: they say no version, and the clocks of their gateways are apart."""

from collections.abc import Callable
from random import Random

from coldnotify_simulation.world import World

_SHARE = 0.4
"""The share of schedules that have them."""
_BEHIND_MS = (0, 0, 1, 50, 5_000)


class Arriving:
    """Draws the publishes of one schedule."""

    def __init__(self, seed: int, world: World, key: Callable[[], str], is_high: Callable[[], bool]) -> None:
        self.random = Random(seed ^ 0xA2217A1)  # so that the rest of the schedule stays what it is
        self._world, self._key, self._is_high = world, key, is_high
        self.on = self.random.random() < _SHARE

    def kinds(self) -> dict[str, tuple[float, Callable[[], None]]]:
        """Returns the events by name, with their weights."""
        if not self.on:
            return {}
        return {"by arrival": (5, self._publish), "burst by arrival": (1, self._publish_burst)}

    def _publish(self) -> None:
        self._arrive(self._key())

    def _publish_burst(self) -> None:
        key = self._key()
        for _ in range(self.random.randint(2, 5)):
            self._arrive(key)

    def _arrive(self, key: str) -> None:
        self._world.publish_by_arrival(key, behind_ms=self.random.choice(_BEHIND_MS), high=self._is_high())
