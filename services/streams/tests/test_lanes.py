"""The queues between readers and a worker: bounded, and what is read of logs holds up nothing else."""

import queue
import threading

import pytest
from coldnotify_streams.core.events import Began, Event, JobRecord, PartitionsRevoked, Records
from coldnotify_streams.lanes import Lanes


def began(*numbers: int) -> list[Event]:
    return [Began(number) for number in numbers]


def filled(main: list[Event], logs: list[Event]) -> Lanes:
    lanes = Lanes(100, 100, 1000)
    for lane, events in ((lanes.main, main), (lanes.logs, logs)):
        for event in events:
            lane.put(event, timeout=0)
    return lanes


def test_a_step_takes_all_of_the_main_lane_and_little_of_the_logs() -> None:
    lanes = filled(began(1, 2, 3), began(11, 12, 13))
    assert lanes.take(64, 2) == began(1, 2, 3, 11, 12)
    assert lanes.take(64, 2) == began(13)
    assert not lanes.wait(0)


def test_logs_are_taken_also_while_the_main_lane_is_never_empty() -> None:
    lanes = filled(began(*range(10)), began(11))
    assert lanes.take(2, 1) == began(0, 1, 11)


def test_events_after_a_revocation_wait_for_the_next_step() -> None:
    gone = PartitionsRevoked((1,), lost=False)
    lanes = filled([*began(1), gone, *began(2)], [])
    assert lanes.take(64, 2) == [*began(1), gone]
    assert lanes.take(64, 2) == began(2)


def test_a_full_lane_blocks_only_its_own_readers() -> None:
    lanes = Lanes(1, 1, 1000)
    lanes.logs.put(Began(1), timeout=0)
    with pytest.raises(queue.Full):
        lanes.logs.put(Began(2), timeout=0.01)
    lanes.main.put(Began(3), timeout=0)
    assert lanes.take(64, 2) == began(3, 1)


def records(size: int) -> Records:
    return Records([JobRecord("log", 0, 0, end=False, value=b"x" * size), JobRecord("log", 0, 1, end=True)])


def test_a_lane_is_full_by_the_bytes_of_its_records() -> None:
    lanes = Lanes(100, 100, 1000)
    lanes.main.put(records(900), timeout=0)
    lanes.main.put(records(100), timeout=0)
    with pytest.raises(queue.Full):
        lanes.main.put(records(1), timeout=0.01)
    lanes.take(1, 0)
    lanes.main.put(records(900), timeout=0)


def test_one_batch_has_room_however_large_it_is() -> None:
    lanes = Lanes(100, 100, 1000)
    lanes.logs.put(records(5000), timeout=0)
    with pytest.raises(queue.Full):
        lanes.logs.put(records(1), timeout=0.01)
    assert len(lanes.take(0, 64)) == 1


@pytest.mark.parametrize("lane", ["main", "logs"])
def test_waiting_ends_with_an_event_in_either_lane(lane: str) -> None:
    lanes = Lanes(1, 1, 1000)
    reader = threading.Thread(target=lambda: getattr(lanes, lane).put(Began(1), timeout=60))
    reader.start()
    assert lanes.wait(60)
    reader.join()


def test_a_reader_that_waits_for_room_goes_on_once_there_is_some() -> None:
    lanes = Lanes(1, 1, 1000)
    lanes.logs.put(Began(1), timeout=0)
    reader = threading.Thread(target=lambda: lanes.logs.put(Began(2), timeout=60))
    reader.start()
    assert lanes.take(64, 2) == began(1)
    reader.join(60)
    assert lanes.take(64, 2) == began(2)


def test_a_rest_lasts_until_something_urgent_waits() -> None:
    lanes = Lanes(100, 100, 1000)
    urgent = Began(2)
    lanes.main.is_urgent = lambda event: event is urgent
    resting = threading.Thread(target=lanes.rest, args=(60,))
    resting.start()
    lanes.main.put(Began(1), timeout=0)
    resting.join(0.05)
    assert resting.is_alive(), "nobody waits for what this brings"
    lanes.main.put(urgent, timeout=0)
    resting.join(30)
    assert not resting.is_alive()
    assert lanes.take(64, 2) == [Began(1), urgent]
    lanes.rest(0.001)  # ends by itself: the urgent one is taken
    assert not lanes.main.urgent.is_set()
