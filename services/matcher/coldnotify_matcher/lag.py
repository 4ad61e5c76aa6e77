"""How far this matcher is behind the topics it reads, as metrics: what stands in them and is not handled yet."""

from collections.abc import Mapping

from coldnotify_schemas import topics
from prometheus_client import Gauge

from coldnotify_matcher import metrics
from coldnotify_matcher.partition import COMPACTED, Partition, Phase

_INPUTS = {topics.OBJECTS: metrics.LAG_OBJECTS, topics.REQUESTS: metrics.LAG_REQUESTS}

Ends = Mapping[tuple[str, int], int]
"""By (topic, partition), the offset that its next record will get."""


class Lag:
    """What the gauges show. Used by one thread; the partitions may change meanwhile."""

    def __init__(self) -> None:
        self._shown: set[tuple[Gauge, str]] = set()

    def topics_of(self, owned: Mapping[int, Partition], followed: Mapping[int, Partition]) -> list[tuple[str, int]]:
        """The (topic, partition) of which `show` needs the ends."""
        inputs = [(topic, number) for number in list(owned) for topic in _INPUTS]
        return inputs + [(topic, number) for number in list(followed) for topic in COMPACTED]

    def show(self, owned: Mapping[int, Partition], followed: Mapping[int, Partition], ends: Ends) -> None:
        """Set the gauges, and forget the partitions that are neither owned nor followed any more."""
        lags: dict[tuple[Gauge, str], int] = {}
        for number, partition in list(owned.items()):
            handled = {topics.OBJECTS: partition.engine.position, topics.REQUESTS: partition.requests_handled}
            for topic, gauge in _INPUTS.items():
                if (topic, number) in ends:
                    lags[gauge, str(number)] = max(0, ends[topic, number] - handled[topic])
        up_to_date = 0
        for number, partition in list(followed.items()):
            if any((topic, number) not in ends for topic in COMPACTED):
                continue
            missing = {topic: max(0, ends[topic, number] - partition.positions.get(topic, 0)) for topic in COMPACTED}
            lags[metrics.LAG_STANDBY, str(number)] = sum(missing.values())
            up_to_date += partition.phase is Phase.FOLLOWING and not partition.behind
        for gauge, label in self._shown - lags.keys():
            gauge.remove(label)
        for (gauge, label), lag in lags.items():
            gauge.labels(label).set(lag)
        self._shown = set(lags)
        metrics.PARTITIONS_STANDBY.set(up_to_date)

    def clear(self) -> None:
        """Nothing is read any more."""
        self.show({}, {}, {})
