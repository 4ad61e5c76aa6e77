"""Patches of descriptions that clients publish: in order, durable before the answer, and the same when handled again.

Stands for: merged_patches
"""

import json

import pytest
from coldnotify_matcher.engine import Step
from coldnotify_schemas.description_patches import REQUEST_HEADER
from coldnotify_schemas.internal_pb2 import Describe, Described, Item, Open
from coldnotify_schemas.names import check_object
from coldnotify_testkit.engine_bench import DOMAIN, GATEWAY, GROUP, PREFIX, TOPICS, EngineBench

PLACE = (f"{DOMAIN}/{GROUP}", "lamp-1")


@pytest.fixture
def bench() -> EngineBench:
    bench = EngineBench()
    bench.request(1, "lamp", open=Open(ask=1, register=["door"]))
    bench.settle()
    bench.told[GATEWAY].take()
    return bench


def describe(bench: EngineBench, ask: int, session: int = 1, **patch: object) -> None:
    said = json.dumps(patch).encode()
    bench.request(session, "lamp", describe=Describe(object=check_object("lamp-1"), patch=said, ask=ask))


def answers(items: list[Item]) -> list[Described]:
    return [one.described for one in items if one.HasField("described")]


def answers_of(step: Step) -> list[Described]:
    return answers([item for _, record in step.inboxes for item in record.items])


def in_force(bench: EngineBench) -> object:
    described = bench.engine.state.descriptions.of(*PLACE)
    return None if described is None else described.description


def written(bench: EngineBench) -> list[object]:
    key = f"describe:{PREFIX}lamp-1".encode()
    return [json.loads(one.value or b"")["description"] for one in bench.log.records[TOPICS.objects] if one.key == key]


def test_it_is_written_with_its_request_before_it_is_answered(bench: EngineBench) -> None:
    describe(bench, 1, Kind="lamp", Room=410)
    step = bench.step()
    assert answers_of(step) == [Described(session=1, ask=1)]
    (record,) = [one for one in step.state if one.topic == TOPICS.objects]
    assert record.headers[0][0] == REQUEST_HEADER
    assert record.timestamp_ms == bench.now_ms
    bench.make_durable(step)
    bench.settle()
    assert in_force(bench) == {"Kind": "lamp", "Room": 410}


def test_a_null_removes_a_key_and_the_others_stay(bench: EngineBench) -> None:
    describe(bench, 1, Kind="lamp", Room=410)
    bench.settle()
    describe(bench, 2, Room=None, on=True)
    bench.settle()
    assert in_force(bench) == {"Kind": "lamp", "on": True}


def test_each_is_merged_into_what_is_not_read_back_yet(bench: EngineBench) -> None:
    describe(bench, 1, a=1)
    first = bench.step()
    describe(bench, 2, b=2)
    describe(bench, 3, a=None, c=3)
    second = bench.step()
    bench.make_durable(first)
    bench.make_durable(second)
    bench.settle()
    assert in_force(bench) == {"b": 2, "c": 3}
    assert written(bench) == [{"a": 1}, {"b": 2, "c": 3}]


def test_a_request_that_is_handled_again_changes_nothing(bench: EngineBench) -> None:
    before = bench.committed
    describe(bench, 1, a=1)
    bench.settle()
    describe(bench, 2, a=2)
    bench.settle()
    bench.describe("lamp-1", b'{"description":{"a":3}}', timestamp_ms=bench.now_ms + 10)
    bench.settle()
    bench.told[GATEWAY].take()
    bench.handle_again(before)
    bench.load()
    assert in_force(bench) == {"a": 3}
    assert [one.reason for one in answers(bench.told[GATEWAY].take())] == ["", ""]


def test_a_step_that_was_lost_is_done_again(bench: EngineBench) -> None:
    describe(bench, 1, a=1)
    bench.settle()
    describe(bench, 2, a=2)
    bench.step()
    bench.load()
    assert in_force(bench) == {"a": 2}


def test_a_late_record_of_a_matcher_that_lost_the_partition_is_void_and_written_over(bench: EngineBench) -> None:
    describe(bench, 1, a=1)
    bench.settle()
    late = bench.log.records[TOPICS.objects][-1]
    describe(bench, 2, b=2)
    bench.settle()
    header = (REQUEST_HEADER, late.said.request)
    bench.log.append(TOPICS.objects, late.key, late.value, timestamp_ms=bench.now_ms + 60_000, headers=[header])
    bench.settle()
    assert in_force(bench) == {"a": 1, "b": 2}
    bench.log.compact(TOPICS.objects)
    bench.load()
    assert in_force(bench) == {"a": 1, "b": 2}
    assert bench.engine.state.descriptions.request_of(*PLACE) == 2


def test_a_description_that_would_be_too_large_is_refused_and_nothing_changes(bench: EngineBench) -> None:
    describe(bench, 1, **{f"a{number}": number for number in range(40)})
    describe(bench, 2, **{f"b{number}": number for number in range(40)})
    describe(bench, 3, last=True)
    step = bench.step()
    reasons = [one.reason.partition(":")[0] for one in answers_of(step)]
    assert reasons == ["", "description", ""]
    bench.make_durable(step)
    bench.settle()
    assert in_force(bench) == {**{f"a{number}": number for number in range(40)}, "last": True}


def test_a_stranger_cannot_have_requests_ignored(bench: EngineBench) -> None:
    key = f"describe:{PREFIX}lamp-1".encode()
    epoch = bench.engine.state.descriptions.requests_epoch
    header = (REQUEST_HEADER, b"%08x/%d" % (epoch, 10**15))
    bench.log.append(TOPICS.objects, key, b'{"description":{"a":1}}', headers=[header])
    bench.settle()
    describe(bench, 1, b=2)
    bench.settle()
    assert in_force(bench) == {"a": 1, "b": 2}
    bench.load()
    describe(bench, 2, c=3)
    bench.settle()
    assert in_force(bench) == {"a": 1, "b": 2, "c": 3}


def test_patches_wait_while_the_description_is_changed_by_http(bench: EngineBench) -> None:
    patches = bench.engine.state.patches
    patches.begin_change(PLACE)
    describe(bench, 1, a=1)
    describe(bench, 2, a=2)
    bench.settle()
    assert not answers(bench.told[GATEWAY].take())
    assert bench.committed[0] == 1
    bench.describe("lamp-1", b'{"description":{"z":26}}', timestamp_ms=bench.now_ms)
    bench.settle()
    patches.end_change(PLACE)
    bench.tick(1)
    assert in_force(bench) == {"a": 2, "z": 26}
    assert [one.ask for one in answers(bench.told[GATEWAY].take())] == [1, 2]
    assert bench.committed[0] == 3
