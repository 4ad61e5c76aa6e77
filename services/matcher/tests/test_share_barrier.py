"""The barrier of shares at a takeover: a matcher handles no requests before it has read back its marker, and until then
its predecessor's records count.

Stands for: matcher_partition, stored_state, generations
"""

import json
from dataclasses import replace

from coldnotify_matcher.matcher_partition import MatcherPartition
from coldnotify_matcher.run_topics import ChannelsLog
from coldnotify_schemas.channels import Retention
from coldnotify_schemas.matcher_state import GENERATION_KEY
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.core.job import Ends, LogBounds
from coldnotify_streams.core.partition_turns import never
from coldnotify_testkit.channels_bench import LOG_EPOCH
from coldnotify_testkit.engine_bench import CLUSTER, PARTITION, PREFIX
from coldnotify_testkit.partition_bench import handled_on, record

TOPICS = TopicNames()
LOG = ChannelsLog(Retention.DAY, "log-id", LOG_EPOCH)
KEY = f"{PREFIX}workers/tasks"


def share(generation: int, applied: int, base: int) -> dict[str, object]:
    return {"format": 1, "generation": generation, "applied": applied, "epoch": LOG_EPOCH, "base": base}


def owned() -> MatcherPartition:
    """A partition that is taken over, behind a predecessor of generation 1, which has written a share."""
    cluster = replace(CLUSTER, shares=True, logs=(LOG,))
    one = MatcherPartition(PARTITION, cluster, "a", registrations_max=100)
    one.load(dict.fromkeys(cluster.topics.compacted, 0), dict.fromkeys(cluster.topics.compacted, 0), handled_on())
    one.on_record(record(TOPICS.shares, KEY, share(1, 3, 4)), 0)
    one.on_record(record(TOPICS.sessions, GENERATION_KEY, one.claim().value, 1000), 0)
    one.own(0, Ends(requests=10, table=0, logs={TOPICS.channels_1d: LogBounds(100, 0, 100)}))
    return one


def turn(one: MatcherPartition) -> list[tuple[str, bytes | None]]:
    """A turn: the topics and keys of its state records."""
    one.begin_turn(never, 1.0)
    return [(written.topic, written.key) for written in one.take_step(0).state]


def test_requests_wait_until_its_marker_behind_the_takeover_is_read_back() -> None:
    one = owned()
    assert bool(one.waits)
    assert (TOPICS.shares, GENERATION_KEY.encode()) not in turn(one)  # that step tells gateways of the takeover
    one.begin_turn(never, 1.0)
    (marker,) = [written for written in one.take_step(0).state if written.key == GENERATION_KEY.encode()]
    assert (marker.topic, one.waits) == (TOPICS.shares, True)

    one.on_record(record(TOPICS.shares, KEY, share(1, 5, 7), 20), 0)  # the predecessor's, behind the claim
    assert one.engine.state.shares.by_key == {}
    one.on_record(record(TOPICS.shares, GENERATION_KEY, marker.value, 21), 0)
    one.begin_turn(never, 1.0)

    assert [one.waits] == [False]
    assert one.engine.state.shares.by_key[KEY].rule.base == 7


def test_the_marker_of_another_matcher_is_not_its_own() -> None:
    one = owned()
    turn(one)
    one.begin_turn(never, 1.0)
    (marker,) = [written for written in one.take_step(0).state if written.key == GENERATION_KEY.encode()]
    other = json.loads(marker.value or b"") | {"owner": "b"}
    for value in (other, None, {"format": 1}):
        one.on_record(record(TOPICS.shares, GENERATION_KEY, value, 21), 0)
        one.begin_turn(never, 1.0)
        assert one.waits


def test_a_record_of_a_lower_generation_is_overwritten_behind_the_marker() -> None:
    one = owned()
    turn(one)
    one.begin_turn(never, 1.0)
    (marker,) = [written for written in one.take_step(0).state if written.key == GENERATION_KEY.encode()]
    one.on_record(record(TOPICS.shares, GENERATION_KEY, marker.value, 21), 0)
    turn(one)
    one.on_record(record(TOPICS.shares, KEY, share(1, 9, 90), 22), 0)

    assert (TOPICS.shares, KEY.encode()) in turn(one)
    assert one.engine.state.shares.by_key[KEY].rule.base == 4


def test_a_share_that_nothing_can_have_written_is_set_aside() -> None:
    for bad in (share(1, 10, 4), share(1, 3, 1 << 40)):
        one = owned()
        one.on_record(record(TOPICS.shares, KEY, bad, 1), 0)
        turn(one)
        one.begin_turn(never, 1.0)
        (marker,) = [written for written in one.take_step(0).state if written.key == GENERATION_KEY.encode()]
        one.on_record(record(TOPICS.shares, GENERATION_KEY, marker.value, 21), 0)

        written = turn(one)
        assert (TOPICS.rejected, KEY.encode()) in written
        assert one.engine.state.shares.by_key == {}
