"""The matcher as a job: the partitions of one run of it, and the spans of its steps."""

from collections.abc import Mapping
from typing import Protocol

from coldnotify_schemas import internal_pb2
from coldnotify_streams.core.events import JobRecord
from coldnotify_streams.core.job import RecordRefused
from coldnotify_streams.core.partition_progress import JobTopics

from coldnotify_matcher.engine import Rules
from coldnotify_matcher.matcher_partition import MatcherPartition
from coldnotify_matcher.run_topics import Cluster


class Traced(Protocol):
    """Begins the span of a publish."""

    def __call__(self, record: JobRecord, traceparent: str) -> str:
        """Returns the span's own traceparent."""


class MatcherJob:
    """Makes the partitions of one run. `owner` tells it from all others."""

    partition_type = MatcherPartition

    def __init__(
        self,
        cluster: Cluster,
        owner: str,
        *,
        rules: Rules,
        registrations_max: int,
        traced: Traced | None = None,
    ) -> None:
        self._cluster = cluster
        self._owner = owner
        self._rules = rules
        self._registrations_max = registrations_max
        self._traced = traced
        self._unfinished: set[int] = set()

    @property
    def topics(self) -> JobTopics:
        """Topics of requests, objects, the state of clients, and channels if there are any."""
        return self._cluster.topics

    @property
    def partitions(self) -> int:
        """Number of partitions."""
        return self._cluster.partitions

    @property
    def marks(self) -> Mapping[str, str]:
        """By topic, the mark that offsets are committed with."""
        return self._cluster.marks

    @property
    def puts_off(self) -> bool:
        """True if publishes are held back, or unfinished work has to go on."""
        return self._rules.conflation.holds or self._rules.allowances.any or bool(self._unfinished)

    def partition(self, number: int) -> MatcherPartition:
        """Returns a partition without any state yet."""
        return self.partition_type(
            number,
            self._cluster,
            self._owner,
            registrations_max=self._registrations_max,
            rules=self._rules,
            traced=self._traced,
            unfinished=self._unfinished,
        )

    def owner_of(self, refused: RecordRefused) -> int | None:
        """Returns the partition whose step contained a record that Kafka does not take."""
        if refused.topic == self._rules.topics.rejected:
            return None
        if refused.topic == self._rules.topics.notifications:
            return internal_pb2.Inbox.FromString(refused.value or b"").partition
        return refused.partition
