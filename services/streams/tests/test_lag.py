"""What the lag gauges show: records that are not handled yet, of partitions that are served or followed now."""

from coldnotify_matcher import metrics
from coldnotify_matcher.matcher_partition import MatcherPartition
from coldnotify_matcher.run_topics import topics_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.lag import Gauges, Lag
from coldnotify_testkit.engine_bench import CLUSTER, EngineBench
from prometheus_client import REGISTRY

TOPICS = TopicNames()
JOB_TOPICS = topics_of(TOPICS)

COMPACTED = JOB_TOPICS.compacted


def new() -> Lag:
    gauges = Gauges(metrics.LAG_REQUESTS, metrics.LAG_OBJECTS, metrics.LAG_STANDBY, metrics.PARTITIONS_STANDBY)
    return Lag(JOB_TOPICS, gauges)


def value(name: str, partition: int) -> float | None:
    return REGISTRY.get_sample_value(f"coldnotify_matcher_{name}", {"partition": str(partition)})


def test_lag_shows_records_that_are_not_handled_yet() -> None:
    bench, lag = EngineBench(), new()
    bench.version("a", 1)
    bench.settle()
    owned = {3: bench.partition}
    bench.partition.requests_position = 4
    assert lag.topics_of(owned, {}) == [(TOPICS.objects, 3), (TOPICS.requests, 3)]

    lag.show(owned, {}, {(TOPICS.objects, 3): 11, (TOPICS.requests, 3): 6})
    assert value("lag_objects", 3) == 10
    assert value("lag_requests", 3) == 2

    lag.show(owned, {}, {(TOPICS.objects, 3): 1, (TOPICS.requests, 3): 0})
    assert value("lag_objects", 3) == 0
    assert value("lag_requests", 3) == 0, "ends are older than what was handled since: never below none"


def test_lag_of_a_partition_that_was_given_up_disappears() -> None:
    bench, lag = EngineBench(), new()
    lag.show({3: bench.partition}, {}, {(TOPICS.objects, 3): 11, (TOPICS.requests, 3): 6})
    assert value("lag_objects", 3) is not None

    lag.clear()
    assert value("lag_objects", 3) is None
    assert value("lag_requests", 3) is None


def test_a_followed_partition_counts_as_standing_by_once_read_to_its_end() -> None:
    one, lag = MatcherPartition(2, CLUSTER, "a", registrations_max=100), new()
    ends = {(topic, 2): 5 for topic in COMPACTED}
    assert lag.topics_of({}, {2: one}) == list(ends)

    def standing_by() -> float | None:
        return REGISTRY.get_sample_value("coldnotify_matcher_partitions_standby")

    one.on_end(TOPICS.objects, 5)
    lag.show({}, {2: one}, ends)
    assert value("lag_standby", 2) == 10
    assert standing_by() == 0
    for topic in COMPACTED:
        one.on_end(topic, 5)
    lag.show({}, {2: one}, ends)
    assert value("lag_standby", 2) == 0
    assert standing_by() == 1
    lag.clear()
    assert standing_by() == 0
