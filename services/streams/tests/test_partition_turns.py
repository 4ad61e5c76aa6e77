"""Turns of partitions: who has much to do waits for itself, and the others do not."""

import pytest
from coldnotify_streams.core.actions import HoldBack, ReadOn
from coldnotify_streams.core.events import JobRecord, Records
from coldnotify_streams.core.partition_turns import endless, never, timed
from coldnotify_streams.core.run import RunLimits
from coldnotify_testkit.counted_turns import turn_of
from coldnotify_testkit.tally_bench import bench
from coldnotify_testkit.tally_job import REQUESTS, TABLE


def test_a_turn_is_over_by_the_clock() -> None:
    now_s = 5.0
    begin = timed(lambda: now_s, 0.010)
    spent = begin()
    assert not spent()
    now_s = 5.0099
    assert not spent()
    now_s = 5.0101
    assert spent()
    assert not begin()(), "the next one is another one"
    assert endless() is never
    assert not never()


def test_records_of_a_partition_wait_for_its_next_turn_and_those_of_others_do_not() -> None:
    one = bench()
    for _ in range(10):
        one.append(TABLE, 0, b"x", b"1")
    one.append(TABLE, 1, b"x", b"1")
    one.next_turn = lambda: turn_of(2)
    one.step(seconds=0.001)
    assert [one.partition(number).position for number in (0, 1)] == [3, 1]
    assert one.run.unfinished == {0}
    one.step(seconds=0.001)
    assert one.partition(0).position == 6
    while one.run.unfinished:
        one.step(seconds=0.001)
    assert one.partition(0).position == 10
    assert one.committed.get((TABLE, 0), 0) <= 10


def test_a_busy_partition_alternates_with_those_that_have_new_records() -> None:
    one = bench()
    one.next_turn = lambda: turn_of(0)
    one.held_back |= {0, 1}  # nothing is read but what the test says
    one.step(Records([_record(0, offset) for offset in range(20)]), seconds=0.001)
    positions = []
    for offset in range(6):
        one.step(Records([_record(1, offset)]), seconds=0.001)
        positions.append((one.partition(0).position, one.partition(1).position))
    assert positions == [(2, 1), (2, 2), (3, 3), (3, 4), (4, 5), (4, 6)]
    while one.run.unfinished:
        one.step(seconds=0.001)
    assert one.partition(0).position == 20


def _record(number: int, offset: int) -> JobRecord:
    return JobRecord(TABLE, number, offset, end=False, key=b"x", value=b"1")


def test_requests_that_wait_for_the_next_turn_are_not_committed() -> None:
    one = bench()
    for _ in range(7):
        one.request(0)
    one.request(1)
    one.next_turn = lambda: turn_of(1)
    one.step()
    assert (one.partition(0).handled, one.partition(1).handled) == ([0, 1], [0])
    assert one.run.unfinished == {0}
    assert one.committed[REQUESTS, 0] == 2
    while one.run.unfinished:
        one.step()
    one.step()
    assert one.partition(0).handled == list(range(7))
    assert one.committed[REQUESTS, 0] == 7


def test_every_turn_makes_progress_however_short() -> None:
    one = bench()
    one.next_turn = lambda: turn_of(0)
    for _ in range(3):
        one.append(TABLE, 0, b"x", b"1")
        one.request(0)
    for _ in range(20):
        one.step(seconds=0.001)
    assert (one.partition(0).position, one.partition(0).handled) == (3, [0, 1, 2])


def test_later_records_wait_for_one_that_is_prepared_in_many_turns() -> None:
    one = bench()
    one.partition(0).to_prepare[0] = 5
    one.append(TABLE, 0, b"x", b"1")
    one.append(TABLE, 0, b"x", b"1")
    one.request(0, wait=True)
    one.request(0)
    one.next_turn = lambda: turn_of(2)
    one.step(seconds=0.001)
    assert (one.partition(0).position, one.partition(0).handled) == (0, [])
    one.append(TABLE, 1, b"x", b"1")
    one.step(seconds=0.001)
    assert (one.partition(0).position, one.partition(1).position) == (0, 1)
    for _ in range(5):
        one.step(seconds=0.001)
    assert (one.partition(0).position, one.partition(0).handled) == (2, [0, 1])


def test_the_readers_leave_the_records_of_a_partition_in_kafka_while_many_wait_for_its_turns() -> None:
    one = bench(limits=RunLimits(unread_max=5))
    one.next_turn = lambda: turn_of(0)
    for _ in range(10):
        one.append(TABLE, 0, b"x", b"1")
    done = one.step(seconds=0.001)
    assert [action for action in done if isinstance(action, HoldBack | ReadOn)] == [HoldBack(0)]
    for _ in range(30):
        one.append(TABLE, 0, b"x", b"1")
    said = []
    while one.partition(0).position < 40:
        said += [type(action) for action in one.step(seconds=0.001) if isinstance(action, HoldBack | ReadOn)]
        assert len(one.partition(0).unread.records) <= 40
    assert said == [ReadOn, HoldBack, ReadOn]


@pytest.mark.parametrize("values_bytes", [10, 1000])
def test_the_readers_count_the_bytes_of_waiting_records(values_bytes: int) -> None:
    one = bench(limits=RunLimits(unread_bytes_max=1500))
    one.next_turn = lambda: turn_of(0)
    for _ in range(3):
        one.append(TABLE, 0, b"x", b"1" * values_bytes)
    done = one.step(seconds=0.001)
    assert any(isinstance(action, HoldBack) for action in done) is (values_bytes == 1000)


def test_a_record_that_raises_while_prepared_or_read_late_is_set_aside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = bench()
    one.next_turn = lambda: turn_of(0)
    one.append(TABLE, 0, b"x", b"1")
    one.append(TABLE, 0, b"x", b"raise")
    one.append(TABLE, 0, b"x", b"1")
    for _ in range(40):
        one.step()
    assert [record.offset for record in one.partition(0).aside] == [1]
    assert one.partition(0).position == 3


def test_a_partition_revoked_with_waiting_records_hands_over_the_handled_ones() -> None:
    one = bench()
    one.next_turn = lambda: turn_of(0)
    for _ in range(5):
        one.append(TABLE, 0, b"x", b"1")
    one.step()
    one.commit(one.run.last_offsets())
    assert one.committed[TABLE, 0] == one.partition(0).position < 5
