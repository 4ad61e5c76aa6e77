"""Metrics of how far this member is behind the topics it reads: the records that it has not handled yet."""

from collections.abc import Mapping
from typing import NamedTuple

from prometheus_client import Gauge

from coldnotify_streams.core.events import Offsets
from coldnotify_streams.core.job import JobPartition
from coldnotify_streams.core.partition_progress import JobTopics, OwningPhase


class Gauges(NamedTuple):
    """The gauges of a job; all but `standing_by` are by partition."""

    requests: Gauge
    table: Gauge
    standby: Gauge
    """The lag of followed partitions."""
    standing_by: Gauge
    """The number of partitions that are followed and have been read to their ends."""
    logs: Gauge | None = None
    """By topic and partition; None if the job has no logs."""


class Lag:
    """Sets the gauges. One thread uses it; the partitions may change meanwhile."""

    def __init__(self, topics: JobTopics, gauges: Gauges) -> None:
        self._topics = topics
        self._gauges = gauges
        self._shown: set[tuple[Gauge, tuple[str, ...]]] = set()

    def topics_of(
        self, owned: Mapping[int, JobPartition], followed: Mapping[int, JobPartition]
    ) -> list[tuple[str, int]]:
        """Returns the (topic, partition) pairs whose ends `show` needs."""
        read = (self._topics.table, self._topics.requests, *self._topics.logs)
        inputs = [(topic, number) for number in list(owned) for topic in read]
        return inputs + [(topic, number) for number in list(followed) for topic in self._topics.compacted]

    def show(self, owned: Mapping[int, JobPartition], followed: Mapping[int, JobPartition], ends: Offsets) -> None:
        """Sets the gauges, and removes those of partitions that are no longer owned or followed."""
        lags: dict[tuple[Gauge, tuple[str, ...]], int] = {}
        for number, partition in list(owned.items()):
            for topic, gauge, handled in (
                (self._topics.table, self._gauges.table, partition.position),
                (self._topics.requests, self._gauges.requests, partition.requests_handled),
            ):
                if (topic, number) in ends:
                    lags[gauge, (str(number),)] = max(0, ends[topic, number] - handled)
            for log in self._topics.logs:
                if self._gauges.logs is not None and (log, number) in ends and log in partition.positions:
                    lag = max(0, ends[log, number] - partition.positions[log])
                    lags[self._gauges.logs, (log, str(number))] = lag
        up_to_date = 0
        for number, partition in list(followed.items()):
            if any((topic, number) not in ends for topic in self._topics.compacted):
                continue
            read = ((topic, partition.positions.get(topic, 0)) for topic in self._topics.compacted)
            lags[self._gauges.standby, (str(number),)] = sum(max(0, ends[topic, number] - at) for topic, at in read)
            up_to_date += partition.phase is OwningPhase.FOLLOWING and not partition.behind
        for gauge, labels in self._shown - lags.keys():
            gauge.remove(*labels)
        for (gauge, labels), lag in lags.items():
            gauge.labels(*labels).set(lag)
        self._shown = set(lags)
        self._gauges.standing_by.set(up_to_date)

    def clear(self) -> None:
        """Removes all gauges: nothing is read any more."""
        self.show({}, {}, {})
