"""Judges clients that slept: none believes in, or keeps, a connection that died meanwhile. Part of P2."""

from coldnotify._core.session.standstill import LOOK_S, STOOD_STILL_S

from coldnotify_simulation.client import SETTINGS, SimulatedClient
from coldnotify_simulation.clock import Clock
from coldnotify_simulation.link import SimulatedLink
from coldnotify_simulation.promises import Broken


class Doubts:
    """The doubts of all clients."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._dead: dict[SimulatedClient, tuple[SimulatedLink, float]] = {}
        """A connection that died while its client slept; and since when it is awake with it, without further sleeps."""

    def on_wakes(self, client: SimulatedClient, slept_s: float) -> None:
        """The client slept for so long. It need not notice less than a standstill."""
        link, since_s = self._dead.get(client, (None, self._clock.now_s))
        if link is not None and link is client.link:
            # It takes up to LOOK_S that it was awake before for a part of its sleep.
            self._dead[client] = link, since_s + slept_s + LOOK_S
        elif client.link is not None and client.link.is_cut and slept_s > STOOD_STILL_S:
            self._dead[client] = client.link, self._clock.now_s

    def on_rest(self, client: SimulatedClient) -> None:
        """The client has done everything it had to do."""
        link, since_s = self._dead.get(client, (None, 0.0))
        if link is None:
            return
        if client.link is not link:
            del self._dead[client]
        elif client.caught_up:
            raise Broken(f"P2: {client.name} says that it is caught up over a connection that died while it slept")
        elif self._clock.now_s - since_s > SETTINGS.silence_grace_s + LOOK_S and not client.disconnects:
            raise Broken(f"P2: {client.name} keeps a connection that died while it slept")
