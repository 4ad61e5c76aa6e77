"""Freshness: before which time everything that was acknowledged has been told to the live sessions of a partition.

A BeatAnswer says how old what the matcher has handled is. The age counts from when the answered Beat was sent, not from
when its answer came: the answer may have taken long, and nothing else proves when it was true.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from math import ceil
from typing import NamedTuple

from coldnotify_schemas.protocol import AGE_UNKNOWN_S, AGE_UNSAID_S

STALE_S = 20.0
"""Operators are shown live sessions whose age is above this. With nothing wrong it is a few seconds."""
UNKNOWN_S = float("-inf")
"""Nothing is known: everything may be missing."""
_BEATS_KEPT = 64
"""An answer to an older Beat says nothing: by then nothing of it is fresh."""


class Ages(NamedTuple):
    """The ages in a BeatAnswer, in ms; None: not known."""

    by_log: Mapping[int, int | None]
    held: Iterable[tuple[str, int | None]] = ()
    """By domain with held publishes: the age of its objects."""


class AgesSaid(NamedTuple):
    """The ages in a frame to a client, by stream, as `age_said` returns them."""

    objects: int = 0
    channels: int | None = None
    """None: they are not live."""


NO_AGE_SAID = AgesSaid()


class Freshness:
    """The freshness of one partition's live sessions. Times are seconds of the core's clock."""

    __slots__ = ("_as_of", "_held", "_sent")

    def __init__(self) -> None:
        self._sent: deque[tuple[int, float]] = deque(maxlen=_BEATS_KEPT)
        """Serials of Beats, and when they were sent."""
        self._as_of: dict[int | None, float] = {}
        """By log: everything acknowledged before that time has been told."""
        self._held: dict[str, float] = {}
        """The same in the objects' log, for domains with held publishes."""

    def sent(self, serial: int, now_s: float) -> None:
        """Notes when a Beat was sent."""
        self._sent.append((serial, now_s))

    def answered(self, serial: int, ages: Ages, objects: int) -> None:
        """Takes the ages of an answer that agrees and counts. `objects`: the name of the objects' log."""
        while self._sent and self._sent[0][0] < serial:
            self._sent.popleft()
        if not self._sent or self._sent[0][0] != serial:
            return
        sent_s = self._sent[0][1]
        for log, age_ms in ages.by_log.items():
            if age_ms is not None:
                self._as_of[log] = max(self._as_of.get(log, UNKNOWN_S), sent_s - age_ms / 1000)
        if ages.by_log.get(objects) is not None:
            self._held = {
                domain: UNKNOWN_S if age_ms is None else sent_s - age_ms / 1000 for domain, age_ms in ages.held
            }

    def forget(self) -> None:
        """Forgets everything, until the next answer that counts."""
        self._as_of.clear()
        self._held.clear()
        self._sent.clear()

    @property
    def oldest_s(self) -> float:
        """The time before which everything acknowledged has been told, of all logs and domains."""
        return min([*self._as_of.values(), *self._held.values()], default=UNKNOWN_S)

    def as_of(self, log: int | None, domain: str, *, objects: bool) -> float:
        """Returns the time before which everything acknowledged has been told to the domain's live sessions."""
        as_of_s = self._as_of.get(log, UNKNOWN_S)
        return min(as_of_s, self._held.get(domain, as_of_s)) if objects else as_of_s


def age_known_s(as_of_s: float, now_s: float) -> int | None:
    """Returns the age in seconds, rounded up; None: it is not known."""
    return None if as_of_s == UNKNOWN_S else max(0, ceil(now_s - as_of_s))


def age_said(as_of_s: float, now_s: float) -> int:
    """Returns the age as a frame says it: in seconds, rounded up; 0: at most AGE_UNSAID_S."""
    age_s = now_s - as_of_s
    if age_s <= AGE_UNSAID_S:
        return 0
    return min(AGE_UNKNOWN_S, ceil(age_s)) if age_s < AGE_UNKNOWN_S else AGE_UNKNOWN_S
