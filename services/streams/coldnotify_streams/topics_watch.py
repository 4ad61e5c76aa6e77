"""Checks Kafka at intervals, in its own thread: the topics, their ends, and who serves them."""

import threading
import time
from collections.abc import Callable, Collection, Mapping

import structlog
from coldnotify_common.errors import ServiceError
from coldnotify_common.stop import StopFlag
from confluent_kafka.admin import AdminClient

from coldnotify_streams.core.events import Event, LogStarts, ReaderFailed
from coldnotify_streams.core.job import JobPartition
from coldnotify_streams.errors import RunFailure
from coldnotify_streams.lag import Lag
from coldnotify_streams.log_ends import log_ends, log_starts
from coldnotify_streams.unserved_partitions import Unserved

log = structlog.get_logger()

EVERY_S = 5.0
LOG_STARTS_EVERY_S = 60.0
"""Retention removes whole segments, and the shortest ones cover ten minutes."""
KAFKA_TIMEOUT_S = 5.0
"""Timeout of questions about topics."""

Followed = Callable[[], Mapping[int, JobPartition]]


class JobTopicsWatch(threading.Thread):
    """Checks until the run stops or its reader ends.

    If a topic was recreated or resized, everything read from it is worthless, and the run must fail.
    """

    def __init__(
        self,
        admin: AdminClient,
        stop: StopFlag,
        reads: Callable[[], bool],
        *,
        check_topics: Callable[[], None],
        hand_on: Callable[[Event], object],
        lag: Lag,
        owned: Mapping[int, JobPartition],
        followed: Followed,
        member: tuple[str, Callable[[], None], int],
        logs: Collection[str] = (),
    ) -> None:
        """`reads`: returns true while the run's reader reads. `hand_on` passes the run the Failure that `check_topics`
        raised.

        `owned`, `followed`: its partitions, which change meanwhile. `member`: the group, a function that joins it
        again, and the group's number of partitions. `logs`: topics whose first offsets the run gets at intervals.
        """
        super().__init__(name="topics-watcher", daemon=True)
        self._admin = admin
        self._stopping = stop
        self._reads = reads
        self._check_topics = check_topics
        self._hand_on = hand_on
        self._lag = lag
        self._owned = owned
        self._followed = followed
        self._logs = logs
        self._log_starts_at_s = 0.0
        self._group, self._join_again, self._partitions = member
        self.kafka_away: str | None = None
        """The reason why the last check failed; None if it succeeded."""

    def run(self) -> None:
        """The thread."""
        try:
            self._watch(Unserved(self._partitions))
        finally:
            self._lag.clear()

    def _watch(self, unserved: Unserved) -> None:
        while not self._stopping.wait(EVERY_S) and self._reads():
            try:
                self._check_topics()
            except RunFailure as error:
                self._hand_on(ReaderFailed(error))
                return
            except Exception as error:
                self.kafka_away = str(error)
                log.warning("cannot check the topics", error=str(error))
                continue
            self.kafka_away = None
            self._show_lag()
            self._tell_log_starts()
            if not unserved.settled and unserved.look(self._admin, self._group, KAFKA_TIMEOUT_S):
                self._join_again()

    def _show_lag(self) -> None:
        owned, followed = self._owned, self._followed()
        try:
            ends = log_ends(self._admin, self._lag.topics_of(owned, followed), uncommitted=True)
        except ServiceError as error:
            log.warning("cannot read the ends of the topics", error=str(error))
            return
        self._lag.show(owned, followed, ends)

    def _tell_log_starts(self) -> None:
        """Hands on the first offsets of the logs of owned partitions."""
        places = [(topic, number) for number in list(self._owned) for topic in self._logs]
        if not places or time.monotonic() - self._log_starts_at_s < LOG_STARTS_EVERY_S:
            return
        try:
            starts = log_starts(self._admin, places)
        except ServiceError as error:
            log.warning("cannot read the first offsets of the logs", error=str(error))
            return
        self._log_starts_at_s = time.monotonic()
        self._hand_on(LogStarts(starts))
