"""Whether this machine's clock can be believed: by others, before anything is done that cannot be undone. Pure.

Theory of operation
-------------------
A date is known by one clock only as long as others say the same. There are four kinds: the wall clock as it is; the one
that it was at the start, with the time that has passed since, which no step of the wall clock changes; Kafka's, which
stamps our records in topics with `LogAppendTime`; and those of other nodes, which stamp the records that we read. Where
one of them is more than `APART_MS_MAX` away from our wall clock, they are *apart*, and nothing *allows* an act that
cannot be undone; nor where nobody else has said the time of late. A record that was read late makes its writer's clock
look late. That is as good a reason to wait.

An act rests on a period (so long after it was last seen a client is forgotten). It is allowed once the clocks have
agreed for so long, or for `AGREED_S` if that is less. Many such acts are *confirmed* after the period, or
`CONFIRMED_S`. For a short period it is enough to have agreed for so long: what is done too early is early by less.

What only lasts is measured by `now_ms`, which never jumps: it follows the wall clock by steps of less than a minute,
but slowly, and does not follow any others. Where those others say that the wall clock is right by now, and the time
since the start is not (a clock that was set right), the wall clock is *adopted*: whoever has measured by the time
before begins anew. After that, acts wait for an hour.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

APART_MS_MAX = 60_000
"""NTP keeps clocks within less than a second, and a record waits for seconds. Whoever is off by a minute is wrong."""
SAID_FOR_S = 120.0
"""How long it counts what somebody said the time to be. Gateways and we ourselves write several times meanwhile."""
KAFKA_EVERY_S = 30.0
"""Kafka is asked again, by a record, if none of ours came to have its stamp for so long."""
AGREED_S = 60.0
"""A clock that is wrong when a process starts is set right within this by most that set clocks."""
CONFIRMED_S = 3600.0
ADOPTED_AFTER_S = 60.0
"""A clock that all others but our own past agree with for so long is right."""
TOLD_AFTER_S = 10.0
"""Another node's records may be read late for a moment. That is no news."""
ALONE_TOLD_AFTER_S = 60.0
_FOLLOWS = 0.25
"""`now_ms` follows the wall clock by so much of the time that passes: what lasts is measured wrong by that at most."""
_OTHERS_MAX = 1_000
"""Nodes whose clocks are remembered; the one that was heard longest ago is forgotten first."""
WALL_SINCE_START, KAFKA = "this clock since the start", "Kafka's clock"
NOBODY = "nobody else says the time"
"""Among the clocks that are apart, in the place of others' names."""
_TOLD_S = {WALL_SINCE_START: 0.0, KAFKA: 0.0, NOBODY: ALONE_TOLD_AFTER_S}
"""How long they have been apart when that is told."""


class Trust(Protocol):
    """What those need who do what cannot be undone."""

    def allows(self, period_ms: int) -> bool:
        """Whether the clocks have agreed for long enough to do what rests on such a period."""

    def confirms(self, period_ms: int) -> bool:
        """The same for doing it to many."""

    def heard(self, name: str, stamp_ms: int) -> None:
        """A node has said this time (Unix, ms) in a record that was just read."""

    @property
    def latest_ahead_ms(self) -> int:
        """How far the latest of `now_ms`, the wall clock and Kafka's is ahead of the first of these."""

    @property
    def earliest_ahead_ms(self) -> int:
        """The same for the earliest: 0, or negative."""


class Trusting:
    """The clock is right: for tests, and for whatever does nothing that cannot be undone."""

    latest_ahead_ms = earliest_ahead_ms = 0

    def allows(self, _period_ms: int) -> bool:
        """Always."""
        return True

    def confirms(self, _period_ms: int) -> bool:
        """Always."""
        return True

    def heard(self, name: str, stamp_ms: int) -> None:
        """Nothing is learnt from it."""


@dataclass(slots=True)
class _Said:
    """What a clock said: so many ms are to be added to the steady time."""

    offset_ms: float
    at_s: float
    took_ms: float = 0.0
    """It may have said so up to this much earlier."""

    def ahead_of(self, offset_ms: float) -> float:
        """How far it is ahead of a clock of this offset, at least; negative where it is behind (ms)."""
        if offset_ms < self.offset_ms:
            return self.offset_ms - offset_ms
        return min(0.0, self.offset_ms + self.took_ms - offset_ms)


class Clocks:
    """What this process knows of clocks. `look` comes first, and again before each use."""

    def __init__(self, on_apart: Callable[[Mapping[str, int]], None] = lambda _: None) -> None:
        """`on_apart`: called when other clocks are apart than before; none once all agree again."""
        self._on_apart = on_apart
        self._steady_s = 0.0
        self._wall_ms = 0.0
        """The wall clock's offset, as of the last look."""
        self._start_ms: float | None = None
        """The same as of the start, and as it has followed since."""
        self._offset_ms = 0.0
        """That of `now_ms`."""
        self._kafka: _Said | None = None
        self._others: dict[str, _Said] = {}
        self._others_behind_ms = 0
        """How far the earliest that is apart is behind the wall clock, as of the last look: 0, or negative."""
        self._others_agree_since_s: float | None = None
        self._agree_since_s: float | None = None
        self._doubted = False
        """The wall clock was adopted, and that is not long ago."""
        self.adopted = 0
        """How often the wall clock was."""
        self._apart_since_s: dict[str, float] = {}
        self.apart: dict[str, int] = {}
        """By name, the clocks that are apart from this one, and how far they are ahead of it (ms). Another node's is in
        here only after `TOLD_AFTER_S`: it may be that its records are read late, as after a start."""

    @property
    def now_ms(self) -> int:
        """The time that this process goes by (Unix)."""
        return round(self._offset_ms + self._steady_s * 1000)

    @property
    def agreed_s(self) -> float:
        """For how long all clocks have agreed, and somebody else has said the time; 0: that is not so now."""
        return 0.0 if self._agree_since_s is None else self._steady_s - self._agree_since_s

    @property
    def alone(self) -> bool:
        """Nobody else has said the time of late."""
        return self._kafka is None and not self._others

    @property
    def knows_kafka(self) -> bool:
        """Whether Kafka has stamped a record of ours of late."""
        return self._kafka is not None

    @property
    def kafka_is_due(self) -> bool:
        """Whether Kafka is to be asked again."""
        return self._kafka is None or self._steady_s - self._kafka.at_s >= KAFKA_EVERY_S

    @property
    def latest_ahead_ms(self) -> int:
        """How far the latest of `now_ms`, the wall clock and Kafka's is ahead of the first of these."""
        return round(max(0.0, *self._ahead_ms()))

    @property
    def earliest_ahead_ms(self) -> int:
        """The same for the earliest: 0, or negative. Kafka takes no record that is far ahead of its own clock.

        As long as Kafka's is not known, that of the node that is furthest behind stands for it.
        """
        wall_ms, kafka_ms = self._ahead_ms()
        return round(min(0.0, wall_ms, wall_ms + self._others_behind_ms if self._kafka is None else kafka_ms))

    def allows(self, period_ms: int) -> bool:
        """Whether the clocks have agreed for long enough to do what rests on such a period."""
        needed_s = CONFIRMED_S if self._doubted else AGREED_S
        return self._agreed_for(min(period_ms / 1000, needed_s))

    def confirms(self, period_ms: int) -> bool:
        """The same for doing it to many."""
        return self._agreed_for(min(period_ms / 1000, CONFIRMED_S))

    def look(self, wall_ms: float, steady_s: float) -> int:
        """What time it is: by the wall clock (Unix), and by one that never jumps. Returns `now_ms`."""
        wall_offset_ms = wall_ms - steady_s * 1000
        passed_s = max(0.0, steady_s - self._steady_s)
        self._steady_s = steady_s
        if self._start_ms is None:
            self._start_ms = self._offset_ms = self._wall_ms = wall_offset_ms
        stepped = abs(wall_offset_ms - self._wall_ms) > APART_MS_MAX
        self._wall_ms = wall_offset_ms
        self._forget_old()
        others = self._others_apart()
        self._others_behind_ms = min([0, *others.values()])
        if others or self.alone or stepped:
            self._others_agree_since_s = None
        elif self._others_agree_since_s is None:
            self._others_agree_since_s = steady_s
        if not self._look_at_start(passed_s):
            others[WALL_SINCE_START] = round(self._start_ms - wall_offset_ms)
            self._agree_since_s = None
        elif self._others_agree_since_s is None:
            self._agree_since_s = None
        elif self._agree_since_s is None:
            self._agree_since_s = steady_s
        if self._doubted and self.agreed_s >= CONFIRMED_S:
            self._doubted = False
        self._tell(others)
        return self.now_ms

    def on_kafka(self, stamp_ms: float, took_s: float) -> None:
        """Kafka has stamped a record of ours, which was sent `took_s` before the last look."""
        self._kafka = _Said(stamp_ms - self._steady_s * 1000, self._steady_s, took_s * 1000)

    def heard(self, name: str, stamp_ms: int) -> None:
        """A node has said this time (Unix, ms) in a record that was just read.

        Of what it says within a minute the latest time counts: what was read late says too little.
        """
        offset_ms = stamp_ms - self._steady_s * 1000
        before = self._others.get(name)
        if before is not None and offset_ms < before.offset_ms and self._steady_s - before.at_s < SAID_FOR_S / 2:
            return
        self._others.pop(name, None)
        self._others[name] = _Said(offset_ms, self._steady_s)
        if len(self._others) > _OTHERS_MAX:
            del self._others[next(iter(self._others))]

    def _tell(self, apart: Mapping[str, int]) -> None:
        steady_s = self._steady_s
        if self.alone:
            apart = {**apart, NOBODY: 0}
        self._apart_since_s = {name: self._apart_since_s.get(name, steady_s) for name in apart}
        told = {n: ms for n, ms in apart.items() if steady_s - self._apart_since_s[n] >= _TOLD_S.get(n, TOLD_AFTER_S)}
        changed = told.keys() != self.apart.keys()
        self.apart = told
        if changed:
            self._on_apart(told)

    def _look_at_start(self, passed_s: float) -> bool:
        """Whether the time since the start and the wall clock agree, which they may do by now because it is adopted."""
        assert self._start_ms is not None
        since_s = self._others_agree_since_s
        if abs(self._wall_ms - self._start_ms) > APART_MS_MAX:
            if since_s is None or self._steady_s - since_s < ADOPTED_AFTER_S:
                return False
            self._start_ms = self._offset_ms = self._wall_ms
            self._doubted = True
            self.adopted += 1
        most_ms = passed_s * 1000 * _FOLLOWS
        self._offset_ms += min(most_ms, max(-most_ms, self._wall_ms - self._offset_ms))
        if self.agreed_s >= CONFIRMED_S:
            self._start_ms = self._offset_ms  # many small steps are no large one
        return True

    def _agreed_for(self, seconds: float) -> bool:
        return self._agree_since_s is not None and self.agreed_s >= seconds

    def _others_apart(self) -> dict[str, int]:
        said = dict(self._others)
        if self._kafka is not None:
            said[KAFKA] = self._kafka
        ahead_ms = ((name, one.ahead_of(self._wall_ms)) for name, one in said.items())
        return {name: round(ms) for name, ms in ahead_ms if abs(ms) > APART_MS_MAX}

    def _ahead_ms(self) -> tuple[float, float]:
        kafka_ms = 0.0 if self._kafka is None else self._kafka.ahead_of(self._offset_ms)
        return self._wall_ms - self._offset_ms, kafka_ms

    def _forget_old(self) -> None:
        old_s = self._steady_s - SAID_FOR_S
        if self._kafka is not None and self._kafka.at_s < old_s:
            self._kafka = None
        while self._others:
            name, said = next(iter(self._others.items()))  # in the order in which they were heard
            if said.at_s >= old_s:
                break
            del self._others[name]
