"""Faults of the usage job, drawn beside a schedule's others: a worker is killed, stands still, or gets a second one."""

from collections.abc import Collection, Iterator
from random import Random
from typing import NamedTuple

KILLED, PAUSED, DOUBLED = "usage_killed", "usage_paused", "usage_doubled"
WORKERS = ("usage-1", "usage-2")
"""The second runs only while the job is doubled."""
_EVERY_S = 10.0
"""On average. A worker that was killed has its partitions again after some 10 s."""
_FIRST_S = 2.0
_TAIL_S = 1.0
_REST_S = 1.0
_DURATION_S = {
    KILLED: (0.1, 5.0),
    # Shorter than its session, or longer: then it wakes as one whose partitions another has taken over.
    PAUSED: (0.5, 10.0),
    DOUBLED: (3.0, 15.0),
}


class DrawnFault(NamedTuple):
    """One fault."""

    kind: str
    target: str
    at_s: float
    healed_s: float


def draw(random: Random, seconds: float, kinds: Collection[str]) -> Iterator[DrawnFault]:
    """Those that begin within `seconds`, of these kinds, as far as they are the usage job's."""
    wanted = [kind for kind in _DURATION_S if kind in kinds]
    busy_until_s = dict.fromkeys(WORKERS, 0.0)
    at_s = _FIRST_S + random.expovariate(1 / _EVERY_S)
    while wanted and at_s < seconds - _TAIL_S:
        kind = random.choice(wanted)
        target = WORKERS[kind == DOUBLED]
        duration_s = random.uniform(*_DURATION_S[kind])
        if at_s >= busy_until_s[target]:
            yield DrawnFault(kind, target, at_s, at_s + duration_s)
            busy_until_s[target] = at_s + duration_s + _REST_S
        at_s += random.expovariate(1 / _EVERY_S)
