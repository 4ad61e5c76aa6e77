"""How records of the objects topic become newest versions, whatever their order, key, partition or value.

Stands for: objects, rejected
"""

import json

import pytest
from coldnotify_matcher.engine.gateways import GatewayView
from coldnotify_matcher.engine.objects import GONE_KEPT_MAX, UNKNOWN, Obj, Subscribers
from coldnotify_schemas import internal_pb2, topics
from coldnotify_schemas.partition import partition_of
from coldnotify_schemas.records import (
    INCARNATION_JUMP_MAX,
    MOVED_HEADER,
    REASON_HEADER,
    SINCE_HEADER,
    parse_public_record,
    since_header,
)
from coldnotify_schemas.traceparent import TRACEPARENT_HEADER
from coldnotify_testkit.engine_bench import (
    EPOCH,
    GATEWAY,
    PARTITION,
    PARTITIONS,
    PREFIX,
    Bench,
    fan_outs,
    pages,
    versions,
)
from hypothesis import given
from hypothesis import strategies as st

STRAY_GROUP = next(f"stray-{i}" for i in range(100) if partition_of("d", f"stray-{i}", PARTITIONS) != PARTITION)
STRAY_KEY = f"d/{STRAY_GROUP}/o".encode()
STRAY_HOME = partition_of("d", STRAY_GROUP, PARTITIONS)

plain = st.builds(
    lambda version, incarnation: {"version": version} | ({} if incarnation is None else {"incarnation": incarnation}),
    st.integers(0, 5),
    st.sampled_from([None, None, None, 0, 1, 2]),
)


def newest(bench: Bench, name: str = "o") -> tuple[int, int] | None:
    """(incarnation, version) of an object, as the engine has it."""
    obj = bench.engine.objects.get(PREFIX + name)
    return None if obj is None or obj.version == UNKNOWN else (obj.incarnation, obj.version)


def last_record(bench: Bench, name: str = "o") -> dict[str, object]:
    """What compaction would leave of an object."""
    value = json.loads(bench.latest(topics.OBJECTS)[PREFIX + name])
    assert isinstance(value, dict)
    return value


# --- Obj alone


def merged(*records: str) -> Obj:
    obj = Obj("d/g/a/b")
    for offset, record in enumerate(records):
        parsed = parse_public_record(record.encode())
        obj.merge(parsed, parsed.version or 0, offset)
    return obj


def test_an_objects_name_may_hold_slashes() -> None:
    assert Obj("d/g/a/b//c").name == "a/b//c"


@pytest.mark.parametrize(
    ("records", "newest", "offset", "kept_offset", "needs_repair"),
    [
        (['{"version":3}', '{"version":5}'], (0, 5), 1, 1, False),
        (['{"version":5}', '{"version":3}'], (0, 5), 0, 0, True),
        (['{"version":5}', '{"version":5}'], (0, 5), 0, 1, False),
        (['{"version":5}', '{"version":3}', '{"version":5}'], (0, 5), 0, 2, False),
        (['{"version":5}', '{"version":0,"incarnation":1}'], (1, 0), 1, 1, False),
        (['{"version":0,"incarnation":1}', '{"version":9,"incarnation":0}'], (1, 0), 0, 0, True),
        # An implicit incarnation would be read as 0 once the record before it is compacted away.
        (['{"version":0,"incarnation":1}', '{"version":2}'], (1, 2), 1, 1, True),
        (['{"version":0,"incarnation":1}', '{"version":2}', '{"version":2,"incarnation":1}'], (1, 2), 1, 2, False),
    ],
)
def test_merging(
    records: list[str], newest: tuple[int, int], offset: int, kept_offset: int, needs_repair: bool
) -> None:
    obj = merged(*records)

    assert (obj.incarnation, obj.version) == newest
    assert (obj.offset, obj.kept_offset) == (offset, kept_offset)
    assert obj.needs_repair is needs_repair


def test_a_repair_says_all_that_the_newest_version_said() -> None:
    record = '{"version":4,"incarnation":2,"source":"c","payload":{"a":[1]},"expires_at":99,"deleted":true}'

    repair = parse_public_record(merged(record, '{"version":1}').repair_record())

    assert repair == parse_public_record(record.encode())


def test_a_repair_that_comes_after_a_new_incarnation_does_not_outdo_it() -> None:
    """It is written in good faith, and lands behind a publish that nobody had read yet."""
    repair = merged('{"version":16}', '{"version":11}').repair_record().decode()

    obj = merged('{"version":16}', '{"version":11}', '{"version":2,"incarnation":1}', repair)

    assert (obj.incarnation, obj.version) == (1, 2)
    assert obj.needs_repair


def test_a_repeat_that_says_more_counts_as_said() -> None:
    obj = merged('{"version":4,"payload":1}', '{"version":4,"payload":2}')

    assert obj.payload == b"2"


def test_past_its_expiry_the_payload_is_dropped_never_the_version() -> None:
    obj = merged('{"version":4,"payload":{"a":1},"expires_at":1000}')

    assert obj.newest(999).payload == b'{"a":1}'
    assert obj.newest(1000).payload == b""
    assert obj.newest(1000).version == 4


def test_nothing_published_is_said_as_unknown() -> None:
    unknown = Obj("d/g/o").newest(0)

    assert unknown.answer
    assert not unknown.HasField("version")


def test_gone_sessions_are_taken_out_once() -> None:
    gateway = GatewayView(1, 0, 0)
    subscribers = Subscribers(gateway.retirements)
    subscribers.numbers.extend([4, 5, 6])
    gateway.remove(5, indexed=True)
    gateway.sessions = dict.fromkeys((4, 6))  # type: ignore[assignment]

    subscribers.remove_gone(gateway)

    assert subscribers.numbers.tolist() == [4, 6]


# --- through the engine: merge by order, never by position


@given(st.lists(plain, min_size=1, max_size=8))
def test_the_highest_wins_and_what_compaction_keeps_says_it_too(records: list[dict[str, int]]) -> None:
    bench = Bench()
    incarnation, expected = 0, (0, UNKNOWN)
    for record in records:
        bench.publish("o", json.dumps(record).encode())
        expected = max(expected, (record.get("incarnation", incarnation), record["version"]))
        incarnation = expected[0]

    bench.settle()

    assert newest(bench) == expected
    last = last_record(bench)
    assert (last.get("incarnation", 0), last["version"]) == expected
    bench.log.records[topics.OBJECTS] = bench.log.records[topics.OBJECTS][-1:]  # compacted
    bench.log.records[topics.OBJECTS] = [bench.log.records[topics.OBJECTS][0]._replace(offset=0)]
    bench.committed = (0, None)
    bench.load()
    assert newest(bench) == expected


@given(st.lists(plain, min_size=1, max_size=8), st.integers(0, 8))
def test_live_and_rebuilt_are_the_same(records: list[dict[str, int]], split: int) -> None:
    at_once, reloaded = Bench(), Bench()
    for i, record in enumerate(records):
        for bench in (at_once, reloaded):
            bench.publish("o", json.dumps(record).encode())
            bench.settle()
        if i == split:
            reloaded.load()
    reloaded.load()

    assert newest(reloaded) == newest(at_once)
    assert last_record(reloaded) == last_record(at_once)


def test_a_stale_version_is_told_to_nobody_and_the_newest_is_written_again() -> None:
    bench = Bench()
    bench.opened("o")
    bench.version("o", 5)
    assert fan_outs(bench.items()) == [("o", 5, 0, [1])]

    bench.version("o", 4)

    assert fan_outs(bench.items()) == []
    assert last_record(bench) == {"version": 5, "incarnation": 0}


def test_a_repeat_of_the_newest_version_is_told_to_nobody_and_not_written_again() -> None:
    bench = Bench()
    bench.opened("o")
    for _ in range(2):
        bench.version("o", 5)

    assert fan_outs(bench.items()) == [("o", 5, 0, [1])]
    assert len(bench.log.records[topics.OBJECTS]) == 2


def test_a_repair_comes_back_from_the_log_and_changes_nothing() -> None:
    bench = Bench()
    bench.opened("o")
    bench.version("o", 5)
    bench.version("o", 4)
    bench.settle()
    bench.told[GATEWAY].take()

    assert not bench.step()
    values = [record.value for record in bench.log.records[topics.OBJECTS]]
    assert values == [b'{"version":5}', b'{"version":4}', b'{"version":5,"incarnation":0}']


def test_a_stale_version_that_came_while_no_matcher_ran_is_outdone_at_load() -> None:
    bench = Bench()
    bench.version("o", 5)
    bench.version("o", 4)

    bench.load()

    assert last_record(bench) == {"version": 5, "incarnation": 0}


def woken(bench: Bench, session: int, cursor: int) -> list[tuple[str, int | None]]:
    """What a client that wants `o` is told at a wake with this cursor."""
    bench.settle()
    bench.told[GATEWAY].take()
    bench.open(["o"], session=session, cursor=cursor)
    (page,) = pages(bench.items())
    return versions(page.newest)


def test_who_has_the_newest_version_is_not_told_again_when_it_is_written_again() -> None:
    bench = Bench()
    bench.version("o", 5)
    bench.opened("o")
    bench.version("o", 4)
    bench.settle()
    assert last_record(bench) == {"version": 5, "incarnation": 0}

    assert woken(bench, 2, cursor=0) == []
    bench.load()
    assert woken(bench, 3, cursor=0) == []
    bench.log.compact(topics.OBJECTS)
    bench.load()
    assert woken(bench, 4, cursor=0) == []
    assert woken(bench, 5, cursor=-1 % 2**64) == [("o", 5)], "a cursor that is void"


@pytest.mark.parametrize("since", [b"", b"77/0", b"0000004d", b"0000004d/x", b"0000004d/9", b"0000004e/0", b"\xff/0"])
def test_a_record_that_does_not_say_well_since_when_it_is_there_counts_from_its_own_offset(since: bytes) -> None:
    bench = Bench()
    bench.opened("o")
    bench.version("other", 1)
    bench.log.append(topics.OBJECTS, f"{PREFIX}o".encode(), b'{"version":5}', headers=[(SINCE_HEADER, since)])
    bench.settle()
    bench.load()

    assert bench.engine.objects[f"{PREFIX}o"].offset == 1


def test_a_version_that_is_new_here_was_not_here_before_whatever_it_says() -> None:
    bench = Bench()
    bench.version("other", 1)
    bench.opened("o")
    header = since_header(EPOCH, 0)
    bench.log.append(topics.OBJECTS, f"{PREFIX}o".encode(), b'{"version":5}', headers=[header])

    assert fan_outs(bench.items()) == [("o", 5, 1, [1])]


def test_a_record_far_above_the_incarnation_in_force_is_rejected_so_that_a_reset_still_outdoes_all() -> None:
    bench = Bench()
    top = 2**31 - 1
    bench.publish("o", b'{"version":%d,"incarnation":%d}' % (2**63 - 1, top))
    bench.publish("o", b'{"version":3}')
    bench.publish("o", b'{"version":1,"incarnation":%d}' % (INCARNATION_JUMP_MAX + 1))
    bench.settle()
    assert newest(bench) == (0, 3)
    assert [write.headers[0][1].partition(b":")[0] for write in bench.log.rejected] == [b"incarnation"] * 2
    assert last_record(bench) == {"version": 3, "incarnation": 0}
    bench.load()
    assert newest(bench) == (0, 3)

    bench.publish("o", b'{"version":1,"incarnation":1}')
    bench.settle()

    assert newest(bench) == (1, 1)


def test_without_a_version_the_records_timestamp_is_it() -> None:
    bench = Bench()
    bench.publish("o", b"{}", timestamp_ms=1234)
    bench.settle()

    assert newest(bench) == (0, 1234)


def test_without_version_and_timestamp_a_record_is_rejected() -> None:
    bench = Bench()
    bench.publish("o", b"{}", timestamp_ms=-1)
    bench.settle()

    assert reason(bench).startswith("version:")


def test_a_new_incarnation_begins_the_versions_over() -> None:
    bench = Bench()
    bench.opened("o")
    bench.version("o", 5)
    bench.publish("o", b'{"version":1,"incarnation":1}')
    bench.version("o", 2)

    told = [(newest.incarnation, newest.version) for newest in all_newest(bench)]

    assert told == [(0, 5), (1, 1), (1, 2)]
    assert last_record(bench) == {"version": 2, "incarnation": 1}


def all_newest(bench: Bench) -> list[internal_pb2.Newest]:
    return [item.fan_out.newest for item in bench.items() if item.WhichOneof("item") == "fan_out"]


# --- what cannot be understood


def reason(bench: Bench) -> str:
    """Why the only rejected record was rejected."""
    (write,) = bench.log.rejected
    return dict(write.headers)[REASON_HEADER].decode()


@pytest.mark.parametrize(
    ("value", "begins"),
    [
        (None, "record: is null"),
        (b"", "record:"),
        (b"nonsense", "record:"),
        (b"\xff\xfe", "record:"),
        (b"[]", "record:"),
        (b'{"version":-1}', "version:"),
        (b'{"version":"7"}', "version:"),
        (b'{"vers":7}', "record:"),
        (b'{"version":1,"source":"a/b"}', "source:"),
        (b'{"payload":"' + b"x" * 5000 + b'"}', "payload:"),
        (b" " * 100_000 + b"{}", "record: has 100002 bytes"),
        (b'{"version":1,"payload":' + b"[" * 5000 + b"]" * 5000 + b"}", "record:"),
    ],
)
def test_malformed_records_are_rejected_with_a_reason_and_the_newest_written_again(
    value: bytes | None, begins: str
) -> None:
    bench = Bench()
    bench.version("o", 5)
    bench.publish("o", value)
    bench.settle()

    (write,) = bench.log.rejected
    assert (write.topic, write.key, write.value) == (topics.REJECTED, f"{PREFIX}o".encode(), value)
    assert reason(bench).startswith(begins)
    assert newest(bench) == (0, 5)
    assert last_record(bench) == {"version": 5, "incarnation": 0}


@pytest.mark.parametrize(
    ("key", "begins"),
    [(None, "key:"), (b"\xff", "key:"), (b"d/g", "key:"), (b"d/g/", "object:"), (b"d /g/o", "domain:"), (b"", "key:")],
)
def test_a_key_that_names_no_object_is_rejected(key: bytes | None, begins: str) -> None:
    bench = Bench()
    bench.log.append(topics.OBJECTS, key, b'{"version":1}')
    bench.settle()

    assert reason(bench).startswith(begins)
    assert bench.log.rejected[0].key == key


def test_a_null_for_an_object_that_nobody_published_leaves_nothing_behind() -> None:
    bench = Bench()
    bench.publish("o", None)
    bench.settle()

    assert bench.engine.objects == {}


def test_what_was_rejected_before_is_not_rejected_again_at_load() -> None:
    bench = Bench()
    bench.publish("o", b"nonsense")
    bench.settle()
    bench.load()

    assert len(bench.log.rejected) == 1


def test_what_no_matcher_had_handled_is_rejected_at_load() -> None:
    bench = Bench()
    bench.publish("o", b"nonsense")
    bench.load()

    assert len(bench.log.rejected) == 1


def test_a_huge_rejected_record_is_cut_so_that_kafka_takes_it() -> None:
    bench = Bench()
    bench.log.append(topics.OBJECTS, b"k" * 1_000_000, b"v" * 800_000)
    bench.settle()

    (write,) = bench.log.rejected
    assert len(write.key or b"") + len(write.value or b"") <= 1_500_000
    assert "1800000 bytes" in reason(bench)


def test_the_largest_record_that_kafka_takes_by_default_is_rejected_as_it_came() -> None:
    bench = Bench()
    bench.publish("o", b" " * 1_048_588)
    bench.settle()

    (write,) = bench.log.rejected
    assert len(write.value or b"") == 1_048_588


# --- a wrong partition


def stray(bench: Bench, value: bytes | None, *, moved: bool = False, timestamp_ms: int = 7) -> None:
    headers = ((MOVED_HEADER, b"3@9"),) if moved else ()
    bench.log.append(topics.OBJECTS, STRAY_KEY, value, timestamp_ms=timestamp_ms, headers=headers)


def moves(bench: Bench) -> list[bytes | None]:
    return [write.value for write in bench.log.elsewhere]


def test_a_stray_is_moved_with_its_timestamp_and_a_header_then_tombstoned() -> None:
    bench = Bench()
    stray(bench, b'{"payload":1}')

    step = bench.step()

    (move,) = step.state
    assert (move.topic, move.partition, move.key, move.value) == (
        topics.OBJECTS,
        STRAY_HOME,
        STRAY_KEY,
        b'{"payload":1}',
    )
    assert move.headers == ((MOVED_HEADER, f"{PARTITION}@0".encode()),)
    assert move.timestamp_ms == 7
    (tombstone,) = step.tombstones
    assert (tombstone.partition, tombstone.key, tombstone.value) == (PARTITION, STRAY_KEY, None)
    assert STRAY_KEY.decode() not in bench.engine.objects


def test_its_own_tombstone_makes_the_owner_do_nothing_more() -> None:
    bench = Bench()
    stray(bench, b'{"version":1}')
    bench.settle()

    assert bench.step().tombstones == []
    assert len(moves(bench)) == 1


def test_the_trace_of_a_publish_goes_to_the_gateways_until_another_version_comes() -> None:
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    headers = ((TRACEPARENT_HEADER, trace.encode()),)
    bench = Bench()
    bench.opened("a")
    for version, with_trace in ((1, True), (2, False), (1, True)):
        value = b'{"version":%d}' % version
        bench.log.append(topics.OBJECTS, f"{PREFIX}a".encode(), value, headers=headers if with_trace else ())
        bench.settle()
    said = [item.fan_out for item in bench.told[GATEWAY].take() if item.WhichOneof("item") == "fan_out"]
    assert [(one.newest.version, one.traceparent) for one in said] == [(1, trace), (2, "")]

    bench.log.append(topics.OBJECTS, STRAY_KEY, b"{}", headers=headers)
    (move,) = bench.step().state
    assert move.headers[1:] == headers


def test_a_moved_record_is_never_moved_again() -> None:
    bench = Bench()
    stray(bench, b'{"version":1}', moved=True)
    bench.settle()

    assert moves(bench) == []
    assert "moved once already" in reason(bench)


def test_a_moved_record_in_its_right_partition_is_like_any_other() -> None:
    bench = Bench()
    key = f"{PREFIX}o".encode()
    bench.log.append(topics.OBJECTS, key, b"{}", timestamp_ms=9, headers=((MOVED_HEADER, b"3@9"),))
    bench.settle()

    assert newest(bench) == (0, 9)


def test_a_malformed_stray_is_rejected_not_moved() -> None:
    bench = Bench()
    stray(bench, b"nonsense")
    bench.settle()

    assert moves(bench) == []
    assert reason(bench).startswith("record:")


def test_a_stray_that_was_moved_and_tombstoned_is_not_moved_again_at_load() -> None:
    bench = Bench()
    stray(bench, b'{"version":1}')
    bench.settle()
    bench.load()

    assert len(moves(bench)) == 1


def test_a_stray_whose_tombstone_was_lost_is_moved_again_at_load() -> None:
    bench = Bench()
    stray(bench, b'{"version":1}')
    bench.make_durable(bench.step(), writes_lost=1)

    bench.load()

    assert len(moves(bench)) == 2
    assert bench.log.records[topics.OBJECTS][-1].value is None


def test_a_stray_that_nobody_had_handled_is_moved_although_an_earlier_ones_tombstone_follows_it() -> None:
    bench = Bench()
    stray(bench, b'{"version":1}')
    step = bench.step()
    bench.commit()
    stray(bench, b'{"version":2}')  # before the tombstone of the first in the log, after it in time
    bench.make_durable(step)

    bench.load()

    assert moves(bench)[-1] == b'{"version":2}'


def test_two_strays_of_one_key_are_both_moved_in_order_and_tombstoned_once() -> None:
    bench = Bench()
    stray(bench, b'{"version":1}')
    stray(bench, b'{"version":2}')

    step = bench.step()

    assert [write.value for write in step.state] == [b'{"version":1}', b'{"version":2}']
    assert len(step.tombstones) == 1


# --- fan-out


def test_a_publish_is_one_item_for_each_gateway_concerned() -> None:
    bench = Bench()
    for session in (1, 2, 3):
        bench.opened("o", session=session, client=f"client-{session}")
    bench.opened("other", session=4, client="client-4")
    bench.publish("o", b'{"version":5,"payload":{"x":1}}')

    (item,) = bench.items()

    assert fan_outs([item]) == [("o", 5, 0, [1, 2, 3])]
    assert item.fan_out.newest.payload == b'{"x":1}'
    assert item.fan_out.newest.behind == 0
    assert not item.fan_out.newest.answer


def test_the_source_is_spared_the_live_notification_and_is_told_where_it_has_no_cursor() -> None:
    bench = Bench()
    bench.opened("o", session=1, client="client-1")
    bench.opened("o", session=2, client="client-2")
    bench.publish("o", b'{"version":5,"source":"client-1"}')
    assert fan_outs(bench.items()) == [("o", 5, 0, [2])]

    bench.catch_up(None, ask=9)

    (item,) = bench.items()
    assert versions(item.page.newest) == [("o", 5)]


def test_an_expired_payload_is_not_fanned_out() -> None:
    bench = Bench()
    bench.opened("o")
    bench.publish("o", b'{"version":5,"payload":1,"expires_at":%d}' % bench.now_ms)

    (item,) = bench.items()

    assert item.fan_out.newest.version == 5
    assert item.fan_out.newest.payload == b""


def test_deleted_is_a_version_like_any_other() -> None:
    bench = Bench()
    bench.opened("o")
    bench.publish("o", b'{"version":6,"deleted":true}')

    (item,) = bench.items()

    assert (item.fan_out.newest.version, item.fan_out.newest.deleted) == (6, True)


def test_sessions_that_come_and_go_do_not_pile_up_in_an_object_that_is_never_published() -> None:
    bench = Bench()
    for session in range(1, 5 * GONE_KEPT_MAX):
        bench.opened("o", session=session)
        bench.leave(session=session)
        bench.settle()

    (subscribers,) = bench.engine.objects[f"{PREFIX}o"].subscribers.values()
    assert len(subscribers.numbers) <= 2 * GONE_KEPT_MAX


def test_a_fan_out_is_never_larger_than_the_room_that_is_kept_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    name = "\N{GRINNING FACE}" * 63
    bench.opened(name)
    key = f"{PREFIX}{name}".encode()
    value = b'{"version":%d,"incarnation":%d,"deleted":true,"payload":"%s"}' % (
        2**63 - 1,
        INCARNATION_JUMP_MAX,
        b"x" * 4000,
    )
    trace = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    room: list[int] = []

    new_item = GatewayView.new_item

    def noted(gateway: GatewayView, bytes_max: int) -> internal_pb2.Item:
        room.append(bytes_max)
        return new_item(gateway, bytes_max)

    monkeypatch.setattr(GatewayView, "new_item", noted)
    offset = 2**62
    bench.engine.on_object(key, value, offset, 2**62, bench.now_ms, traceparent=trace)
    ((_, record),) = bench.engine.take_step(bench.now_ms).inboxes

    (item,) = record.items
    assert item.fan_out.newest.offset == offset
    assert item.ByteSize() + 6 <= room[0]


def test_a_key_that_is_no_utf_8_is_not_that_of_an_object_whose_name_looks_alike() -> None:
    bench = Bench()
    for look_alike in ("\N{REPLACEMENT CHARACTER}", "?", ""):
        bench.version(f"a{look_alike}", 1)
    bench.settle()

    bench.log.append(topics.OBJECTS, f"{PREFIX}a".encode() + b"\xff", b'{"version":2}')
    bench.settle()

    assert newest(bench, "a\N{REPLACEMENT CHARACTER}") == newest(bench, "a?") == newest(bench, "a") == (0, 1)
    (rejected,) = bench.log.rejected
    assert dict(rejected.headers)[REASON_HEADER].startswith(b"key: ")
