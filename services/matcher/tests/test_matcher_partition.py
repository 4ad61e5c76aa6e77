"""A partition on its way to being owned: loaded to where its topics ended, claimed, and given up to a later claim."""

import json
from collections.abc import Mapping
from random import Random

import pytest
from coldnotify_matcher.engine import Write
from coldnotify_matcher.epoch import epoch_of
from coldnotify_matcher.matcher_partition import Partition
from coldnotify_matcher.record_headers import Headers, headers_of
from coldnotify_matcher.run_topics import TOPICS, Cluster
from coldnotify_schemas import topics
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.internal_pb2 import Request
from coldnotify_schemas.matcher_state import (
    BUCKET_OBJECTS_MAX,
    GENERATIONS_ALWAYS_BELIEVED,
    ended_by_header,
    generation_max,
)
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import PLACE_HEADER
from coldnotify_streams.core.events import Record, Takeover
from coldnotify_streams.core.job import Ends, PendingRequests, Phase
from coldnotify_streams.errors import NewerFormat, TakenOver
from coldnotify_testkit.engine_bench import (
    CLUSTER,
    DOMAIN,
    EPOCH,
    GATEWAY,
    PARTITION,
    PARTITIONS,
    PREFIX,
    Bench,
    Log,
    closed,
)

KEY = f"{PREFIX}client-1"
ENDS = Ends(requests=1000, table=1000)
COMPACTED = TOPICS.compacted
OTHER_GROUP = next(g for g in map(str, range(100)) if partition_of(DOMAIN, g, PARTITIONS) != PARTITION)


def handled_on(
    table_committed: int | None = None, *, requests_start: int = 0, requests_committed: bool = True
) -> Takeover:
    return Takeover(
        requests_start=requests_start,
        requests_committed=requests_committed,
        table_committed=table_committed,
        table_in_epoch=True,
    )


def partition(owner: str = "a", *, cluster: Cluster = CLUSTER, **ends: int) -> Partition:
    one = Partition(PARTITION, cluster, owner, registrations_max=100)
    ends = {topic: ends.get(topic.rpartition(".")[2], 0) for topic in COMPACTED}
    one.load(dict.fromkeys(COMPACTED, 0), ends, handled_on())
    return one


def record(topic: str, key: str | bytes, value: object, offset: int = 0, headers: Headers = ()) -> Record:
    encoded = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    said = headers_of(topic, headers)
    return Record(
        topic, PARTITION, offset, end=False, key=key if isinstance(key, bytes) else key.encode(), value=encoded,
        said=said,
    )  # fmt: skip


def claim(generation: int, owner: str, **more: object) -> dict[str, object]:
    return {
        "format": 1,
        "generation": generation,
        "owner": owner,
        "requests_topic_id": "requests-id",
        "epoch": EPOCH,
        "requests_since": 0,
    } | more


def written(write: Write) -> dict[str, object]:
    value = json.loads(write.value or b"")
    assert isinstance(value, dict)
    return value


def written_claim(value: bytes | None) -> object:
    return json.loads(value or b"")["generation"]


def session(generation: int = 1, applied: int = 0, **more: object) -> dict[str, object]:
    return {
        "format": 1,
        "generation": generation,
        "applied": applied,
        "online": True,
        "gateway": f"{GATEWAY:016x}",
        "inbox": 0,
        "session": 7,
        "epoch": EPOCH,
        "cursor": 3,
        "last_seen": 1,
    } | more


def bucket(*names: str, generation: int = 1, applied: int = 0) -> dict[str, object]:
    return {"format": 1, "generation": generation, "applied": applied, "objects": names}


def own(one: Partition) -> Partition:
    """Claims and takes over."""
    one.on_record(record(topics.SESSIONS, "@generation", one.claim().value, 1000), 0)
    assert one.claimed
    one.own(0, ENDS)
    return one


# --- loading


def test_it_is_loaded_once_all_topics_are_read_to_where_they_ended() -> None:
    one = partition(objects=1, registrations=2, sessions=3)
    loaded = []
    one.on_end(topics.OBJECTS, 1)
    loaded.append(one.loaded)
    one.on_record(record(topics.REGISTRATIONS, f"{KEY}/0", bucket("a"), 1), 0)
    loaded.append(one.loaded)
    one.on_record(record(topics.SESSIONS, KEY, session(), 1), 0)
    loaded.append(one.loaded)
    one.on_end(topics.SESSIONS, 3)  # the last records are compacted away
    loaded.append(one.loaded)

    assert loaded == [False, False, False, True]
    assert one.phase is Phase.LOADING


def test_empty_topics_are_loaded_at_once() -> None:
    assert partition().loaded


@pytest.mark.parametrize(
    ("records", "wins"),
    [
        ([(1, 5, "a"), (1, 4, "b")], "a"),
        ([(1, 4, "a"), (1, 5, "b")], "b"),
        ([(2, 0, "a"), (1, 9, "b")], "a"),
        ([(1, 9, "a"), (2, 0, "b")], "b"),
        ([(1, 5, "a"), (1, 5, "b")], "b"),
    ],
)
def test_state_merges_by_generation_and_applied_never_by_position(
    records: list[tuple[int, int, str]], wins: str
) -> None:
    one = partition()
    for offset, (generation, applied, name) in enumerate(records):
        value = bucket(name, generation=generation, applied=applied)
        one.on_record(record(topics.REGISTRATIONS, f"{KEY}/0", value, offset), 0)
        seen = session(generation, applied, session=ord(name))
        one.on_record(record(topics.SESSIONS, KEY, seen, offset), 0)

    client = own(one).engine.clients[KEY]

    assert [obj.name for obj in client.objects()] == [wins]
    assert client.session is not None
    assert client.session.number == ord(wins)


def test_a_lower_record_that_stands_last_is_written_over_once_the_partition_is_owned() -> None:
    one = partition(registrations=3, sessions=3)
    one.on_record(record(topics.REGISTRATIONS, f"{KEY}/0", bucket("a", generation=2, applied=5), 0), 0)
    one.on_record(record(topics.REGISTRATIONS, f"{KEY}/0", bucket("a", "b", applied=9), 1), 0)
    one.on_record(record(topics.SESSIONS, KEY, session(2), 0), 0)
    one.on_end(topics.REGISTRATIONS, 3)
    one.on_end(topics.SESSIONS, 3)
    own(one)

    (again,) = [w for w in one.engine.take_step(0).state if w.topic == topics.REGISTRATIONS]
    assert written(again) == bucket("a", generation=3, applied=5) | {"objects": ["a"]}


def test_a_generation_that_gateways_are_beyond_is_claimed_over() -> None:
    one = own(partition())
    beat = Request(format=1, gateway=GATEWAY)
    beat.beat.generation = 7
    one.engine.on_requests([(0, beat)], 0)
    one.engine.on_tick(0)
    assert one.take_repairs() == []
    one.engine.on_tick(10_000)
    (higher,) = one.take_repairs()
    assert one.take_repairs() == []
    with pytest.raises(TakenOver):
        one.on_record(record(topics.SESSIONS, "@generation", higher.value, 1001), 0)

    again = partition(sessions=1)
    again.on_record(record(topics.SESSIONS, "@generation", higher.value, 0), 0)
    assert again.loaded
    assert written(again.claim())["generation"] == 8


def test_clients_are_counted_also_while_they_are_loaded() -> None:
    one = partition()
    assert one.clients == 0
    one.on_record(record(topics.SESSIONS, KEY, session()), 0)
    assert one.clients == 1
    assert own(one).clients == 1


def test_a_null_ends_what_stood_before_it() -> None:
    one = partition()
    one.on_record(record(topics.REGISTRATIONS, f"{KEY}/0", bucket("a")), 0)
    one.on_record(record(topics.REGISTRATIONS, f"{KEY}/0", None, 1), 0)

    assert own(one).engine.clients == {}


def test_what_an_earlier_generation_writes_behind_a_null_is_ended_too_and_a_null_is_written_again() -> None:
    one = partition()
    null = record(topics.REGISTRATIONS, f"{KEY}/0", None, 0, [ended_by_header(2)])
    one.on_record(null, 0)
    one.on_record(record(topics.REGISTRATIONS, f"{KEY}/0", bucket("a", generation=1), 1), 0)

    assert own(one).engine.clients == {}
    (again,) = [w for w in one.engine.take_step(0).state if w.topic == topics.REGISTRATIONS]
    assert (again.key, again.value, again.headers) == (f"{KEY}/0".encode(), None, (ended_by_header(3),))


def test_a_null_of_an_earlier_generation_ends_nothing_and_the_record_is_written_again() -> None:
    one = partition()
    one.on_record(record(topics.REGISTRATIONS, f"{KEY}/0", bucket("a", generation=2)), 0)
    one.on_record(record(topics.REGISTRATIONS, f"{KEY}/0", None, 1, [ended_by_header(1)]), 0)

    assert [obj.name for obj in own(one).engine.clients[KEY].objects()] == ["a"]
    (again,) = [w for w in one.engine.take_step(0).state if w.topic == topics.REGISTRATIONS]
    assert written(again) == bucket(generation=3) | {"objects": ["a"]}


def test_a_null_of_a_generation_that_nobody_can_have_claimed_is_set_aside_and_ends_nothing() -> None:
    one = partition()
    one.on_record(record(topics.REGISTRATIONS, f"{KEY}/0", bucket("a")), 0)
    forged = ended_by_header(GENERATIONS_ALWAYS_BELIEVED + 1)
    one.on_record(record(topics.REGISTRATIONS, f"{KEY}/0", None, 1, [forged]), 0)

    assert [obj.name for obj in own(one).engine.clients[KEY].objects()] == ["a"]
    assert topics.REGISTRATIONS in {w.topic for w in one.engine.take_step(0).state}


def test_what_comes_between_claim_and_its_return_still_counts() -> None:
    one = partition()
    write = one.claim()
    one.on_record(record(topics.REGISTRATIONS, f"{KEY}/0", bucket("a")), 0)
    one.on_record(record(topics.SESSIONS, "@generation", write.value, 1), 0)
    one.own(0, ENDS)

    assert [obj.name for obj in one.engine.clients[KEY].objects()] == ["a"]


# --- claims


def test_each_takeover_claims_the_next_generation() -> None:
    one = partition()
    one.on_record(record(topics.SESSIONS, "@generation", claim(4, "b")), 0)

    write = one.claim()

    assert (write.topic, write.partition, write.key) == (topics.SESSIONS, PARTITION, b"@generation")
    assert written(write) == claim(5, "a")
    assert one.phase is Phase.CLAIMING
    assert not one.claimed


def test_a_claim_of_the_same_number_that_came_first_wins() -> None:
    first, second = partition("a"), partition("b")
    of_first, of_second = first.claim(), second.claim()
    log = [record(topics.SESSIONS, "@generation", write.value, o) for o, write in enumerate((of_first, of_second))]

    first.on_record(log[0], 0)
    second.on_record(log[0], 0)
    assert first.claimed
    first.own(0, ENDS)
    assert second.must_claim_again
    again = second.claim()
    assert written(again)["generation"] == 3
    with pytest.raises(TakenOver, match="b took it over"):
        first.on_record(log[1], 0)
    second.on_record(log[1], 0)
    assert not second.claimed
    second.on_record(record(topics.SESSIONS, "@generation", again.value, 2), 0)
    assert second.claimed


def test_the_owner_gives_up_when_another_claims_a_higher_generation() -> None:
    one = own(partition())

    with pytest.raises(TakenOver):
        one.on_record(record(topics.SESSIONS, "@generation", claim(2, "b")), 0)


@pytest.mark.parametrize("value", [None, b"nonsense", claim(0, "zombie")])
def test_a_claim_that_was_overwritten_is_written_again(value: object) -> None:
    one = own(partition())
    one.on_record(record(topics.SESSIONS, "@generation", value), 0)

    *aside, write = one.take_repairs()

    assert [each.topic for each in aside] == ([topics.REJECTED] if value == b"nonsense" else [])
    assert written(write) == claim(1, "a")
    assert one.take_repairs() == []


def test_a_lost_claim_does_not_lower_the_generation() -> None:
    one = partition()
    one.on_record(record(topics.SESSIONS, KEY, session(generation=6)), 0)

    assert written(one.claim())["generation"] == 7


# --- another cluster


def test_what_is_committed_with_says_the_epoch_once_an_operator_began_another() -> None:
    first, later = (
        Cluster(4, 4, "objects-id", "requests-id", epoch_of("objects-id", 4, counter)) for counter in (0, 1)
    )
    assert first.marks == {topics.REQUESTS: "requests-id", topics.OBJECTS: "objects-id"}
    assert later.marks == {topics.REQUESTS: "requests-id", topics.OBJECTS: f"objects-id/{later.epoch:08x}"}


def test_cursors_of_another_epoch_do_not_count() -> None:
    bench = Bench()
    bench.opened("a")
    bench.version("a", 1)
    bench.settle()
    changed = Cluster(CLUSTER.partitions, CLUSTER.inboxes, "other-objects", CLUSTER.requests_topic_id, EPOCH + 1)
    bench.cluster = changed
    bench.told.clear()

    bench.load()

    assert closed(bench.told[GATEWAY].take()) == [(1, CloseCode.UNKNOWN_SESSION)]
    assert bench.engine.clients[KEY].cursor == -1


def test_without_claims_and_commits_the_requests_topic_is_taken_for_another_one() -> None:
    """The claims are lost with the sessions topic: what the state says of offsets may be of a topic that is no more."""
    one = partition()
    one.takeover = handled_on(requests_committed=False)
    assert one.requests_topic_changed


def test_it_says_when_the_requests_topic_is_another_one() -> None:
    one = partition()
    assert not one.requests_topic_changed
    one.on_record(record(topics.SESSIONS, "@generation", claim(1, "b", requests_topic_id="old")), 0)

    assert one.requests_topic_changed


@pytest.mark.parametrize(
    ("claims", "since", "counts"),
    [
        ([claim(1, "b")], 0, True),
        ([claim(3, "b", requests_since=2)], 2, False),
        ([claim(3, "b", requests_since=1)], 1, True),
        ([claim(1, "b", requests_topic_id="old")], 2, False),
        ([{name: value for name, value in claim(3, "b").items() if name != "requests_since"}], 0, True),
        # The first one under this topic failed before it wrote any record anew.
        ([claim(1, "b", requests_topic_id="old"), claim(2, "c", requests_since=2)], 2, False),
    ],
)
def test_applied_counts_in_records_of_generations_under_the_present_requests_topic(
    claims: list[dict[str, object]], since: int, counts: bool
) -> None:
    one = partition()
    for said in claims:
        one.on_record(record(topics.SESSIONS, "@generation", said), 0)
    one.on_record(record(topics.REGISTRATIONS, f"{KEY}/0", bucket("a", generation=1, applied=16)), 0)
    mine = one.claim()
    one.on_record(record(topics.SESSIONS, "@generation", mine.value), 0)
    one.own(0, ENDS)

    assert written(mine)["requests_since"] == since
    assert (one.engine.clients[KEY].registrations_applied == 16) is counts


# --- what is no state


@pytest.mark.parametrize(
    ("topic", "key", "value"),
    [
        (topics.SESSIONS, b"\xff", b"x"),
        (topics.SESSIONS, b"a/b", b"x"),
        (topics.SESSIONS, b"a/b/c/d", session()),
        (topics.REGISTRATIONS, b"a/b/c", bucket("a")),
        (topics.REGISTRATIONS, b"a/b/c/x", bucket("a")),
        (topics.REGISTRATIONS, b"a/b/c/01", bucket("a")),
        (topics.REGISTRATIONS, b"a/b/c/99999999999999999999", bucket("a")),
        (topics.REGISTRATIONS, "a/b/c/\u0661".encode(), bucket("a")),
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_key_that_is_none_is_tombstoned_once(topic: str, key: bytes, value: object, when: str) -> None:
    one = partition()
    if when == "after":
        own(one)
    one.on_record(record(topic, key, value), 0)
    if when == "before":
        assert one.take_repairs() == [], "not while it is not ours"
        own(one)

    aside, tombstone = one.take_repairs()
    assert (aside.topic, aside.key) == (topics.REJECTED, key)
    assert dict(aside.headers)[PLACE_HEADER] == f"{topic}/{PARTITION}@0".encode()
    assert tombstone == Write(topic, PARTITION, key, None)
    one.on_record(record(topic, key, None), 0)
    assert one.take_repairs() == []
    assert one.engine.clients == {}


STRANGE_VALUES = [
    (topics.SESSIONS, b""),
    (topics.SESSIONS, b"\xff"),
    (topics.SESSIONS, b"[" * 10000),
    (topics.SESSIONS, session(gateway="x")),
    (topics.SESSIONS, session(gateway="+" + "1" * 15)),
    (topics.SESSIONS, session(session=-1)),
    (topics.SESSIONS, session(session=1 << 32)),
    (topics.SESSIONS, session(cursor=1 << 63)),
    (topics.SESSIONS, session(cursor=ENDS.table)),
    (topics.SESSIONS, session(cursor=-2)),
    (topics.SESSIONS, session(applied=ENDS.requests)),
    (topics.SESSIONS, session(applied=-2)),
    (topics.SESSIONS, session(inbox=CLUSTER.inboxes)),
    (topics.SESSIONS, session(last_seen=1 << 62)),
    (topics.SESSIONS, session(last_seen=-1)),
    (topics.SESSIONS, session(generation=(1 << 64) - 1)),
    (topics.SESSIONS, session(generation=generation_max(0) + 1)),
    (topics.SESSIONS, session(generation=-1)),
    (topics.SESSIONS, session() | {"format": 0}),
    (topics.SESSIONS, b'{"format":1,"generation":1e400}'),
    (topics.SESSIONS, b'{"format":1,"generation":%s}' % (b"9" * 5000)),
    (topics.REGISTRATIONS, b"{}"),
    (topics.REGISTRATIONS, bucket("")),
    (topics.REGISTRATIONS, bucket("x" * 256)),
    (topics.REGISTRATIONS, bucket("a") | {"applied": "x"}),
    (topics.REGISTRATIONS, bucket("a", applied=1 << 62)),
    (topics.REGISTRATIONS, bucket("a", generation=(1 << 64) - 1)),
    (topics.REGISTRATIONS, bucket(*(str(n) for n in range(BUCKET_OBJECTS_MAX + 1)))),
]


@pytest.mark.parametrize(("topic", "value"), STRANGE_VALUES)
def test_a_value_that_is_none_is_survived_and_overwritten(topic: str, value: object) -> None:
    one = partition()
    key = KEY if topic == topics.SESSIONS else f"{KEY}/0"
    one.on_record(record(topic, key, value), 0)
    own(one)

    writes = one.engine.take_step(0).state
    (aside,) = one.take_repairs()

    assert [(write.topic, write.key, write.value) for write in writes] == [(topic, key.encode(), None)]
    assert (aside.topic, aside.key) == (topics.REJECTED, key.encode())
    assert one.engine.counts[f"set_aside:{topic}:not_understood"] == 1


@pytest.mark.parametrize("generation", [(1 << 64) - 1, generation_max(0) + 1])
def test_a_claim_that_nobody_can_have_made_is_outdone_by_ours(generation: int) -> None:
    one = partition()
    one.on_record(record(topics.SESSIONS, "@generation", claim(generation, "b")), 0)
    own(one)

    assert one.engine.generation == 1
    assert [write.topic for write in one.take_repairs()] == [topics.REJECTED], "our claim stands behind it already"


def test_above_the_highest_claim_that_is_believed_there_is_room_as_time_goes_on() -> None:
    now_ms = 1_800_000_000_000
    one = partition()
    one.on_record(record(topics.SESSIONS, "@generation", claim(generation_max(now_ms), "b")), now_ms)
    claimed = one.claim().value

    assert written_claim(claimed) == generation_max(now_ms) + 1 <= generation_max(now_ms + 100)
    one.on_record(record(topics.SESSIONS, "@generation", claimed, 1), now_ms + 100)
    assert one.claimed


def test_an_offset_of_an_earlier_requests_topic_may_be_any() -> None:
    one = partition()
    one.on_record(record(topics.SESSIONS, "@generation", claim(3, "b", requests_topic_id="another")), 0)
    one.on_record(record(topics.SESSIONS, KEY, session(3, applied=ENDS.requests + 5), 1), 0)
    one.on_record(record(topics.REGISTRATIONS, f"{KEY}/0", bucket("a", generation=3, applied=1 << 40), 1), 0)
    own(one)

    assert [obj.name for obj in one.engine.clients[KEY].objects()] == ["a"]
    assert one.take_repairs() == []


def test_a_strange_value_that_was_overwritten_while_loading_is_left_alone() -> None:
    one = partition()
    one.on_record(record(topics.REGISTRATIONS, f"{KEY}/0", b"nonsense"), 0)
    one.on_record(record(topics.REGISTRATIONS, f"{KEY}/0", bucket("a"), 1), 0)
    own(one)

    assert [obj.name for obj in one.engine.clients[KEY].objects()] == ["a"]
    assert one.engine.take_step(0).state == []


def test_a_record_of_a_later_release_is_refused() -> None:
    one = partition()
    one.on_record(record(topics.SESSIONS, KEY, session() | {"format": 2}), 0)
    with pytest.raises(NewerFormat, match="format 2"):
        one.claim()
    one.on_record(record(topics.SESSIONS, KEY, None, 1), 0)
    assert own(one).engine.clients == {}
    with pytest.raises(NewerFormat, match="format 2"):
        one.on_record(record(topics.SESSIONS, KEY, session() | {"format": 2}, 2), 0)


def test_records_without_a_key_are_nobodys() -> None:
    one = partition()
    one.on_record(Record(topics.SESSIONS, PARTITION, 0, end=False, value=b"x"), 0)

    assert own(one).take_repairs() == []


# --- the warm standby: followed before it is assigned


def test_what_was_followed_and_is_then_loaded_is_as_if_loaded_from_the_beginning() -> None:
    """Objects, strays, records that are rejected, incarnations and registrations; any commit, any point reached."""
    random = Random(1)
    for _ in range(300):
        log = Log()
        for _ in range(random.randint(1, 25)):
            append_anything(log, random)
        ends = {topic: len(records) for topic, records in log.records.items()}
        committed = random.randint(0, ends[topics.OBJECTS])
        reached = {topic: random.randint(0, end) for topic, end in ends.items()}

        cold = Partition(PARTITION, CLUSTER, "a", registrations_max=100)
        cold.load(dict.fromkeys(ends, 0), ends, handled_on(committed))
        read(cold, log, dict.fromkeys(ends, 0))
        warm = Partition(PARTITION, CLUSTER, "a", registrations_max=100)
        for topic, end in reached.items():
            for one in log.records[topic][:end]:
                warm.on_record(one, 0)
            warm.on_end(topic, end)
        starts = dict.fromkeys(ends, 0)
        assert warm.can_load_on(starts, ends, handled_on(committed))
        begin = warm.load(starts, ends, handled_on(committed))
        assert all(begin[topic] <= reached[topic] for topic in ends)
        read(warm, log, begin)

        assert own(warm).engine.generation == own(cold).engine.generation
        assert warm.engine.take_step(0) == cold.engine.take_step(0)
        assert state_of(warm) == state_of(cold)


def append_anything(log: Log, random: Random) -> None:
    name, n = random.choice("ab"), random.randint(1, 6)
    match random.randint(0, 7):
        case 0 | 1:
            log.append(topics.OBJECTS, f"{PREFIX}{name}".encode(), b'{"version":%d}' % n)
        case 2:
            log.append(topics.OBJECTS, f"{PREFIX}{name}".encode(), b'{"version":%d,"incarnation":%d}' % (n, n // 3))
        case 3:
            log.append(topics.OBJECTS, random.choice((b"x", f"{PREFIX}{name}".encode())), b"nonsense")
        case 4:
            value = random.choice((None, b'{"version":%d}' % n))
            log.append(topics.OBJECTS, f"{DOMAIN}/{OTHER_GROUP}/{name}".encode(), value)
        case 5:
            value = random.choice((b"null", json.dumps(bucket(name, generation=n, applied=n)).encode()))
            log.append(topics.REGISTRATIONS, f"{KEY}/0".encode(), value if value != b"null" else None)
        case 6:
            log.append(topics.SESSIONS, KEY.encode(), json.dumps(session(generation=n, cursor=n)).encode())
        case 7:
            log.append(topics.SESSIONS, b"@generation", json.dumps(claim(n, "b")).encode())


def read(one: Partition, log: Log, begin: Mapping[str, int]) -> None:
    for topic, records in log.records.items():
        for each in records[begin[topic] :]:
            one.on_record(each, 0)
    assert one.loaded


def state_of(one: Partition) -> object:
    objects = {
        obj.key: (obj.incarnation, obj.version, obj.offset, obj.last_offset, obj.registered)
        for obj in one.engine.objects.values()
    }
    clients = {
        c.key: (c.cursor, c.digest, sorted(obj.name for obj in c.objects())) for c in one.engine.clients.values()
    }
    return objects, clients, one.engine.position


@pytest.mark.parametrize(
    ("starts", "ends", "committed"),
    [(0, 1, 1), (3, 9, 5), (0, 9, None)],
    ids=["the topics were made anew", "what was not read yet is gone", "nothing was committed"],
)
def test_what_was_followed_may_be_worth_nothing(starts: int, ends: int, committed: int | None) -> None:
    one = Partition(PARTITION, CLUSTER, "a", registrations_max=100)
    for topic in COMPACTED:
        assert not one.can_load_on(dict.fromkeys(COMPACTED, 0), dict.fromkeys(COMPACTED, 5), handled_on(0))
        one.on_end(topic, 2)
    assert one.can_load_on(dict.fromkeys(COMPACTED, 0), dict.fromkeys(COMPACTED, 5), handled_on(0))

    assert not one.can_load_on(dict.fromkeys(COMPACTED, starts), dict.fromkeys(COMPACTED, ends), handled_on(committed))


def test_strays_that_were_moved_are_not_kept_while_following() -> None:
    one = Partition(PARTITION, CLUSTER, "a", registrations_max=100)
    for offset in range(0, 2000, 2):
        key = f"{DOMAIN}/{OTHER_GROUP}/{offset}"
        one.on_record(record(topics.OBJECTS, key, {"version": 1}, offset), 0)
        one.on_record(record(topics.OBJECTS, key, None, offset + 1), 0)

    assert not one.engine._strays._moves


def test_claims_by_others_are_normal_while_following() -> None:
    one = Partition(PARTITION, CLUSTER, "a", registrations_max=100)
    for offset in range(3):
        one.on_record(record(topics.SESSIONS, "@generation", claim(offset + 4, "b"), offset), 0)
    one.load(dict.fromkeys(COMPACTED, 0), dict.fromkeys(COMPACTED, 0), handled_on(0))

    assert own(one).engine.generation == 7


# --- requests that wait


def test_requests_count_as_handled_only_when_those_that_wait_are() -> None:
    one = partition()
    one.takeover = handled_on(requests_start=3)
    assert one.requests_handled == 3
    one.requests_position = 9
    assert one.requests_handled == 9
    one.pending.append(PendingRequests({topics.OBJECTS: 100}, [(5, Request()), (6, Request())]))
    one.pending.append(PendingRequests({topics.OBJECTS: 200}, [(8, Request())]))
    assert one.requests_handled == 5
    one.pending.popleft()
    assert one.requests_handled == 8
