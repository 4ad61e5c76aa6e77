"""The topics of a matcher, as they are when a run begins: their ids and sizes must not change while it lasts."""

from dataclasses import dataclass

from coldnotify_common.kafka import describe_topics
from coldnotify_schemas import topics
from coldnotify_streams.core.job import EPOCH_MARK
from coldnotify_streams.errors import Failure
from confluent_kafka.admin import AdminClient

from coldnotify_matcher.epoch import epoch_of

KAFKA_TIMEOUT_S = 5.0

_BESIDE = (topics.REQUESTS, topics.REGISTRATIONS, topics.SESSIONS)
"""The topics that have as many partitions as objects."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What must not change while a matcher runs: topics' ids and sizes."""

    partitions: int
    inboxes: int
    objects_topic_id: str
    requests_topic_id: str
    epoch: int
    state_topic_ids: tuple[str, ...] = ()
    """Of registrations and sessions: what was read from the ones of before is no longer what is durable."""

    @property
    def marks(self) -> dict[str, str]:
        """By topic, what offsets are committed with: its id, and the epoch behind it where an operator began another.

        Those of another topic do not count: a run commits until it notices that it was made anew. Those of another
        epoch do not say what was fanned out in this one: the first to take over in it may fail before it commits.
        """
        objects = self.objects_topic_id
        if self.epoch != epoch_of(objects, self.partitions, 0):
            objects += f"{EPOCH_MARK}{self.epoch:08x}"
        return {topics.REQUESTS: self.requests_topic_id, topics.OBJECTS: objects}


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
