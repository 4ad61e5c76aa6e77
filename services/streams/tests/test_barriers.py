"""What requests wait for, and when waiting ends the run: with a job of a few lines."""

import pytest
from coldnotify_streams.core.actions import Pause, Say, Serve
from coldnotify_streams.core.events import JobRecord, LogsBegan, PartitionsRevoked, Records
from coldnotify_streams.core.run import RunLimits
from coldnotify_streams.errors import RunFailure
from coldnotify_testkit.tally_bench import bench, kinds, log_bench
from coldnotify_testkit.tally_job import LOG, REQUESTS, TABLE


def test_a_request_with_a_barrier_waits_until_the_table_is_read() -> None:
    one = bench()
    one.table_held.add(0)
    one.append(TABLE, 0, b"x", b"1")
    one.request(0, wait=True)
    one.steps(3)
    assert one.partition().handled == []
    assert one.committed.get((REQUESTS, 0), 0) == 0, "what waits is not handled"
    one.table_held.clear()
    one.step()
    assert one.partition().handled == [0]


def test_no_request_is_answered_from_a_recreated_table() -> None:
    """Until it is noticed that its id is another one, seconds may pass."""
    one = bench()
    one.append(TABLE, 0, b"x", b"1")
    one.step()
    one.log[TABLE, 0].clear()
    one.read[TABLE, 0] = 0
    one.table_held.add(0)
    one.request(0, wait=True)
    with pytest.raises(RunFailure, match="made anew"):
        one.step()


def test_a_table_that_is_not_read_any_further_ends_the_run_and_an_open_transaction_does_not() -> None:
    one = bench(limits=RunLimits(barrier_timeout_s=5.0))
    one.table_held.add(0)
    one.append(TABLE, 0, b"x", b"1")
    one.request(0, wait=True)
    one.stable[TABLE, 0] = 0
    one.steps(5)
    said = [action.words for _ in range(4) for action in one.step() if isinstance(action, Say)]
    assert said == [f"requests wait for a transaction that is open on {TABLE}"]
    del one.stable[TABLE, 0]
    with pytest.raises(RunFailure, match="not read any further"):
        one.steps(10)


def test_the_number_of_waiting_requests_is_limited() -> None:
    one = bench(limits=RunLimits(pending_requests_max=4))
    one.table_held.add(0)
    one.append(TABLE, 0, b"x", b"1")
    for _ in range(4):
        one.request(0, wait=True)
    assert kinds(one.step(), Pause, Serve) == []
    one.request(0, wait=True)
    assert kinds(one.step(), Pause, Serve) == [Pause]
    one.request(0, wait=True)
    assert kinds(one.step(), Pause, Serve) == [], "once is enough"
    assert one.run.partitions[0].requests_pending == 5
    one.table_held.clear()
    assert kinds(one.step(), Pause, Serve) == [Serve]
    one.steps(2)
    assert one.partition().handled == list(range(6))


def test_further_requests_are_read_once_no_more_than_half_of_the_bound_wait() -> None:
    one = bench(limits=RunLimits(pending_requests_max=4))
    one.table_held.add(0)
    for _ in range(5):
        one.append(TABLE, 0, b"x", b"1")
        one.request(0, wait=True)
        done = one.step()
    assert kinds(done, Pause, Serve) == [Pause]
    seen = []
    for record in one.log[TABLE, 0][:3]:
        done = one.step(Records([record]))
        seen.append((one.partition().requests_pending, kinds(done, Pause, Serve)))
    assert seen == [(4, []), (3, []), (2, [Serve])]


def test_a_request_that_promises_a_log_waits_for_it_and_another_does_not() -> None:
    one = log_bench(3)
    one.logs_held = True
    one.assign(0)
    one.request(0)
    one.step()
    one.request(0, log=True)
    one.steps(2)
    assert one.partition().handled == [0]
    one.logs_held = False
    one.step()
    assert one.partition().handled == [0, 1]


def test_a_long_log_is_waited_for_while_its_reader_makes_progress() -> None:
    one = log_bench(100, limits=RunLimits(barrier_timeout_s=5.0))
    one.logs_held = True
    one.assign(0)
    one.request(0, log=True)
    one.step(LogsBegan(0, {LOG: 0}))
    for offset in range(100):
        one.step(Records([one.log[LOG, 0][offset]]), seconds=1.0)
    assert one.partition().handled == [0]


def test_a_log_that_is_not_read_any_further_ends_the_run() -> None:
    one = log_bench(3, limits=RunLimits(barrier_timeout_s=5.0))
    one.logs_held = True
    one.assign(0)
    one.request(0, log=True)
    with pytest.raises(RunFailure, match="topic log is not read any further"):
        one.steps(10)


def test_log_records_of_an_earlier_assignment_are_not_handled() -> None:
    """It is behind another one's offset: what lies between would never be."""
    one = log_bench(3)
    stale = Records([JobRecord(LOG, 0, 7, end=False, key=b"k", value=b"v")])
    one.logs_held = True
    one.assign(0)
    one.step(PartitionsRevoked((0,), lost=False))
    one.assign(0)
    one.step(LogsBegan(0, {LOG: 7}), stale)
    assert one.partition().positions[LOG] == 0
    one.logs_held = False
    one.step()
    assert one.partition().positions[LOG] == 3


def test_no_request_is_answered_from_a_recreated_log() -> None:
    one = log_bench(3)
    one.assign(0)
    one.step()
    one.log[LOG, 0].clear()
    one.logs_held = True
    one.request(0, log=True)
    with pytest.raises(RunFailure, match="made anew"):
        one.step()


def test_times_in_a_request_are_resolved_to_offsets_first() -> None:
    one = log_bench(9)
    one.assign(0)
    one.request(0, times=[4000, 7000])
    one.step()
    assert one.partition().resolved == [4, 7]
