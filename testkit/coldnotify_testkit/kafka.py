"""A real broker, and ColdNotify's topics made new on it."""

import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from coldnotify_kafka import topic_plan, topics
from coldnotify_kafka.broker import EmbeddedBroker, free_port, run
from coldnotify_kafka.broker.readiness import quiet_admin
from coldnotify_kafka.errors import TopicsNotAppliedError
from coldnotify_schemas.topics import DEFAULT_PREFIX, TopicNames
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
    TopicMetadata,
)

from coldnotify_testkit.waiting import WAIT_S

__all__ = ["broker", "committed", "compact_soon", "delete_topics", "free_port", "reset_topics"]

_OF_DEFAULT_GROUPS = "coldnotify"
_RESET_SECONDS_MAX = 200.0
"""0.3 s are usual; beside a load that took both cores, 60 were too few."""
_TRY_SECONDS_MAX = 40.0
"""For each try: one that began while the cluster had fenced its node would wait for five minutes (nodes_that_serve)."""
_POLL_SECONDS = 0.05
_COMPACTED_SOON = {
    "segment.ms": "100",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "1000",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "0",
}


@contextmanager
def broker(data_dir: Path | None = None) -> Iterator[EmbeddedBroker]:
    """A broker that is ready, on free ports and temporary data; both are gone at the end, also after Ctrl-C.

    Should the test run itself be killed, the broker still ends with it; its data then stay, and those in a `data_dir`
    of pytest's go with a later run. Raises BrokerError's subclasses.
    """
    try:
        with run(data_dir=data_dir) as running:
            yield running
    finally:
        if data_dir is not None:
            shutil.rmtree(data_dir, ignore_errors=True)


def reset_topics(bootstrap: str, partitions: int | None = None, *, keep_empty: bool = False) -> None:
    """Deletes all topics named coldnotify.* (and idle groups named coldnotify*), and creates ColdNotify's topics again,
    empty.

    `keep_empty`: keeps those of ColdNotify's topics that nothing was ever written to, with their ids, because creating
    a topic costs a tenth of a core-second. Raises TopicsNotAppliedError if it takes over 200 s.
    """
    specs = topics.load(partitions=partitions or topics.EMBEDDED_PARTITIONS)
    deadline = time.monotonic() + _RESET_SECONDS_MAX
    while True:
        try:
            return _try_to_reset(quiet_admin(bootstrap), specs, keep_empty=keep_empty)
        except (KafkaException, TimeoutError, TopicsNotAppliedError) as error:
            if time.monotonic() > deadline:
                raise TopicsNotAppliedError(f"not within {_RESET_SECONDS_MAX:.0f} s: {error}") from error
        time.sleep(_POLL_SECONDS)


def delete_topics(bootstrap: str, names: TopicNames) -> None:
    """Deletes all topics and idle groups of one installation: the next stack may have the prefix, or another one.

    Raises TopicsNotAppliedError if that takes over 200 s.
    """
    deadline = time.monotonic() + _RESET_SECONDS_MAX
    while True:
        try:
            return _try_to_delete(quiet_admin(bootstrap), names, kept=set())
        except (KafkaException, TimeoutError, TopicsNotAppliedError) as error:
            if time.monotonic() > deadline:
                raise TopicsNotAppliedError(f"not within {_RESET_SECONDS_MAX:.0f} s: {error}") from error
        time.sleep(_POLL_SECONDS)


def compact_soon(bootstrap: str, topic: str) -> None:
    """Has what stands in a topic compacted as soon as more is written."""
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in _COMPACTED_SOON.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(WAIT_S)


def committed(kafka: str, topic: str, partition: int, group: str) -> tuple[int, str]:
    """Returns the offset that a consumer group has committed (negative: none), and the metadata of the commit."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, partition)], timeout=WAIT_S)
        return found.offset, found.metadata or ""
    finally:
        consumer.close()


def _try_to_reset(admin: AdminClient, specs: Sequence[topics.TopicSpec], *, keep_empty: bool) -> None:
    _try_to_delete(admin, TopicNames(), kept=_empty(admin, specs) if keep_empty else set())
    topic_plan.apply(admin, specs, timeout=_TRY_SECONDS_MAX)


def _try_to_delete(admin: AdminClient, names: TopicNames, *, kept: Collection[str]) -> None:
    deadline = time.monotonic() + _TRY_SECONDS_MAX
    while left := [name for name in _there(admin) if name.startswith(names.prefix) and name not in kept]:
        if time.monotonic() > deadline:
            raise TopicsNotAppliedError(f"{', '.join(left)}: still there")
        for answer in admin.delete_topics(left, request_timeout=_TRY_SECONDS_MAX).values():
            # "Unknown" says that only the metadata is behind; whatever else it is, the next look shows it.
            _ignore_kafkas_no(answer)
        time.sleep(_POLL_SECONDS)
    _delete_idle_groups(admin, _OF_DEFAULT_GROUPS if names.prefix == DEFAULT_PREFIX else names.prefix)


def _empty(admin: AdminClient, specs: Sequence[topics.TopicSpec]) -> set[str]:
    """Returns those of the topics that exist with the right number of partitions, and never held a record."""
    there = _there(admin)
    wanted = {
        TopicPartition(spec.name, number): OffsetSpec.latest()  # type: ignore[no-untyped-call]
        for spec in specs
        if spec.name in there and len(there[spec.name].partitions) == spec.partitions
        for number in range(spec.partitions)
    }
    if not wanted:
        return set()
    written = set()
    for partition, answer in admin.list_offsets(wanted, request_timeout=_TRY_SECONDS_MAX).items():
        try:
            untouched = answer.result(_TRY_SECONDS_MAX).offset == 0
        except KafkaException:
            # Just being made or deleted, perhaps: then it is made anew.
            untouched = False
        if not untouched:
            written.add(partition.topic)
    return {partition.topic for partition in wanted} - written


def _there(admin: AdminClient) -> dict[str, TopicMetadata]:
    metadata = admin.list_topics(timeout=_TRY_SECONDS_MAX)
    if not metadata.brokers:
        raise TopicsNotAppliedError("no node serves")
    return metadata.topics


def _delete_idle_groups(admin: AdminClient, beginning: str) -> None:
    """A group's commits go with its topics; its members' names and its generation go only with the group."""
    listing = admin.list_consumer_groups(request_timeout=_TRY_SECONDS_MAX).result(_TRY_SECONDS_MAX)
    groups = [group.group_id for group in listing.valid if group.group_id.startswith(beginning)]
    if groups:
        for answer in admin.delete_consumer_groups(groups, request_timeout=_TRY_SECONDS_MAX).values():
            # One that a test left members in cannot be deleted: that is for its next user to notice.
            _ignore_kafkas_no(answer)


def _ignore_kafkas_no(answer: "Future[Any]") -> None:
    with suppress(KafkaException):
        answer.result(_TRY_SECONDS_MAX)
