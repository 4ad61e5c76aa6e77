"""Records how fresh clients say that they are, for the checker, which judges P11. Its history has no channels here:
`messages` judges those.
"""

from coldnotify_simulation.client import SETTINGS, SimulatedClient
from coldnotify_simulation.messages import SimulatedMessages
from coldnotify_simulation.trace import Trace

ANEW_S = 5.0
"""A message may be missing so long after its log was recreated."""


class FreshClients:
    """Records how fresh clients say that they are, as it changes."""

    def __init__(self, trace: Trace, messages: SimulatedMessages) -> None:
        self._trace = trace
        self._messages = messages
        self._said: dict[str, dict[str, object]] = {}
        self._settled_s: dict[str, dict[str, float]] = {}
        """By client, since when its channels are known to be registered."""
        self.said = 0

    def starts(self, client: SimulatedClient) -> None:
        """Its process begins: nothing is known to be settled."""
        self._said.pop(client.key, None)
        self._settled_s.pop(client.key, None)

    def on_rest(self, client: SimulatedClient) -> None:
        """The client has done everything it had to do."""
        assert client.driver is not None
        now_s = client.clock.now_s
        status = client.driver.status(now_s)
        as_of_s = status.fresh_as_of
        words: dict[str, object] = {
            "as_of": None if as_of_s is None else round(as_of_s * 1_000_000),
            "caught_up": status.caught_up,
            "pending": status.pending,
            "parked": list(status.parked),
        }
        if words == self._said.get(client.key) and not status.caught_up:
            return
        self.said += 1
        self._said[client.key] = words
        limits = {"fresh_s": SETTINGS.stale_after_s, "keepalive_s": SETTINGS.keepalive_s}
        self._trace.event("fresh", client=client.key, asked=self._trace.now_us, **words, **limits)
        before = {} if status.pending else self._settled_s.get(client.key, {})
        settled_s = {} if status.pending else {name: before.get(name, now_s) for name in client.wish_channels}
        self._settled_s[client.key] = settled_s
        if as_of_s is not None:
            settled = {name for name, since_s in settled_s.items() if since_s <= as_of_s} - set(status.parked)
            self._messages.on_fresh(client, as_of_s, settled, anew_s=ANEW_S)
