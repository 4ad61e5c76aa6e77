"""A stream: its stages, and the pages of a row, one by one."""

from functools import partial

import pytest
from coldnotify_gateway.core.stream import NONE, TABLE, Stage, Stream, StreamEvent

page = partial(Stream.arrived, complete=5, paging=7, last=False, blocked=False)
last_page = partial(Stream.arrived, complete=9, paging=7, last=True, blocked=False)
begin = partial(Stream.begin, number=1, now_s=0.0)


def reached(start: Stage) -> set[Stage]:
    found, new = set(), {start}
    while new:
        found |= new
        new = {after for stage in new for after in TABLE[stage].values()} - found
    return found


def test_every_stage_is_in_the_table_and_leads_to_every_other():
    assert set(TABLE) == set(Stage)
    for stage in Stage:
        assert reached(stage) == set(Stage)


def test_only_a_last_page_makes_a_stream_live():
    live_by = {(stage, event) for stage, row in TABLE.items() for event, after in row.items() if after is Stage.LIVE}
    assert live_by == {(Stage.DUE, StreamEvent.LAST_PAGE)}


def test_a_slow_stream_asks_before_it_gets_anything():
    assert set(TABLE[Stage.SLOW].values()) == {Stage.SLOW, Stage.DUE}


def test_every_stage_can_begin_a_new_row():
    assert all(row[StreamEvent.BEGIN] is Stage.DUE for row in TABLE.values())


def test_one_page_after_the_other_is_due_and_sent():
    stream = Stream()
    begin(stream)
    assert stream.is_due(1, 1)
    assert not stream.is_on_its_way(1, 1)
    page(stream)
    assert stream.is_on_its_way(1, 1)
    stream.acknowledged()
    assert stream.is_due(1, 2)
    last_page(stream)
    assert (stream.live, stream.complete, stream.is_due(1, 2)) == (True, 9, False)


def test_a_row_that_begins_with_an_opened_waits_for_it():
    stream = Stream()
    begin(stream, after_opened=True)
    assert not stream.is_due(1, 0)
    assert not stream.is_due(1, 1)
    stream.open()
    assert stream.is_due(1, 1)


@pytest.mark.parametrize(
    ("before", "what"),
    [
        ([begin], Stream.acknowledged),
        ([begin, page], page),
        ([begin, page], last_page),
        ([begin, last_page], last_page),
        ([begin, last_page], Stream.acknowledged),
    ],
)
def test_a_transition_outside_the_table_raises(before, what):
    stream = Stream()
    for step in before:
        step(stream)
    stage = stream.stage
    with pytest.raises(KeyError):
        what(stream)
    assert stream.stage is stage


def test_a_row_that_is_cut_off_begins_with_the_first_page_and_counts_for_nothing():
    stream = Stream()
    begin(stream)
    page(stream)
    assert (stream.paging, stream.in_a_row) == (7, True)
    stream.begin(2, 0.0)
    assert (stream.paging, stream.in_a_row, stream.is_due(2, 1)) == (0, False, True)


def test_a_row_that_has_ended_counts_although_another_one_is_asked_for():
    stream = Stream()
    begin(stream)
    last_page(stream)
    stream.begin(2, 0.0, after_opened=True)
    stream.begin(3, 0.0, after_opened=True)
    assert stream.paging == 7


def test_another_epoch_makes_all_that_was_applied_void():
    stream = Stream(epoch=1)
    stream.begin_at(5)
    assert not stream.applied(5)
    assert stream.applied(6)
    stream.begin_epoch(2)
    assert (stream.epoch, stream.complete, stream.acked) == (2, NONE, NONE)
