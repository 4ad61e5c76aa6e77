"""The matcher's job: whose step a record was of, and what its partitions begin with."""

from coldnotify_matcher.engine import Intervals, Rules
from coldnotify_matcher.matcher_job import MatcherJob
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.core.job import RecordRefused
from coldnotify_streams.core.partition_progress import OwningPhase
from coldnotify_testkit.engine_bench import CLUSTER

TOPICS = TopicNames()


def job(rules: Rules | None = None) -> MatcherJob:
    return MatcherJob(CLUSTER, "me", rules=rules or Rules(), registrations_max=100)


def test_a_record_that_kafka_does_not_take_is_of_the_partition_whose_step_wrote_it() -> None:
    inbox = internal_pb2.Inbox(format=1, partition=5, generation=1).SerializeToString()
    assert job().owner_of(RecordRefused(TOPICS.notifications, 2, inbox, "too large")) == 5
    assert job().owner_of(RecordRefused(TOPICS.sessions, 3, b"", "too large")) == 3
    assert job().owner_of(RecordRefused(TOPICS.rejected, 0, b"", "too large")) is None


def test_a_partition_begins_as_one_of_another_matcher_with_this_ones_rules() -> None:
    rules = Rules(conflation=Intervals(others_ms=300))
    one = job(rules).partition(3)
    assert (one.number, one.phase, one.engine.state.rules) == (3, OwningPhase.FOLLOWING, rules)
    assert job(rules).puts_off
    assert not job().puts_off
