"""A run learns where its inputs end, so that its partitions can tell how fresh they are."""

import pytest
from coldnotify_streams.core.actions import LookAtEnds
from coldnotify_streams.core.events import EndsSeen
from coldnotify_streams.errors import RunFailure
from coldnotify_testkit.tally_bench import TallyBench, bench, kinds
from coldnotify_testkit.tally_job import REQUESTS, TABLE


def curious() -> TallyBench:
    one = bench()
    one.partition().wants_ends = True
    return one


def test_ends_are_asked_for_once_a_second_while_the_partition_wants_them() -> None:
    one = bench()
    assert kinds(one.step(), LookAtEnds) == []
    one.partition().wants_ends = True
    (asked,) = [action for action in one.step() if isinstance(action, LookAtEnds)]
    assert asked.places == ((TABLE, 0),)


def test_no_second_question_is_asked_while_the_first_is_unanswered() -> None:
    one = curious()
    one.step()
    assert kinds(one.step(), LookAtEnds) == []
    assert kinds(one.step(EndsSeen(one.now_s, {(TABLE, 0): 0})), LookAtEnds) == [LookAtEnds]
    assert kinds(one.step(EndsSeen(one.now_s, {})), LookAtEnds) == [LookAtEnds], "Kafka did not answer"


def test_the_partition_is_handed_ends_with_the_time_before_they_were_asked_for() -> None:
    one = curious()
    one.step()
    one.step(EndsSeen(990.5, {(TABLE, 0): 7}))
    assert one.partition().ends == [(TABLE, 990.5, 7)]


def test_an_end_below_what_was_read_before_it_was_asked_for_ends_the_run() -> None:
    one = curious()
    one.append(TABLE, 0, b"x", b"1")
    one.step()
    one.step(EndsSeen(990.0, {}))
    with pytest.raises(RunFailure, match="made anew"):
        one.step(EndsSeen(991.0, {(TABLE, 0): 0}))


def test_an_end_that_was_passed_while_it_was_asked_for_does_not() -> None:
    one = curious()
    one.step()
    one.append(TABLE, 0, b"x", b"1")
    one.step()
    one.step(EndsSeen(991.0, {(TABLE, 0): 0}))
    assert one.partition().ends == [(TABLE, 991.0, 0)]


def test_ends_of_a_partition_that_was_given_up_are_dropped() -> None:
    one = curious()
    one.step()
    one.run.partitions.clear()
    one.step(EndsSeen(991.0, {(TABLE, 0): 3}))


def test_ends_of_requests_are_asked_for_by_themselves() -> None:
    one = bench()
    one.partition().wants_ends_of_requests = True
    (asked,) = [action for action in one.step() if isinstance(action, LookAtEnds)]
    assert asked.places == ((REQUESTS, 0),)
    one.step(EndsSeen(990.5, {(REQUESTS, 0): 7}))
    assert one.partition().ends == [(REQUESTS, 990.5, 7)]


def test_a_partition_that_waits_handles_its_requests_later() -> None:
    one = bench()
    one.partition().waits = True
    offset = one.request()
    one.step()
    assert one.partition().handled == []

    one.partition().waits = False
    one.step()
    assert one.partition().handled == [offset]
