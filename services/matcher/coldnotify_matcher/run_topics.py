"""The topics of a matcher, as they are when a run begins: their ids and sizes must not change while it lasts."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coldnotify_common.kafka.kafka_clients import TopicForbidden, TopicMissing, describe_topics
from coldnotify_schemas.channels import Retention, Retentions
from coldnotify_schemas.protocol import REPEATS_KNOWN_OFFSETS
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.core.job import EPOCH_MARK
from coldnotify_streams.core.partition_progress import JobTopics
from coldnotify_streams.errors import RunFailure
from confluent_kafka.admin import AdminClient

from coldnotify_matcher.epoch import channels_epoch_of, epoch_of

KAFKA_TIMEOUT_S = 5.0


def topics_of(names: TopicNames) -> JobTopics:
    """Returns the topics of a matcher without channels."""
    return JobTopics(requests=names.requests, table=names.objects, state=(names.registrations, names.sessions))


class ChannelsLog(NamedTuple):
    """The log of the channels of one retention."""

    retention: Retention
    topic_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """The topics' ids and sizes, which must not change while a matcher runs."""

    partitions: int
    inboxes: int
    objects_topic_id: str
    requests_topic_id: str
    epoch: int
    state_topic_ids: tuple[str, ...] = ()
    """Ids of the topics of state: records read from former ones are not the durable ones any more."""
    logs: tuple[ChannelsLog, ...] = ()
    """Logs of the retentions that domains have. Empty: there are no channels."""
    shares: bool = False
    """True if there is the topic of shares of channels. Without it none is offered."""
    channels_missing: str = ""
    """The reason why there are none: a missing topic that `coldnotify topics apply` of this release would make."""
    names: TopicNames = field(default_factory=TopicNames)
    """The names of the topics."""

    @property
    def topics(self) -> JobTopics:
        """The topics that a matcher reads."""
        topics = topics_of(self.names)
        if not self.logs:
            return topics
        shares = (self.names.shares,) if self.shares else ()
        return topics._replace(
            state=(*topics.state, self.names.channels_state, *shares),
            logs=tuple(log.retention.topic(self.names) for log in self.logs),
            logs_before=REPEATS_KNOWN_OFFSETS,
        )

    @property
    def marks(self) -> dict[str, str]:
        """By topic, the mark that offsets are committed with: its id, and the epoch after it if an operator began
        another.

        Offsets of another topic do not count: a run commits until it notices that the topic was made again. Offsets of
        another epoch do not say what was fanned out in this one: the first owner in it may fail before it commits.
        """
        objects = self.objects_topic_id
        if self.epoch != epoch_of(objects, self.partitions, 0):
            objects += f"{EPOCH_MARK}{self.epoch:08x}"
        names = self.names
        logs = {log.retention.topic(names): f"{log.topic_id}{EPOCH_MARK}{log.epoch:08x}" for log in self.logs}
        return {names.requests: self.requests_topic_id, names.objects: objects, **logs}


def cluster_of(
    admin: AdminClient, names: TopicNames, epoch_counter: int, retentions: Retentions | None = None
) -> Cluster:
    """Returns the topics as they are now. Raises RunFailure if they do not fit together, ServiceError if they are not
    known.

    `retentions`: of domains' channels; None: the defaults. If their topics do not exist, as under release 0.1.0, there
    are no channels.
    """
    used = (retentions or Retentions()).used
    of_channels = (names.channels_state, *(retention.topic(names) for retention in used))
    beside = (names.requests, names.registrations, names.sessions)
    found, channels_missing = _describe(admin, (names.objects, names.notifications, *beside), of_channels)
    if not channels_missing:
        found |= _describe_shares(admin, names)
    objects = found[names.objects]
    inboxes = len(found[names.notifications].partitions)
    for topic in (*beside, *of_channels, names.shares):
        other = found.get(topic)
        if other is None:
            continue
        count = len(other.partitions)
        if count != len(objects.partitions):
            raise RunFailure(
                f"topic {topic} has {count} partitions, {names.objects} has {len(objects.partitions)}: "
                "they must have the same number, see `coldnotify topics plan`"
            )
    objects_id = str(objects.topic_id)
    epoch = epoch_of(objects_id, len(objects.partitions), epoch_counter)
    ids = {topic: str(other.topic_id) for topic, other in found.items()}
    partitions = len(objects.partitions)
    logs = [
        ChannelsLog(retention, id_, channels_epoch_of(id_, partitions, epoch_counter, retention))
        for retention in used
        if (id_ := ids.get(retention.topic(names))) is not None
    ]
    return Cluster(
        partitions,
        inboxes,
        objects_id,
        ids[names.requests],
        epoch,
        tuple(ids[topic] for topic in (*topics_of(names).state, names.channels_state, names.shares) if topic in ids),
        tuple(logs),
        names.shares in ids,
        channels_missing,
        names,
    )


def _describe(admin: AdminClient, needed: tuple[str, ...], of_channels: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    """Returns Kafka's descriptions of these, and the reason why those of channels are missing; "": they are not."""
    try:
        return describe_topics(admin, (*needed, *of_channels), KAFKA_TIMEOUT_S), ""
    except (TopicMissing, TopicForbidden):
        found = describe_topics(admin, needed, KAFKA_TIMEOUT_S)
    try:
        return found | describe_topics(admin, of_channels, KAFKA_TIMEOUT_S), ""
    except (TopicMissing, TopicForbidden) as error:
        return found, str(error)


def _describe_shares(admin: AdminClient, names: TopicNames) -> dict[str, Any]:
    try:
        return describe_topics(admin, (names.shares,), KAFKA_TIMEOUT_S)
    except (TopicMissing, TopicForbidden):
        return {}


def check_topics(
    admin: AdminClient, epoch_counter: int, expected: Cluster, retentions: Retentions | None = None
) -> None:
    """Raises RunFailure if they differ from those that a run began with, ServiceError if they are not known."""
    if cluster_of(admin, expected.names, epoch_counter, retentions) != expected:
        raise RunFailure("a topic was recreated or resized, or topics of channels are there that were not")
