"""The page of messages that is being filled: what goes in, what it waits for, and what was told in front of it.

Stands for: row, message_stream
"""

import pytest
from coldnotify_matcher.engine.streams.message_stream import MessageStream
from coldnotify_matcher.engine.streams.row import TABLE, MessageRow, RowEvent, RowStage
from coldnotify_matcher.engine.streams.stream import NO_CURSOR
from coldnotify_schemas import internal_pb2, wire_pb2

LARGE = 10_000


def entry(channel: int, payload: bytes = b"x" * 100) -> internal_pb2.Entry:
    return internal_pb2.Entry(message=wire_pb2.Message(channel=channel, payload=payload))


def opened() -> MessageRow:
    row = MessageRow()
    row.open(1, now_ms=5)
    return row


def test_entries_go_in_until_the_page_is_full_and_one_however_long_it_is() -> None:
    row = opened()
    size = row.put(entry(1), 10)
    assert size > 100
    assert row.put(entry(1), 10) == 0
    assert (row.size_bytes, row.close(), row.size_bytes) == (size, size, 0)


def test_a_tenant_that_may_be_told_only_so_much_has_pages_of_so_many_entries() -> None:
    row = opened()
    row.limit(2, 1)
    assert row.put(entry(1), LARGE)
    assert not row.put(entry(1), LARGE)


def test_what_comes_before_others_is_counted_over_the_row() -> None:
    row = opened()
    row.hurry([1])
    row.hurry([1])
    assert list(row.opened().urgent) == [1]
    size = row.put(entry(1), LARGE)
    row.put(entry(2), LARGE)
    row.close()
    assert row.urgent_bytes == size
    row.begin()
    assert row.urgent_bytes == 0


def test_an_empty_page_waits_longer_than_one_with_anything_in_it() -> None:
    row = opened()
    assert not row.waited_for_long(14, 5, 10)
    assert row.waited_for_long(15, 5, 10)
    row.put(entry(1), LARGE)
    assert row.waited_for_long(10, 5, 10)


def test_it_waits_for_its_turn_since_it_first_did_until_a_page_with_messages_leaves() -> None:
    row = opened()
    assert (row.wait_turn(7), row.wait_turn(9)) == (7, 7)
    assert row.wait_turn(3) == 3, "a clock was set back"
    row.had_its_turn()
    assert row.wait_turn(9) == 9


def test_what_was_told_in_front_is_forgotten_with_the_next_page() -> None:
    row = opened()
    row.tell_ahead(1, 8, 30)
    assert (row.ahead, row.ahead_bytes) == ({1: 8}, 30)
    row.begin_ahead()
    assert (row.ahead, row.ahead_bytes) == ({}, 0)


@pytest.mark.parametrize("stage", RowStage)
@pytest.mark.parametrize("event", RowEvent)
def test_any_other_transition_raises_key_error(stage: RowStage, event: RowEvent) -> None:
    row = MessageRow(stage=stage)
    act = {
        RowEvent.OPENED: lambda: row.open(1, 0),
        RowEvent.WAITS: lambda: row.wait_for(3),
        RowEvent.SERVED: row.served,
        RowEvent.CLOSED: row.close,
    }[event]
    if event in TABLE[stage]:
        act()
        assert row.stage is TABLE[stage][event]
    else:
        with pytest.raises(KeyError):
            act()


def test_a_stream_that_is_stopped_fills_no_page_and_waits_for_nothing() -> None:
    stream = MessageStream()
    stream.begin_row(7, 0)
    stream.row.open(1, 0)
    size = stream.row.put(entry(1), LARGE)
    stream.row.wait_for(3)
    assert stream.stop() == size
    assert (stream.row.stage, stream.row.waits_for, stream.under_way) == (RowStage.CLOSED, NO_CURSOR, False)


def test_only_a_live_stream_knows_by_an_acknowledgement_that_its_last_page_was_taken() -> None:
    stream = MessageStream()
    stream.begin_row(7, 0)
    stream.positions.add(1, 3, under_way=True)
    stream.positions.sent_last()
    stream.acknowledged(9)
    assert stream.positions.begun == {1: 3}
    stream.send_last(10)
    stream.acknowledged(8)
    assert stream.positions.begun == {1: 3}
    stream.acknowledged(9)
    assert stream.positions.begun == {}
