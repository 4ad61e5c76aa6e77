"""The clock faults of a random schedule: of matchers, gateways and Kafka, one by one or all of a machine at once.

A separate random generator draws all of it, so that schedules without clock faults stay unchanged. A schedule is too
short for any client to be forgotten rightly.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.matcher import Matcher
from coldnotify_simulation.world import World

_SHARE = 0.25
"""The share of schedules that have clock faults."""
_DAY_MS = 86_400_000
FORGOTTEN_AFTER_MS = 3_600_000
_JUMPS_MS = (90_000, 3_700_000, 200 * _DAY_MS)


class ClockFaults:
    """The clock faults of one schedule."""

    def __init__(
        self, seed: int, world: World, *, all_at_once: bool, forgets_nobody: bool, possible: bool = True
    ) -> None:
        """`all_at_once`: nothing in the schedule has a time of seconds, which nobody could know then.

        `forgets_nobody`: nothing else in the schedule takes a client's registrations.
        """
        self.random = Random(seed ^ 0x26BE)
        self.on = self.random.random() < _SHARE and possible
        self._world = world
        self._all_at_once = all_at_once
        self._ended = False
        self.restarts = True
        """True if matchers are restarted while clocks are wrong."""
        if self.on:
            for matcher in world.matchers:
                matcher.rules = replace(matcher.rules, forgotten_after_ms=FORGOTTEN_AFTER_MS)
            world.kafka.ahead_max_ms = self.random.choice([None, 3_600_000])
            world.forgets_nobody = forgets_nobody
            world.kafka.stamps = self.random.random() < 0.7

    def kinds(self) -> dict[str, tuple[float, Callable[[], None]]]:
        """Returns the actions, each with its weight among all others."""
        if not self.on:
            return {}
        kinds: dict[str, tuple[float, Callable[[], None]]] = {"clock set": (1.0, self.set_one)}
        return kinds | ({"all clocks set": (0.5, self.set_all)} if self._all_at_once else {})

    def end(self) -> None:
        """All clocks are right from here on."""
        self._ended = True
        self._set([*self._world.matchers, *self._world.gateways, self._world.kafka], 0)

    def set_one(self) -> None:
        """One clock is wrong for a while."""
        world = self._world
        whose = self.random.choice([*world.matchers, *world.gateways, world.kafka])
        self._set_for_a_while([whose])
        if isinstance(whose, Matcher):
            self._restart([whose])

    def set_all(self) -> None:
        """All of a machine, which may start matchers meanwhile."""
        world = self._world
        self._set_for_a_while([*world.matchers, *world.gateways, world.kafka])
        self._restart(world.matchers)

    def _restart(self, matchers: list[Matcher]) -> None:
        """Restarts matchers while clocks are wrong and some client sleeps, because that makes it look forgotten."""
        if not self.restarts or self.random.random() < 0.5:
            return
        client = self.random.choice(self._world.clients)
        self._world.shut_down(client)
        self._world.clock.later(self.random.uniform(15.0, 25.0), lambda: self._wake(client))
        for matcher in matchers:
            matcher.kill()
            matcher.start()

    def _wake(self, client: SimulatedClient) -> None:
        if not self._ended:
            self._world.start_client(client)

    def _set_for_a_while(self, whose: list[object]) -> None:
        ahead_ms = self.random.choice([-1, 1]) * self.random.choice(_JUMPS_MS)
        kafka = self._world.kafka
        if kafka in whose and kafka.ahead_max_ms is not None:
            ahead_ms = abs(ahead_ms)  # else it would take nothing that publishers write, whose clocks are right
        self._set(whose, ahead_ms)
        self._world.clock.later(self.random.uniform(1.0, 25.0), lambda: None if self._ended else self._set(whose, 0))

    def _set(self, whose: list[object], ahead_ms: int) -> None:
        for one in whose:
            one.ahead_ms = ahead_ms  # type: ignore[attr-defined]
        names = ", ".join(str(getattr(one, "name", "kafka")) for one in whose)
        self._world.trace("world", "sets the clocks of", names, "by", ahead_ms)
