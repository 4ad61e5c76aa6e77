"""A partition that is followed before it is assigned: what was followed and is loaded on is as if loaded anew."""

import json
from collections.abc import Mapping
from random import Random

import pytest
from coldnotify_matcher.matcher_partition import MatcherPartition
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.core.partition_progress import OwningPhase
from coldnotify_streams.errors import NewerFormat
from coldnotify_testkit.engine_bench import CLUSTER, DOMAIN, PARTITION, PARTITIONS, PREFIX, BenchLog
from coldnotify_testkit.partition_bench import COMPACTED, KEY, bucket, claim, handled_on, own, record, session

TOPICS = TopicNames()

OTHER_GROUP = next(g for g in map(str, range(100)) if partition_of(DOMAIN, g, PARTITIONS) != PARTITION)


def test_what_was_followed_and_is_then_loaded_is_as_if_loaded_from_the_beginning() -> None:
    """Objects, strays, records that are rejected, incarnations and registrations; any commit, any point reached."""
    random = Random(1)
    for _ in range(300):
        log = BenchLog()
        for _ in range(random.randint(1, 25)):
            append_anything(log, random)
        ends = {topic: len(records) for topic, records in log.records.items()}
        committed = random.randint(0, ends[TOPICS.objects])
        reached = {topic: random.randint(0, end) for topic, end in ends.items()}

        cold = MatcherPartition(PARTITION, CLUSTER, "a", registrations_max=100)
        cold.load(dict.fromkeys(ends, 0), ends, handled_on(committed))
        read(cold, log, dict.fromkeys(ends, 0))
        warm = MatcherPartition(PARTITION, CLUSTER, "a", registrations_max=100)
        for topic, end in reached.items():
            for one in log.records[topic][:end]:
                warm.on_record(one, 0)
            warm.on_end(topic, end)
        starts = dict.fromkeys(ends, 0)
        assert warm.can_load_on(starts, ends, handled_on(committed))
        begin = warm.load(starts, ends, handled_on(committed))
        assert all(begin[topic] <= reached[topic] for topic in ends)
        read(warm, log, begin)

        assert own(warm).engine.state.generation == own(cold).engine.state.generation
        assert warm.engine.take_step(0) == cold.engine.take_step(0)
        assert state_of(warm) == state_of(cold)


def append_anything(log: BenchLog, random: Random) -> None:
    name, n = random.choice("ab"), random.randint(1, 6)
    match random.randint(0, 7):
        case 0 | 1:
            log.append(TOPICS.objects, f"{PREFIX}{name}".encode(), b'{"version":%d}' % n)
        case 2:
            log.append(TOPICS.objects, f"{PREFIX}{name}".encode(), b'{"version":%d,"incarnation":%d}' % (n, n // 3))
        case 3:
            log.append(TOPICS.objects, random.choice((b"x", f"{PREFIX}{name}".encode())), b"nonsense")
        case 4:
            value = random.choice((None, b'{"version":%d}' % n))
            log.append(TOPICS.objects, f"{DOMAIN}/{OTHER_GROUP}/{name}".encode(), value)
        case 5:
            value = random.choice((b"null", json.dumps(bucket(name, generation=n, applied=n)).encode()))
            log.append(TOPICS.registrations, f"{KEY}/0".encode(), value if value != b"null" else None)
        case 6:
            log.append(TOPICS.sessions, KEY.encode(), json.dumps(session(generation=n, cursor=n)).encode())
        case 7:
            log.append(TOPICS.sessions, b"@generation", json.dumps(claim(n, "b")).encode())


def read(one: MatcherPartition, log: BenchLog, begin: Mapping[str, int]) -> None:
    for topic, records in log.records.items():
        for each in records[begin[topic] :]:
            one.on_record(each, 0)
    assert one.loaded


def state_of(one: MatcherPartition) -> object:
    objects = {
        obj.key: (obj.incarnation, obj.version, obj.offset, obj.last_offset, obj.registered)
        for obj in one.engine.state.objects.values()
    }
    clients = {
        c.key: (c.cursor, c.digest, sorted(obj.name for obj in c.objects())) for c in one.engine.state.clients.values()
    }
    return objects, clients, one.engine.state.position


@pytest.mark.parametrize(
    ("starts", "ends", "committed"),
    [(0, 1, 1), (3, 9, 5), (0, 9, None)],
    ids=["the topics were made anew", "what was not read yet is gone", "nothing was committed"],
)
def test_what_was_followed_may_be_worth_nothing(starts: int, ends: int, committed: int | None) -> None:
    one = MatcherPartition(PARTITION, CLUSTER, "a", registrations_max=100)
    for topic in COMPACTED:
        assert not one.can_load_on(dict.fromkeys(COMPACTED, 0), dict.fromkeys(COMPACTED, 5), handled_on(0))
        one.on_end(topic, 2)
    assert one.can_load_on(dict.fromkeys(COMPACTED, 0), dict.fromkeys(COMPACTED, 5), handled_on(0))

    assert not one.can_load_on(dict.fromkeys(COMPACTED, starts), dict.fromkeys(COMPACTED, ends), handled_on(committed))


def test_a_record_of_a_later_release_that_was_followed_is_refused_at_the_takeover() -> None:
    one = MatcherPartition(PARTITION, CLUSTER, "a", registrations_max=100)
    one.on_record(record(TOPICS.sessions, KEY, session() | {"format": 4}), 0)
    ends = dict.fromkeys(COMPACTED, 0) | {TOPICS.sessions: 1}
    for topic, end in ends.items():
        one.on_end(topic, end)
    starts = dict.fromkeys(COMPACTED, 0)
    assert one.can_load_on(starts, ends, handled_on(0))
    assert one.load(starts, ends, handled_on(0)) == ends, "the record is not read again"

    assert one.loaded
    with pytest.raises(NewerFormat, match="format 4"):
        one.claim()
    assert one.phase is OwningPhase.LOADING
    assert one.take_repairs() == []


def test_strays_that_were_moved_are_not_kept_while_following() -> None:
    one = MatcherPartition(PARTITION, CLUSTER, "a", registrations_max=100)
    for offset in range(0, 2000, 2):
        key = f"{DOMAIN}/{OTHER_GROUP}/{offset}"
        one.on_record(record(TOPICS.objects, key, {"version": 1}, offset), 0)
        one.on_record(record(TOPICS.objects, key, None, offset + 1), 0)

    assert not one.engine._strays._moves


def test_claims_by_others_are_normal_while_following() -> None:
    one = MatcherPartition(PARTITION, CLUSTER, "a", registrations_max=100)
    for offset in range(3):
        one.on_record(record(TOPICS.sessions, "@generation", claim(offset + 4, "b"), offset), 0)
    one.load(dict.fromkeys(COMPACTED, 0), dict.fromkeys(COMPACTED, 0), handled_on(0))

    assert own(one).engine.state.generation == 7
