"""An object alone: how records merge, whatever their order; what is said of it."""

import pytest
from coldnotify_matcher.engine.gateways.gateways import GatewayView
from coldnotify_matcher.engine.objects.objects import UNKNOWN, LiveSubscribers, Obj
from coldnotify_schemas.records import (
    encode_public_record,
    parse_public_record,
)
from coldnotify_testkit.engine_bench import PREFIX, EngineBench


def newest(bench: EngineBench, name: str = "o") -> tuple[int, int] | None:
    """(incarnation, version) of an object, as the engine has it."""
    obj = bench.engine.state.objects.get(PREFIX + name)
    return None if obj is None or obj.version == UNKNOWN else (obj.incarnation, obj.version)


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

    repair = merged(record, '{"version":1}').repair_record()

    assert repair == parse_public_record(record.encode())


def test_a_repair_that_comes_after_a_new_incarnation_does_not_outdo_it() -> None:
    """It is written in good faith, and lands behind a publish that nobody had read yet."""
    repair = encode_public_record(merged('{"version":16}', '{"version":11}').repair_record()).decode()

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
    subscribers = LiveSubscribers(gateway.retirements)
    subscribers.numbers.extend([4, 5, 6])
    gateway.remove(5, indexed=True)
    gateway.sessions = dict.fromkeys((4, 6))  # type: ignore[assignment]

    subscribers.remove_gone(gateway)

    assert subscribers.numbers.tolist() == [4, 6]


@pytest.mark.parametrize(
    ("fields", "left_ms"), [(b"", None), (b',"expires_at":5000', 1000), (b',"expires_at":4000,"payload":1', 0)]
)
def test_gateways_are_told_what_is_left(fields: bytes, left_ms: int | None) -> None:
    obj = Obj("d/g/o")
    obj.merge(parse_public_record(b'{"version":1%b}' % fields), 1, 7)
    newest = obj.newest(4000)
    assert (newest.expires_in_ms if newest.HasField("expires_in_ms") else None) == left_ms
    assert not newest.payload
    obj.merge(parse_public_record(b'{"version":2,"deleted":true%b}' % fields.partition(b',"payload"')[0]), 2, 8)
    assert not obj.newest(4000).HasField("expires_in_ms"), "a deletion is told for ever"
