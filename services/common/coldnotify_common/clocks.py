"""Decides if this machine's clock can be trusted, by comparing it with others, before an irreversible act. Pure.

Theory of operation
-------------------
A process trusts a date only as long as several clocks agree on it. There are four kinds: the wall clock as it is; the
wall clock at the start plus the time that has passed since, which no step of the wall clock changes; Kafka's, which
stamps our records in topics with `LogAppendTime`; and those of other nodes, which stamp the records that we read. If
one of them is more than `APART_MS_MAX` away from our wall clock, they are *apart*, and nothing *allows* an act that
cannot be undone. The same holds if no other clock has reported its time recently. A record that was read late makes
its writer's clock look slow; waiting is right in that case, too.

An act rests on a period (so long after it was last seen a client is forgotten). It is allowed once the clocks have
agreed for that period, or for `AGREED_S` if that is less. Many such acts are *confirmed* after the period, or
`CONFIRMED_S`. For a short period, agreement for that period is enough: an act that comes too early is early by less.

Durations are measured by `now_ms`, which never jumps: it follows steps of the wall clock of less than a minute, but
slowly, and ignores larger ones. If the other clocks agree with the wall clock by now, and the time since the start
does not (a clock that was corrected), the wall clock is *adopted*: code that has measured by the time before starts
again. After that, acts wait for an hour.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

APART_MS_MAX = 60_000
"""NTP keeps clocks within less than a second, and a record waits for seconds. A clock that is off by a minute is
wrong."""
SAID_FOR_S = 120.0
"""Validity of another clock's reported time. Gateways and this process write several times meanwhile."""
KAFKA_EVERY_S = 30.0
"""Interval after which a record is written to ask for Kafka's time, if no other record of ours got Kafka's
timestamp."""
AGREED_S = 60.0
"""Most time services correct a clock that is wrong when a process starts within this time."""
CONFIRMED_S = 3600.0
ADOPTED_AFTER_S = 60.0
"""A wall clock is adopted if all others, except the time since our start, agree with it for so long."""
TOLD_AFTER_S = 10.0
"""Delay before a difference is reported, because another node's records may be read late for a moment."""
ALONE_TOLD_AFTER_S = 60.0
_FOLLOWS = 0.25
"""`now_ms` follows the wall clock by at most this fraction of the elapsed time, which is also the largest error of a
measured duration."""
_OTHERS_MAX = 1_000
"""Number of nodes whose clocks are kept; the one heard longest ago is removed first."""
WALL_SINCE_START, KAFKA = "this clock since the start", "Kafka's clock"
NOBODY = "nobody else says the time"
"""Stands for the other clocks among those that are apart, when no other clock has reported its time."""
_TOLD_S = {WALL_SINCE_START: 0.0, KAFKA: 0.0, NOBODY: ALONE_TOLD_AFTER_S}
"""Time that clocks have to be apart until that is reported, in s."""


class Trust(Protocol):
    """The interface for code that does what cannot be undone."""

    def allows(self, period_ms: int) -> bool:
        """Returns true if the clocks have agreed for long enough for one act that rests on this period."""

    def confirms(self, period_ms: int) -> bool:
        """Returns true if the clocks have agreed for long enough for many such acts."""

    def heard(self, name: str, stamp_ms: int) -> None:
        """Reports the time (Unix, ms) that a node stated in a record that was just read."""

    @property
    def latest_ahead_ms(self) -> int:
        """Lead of the latest of `now_ms`, the wall clock and Kafka's clock over `now_ms`; at least 0 (ms)."""

    @property
    def earliest_ahead_ms(self) -> int:
        """Lead of the earliest of these clocks over `now_ms`: 0, or negative (ms)."""


class Trusting:
    """A clock that is always right: for tests, and for code that does nothing irreversible."""

    latest_ahead_ms = earliest_ahead_ms = 0

    def allows(self, _period_ms: int) -> bool:
        """Returns true."""
        return True

    def confirms(self, _period_ms: int) -> bool:
        """Returns true."""
        return True

    def heard(self, name: str, stamp_ms: int) -> None:
        """Ignores the time."""


@dataclass(slots=True)
class _Said:
    """The time that a clock reported: `offset_ms` is added to the steady time."""

    offset_ms: float
    at_s: float
    took_ms: float = 0.0
    """The report may be older by up to this time."""

    def ahead_of(self, offset_ms: float) -> float:
        """Returns how far this clock is ahead of one with the given offset, at least; negative if it is behind (ms)."""
        if offset_ms < self.offset_ms:
            return self.offset_ms - offset_ms
        return min(0.0, self.offset_ms + self.took_ms - offset_ms)


class Clocks:
    """All clocks that this process knows. Call `look` first, and again before each use."""

    def __init__(self, on_apart: Callable[[Mapping[str, int]], None] = lambda _: None) -> None:
        """`on_apart`: called when the set of clocks that are apart changes; with an empty mapping once all agree
        again."""
        self._on_apart = on_apart
        self._steady_s = 0.0
        self._wall_ms = 0.0
        """The wall clock's offset at the last look."""
        self._start_ms: float | None = None
        """The wall clock's offset at the start, moved along with small corrections since."""
        self._offset_ms = 0.0
        """The offset of `now_ms`."""
        self._kafka: _Said | None = None
        self._others: dict[str, _Said] = {}
        self._others_behind_ms = 0
        """Lead of the earliest clock that is apart over the wall clock, at the last look: 0, or negative (ms)."""
        self._others_agree_since_s: float | None = None
        self._agree_since_s: float | None = None
        self._doubted = False
        """True for some time after the wall clock was adopted."""
        self.adopted = 0
        """Number of times the wall clock was adopted."""
        self._apart_since_s: dict[str, float] = {}
        self.apart: dict[str, int] = {}
        """The clocks that are apart from this one, by name, and how far each is ahead of it (ms). Another node's clock
        is included only after `TOLD_AFTER_S`, because its records may be read late, as after a start."""

    @property
    def now_ms(self) -> int:
        """The time that this process goes by (Unix, ms)."""
        return round(self._offset_ms + self._steady_s * 1000)

    @property
    def agreed_s(self) -> float:
        """Time for which all clocks have agreed while another clock reported its time, in s; 0 if they do not agree
        now."""
        return 0.0 if self._agree_since_s is None else self._steady_s - self._agree_since_s

    @property
    def alone(self) -> bool:
        """True if no other clock has reported its time recently."""
        return self._kafka is None and not self._others

    @property
    def knows_kafka(self) -> bool:
        """True if Kafka has stamped a record of ours recently."""
        return self._kafka is not None

    @property
    def kafka_is_due(self) -> bool:
        """True if it is time to ask Kafka again."""
        return self._kafka is None or self._steady_s - self._kafka.at_s >= KAFKA_EVERY_S

    @property
    def latest_ahead_ms(self) -> int:
        """Lead of the latest of `now_ms`, the wall clock and Kafka's clock over `now_ms`; at least 0 (ms)."""
        return round(max(0.0, *self._ahead_ms()))

    @property
    def earliest_ahead_ms(self) -> int:
        """Lead of the earliest of these clocks over `now_ms`: 0, or negative (ms).

        Kafka rejects a record that is far ahead of its own clock. As long as Kafka's clock is not known, the clock of
        the node that is furthest behind is used instead.
        """
        wall_ms, kafka_ms = self._ahead_ms()
        return round(min(0.0, wall_ms, wall_ms + self._others_behind_ms if self._kafka is None else kafka_ms))

    def allows(self, period_ms: int) -> bool:
        """Returns true if the clocks have agreed for long enough for one act that rests on this period."""
        needed_s = CONFIRMED_S if self._doubted else AGREED_S
        return self._agreed_for(min(period_ms / 1000, needed_s))

    def confirms(self, period_ms: int) -> bool:
        """Returns true if the clocks have agreed for long enough for many such acts."""
        return self._agreed_for(min(period_ms / 1000, CONFIRMED_S))

    def look(self, wall_ms: float, steady_s: float) -> int:
        """Reads the wall clock (Unix, ms) and a steady clock that never jumps (s). Returns `now_ms`."""
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
        """Reports Kafka's timestamp of a record of ours, which was sent `took_s` before the last look."""
        self._kafka = _Said(stamp_ms - self._steady_s * 1000, self._steady_s, took_s * 1000)

    def heard(self, name: str, stamp_ms: int) -> None:
        """Reports the time (Unix, ms) that a node stated in a record that was just read.

        The latest of a node's times within a minute counts, because a record that was read late makes its clock look
        slow.
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
        """Returns true if the time since the start agrees with the wall clock, also if the wall clock was just
        adopted."""
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
            self._start_ms = self._offset_ms  # many small steps do not add up to a large one
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
