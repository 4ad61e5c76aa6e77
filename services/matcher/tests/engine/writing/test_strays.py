"""Records in a wrong partition: moved once, with what they said, and tombstoned behind that."""

from coldnotify_matcher.engine.objects.objects import UNKNOWN
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import (
    MOVED_HEADER,
    REASON_HEADER,
    payload_header,
)
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import PARTITION, PARTITIONS, PREFIX, EngineBench

TOPICS = TopicNames()

STRAY_GROUP = next(f"stray-{i}" for i in range(100) if partition_of("d", f"stray-{i}", PARTITIONS) != PARTITION)

STRAY_KEY = f"d/{STRAY_GROUP}/o".encode()

STRAY_HOME = partition_of("d", STRAY_GROUP, PARTITIONS)


def newest(bench: EngineBench, name: str = "o") -> tuple[int, int] | None:
    """(incarnation, version) of an object, as the engine has it."""
    obj = bench.engine.state.objects.get(PREFIX + name)
    return None if obj is None or obj.version == UNKNOWN else (obj.incarnation, obj.version)


def reason(bench: EngineBench) -> str:
    """Why the only rejected record was rejected."""
    (write,) = bench.log.rejected
    return dict(write.headers)[REASON_HEADER].decode()


def stray(bench: EngineBench, value: bytes | None, *, moved: bool = False, timestamp_ms: int = 7) -> None:
    headers = ((MOVED_HEADER, b"3@9"),) if moved else ()
    bench.log.append(TOPICS.objects, STRAY_KEY, value, timestamp_ms=timestamp_ms, headers=headers)


def moves(bench: EngineBench) -> list[bytes | None]:
    return [write.value for write in bench.log.elsewhere]


def test_a_stray_is_moved_with_its_timestamp_and_a_header_then_tombstoned() -> None:
    bench = EngineBench()
    stray(bench, b'{"payload":1}')

    step = bench.step()

    (move,) = step.state
    assert (move.topic, move.partition, move.key, move.value) == (
        TOPICS.objects,
        STRAY_HOME,
        STRAY_KEY,
        b'{"payload":1}',
    )
    assert move.headers == ((MOVED_HEADER, f"{PARTITION}@0".encode()),)
    assert move.timestamp_ms == 7
    (tombstone,) = step.tombstones
    assert (tombstone.partition, tombstone.key, tombstone.value) == (PARTITION, STRAY_KEY, None)
    assert STRAY_KEY.decode() not in bench.engine.state.objects


def test_its_own_tombstone_makes_the_owner_do_nothing_more() -> None:
    bench = EngineBench()
    stray(bench, b'{"version":1}')
    bench.settle()

    assert bench.step().tombstones == []
    assert len(moves(bench)) == 1


def test_a_moved_record_is_never_moved_again() -> None:
    bench = EngineBench()
    stray(bench, b'{"version":1}', moved=True)
    bench.settle()

    assert moves(bench) == []
    assert "moved once already" in reason(bench)


def test_a_moved_record_in_its_right_partition_is_like_any_other() -> None:
    bench = EngineBench()
    key = f"{PREFIX}o".encode()
    bench.log.append(TOPICS.objects, key, b"{}", timestamp_ms=9, headers=((MOVED_HEADER, b"3@9"),))
    bench.settle()

    assert newest(bench) == (0, 9)


def test_a_stray_with_a_payload_of_any_bytes_is_moved_with_its_header() -> None:
    bench = EngineBench()
    for value in (b'{"payload":"AP8="}', b'{"payload":5}'):
        bench.log.append(TOPICS.objects, STRAY_KEY, value, headers=[payload_header()])

    bench.settle()

    (move,) = bench.log.elsewhere
    assert (move.value, move.headers[1:]) == (b'{"payload":"AP8="}', (payload_header(),))
    assert reason(bench).startswith("payload: is not base64")


def test_a_malformed_stray_is_rejected_not_moved() -> None:
    bench = EngineBench()
    stray(bench, b"nonsense")
    bench.settle()

    assert moves(bench) == []
    assert reason(bench).startswith("record:")


def test_a_stray_that_was_moved_and_tombstoned_is_not_moved_again_at_load() -> None:
    bench = EngineBench()
    stray(bench, b'{"version":1}')
    bench.settle()
    bench.load()

    assert len(moves(bench)) == 1


def test_a_stray_whose_tombstone_was_lost_is_moved_again_at_load() -> None:
    bench = EngineBench()
    stray(bench, b'{"version":1}')
    bench.make_durable(bench.step(), writes_lost=1)

    bench.load()

    assert len(moves(bench)) == 2
    assert bench.log.records[TOPICS.objects][-1].value is None


def test_a_stray_that_nobody_had_handled_is_moved_although_an_earlier_ones_tombstone_follows_it() -> None:
    bench = EngineBench()
    stray(bench, b'{"version":1}')
    step = bench.step()
    bench.commit()
    stray(bench, b'{"version":2}')  # before the tombstone of the first in the log, after it in time
    bench.make_durable(step)

    bench.load()

    assert moves(bench)[-1] == b'{"version":2}'


def test_two_strays_of_one_key_are_both_moved_in_order_and_tombstoned_once() -> None:
    bench = EngineBench()
    stray(bench, b'{"version":1}')
    stray(bench, b'{"version":2}')

    step = bench.step()

    assert [write.value for write in step.state] == [b'{"version":1}', b'{"version":2}']
    assert len(step.tombstones) == 1


def test_properties_go_with_a_stray() -> None:
    bench = EngineBench()
    said = (("mqtt-qos", b"0"), ("mqtt-user-b", b"2"), ("mqtt-user-a", b"1"))
    bench.log.append(TOPICS.objects, STRAY_KEY, b"{}", headers=[*said, ("mqtt-user-c", b"\xff")])
    (move,) = bench.step().state
    assert move.headers[1:] == said
