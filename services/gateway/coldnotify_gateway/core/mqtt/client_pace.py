"""Pauses of MQTT clients that come back too soon: two of one identifier, or one whose publish is always wrong.

Each would come back at once and for ever. MQTT 3.1.1 cannot even tell it why.
"""

from collections import deque
from dataclasses import dataclass, field

TAKEOVERS_MAX = 3
TAKEOVERS_S = 10.0
"""A client that is taken over TAKEOVERS_MAX times in this time waits when it connects."""
PAUSE_S_MIN, PAUSE_S_MAX = 1.0, 60.0
"""The pause after the first fault; each further one doubles it, up to the second number."""
FORGIVEN_S = 60.0
"""A client without a fault for so long, behind its pause, begins again."""
CLIENTS_MAX = 10_000
"""Most clients with faults; those of the longest ago are forgotten first."""


@dataclass(slots=True)
class _Faults:
    pause_s: float = 0.0
    last_s: float = 0.0
    takeovers_s: deque[float] = field(default_factory=lambda: deque(maxlen=TAKEOVERS_MAX))

    def add(self, now_s: float) -> None:
        """Notes a fault."""
        self.pause_s = min(PAUSE_S_MAX, self.pause_s * 2) or PAUSE_S_MIN
        self.last_s = now_s


class ClientPace:
    """Clients of one kind of fault, by their key. Times are seconds of the core's clock."""

    def __init__(self) -> None:
        self._clients: dict[str, _Faults] = {}

    def taken_over(self, client: str, now_s: float) -> None:
        """Notes that another connection of the client has taken its session over."""
        faults = self._of(client, now_s)
        faults.takeovers_s.append(now_s)
        if len(faults.takeovers_s) == TAKEOVERS_MAX and now_s - faults.takeovers_s[0] <= TAKEOVERS_S + faults.pause_s:
            faults.add(now_s)

    def wrong(self, client: str, now_s: float) -> None:
        """Notes that the client has sent something that is never taken."""
        self._of(client, now_s).add(now_s)

    def pause_s(self, client: str, now_s: float) -> float:
        """Returns for how long it has to wait when it connects now; 0: not at all."""
        faults = self._clients.get(client)
        if faults is None or _is_forgiven(faults, now_s):
            return 0.0
        return max(0.0, faults.last_s + faults.pause_s - now_s)

    def _of(self, client: str, now_s: float) -> _Faults:
        faults = self._clients.pop(client, None)
        if faults is None or _is_forgiven(faults, now_s):
            faults = _Faults(last_s=now_s)
        self._clients[client] = faults
        if len(self._clients) > CLIENTS_MAX:
            del self._clients[next(iter(self._clients))]
        return faults


def _is_forgiven(faults: _Faults, now_s: float) -> bool:
    return now_s - faults.last_s > faults.pause_s + FORGIVEN_S
