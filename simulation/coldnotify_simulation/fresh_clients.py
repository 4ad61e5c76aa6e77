"""Judges P11: a client that says that it is fresh as of a time has told everything acknowledged before it.

The times of all clients are true in simulation. Nothing here asks a matcher or a gateway.
"""

from collections.abc import Callable

from coldnotify_simulation.client import SETTINGS, SimulatedClient
from coldnotify_simulation.clock import Clock
from coldnotify_simulation.promises import Broken
from coldnotify_simulation.truth import UNKNOWN, TrueObjects, Version

ANEW_S = 5.0
"""So long after its topic was recreated a publish may be missing."""


class FreshClients:
    """The judge of what clients say of their freshness."""

    def __init__(
        self, clock: Clock, truth: TrueObjects, knows: Callable[[SimulatedClient, str], Version | None]
    ) -> None:
        """`knows`: the newest version that a client was told or caused; None: its registration may be lost."""
        self._clock = clock
        self._truth = truth
        self._knows = knows
        self._settled: dict[SimulatedClient, dict[str, float]] = {}
        """Since when each object's registration is settled."""
        self._lost_at_s = float("-inf")
        self.judged = 0

    def on_lost(self) -> None:
        """The objects topic was lost."""
        self._lost_at_s = self._clock.now_s

    def starts(self, client: SimulatedClient) -> None:
        """Its process begins: nothing is known to be settled."""
        self._settled.pop(client, None)

    def on_rest(self, client: SimulatedClient) -> None:
        """The client has done everything it had to do."""
        assert client.driver is not None
        now_s = self._clock.now_s
        status = client.driver.status(now_s)
        settled_before = self._settled.get(client, {})
        application = client.driver.application
        settled = {
            name: settled_before.get(name, now_s)
            for name in client.wanted.difference(status.parked)
            if application.is_settled(name)
        }
        self._settled[client] = settled
        as_of_s = status.fresh_as_of
        if as_of_s is None or as_of_s <= self._lost_at_s + ANEW_S:
            if status.caught_up and as_of_s is None:
                raise Broken(f"P11: {client.name} says that it is caught up, and nothing proves it")
            return
        if status.caught_up and now_s - as_of_s > SETTINGS.stale_after_s:
            raise Broken(f"P11: {client.name} says that it is caught up, and is fresh as of {as_of_s:.3f}")
        for name, since_s in settled.items():
            if since_s > as_of_s:
                continue
            knows = self._knows(client, name)
            if knows is None:
                continue
            thing = self._truth.thing(client.key_of(name))
            due = max((v for s, v in thing.acknowledged if self._lost_at_s < s <= as_of_s), default=UNKNOWN)
            self.judged += 1
            if knows < due:
                raise Broken(
                    f"P11: {client.name} is fresh as of {as_of_s:.3f} and was told {knows} of {name}, not {due}"
                )
