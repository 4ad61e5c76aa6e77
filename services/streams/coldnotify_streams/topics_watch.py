"""What a run looks at in Kafka now and then, in a thread of its own: the topics, how far they go, who serves them."""

import threading
from collections.abc import Callable, Mapping

import structlog
from coldnotify_common.errors import ServiceError
from coldnotify_common.stop import StopFlag
from confluent_kafka.admin import AdminClient

from coldnotify_streams.core.job import JobPartition
from coldnotify_streams.errors import Failure
from coldnotify_streams.lag import Lag
from coldnotify_streams.log_ends import log_ends
from coldnotify_streams.unserved_partitions import Unserved

log = structlog.get_logger()

EVERY_S = 5.0
KAFKA_TIMEOUT_S = 5.0
"""For questions about topics."""

Followed = Callable[[], Mapping[int, JobPartition]]


class TopicsWatch(threading.Thread):
    """Looks until the run stops or its reader ends.

    A topic that was recreated or resized makes all that was read from it worthless: then the run is to fail.
    """

    def __init__(
        self,
        admin: AdminClient,
        stop: StopFlag,
        reads: Callable[[], bool],
        *,
        check_topics: Callable[[], None],
        fail: Callable[[BaseException], object],
        lag: Lag,
        owned: Mapping[int, JobPartition],
        followed: Followed,
        member: tuple[str, Callable[[], None], int],
    ) -> None:
        """`reads`: whether the run's reader still does. `check_topics` raises Failure: then `fail` ends the run.

        `owned`, `followed`: its partitions, which change meanwhile. `member`: the group, how to join it again, and how
        many partitions it shares out.
        """
        super().__init__(name="topics-watcher", daemon=True)
        self._admin = admin
        self._stopping = stop
        self._reads = reads
        self._check_topics = check_topics
        self._fail = fail
        self._lag = lag
        self._owned = owned
        self._followed = followed
        self._group, self._join_again, self._partitions = member
        self.kafka_away: str | None = None
        """Why the last look failed; None: it did not."""

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
            except Failure as error:
                self._fail(error)
                return
            except Exception as error:
                self.kafka_away = str(error)
                log.warning("topics cannot be looked at", error=str(error))
                continue
            self.kafka_away = None
            self._show_lag()
            if not unserved.settled and unserved.look(self._admin, self._group, KAFKA_TIMEOUT_S):
                self._join_again()

    def _show_lag(self) -> None:
        owned, followed = self._owned, self._followed()
        try:
            ends = log_ends(self._admin, self._lag.topics_of(owned, followed), uncommitted=True)
        except ServiceError as error:
            log.warning("how far the topics go is not known", error=str(error))
            return
        self._lag.show(owned, followed, ends)
