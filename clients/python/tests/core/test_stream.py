"""What an Ack says of objects, and of the log of channels: each cursor and each page once."""

import pytest
from coldnotify._core.streams.stream import Stream, first_of, streams_of
from coldnotify_schemas import wire_pb2 as wire

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("said", [wire.Ack(), wire.Stream()])
def test_a_cursor_and_a_page_are_said_once(said: wire.Ack | wire.Stream) -> None:
    stream = Stream(10)
    stream.durable(12)
    stream.page_ended(3)
    stream.acknowledge(said)
    assert (said.complete, said.page, stream.acknowledgement, stream.page_end) == (12, 3, None, 0)
    again = wire.Stream()
    stream.acknowledge(again)
    assert again.ByteSize() == 0


def test_the_cursor_of_the_hello_is_known() -> None:
    stream = Stream(10)
    assert stream.acknowledgement is None
    stream.durable(10)
    assert stream.acknowledgement is None


def test_a_page_alone_leaves_the_cursor_to_be_said() -> None:
    stream, said = Stream(10), wire.Stream()
    stream.durable(0)
    stream.page_ended(3)
    stream.acknowledge_page(said)
    assert (said.page, said.HasField("complete"), stream.acknowledgement) == (3, False, 0)


def test_cursors_of_another_epoch_are_forgotten() -> None:
    stream = Stream(10)
    stream.durable(12)
    stream.begin_epoch()
    assert stream.acknowledgement is None
    stream.durable(10)
    assert stream.acknowledgement == 10


def test_streams_are_said_by_place_and_an_empty_one_is_not_said() -> None:
    log = wire.Stream(complete=0)
    assert streams_of(log) == [log]
    assert streams_of(wire.Stream()) == []
    assert first_of([log, wire.Stream(complete=5)]) == log
    assert first_of([]) == wire.Stream()
