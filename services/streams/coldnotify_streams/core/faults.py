"""Decides which records a partition skips, and when it is reloaded, after handling something has raised. Pure.

Theory of operation ------------------- An exception leaves a partition in an unknown state, so that state is dropped
and reloaded without the record that is to blame. Other partitions continue meanwhile.

If a record was being handled when the exception was raised, that record is to blame. If a whole step was being made
durable, any of its records may be. Then nothing is set aside at first: the partition is reloaded and becomes *careful*,
which means that each record is a step of its own, up to where the failed step had come. The record whose step fails is
to blame. If a step without a record fails, the loaded state is to blame: the partition names what it was working on.

If nothing can be blamed, or one record after another fails, the partition waits, longer each time.
"""

from collections import deque
from collections.abc import Mapping

from coldnotify_streams.core.job import At, Place

RETRY_FIRST_S = 1.0
RETRY_MAX_S = 60.0
"""How long a partition waits if nothing can be blamed. The cause may pass, and reloading slows all other partitions."""
FAULTS_AT_ONCE_MAX = 20
FAULTS_WITHIN_S = 60.0
"""If so many records fail within this time, the partition waits between one and the next."""


class Faults:
    """The faults of one partition, over all the loads of a run."""

    def __init__(self) -> None:
        self.records: dict[Place, str] = {}
        """Set aside, and why."""
        self.stored: dict[str, str] = {}
        """Pieces of stored state that are set aside, by the job's names, and why."""
        self._careful_until: dict[str, int] = {}
        """The offset below which each record is a step of its own, by topic."""
        self._at_s: deque[float] = deque(maxlen=FAULTS_AT_ONCE_MAX)
        self._retry_s = RETRY_FIRST_S

    @property
    def careful(self) -> bool:
        """True if each record must be a step of its own."""
        return bool(self._careful_until)

    def reached(self, positions: Mapping[str, int]) -> None:
        """Notes that everything below these offsets (by topic) has been handled; ends the careful state once it is
        passed.
        """
        if all(positions.get(topic, 0) >= end for topic, end in self._careful_until.items()):
            self._careful_until.clear()
            self._retry_s = RETRY_FIRST_S

    def note(
        self, error: BaseException, *, sure: Place | None, suspect: At, positions: Mapping[str, int], now_s: float
    ) -> float:
        """Notes an exception. Returns after how many seconds the partition must be reloaded.

        `sure`: the record that was being handled, or the only one of its step. `suspect`: what the partition was
        working on. `positions`: by topic, the offsets up to which records had been taken in.
        """
        words = f"handling it raised {type(error).__name__}: {error}"
        if sure is not None and sure not in self.records:
            self.records[sure] = words
        elif not self.careful:
            self._careful_until = dict(positions)
        elif isinstance(suspect, tuple) and suspect not in self.records:
            self.records[suspect] = words
        elif isinstance(suspect, str) and suspect not in self.stored:
            self.stored[suspect] = words
        else:
            return self._longer_each_time()
        often = len(self._at_s) == FAULTS_AT_ONCE_MAX and now_s - self._at_s[0] < FAULTS_WITHIN_S
        self._at_s.append(now_s)
        return self._longer_each_time() if often else 0.0

    def _longer_each_time(self) -> float:
        wait_s, self._retry_s = self._retry_s, min(2 * self._retry_s, RETRY_MAX_S)
        return wait_s
