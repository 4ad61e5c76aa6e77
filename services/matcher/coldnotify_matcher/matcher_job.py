"""The matcher as a job: which partitions a run of it has, and what its steps are traced as."""

from collections.abc import Mapping
from typing import Protocol

from coldnotify_schemas import internal_pb2
from coldnotify_streams.core.events import JobRecord
from coldnotify_streams.core.job import JobTopics, RecordRefused

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
        """Requests, objects, the state of clients, and channels if there are any."""
        return self._cluster.topics

    @property
    def partitions(self) -> int:
        """How many there are."""
        return self._cluster.partitions

    @property
    def marks(self) -> Mapping[str, str]:
        """By topic, what offsets are committed with."""
        return self._cluster.marks

    @property
    def puts_off(self) -> bool:
        """Whether publishes are held back, or something that was begun is to be gone on with."""
        return self._rules.conflation.holds or self._rules.allowances.any or bool(self._unfinished)

    def partition(self, number: int) -> MatcherPartition:
        """A partition of which nothing is known yet."""
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
        """The partition whose step a record was of that Kafka does not take."""
        if refused.topic == self._rules.topics.rejected:
            return None
        if refused.topic == self._rules.topics.notifications:
            return internal_pb2.Inbox.FromString(refused.value or b"").partition
        return refused.partition
