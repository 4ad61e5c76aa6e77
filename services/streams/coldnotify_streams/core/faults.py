"""What one partition goes on without, and when it is tried again, once something that it handles has raised. Pure.

Theory of operation
-------------------
An exception leaves a partition in a state that nobody has thought of, so the partition's state is dropped and loaded
anew, without the record that is to blame. Other partitions go on meanwhile.

Which record is to blame is certain where it was being handled when it raised. It is not where a whole step was made
durable: the step held many records. Then nothing is set aside at first. The partition is loaded anew and *careful*:
each record is a step of its own, up to where the failed step had come. The one whose step fails is to blame. What fails
in a step without a record is what was loaded: then the partition says what it was at.

If nothing can be blamed, or one record after the other fails, the partition waits, longer each time.
"""

from collections import deque
from collections.abc import Mapping

from coldnotify_streams.core.job import At, Place

RETRY_FIRST_S = 1.0
RETRY_MAX_S = 60.0
"""How long a partition waits that nothing can be blamed for. The cause may pass; loading it anew costs all others."""
FAULTS_AT_ONCE_MAX = 20
FAULTS_WITHIN_S = 60.0
"""So many records may fail within this time before the partition waits between one and the next."""


class Faults:
    """The faults of one partition, over all the loads of a run."""

    def __init__(self) -> None:
        self.records: dict[Place, str] = {}
        """Set aside, and why."""
        self.stored: dict[str, str] = {}
        """Pieces of stored state that are set aside, by the job's names, and why."""
        self._careful_until: dict[str, int] = {}
        """By topic: below this offset each record is a step of its own."""
        self._at_s: deque[float] = deque(maxlen=FAULTS_AT_ONCE_MAX)
        self._retry_s = RETRY_FIRST_S

    @property
    def careful(self) -> bool:
        """Whether each record is to be a step of its own."""
        return bool(self._careful_until)

    def reached(self, positions: Mapping[str, int]) -> None:
        """All below these offsets, by topic, has been handled. What was careful until there is careful no more."""
        if all(positions.get(topic, 0) >= end for topic, end in self._careful_until.items()):
            self._careful_until.clear()
            self._retry_s = RETRY_FIRST_S

    def note(
        self, error: BaseException, *, sure: Place | None, suspect: At, positions: Mapping[str, int], now_s: float
    ) -> float:
        """Something raised. Returns in how many seconds the partition is to be loaded anew.

        `sure`: the record that was being handled, or the only one of its step. `suspect`: what the partition was at.
        `positions`: by topic, the offsets up to which records had been taken in.
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
