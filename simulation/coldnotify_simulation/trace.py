"""Records what happened, in order, for a person to read; and the same as a history for the checker."""

from collections import deque
from collections.abc import Iterator

from coldnotify_simulation.clock import START_S, Clock

_LINES_MAX = 20_000


class Trace:
    """Notes what each part does. Nothing is formatted before somebody reads it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._notes: deque[tuple[float, str, tuple[object, ...]]] = deque(maxlen=_LINES_MAX)
        self.history: list[dict[str, object]] = []
        """Events as coldnotify_checker reads them, `t` in microseconds."""

    def __call__(self, who: str, *what: object) -> None:
        """Note something."""
        self._notes.append((self._clock.now_s, who, what))

    @property
    def now_us(self) -> int:
        """Unix time in microseconds."""
        return round(self._clock.now_s * 1_000_000)

    def event(self, event: str, **fields: object) -> int:
        """An event of the history, at its time, which is returned."""
        t = self.now_us
        self.history.append({"t": t, "event": event, **fields})
        return t

    def retract(self, event: str, *unless: str, **fields: object) -> None:
        """The last such event of the history was none after all: power was lost before the call returned. Nothing is
        retracted if one of the events `unless` came behind it.
        """
        for at in range(len(self.history) - 1, -1, -1):
            one = self.history[at]
            if one["event"] in (event, *unless) and fields.items() <= one.items():
                if one["event"] == event:
                    del self.history[at]
                return

    def lines(self) -> Iterator[str]:
        """All of it, seconds since the beginning first."""
        for at_s, who, what in self._notes:
            yield f"{at_s - START_S:9.3f}  {who:<10} " + " ".join(str(one) for one in what)
