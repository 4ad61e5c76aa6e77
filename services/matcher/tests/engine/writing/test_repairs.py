"""The newest version is written again where compaction would take it, and who has it is not told again."""

import json

import pytest
from coldnotify_matcher.engine.objects.objects import UNKNOWN
from coldnotify_schemas.mqtt.kept_properties import kept_headers
from coldnotify_schemas.records import (
    SINCE_HEADER,
    payload_header,
    since_header,
)
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import EPOCH, GATEWAY, PREFIX, EngineBench, fan_outs, pages, versions

TOPICS = TopicNames()


def newest(bench: EngineBench, name: str = "o") -> tuple[int, int] | None:
    """(incarnation, version) of an object, as the engine has it."""
    obj = bench.engine.state.objects.get(PREFIX + name)
    return None if obj is None or obj.version == UNKNOWN else (obj.incarnation, obj.version)


def last_record(bench: EngineBench, name: str = "o") -> dict[str, object]:
    """What compaction would leave of an object."""
    value = json.loads(bench.latest(TOPICS.objects)[PREFIX + name])
    assert isinstance(value, dict)
    return value


def test_a_stale_version_is_told_to_nobody_and_the_newest_is_written_again() -> None:
    bench = EngineBench()
    bench.opened("o")
    bench.version("o", 5)
    assert fan_outs(bench.items()) == [("o", 5, 0, [1])]

    bench.version("o", 4)

    assert fan_outs(bench.items()) == []
    assert last_record(bench) == {"version": 5, "incarnation": 0}


@pytest.mark.parametrize("stale", [b'{"version":4}', b"x"])
def test_a_payload_of_any_bytes_is_written_again_with_its_header(stale: bytes) -> None:
    bench = EngineBench()
    bench.opened("o")
    bench.log.append(
        TOPICS.objects, f"{PREFIX}o".encode(), b'{"version":5,"payload":"AP8="}', headers=[payload_header()]
    )
    bench.step()
    bench.log.append(TOPICS.objects, f"{PREFIX}o".encode(), stale)

    bench.settle()

    assert last_record(bench) == {"version": 5, "incarnation": 0, "payload": "AP8="}
    assert bench.log.records[TOPICS.objects][-1].said.raw
    for step in (bench.load, lambda: bench.log.compact(TOPICS.objects), bench.load):
        newest = bench.engine.state.objects[f"{PREFIX}o"].newest(0)
        assert (newest.payload, newest.raw) == (b"\x00\xff", True)
        step()
    assert [one.key for one in bench.log.records[TOPICS.objects]].count(f"{PREFIX}o".encode()) == 1
    assert bench.engine.state.objects[f"{PREFIX}o"].raw


def test_a_repeat_of_the_newest_version_is_told_to_nobody_and_not_written_again() -> None:
    bench = EngineBench()
    bench.opened("o")
    for _ in range(2):
        bench.version("o", 5)

    assert fan_outs(bench.items()) == [("o", 5, 0, [1])]
    assert len(bench.log.records[TOPICS.objects]) == 2


def test_a_repair_comes_back_from_the_log_and_changes_nothing() -> None:
    bench = EngineBench()
    bench.opened("o")
    bench.version("o", 5)
    bench.version("o", 4)
    bench.settle()
    bench.told[GATEWAY].take()

    assert not bench.step()
    values = [record.value for record in bench.log.records[TOPICS.objects]]
    assert values == [b'{"version":5}', b'{"version":4}', b'{"version":5,"incarnation":0}']


def test_a_stale_version_that_came_while_no_matcher_ran_is_outdone_at_load() -> None:
    bench = EngineBench()
    bench.version("o", 5)
    bench.version("o", 4)

    bench.load()

    assert last_record(bench) == {"version": 5, "incarnation": 0}


def woken(bench: EngineBench, session: int, cursor: int) -> list[tuple[str, int | None]]:
    """What a client that wants `o` is told at a wake with this cursor."""
    bench.settle()
    bench.told[GATEWAY].take()
    bench.open(["o"], session=session, cursor=cursor)
    (page,) = pages(bench.items())
    return versions(page.newest)


def test_who_has_the_newest_version_is_not_told_again_when_it_is_written_again() -> None:
    bench = EngineBench()
    bench.version("o", 5)
    bench.opened("o")
    bench.version("o", 4)
    bench.settle()
    assert last_record(bench) == {"version": 5, "incarnation": 0}

    assert woken(bench, 2, cursor=0) == []
    bench.load()
    assert woken(bench, 3, cursor=0) == []
    bench.log.compact(TOPICS.objects)
    bench.load()
    assert woken(bench, 4, cursor=0) == []
    assert woken(bench, 5, cursor=-1 % 2**64) == [("o", 5)], "a cursor that is void"


@pytest.mark.parametrize("since", [b"", b"77/0", b"0000004d", b"0000004d/x", b"0000004d/9", b"0000004e/0", b"\xff/0"])
def test_a_record_that_does_not_say_well_since_when_it_is_there_counts_from_its_own_offset(since: bytes) -> None:
    bench = EngineBench()
    bench.opened("o")
    bench.version("other", 1)
    bench.log.append(TOPICS.objects, f"{PREFIX}o".encode(), b'{"version":5}', headers=[(SINCE_HEADER, since)])
    bench.settle()
    bench.load()

    assert bench.engine.state.objects[f"{PREFIX}o"].offset == 1


def test_a_version_that_is_new_here_was_not_here_before_whatever_it_says() -> None:
    bench = EngineBench()
    bench.version("other", 1)
    bench.opened("o")
    header = since_header(EPOCH, 0)
    bench.log.append(TOPICS.objects, f"{PREFIX}o".encode(), b'{"version":5}', headers=[header])

    assert fan_outs(bench.items()) == [("o", 5, 1, [1])]


def test_properties_are_written_again_and_bad_ones_are_counted() -> None:
    bench = EngineBench()
    said = (("mqtt-qos", b"1"), ("mqtt-user-b", b"2"), ("mqtt-user-a", b"1"))
    key = f"{PREFIX}o".encode()
    bench.log.append(TOPICS.objects, key, b'{"version":5}', headers=[*said, ("mqtt-content-type", b"\xff")])
    bench.version("o", 4)
    bench.settle()
    assert bench.engine.state.counts["properties_passed_over"] == 1
    for step in (bench.load, lambda: bench.log.compact(TOPICS.objects), bench.load):
        newest = bench.engine.state.objects[f"{PREFIX}o"].newest(0)
        assert kept_headers(newest.properties) == said
        step()
    assert bench.log.records[TOPICS.objects][-1].said.passed_over == 0


def test_an_object_that_has_one_record_keeps_its_properties_over_a_load() -> None:
    bench = EngineBench()
    said = (("mqtt-qos", b"0"),)
    bench.log.append(TOPICS.objects, f"{PREFIX}o".encode(), b'{"version":5}', headers=said)
    bench.load()
    assert kept_headers(bench.engine.state.objects[f"{PREFIX}o"].newest(0).properties) == said
    bench.publish("o", b'{"version":6}')
    bench.step()
    assert bench.engine.state.objects[f"{PREFIX}o"].newest(0).properties == b""
