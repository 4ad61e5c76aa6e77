"""What the shell does as the core says.

When it writes a fan-out: at once, or together with what comes while it rests. When a connection is full.

Stands for: inbox_turns, writing
"""

import asyncio
from unittest.mock import Mock

import pytest
from coldnotify_gateway.core import Frame, HighWater, Overtake, RecordIntake, SendAll, SendUrgent, Urgent, joined
from coldnotify_gateway.inbox_records import Aside
from coldnotify_gateway.settings import GatewaySettings
from coldnotify_gateway.shell import GatewayShell
from coldnotify_schemas.internal_pb2 import Inbox, Item

LIMIT_S = 60


@pytest.fixture(autouse=True)
def slices_without_end(monkeypatch):
    """What a slow machine handles in one go is what a quick one does."""
    monkeypatch.setattr("coldnotify_gateway.inbox_turns._SLICE_S", float("inf"))


class Peer:
    blocked = waits = False

    def __init__(self):
        self.writes = []

    def write(self, data):
        self.writes.append(data)

    def send(self, frames):
        self.write(joined(frames))

    def send_urgent(self, urgent):
        self.write(urgent.ahead.data)

    def overtake(self, channels, repeats):
        self.writes.append((channels, repeats))


class FansOut:
    """A core to which every record is a fan-out of its number to all peers."""

    def __init__(self, peers):
        self.peers = peers

    def on_inbox(self, inbox, _now_s):
        return RecordIntake([SendAll(self.peers, Frame(b"%d" % inbox.number))], ())


def records(numbers):
    return [Inbox(number=number) for number in numbers]


async def told(connections, *batches):
    """The writes to each connection, of batches that come at once."""
    peers = [Peer() for _ in range(connections)]
    shell = GatewayShell(GatewaySettings(), FansOut(peers), None, None, broken=pytest.fail, forgotten=pytest.fail)
    for batch in batches[:-1]:
        shell.on_records(records(batch), lambda: None)
    last_handled = asyncio.Event()
    shell.on_records(records(batches[-1]), last_handled.set)
    first = [list(peer.writes) for peer in peers]
    await asyncio.wait_for(last_handled.wait(), LIMIT_S)
    await asyncio.sleep(0)  # what is gathered is written behind that
    for writes in (first, [peer.writes for peer in peers]):
        assert all(one == writes[0] for one in writes)
    return first[0], peers[0].writes


async def written_where_the_second_says(said):
    """What each of two peers is written of three records, for the second of which the core says this of both."""

    class Mixed(FansOut):
        def on_inbox(self, inbox, now_s):
            return RecordIntake(said(self.peers), ()) if inbox.number == 2 else super().on_inbox(inbox, now_s)

    peers = [Peer(), Peer()]
    shell = GatewayShell(GatewaySettings(), Mixed(peers), None, None, broken=pytest.fail, forgotten=pytest.fail)
    handled = asyncio.Event()
    shell.on_records(records([1, 2, 3]), handled.set)
    await asyncio.wait_for(handled.wait(), LIMIT_S)
    await asyncio.sleep(0)
    return [peer.writes for peer in peers]


async def test_what_is_urgent_is_written_at_once_behind_what_was_gathered_before_it():
    writes = await written_where_the_second_says(lambda peers: [SendUrgent(peers, Urgent(Frame(b"!"), Frame(b"2")))])
    assert writes == [[b"1", b"!", b"3"]] * 2


async def test_a_channel_overtakes_what_was_gathered_before_it_too():
    writes = await written_where_the_second_says(
        lambda peers: [SendAll(peers, Frame(b"2")), Overtake(peers, (7,), [Frame(b"!")])]
    )
    assert writes == [[b"12", ((7,), [Frame(b"!")]), b"3"]] * 2


async def test_what_comes_after_writes_to_many_connections_leaves_in_one_write():
    at_once, all_ = await told(200, [1], [2], [3])
    assert at_once == [b"1"]
    assert all_ == [b"1", b"23"]


async def test_writes_to_few_connections_are_followed_by_no_rest():
    at_once, all_ = await told(20, [1], [2], [3])
    assert at_once == all_ == [b"1", b"2", b"3"]


async def test_the_records_of_a_batch_leave_in_one_write():
    at_once, all_ = await told(20, [1, 2, 3])
    assert at_once == all_ == [b"123"]


async def test_after_a_rest_without_anything_to_write_all_goes_on():
    peers = [Peer() for _ in range(200)]
    shell = GatewayShell(GatewaySettings(), FansOut(peers), None, None, broken=pytest.fail, forgotten=pytest.fail)
    shell.on_records(records([1]), lambda: None)
    await asyncio.sleep(0.1)
    handled = asyncio.Event()
    shell.on_records(records([2]), handled.set)
    await asyncio.wait_for(handled.wait(), LIMIT_S)
    await asyncio.sleep(0)
    assert peers[0].writes == [b"1", b"2"]


@pytest.mark.parametrize(("said_bytes", "low_water_bytes"), [(64 * 1024, 8 * 1024), (16 * 1024, 2048), (4096, 512)])
async def test_a_connection_of_a_slow_link_is_full_earlier_and_drained_later(said_bytes, low_water_bytes):
    """What is left when it is drained is in front of the page that is asked for then."""

    class Connection(Peer):
        def set_high_water(self, *marks):
            self.marks = marks

    connection = Connection()
    shell = GatewayShell(GatewaySettings(), FansOut([]), None, None, broken=pytest.fail, forgotten=pytest.fail)
    shell.do([HighWater(connection, said_bytes)])
    assert connection.marks == (said_bytes, low_water_bytes)


class Raises(FansOut):
    """A core to which a record with the number 13 is one that it cannot handle, in the middle."""

    inbox = 5

    def __init__(self, peers):
        super().__init__(peers)
        self.malformed, self.faults = 0, []

    def on_inbox(self, inbox, now_s):
        intake = super().on_inbox(inbox, now_s)
        return RecordIntake(intake.outputs, [Item()] if inbox.number == 13 else ())

    def on_item(self, _partition, _item, _now_s):
        raise ValueError("by design")

    def on_malformed_inbox(self):
        self.malformed += 1

    def on_fault(self, partition, _now_s):
        self.faults.append(partition)
        return [SendAll(self.peers, Frame(b"closed"))]


async def test_a_record_that_makes_its_handler_raise_is_set_aside_and_its_partition_begins_anew():
    peer, writer = Peer(), Mock()
    core = Raises([peer])
    shell = GatewayShell(GatewaySettings(), core, writer, None, broken=pytest.fail, forgotten=pytest.fail)
    bad = Inbox(number=13, partition=2)
    handled = asyncio.Event()
    shell.on_records([*records([1]), bad, Aside(b"x", 5, 7, "why"), *records([3])], handled.set)
    await asyncio.wait_for(handled.wait(), LIMIT_S)
    await asyncio.sleep(0)

    assert (core.faults, core.malformed) == ([2], 2)
    (raised,), (unread,) = (call.args for call in writer.reject.call_args_list)
    assert (raised.value, raised.inbox, raised.offset) == (bad.SerializeToString(), 5, None)
    assert "ValueError: by design" in raised.reason
    assert unread == Aside(b"x", 5, 7, "why")
    assert b"".join(peer.writes) == b"113closed3"
