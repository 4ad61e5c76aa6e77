"""What waits, when it counts as full, and how it ends."""

import asyncio

from coldnotify_gateway.core import CRC, Frame, encoding
from coldnotify_gateway.device_connection import ConnectionEvents
from coldnotify_gateway.listeners.web.queued_connection import QueuedConnection
from coldnotify_schemas.internal_pb2 import Entry
from coldnotify_schemas.wire_pb2 import Message
from coldnotify_testkit.device_frames import parse


class Events(ConnectionEvents):
    def __init__(self):
        self.heard = []

    def on_blocked(self, connection):
        self.heard.append("blocked")

    def on_drained(self, connection):
        self.heard.append("drained")


def queued(events):
    return QueuedConnection(events, 100, 10, cut_off=lambda: events.heard.append("cut off"))


async def test_what_was_sent_is_taken_together_and_counts_until_more_is_asked_for():
    connection = queued(Events())
    connection.send([Frame(b"ab")])
    connection.send([Frame(b"c")])
    assert await connection.take() == b"abc"
    assert connection.buffered_bytes == 3
    waiting = asyncio.ensure_future(connection.take())
    await asyncio.sleep(0)
    assert connection.buffered_bytes == 0
    connection.send([Frame(b"d")])
    assert await waiting == b"d"


async def test_it_is_blocked_above_the_mark_once_and_drained_when_what_was_taken_is_written():
    events = Events()
    connection = queued(events)
    for _ in range(3):
        connection.send([Frame(b"x" * 60)])
    assert (connection.blocked, events.heard) == (True, ["blocked"])
    await connection.take()
    assert connection.blocked
    connection.finish()
    assert await connection.take() == b""
    assert (connection.blocked, events.heard) == (False, ["blocked", "drained"])


async def test_the_marks_can_be_set_while_something_waits():
    events = Events()
    connection = queued(events)
    connection.send([Frame(b"x" * 60)])
    connection.set_high_water(50, 5)
    connection.send([Frame(b"x")])
    assert events.heard == ["blocked"]
    connection.set_high_water(100, 61)
    await connection.take()
    connection.send([Frame(b"x")])
    await connection.take()
    assert events.heard == ["blocked", "drained"]


async def test_what_was_sent_before_the_end_is_taken_and_nothing_after_it():
    connection = queued(Events())
    connection.send([Frame(b"last")])
    connection.finish()
    connection.send([Frame(b"too late")])
    assert [await connection.take(), await connection.take()] == [b"last", b""]


def message(channel, offset):
    return encoding.stream_entry(Entry(message=Message(channel=channel, offset=offset)), CRC.encode)


async def test_a_channel_overtakes_what_waits_of_others_and_wakes_who_takes():
    events = Events()
    connection = queued(events)
    connection.overtake([2], ())
    assert connection.buffered_bytes == 0
    for frame in (message(1, 1), message(2, 2), message(1, 3)):
        connection.send([frame])
    connection.set_high_water(connection.buffered_bytes, 0)
    connection.overtake([2], ())
    assert events.heard == ["blocked"], "a repeat waits, too"
    told = [one.message for one in parse(await connection.take())]
    assert [(one.offset, one.paged) for one in told] == [(2, True), (1, False), (2, False), (3, False)]
    connection.finish()
    connection.overtake([1], [message(1, 9)])
    assert await connection.take() == b""


async def test_an_abort_drops_what_waits_and_cuts_off():
    events = Events()
    connection = queued(events)
    connection.send([Frame(b"lost")])
    connection.abort()
    assert (await connection.take(), connection.buffered_bytes, events.heard) == (b"", 0, ["cut off"])
