"""Records of the objects topic as they come: merged, understood or rejected, whatever their order, key or value.

Stands for: intake, rejected
"""

import json

import pytest
from coldnotify_matcher.engine import Rules
from coldnotify_matcher.engine.inputs.intake import UNMADE_BYTES_MAX
from coldnotify_matcher.engine.objects.objects import UNKNOWN
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import MOVED_HEADER, REASON_HEADER
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.traceparent import TRACEPARENT_HEADER
from coldnotify_testkit.engine_bench import GATEWAY, PARTITION, PARTITIONS, PREFIX, EngineBench
from hypothesis import given
from hypothesis import strategies as st

TOPICS = TopicNames()

STRAY_GROUP = next(f"stray-{i}" for i in range(100) if partition_of("d", f"stray-{i}", PARTITIONS) != PARTITION)

STRAY_KEY = f"d/{STRAY_GROUP}/o".encode()

plain = st.builds(
    lambda version, incarnation: {"version": version} | ({} if incarnation is None else {"incarnation": incarnation}),
    st.integers(0, 5),
    st.sampled_from([None, None, None, 0, 1, 2]),
)


def newest(bench: EngineBench, name: str = "o") -> tuple[int, int] | None:
    """(incarnation, version) of an object, as the engine has it."""
    obj = bench.engine.state.objects.get(PREFIX + name)
    return None if obj is None or obj.version == UNKNOWN else (obj.incarnation, obj.version)


def last_record(bench: EngineBench, name: str = "o") -> dict[str, object]:
    """What compaction would leave of an object."""
    value = json.loads(bench.latest(TOPICS.objects)[PREFIX + name])
    assert isinstance(value, dict)
    return value


@given(st.lists(plain, min_size=1, max_size=8))
def test_the_highest_wins_and_what_compaction_keeps_says_it_too(records: list[dict[str, int]]) -> None:
    bench = EngineBench()
    incarnation, expected = 0, (0, UNKNOWN)
    for record in records:
        bench.publish("o", json.dumps(record).encode())
        expected = max(expected, (record.get("incarnation", incarnation), record["version"]))
        incarnation = expected[0]

    bench.settle()

    assert newest(bench) == expected
    last = last_record(bench)
    assert (last.get("incarnation", 0), last["version"]) == expected
    bench.log.records[TOPICS.objects] = bench.log.records[TOPICS.objects][-1:]  # compacted
    bench.log.records[TOPICS.objects] = [bench.log.records[TOPICS.objects][0]._replace(offset=0)]
    bench.committed = (0, None)
    bench.load()
    assert newest(bench) == expected


@given(st.lists(plain, min_size=1, max_size=8), st.integers(0, 8))
def test_live_and_rebuilt_are_the_same(records: list[dict[str, int]], split: int) -> None:
    at_once, reloaded = EngineBench(), EngineBench()
    for i, record in enumerate(records):
        for bench in (at_once, reloaded):
            bench.publish("o", json.dumps(record).encode())
            bench.settle()
        if i == split:
            reloaded.load()
    reloaded.load()

    assert newest(reloaded) == newest(at_once)
    assert last_record(reloaded) == last_record(at_once)


def test_from_whatever_is_the_newest_a_reset_begins_the_versions_over() -> None:
    bench = EngineBench()
    newest_by_far = 0, -1
    for step in range(3):
        # As high as its place allows, whatever lies before it.
        top = 2**31 - 1 + bench.log.end(TOPICS.objects)
        bench.publish("o", b'{"version":%d,"incarnation":%d}' % (2**63 - 1, top))
        bench.publish("o", b'{"version":%d,"incarnation":%d}' % (2**63 - 1, top + 2))  # too high there
        bench.publish("o", b"{}", timestamp_ms=5)
        bench.settle()
        newest_by_far = top, 2**63 - 1
        assert newest(bench) == newest_by_far
        assert len(bench.log.rejected) == step + 1
    assert bench.log.rejected[0].headers[0][1].startswith(b"incarnation: ")

    bench.publish("o", b'{"version":1,"incarnation":%d}' % (newest_by_far[0] + 1))
    bench.publish("o", b'{"version":2}')
    bench.settle()

    assert newest(bench) == (newest_by_far[0] + 1, 2)


def test_what_compaction_leaves_of_an_object_that_was_driven_high_is_still_its_newest() -> None:
    bench = EngineBench()
    for step in range(1, 4):
        bench.publish("o", b'{"version":7,"incarnation":%d}' % (step * 1_000_000))
    bench.settle()
    bench.log.compact(TOPICS.objects)
    bench.load()
    assert newest(bench) == (3_000_000, 7)
    assert bench.log.rejected == []


def test_without_a_version_the_records_timestamp_is_it() -> None:
    bench = EngineBench()
    bench.publish("o", b"{}", timestamp_ms=1234)
    bench.settle()

    assert newest(bench) == (0, 1234)


def test_without_version_and_timestamp_a_record_is_rejected() -> None:
    bench = EngineBench()
    bench.publish("o", b"{}", timestamp_ms=-1)
    bench.settle()

    assert reason(bench).startswith("version:")


def test_a_new_incarnation_begins_the_versions_over() -> None:
    bench = EngineBench()
    bench.opened("o")
    bench.version("o", 5)
    bench.publish("o", b'{"version":1,"incarnation":1}')
    bench.version("o", 2)

    told = [(newest.incarnation, newest.version) for newest in all_newest(bench)]

    assert told == [(0, 5), (1, 1), (1, 2)]
    assert last_record(bench) == {"version": 2, "incarnation": 1}


def all_newest(bench: EngineBench) -> list[internal_pb2.Newest]:
    return [item.fan_out.newest for item in bench.items() if item.WhichOneof("item") == "fan_out"]


def reason(bench: EngineBench) -> str:
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
    bench = EngineBench()
    bench.version("o", 5)
    bench.publish("o", value)
    bench.settle()

    (write,) = bench.log.rejected
    assert (write.topic, write.key, write.value) == (TOPICS.rejected, f"{PREFIX}o".encode(), value)
    assert reason(bench).startswith(begins)
    assert newest(bench) == (0, 5)
    assert last_record(bench) == {"version": 5, "incarnation": 0}


@pytest.mark.parametrize(
    ("key", "begins"),
    [(None, "key:"), (b"\xff", "key:"), (b"d/g", "key:"), (b"d/g/", "object:"), (b"d /g/o", "domain:"), (b"", "key:")],
)
def test_a_key_that_names_no_object_is_rejected(key: bytes | None, begins: str) -> None:
    bench = EngineBench()
    bench.log.append(TOPICS.objects, key, b'{"version":1}')
    bench.settle()

    assert reason(bench).startswith(begins)
    assert bench.log.rejected[0].key == key


def test_a_null_for_an_object_that_nobody_published_leaves_nothing_behind() -> None:
    bench = EngineBench()
    bench.publish("o", None)
    bench.settle()

    assert bench.engine.state.objects == {}


def test_what_was_rejected_before_is_not_rejected_again_at_load() -> None:
    bench = EngineBench()
    bench.publish("o", b"nonsense")
    bench.settle()
    bench.load()

    assert len(bench.log.rejected) == 1


def test_what_no_matcher_had_handled_is_rejected_at_load() -> None:
    bench = EngineBench()
    bench.publish("o", b"nonsense")
    bench.load()

    assert len(bench.log.rejected) == 1


def test_a_huge_rejected_record_is_cut_so_that_kafka_takes_it() -> None:
    bench = EngineBench()
    bench.log.append(TOPICS.objects, b"k" * 1_000_000, b"v" * 800_000)
    bench.settle()

    (write,) = bench.log.rejected
    assert len(write.key or b"") + len(write.value or b"") <= 1_500_000
    assert "1800000 bytes" in reason(bench)


def test_the_largest_record_that_kafka_takes_by_default_is_rejected_as_it_came() -> None:
    bench = EngineBench()
    bench.publish("o", b" " * 1_048_588)
    bench.settle()

    (write,) = bench.log.rejected
    assert len(write.value or b"") == 1_048_588


def stray(bench: EngineBench, value: bytes | None, *, moved: bool = False, timestamp_ms: int = 7) -> None:
    headers = ((MOVED_HEADER, b"3@9"),) if moved else ()
    bench.log.append(TOPICS.objects, STRAY_KEY, value, timestamp_ms=timestamp_ms, headers=headers)


def test_the_trace_of_a_publish_goes_to_the_gateways_until_another_version_comes() -> None:
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    headers = ((TRACEPARENT_HEADER, trace.encode()),)
    bench = EngineBench()
    bench.opened("a")
    for version, with_trace in ((1, True), (2, False), (1, True)):
        value = b'{"version":%d}' % version
        bench.log.append(TOPICS.objects, f"{PREFIX}a".encode(), value, headers=headers if with_trace else ())
        bench.settle()
    said = [item.fan_out for item in bench.told[GATEWAY].take() if item.WhichOneof("item") == "fan_out"]
    assert [(one.newest.version, one.traceparent) for one in said] == [(1, trace), (2, "")]

    bench.log.append(TOPICS.objects, STRAY_KEY, b"{}", headers=headers)
    (move,) = bench.step().state
    assert move.headers[1:] == headers


def test_a_key_that_is_no_utf_8_is_not_that_of_an_object_whose_name_looks_alike() -> None:
    bench = EngineBench()
    for look_alike in ("\N{REPLACEMENT CHARACTER}", "?", ""):
        bench.version(f"a{look_alike}", 1)
    bench.settle()

    bench.log.append(TOPICS.objects, f"{PREFIX}a".encode() + b"\xff", b'{"version":2}')
    bench.settle()

    assert newest(bench, "a\N{REPLACEMENT CHARACTER}") == newest(bench, "a?") == newest(bench, "a") == (0, 1)
    (rejected,) = bench.log.rejected
    assert dict(rejected.headers)[REASON_HEADER].startswith(b"key: ")


@pytest.mark.parametrize("payload_bytes_max", [4096, 5000, 65_536])
def test_a_payload_may_be_as_long_as_is_set_live_and_loaded(payload_bytes_max: int) -> None:
    bench = EngineBench(rules=Rules(payload_bytes_max=payload_bytes_max))
    bench.opened("o")
    payload = b'"%b"' % (b"x" * (payload_bytes_max - 2))
    bench.publish("o", b'{"version":1,"payload":%b}' % payload)
    bench.publish("o", b'{"version":2,"payload":"x%b}' % payload[1:])
    bench.settle()
    assert newest(bench) == (0, 1)
    assert [(one.version, one.payload) for one in all_newest(bench)] == [(1, payload)]
    assert reason(bench) == (
        f"payload: has {payload_bytes_max + 1} bytes of JSON (at most {payload_bytes_max} are allowed)"
    )
    bench.load()
    assert newest(bench) == (0, 1)
    assert len(bench.log.rejected) == 1


@pytest.mark.parametrize(("spaces", "unmade"), [(0, True), (60_000, True), (66_000, False)])
def test_a_loaded_record_keeps_as_many_bytes_again_as_its_payload_has(spaces: int, unmade: bool) -> None:
    bench = EngineBench(rules=Rules(payload_bytes_max=65_536))
    bench.publish("small", b'{"version":1' + b" " * UNMADE_BYTES_MAX + b"}")
    bench.publish("large", b'{"version":1,"payload":"%b"%b}' % (b"x" * 65_000, b" " * spaces))
    # While it is live each is made. The next matcher loads them.
    bench.load()
    made = {obj.name for obj in bench.engine.state.objects.made()}
    assert made == ({"small"} if unmade else {"small", "large"})
    assert newest(bench, "large") == newest(bench, "small") == (0, 1)
