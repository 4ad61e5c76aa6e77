"""What a run looks at in Kafka now and then, in a thread of its own: the topics, how far they go, who serves them."""

import threading
from collections.abc import Mapping

import structlog
from coldnotify_common.errors import ServiceError
from coldnotify_common.kafka import describe_topics
from coldnotify_common.stop import StopFlag
from coldnotify_schemas import topics
from confluent_kafka.admin import AdminClient

from coldnotify_matcher.epoch import epoch_of
from coldnotify_matcher.errors import Failure
from coldnotify_matcher.lag import Lag
from coldnotify_matcher.log_ends import log_ends
from coldnotify_matcher.partition import Cluster, Partition
from coldnotify_matcher.readers import Failed, RequestsReader
from coldnotify_matcher.settings import MatcherSettings
from coldnotify_matcher.unserved import Unserved

log = structlog.get_logger()

EVERY_S = 5.0
KAFKA_TIMEOUT_S = 5.0
"""For questions about topics."""

_BESIDE = (topics.REQUESTS, topics.REGISTRATIONS, topics.SESSIONS)
"""The topics that have as many partitions as objects."""


def cluster_of(admin: AdminClient, epoch_counter: int) -> Cluster:
    """The topics as they are now. Raises Failure if they do not fit together, ServiceError if they are not known."""
    found = describe_topics(admin, (topics.OBJECTS, topics.NOTIFICATIONS, *_BESIDE), KAFKA_TIMEOUT_S)
    objects, beside = found[topics.OBJECTS], {topic: found[topic] for topic in _BESIDE}
    inboxes = len(found[topics.NOTIFICATIONS].partitions)
    for topic, other in beside.items():
        count = len(other.partitions)
        if count != len(objects.partitions):
            raise Failure(
                f"topic {topic} has {count} partitions, {topics.OBJECTS} has {len(objects.partitions)}: "
                "they must have the same number, see `coldnotify topics plan`"
            )
    objects_id = str(objects.topic_id)
    epoch = epoch_of(objects_id, len(objects.partitions), epoch_counter)
    requests_id, *state_ids = (str(other.topic_id) for other in beside.values())
    return Cluster(len(objects.partitions), inboxes, objects_id, requests_id, epoch, tuple(state_ids))


def check_topics(admin: AdminClient, epoch_counter: int, expected: Cluster) -> None:
    """Raises Failure if they are not what a run began with, ServiceError if they are not known."""
    if cluster_of(admin, epoch_counter) != expected:
        raise Failure("a topic was recreated or resized")


class TopicsWatch(threading.Thread):
    """Looks until the run stops or its reader ends.

    A topic that was recreated or resized makes all that was read from it worthless: then the run is to fail.
    """

    def __init__(
        self,
        settings: MatcherSettings,
        admin: AdminClient,
        cluster: Cluster,
        stop: StopFlag,
        requests: RequestsReader,
        owned: Mapping[int, Partition],
        followed: Mapping[int, Partition],
    ) -> None:
        """`cluster`: as the run knows it. `owned`, `followed`: its partitions, which change meanwhile."""
        super().__init__(name="topics-watcher", daemon=True)
        self._settings = settings
        self._admin = admin
        self._cluster = cluster
        self._stopping = stop
        self._requests = requests
        self._owned = owned
        self._followed = followed
        self.kafka_away: str | None = None
        """Why the last look failed; None: it did not."""

    def run(self) -> None:
        """The thread."""
        lag = Lag()
        try:
            self._watch(lag, Unserved(self._cluster.partitions))
        finally:
            lag.clear()

    def _watch(self, lag: Lag, unserved: Unserved) -> None:
        while not self._stopping.wait(EVERY_S) and self._requests.is_alive():
            try:
                check_topics(self._admin, self._settings.epoch_counter, self._cluster)
            except Failure as error:
                self._requests.put(Failed(error))
                return
            except Exception as error:
                self.kafka_away = str(error)
                log.warning("topics cannot be looked at", error=str(error))
                continue
            self.kafka_away = None
            self._show_lag(lag)
            if not unserved.settled and unserved.look(self._admin, self._settings.matcher_group, KAFKA_TIMEOUT_S):
                self._requests.join_again()

    def _show_lag(self, lag: Lag) -> None:
        try:
            ends = log_ends(self._admin, lag.topics_of(self._owned, self._followed), uncommitted=True)
        except ServiceError as error:
            log.warning("how far the topics go is not known", error=str(error))
            return
        lag.show(self._owned, self._followed, ends)
