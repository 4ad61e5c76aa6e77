"""A device's connection over a real socket: what waits in it, what overtakes that, when it counts as full."""

import asyncio
import socket

import pytest
import uvloop
from coldnotify_gateway.core import CRC, Frame, Urgent, encoding
from coldnotify_gateway.device_connection import ConnectionEvents
from coldnotify_gateway.listeners.tcp.client_connection import ClientConnection
from coldnotify_schemas.frames import FrameBuffer
from coldnotify_schemas.internal_pb2 import Entry
from coldnotify_schemas.wire_pb2 import GatewayFrame, Message, Notification
from coldnotify_testkit.waiting import until

HIGH_WATER_BYTES, LOW_WATER_BYTES = 64 * 1024, 16 * 1024
FRAME_BYTES_MAX = 256 * 1024
KERNEL_BYTES = 4096
LAST = "last"


def frame(name: str, payload_bytes: int = 0) -> Frame:
    return encoding.plain(GatewayFrame(notification=Notification(name=name, payload=b"x" * payload_bytes)), CRC.encode)


class Events(ConnectionEvents):
    def __init__(self) -> None:
        self.connection: ClientConnection | None = None
        self.heard: list[str] = []

    def on_connect(self, connection, transport):
        connection.set_high_water(HIGH_WATER_BYTES, LOW_WATER_BYTES)
        self.connection = connection

    def on_blocked(self, connection):
        self.heard.append("blocked")

    def on_drained(self, connection):
        self.heard.append("drained")

    def on_disconnected(self, connection):
        self.heard.append("disconnected")


class Device:
    """The other end: it reads when it is told to."""

    def __init__(self, port: int) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_BYTES)
        self._socket.connect(("127.0.0.1", port))
        self._socket.setblocking(False)
        self._frames = FrameBuffer(FRAME_BYTES_MAX)

    async def names(self, last: str) -> list[str]:
        """Of the notifications that come, up to this one."""
        return [one.notification.name for one in await self.frames(last)]

    async def frames(self, last: str) -> list[GatewayFrame]:
        """What comes, up to the notification of this name."""
        found: list[GatewayFrame] = []
        while not any(one.notification.name == last for one in found):
            data = await asyncio.get_running_loop().sock_recv(self._socket, 65536)
            if not data:
                break
            found += [GatewayFrame.FromString(body) for body in self._frames.feed(data)]
        return found

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def runner(request):
    with asyncio.Runner(loop_factory=request.param) as running:
        yield running


async def connected(work) -> None:
    """`work` with a connection and its device."""
    events = Events()
    server = await asyncio.get_running_loop().create_server(lambda: ClientConnection(events), "127.0.0.1", 0)
    # A connection has what its listening socket has. What the kernel takes beside it, megabytes, is not looked at here.
    server.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)
    device = Device(server.sockets[0].getsockname()[1])
    try:
        await until(lambda: events.connection is not None, "connected")
        await work(events, events.connection, device)
    finally:
        device.close()
        if events.connection is not None:
            events.connection.abort()
        server.close()
        await server.wait_closed()


def fan_out(connection: ClientConnection, one: Frame) -> None:
    """As the shell does it."""
    if connection.waits:
        connection.wait(one)
    else:
        connection.write(one.data)


def fill(connection: ClientConnection, *, parts: bool) -> list[str]:
    """Until it is full: the names of the frames."""
    names: list[str] = []
    while not connection.blocked:
        batch = [f"o{len(names) + number}" for number in range(20)]
        frames = [frame(name, 700) for name in batch]
        if parts:
            connection.send(frames)
        else:
            for one in frames:
                fan_out(connection, one)
        names += batch
        assert len(names) < 100_000, "it is never full"
    return names


@pytest.mark.parametrize("parts", [False, True], ids=["live", "pages"])
def test_what_is_urgent_overtakes_what_waits_and_all_of_it_comes(runner, parts):
    async def work(events, connection, device):
        names = fill(connection, parts=parts)
        buffered_bytes = connection.buffered_bytes
        assert buffered_bytes > HIGH_WATER_BYTES
        connection.send_urgent(Urgent(frame("alarm"), frame("alarm, at its place")))
        connection.send([frame(LAST)])
        assert connection.buffered_bytes > buffered_bytes
        told = await device.names(LAST)
        assert [name for name in told if name != "alarm"] == [*names, "alarm, at its place", LAST]
        # What the transport has been handed is a quarter of what may wait at most, and the frame that exceeds it.
        overtaken_bytes = sum(len(frame(name, 700).data) for name in told[told.index("alarm") + 1 : -2])
        assert overtaken_bytes > HIGH_WATER_BYTES // 2
        await until(lambda: events.heard == ["blocked", "drained"], "drained")
        assert connection.buffered_bytes == 0

    runner.run(connected(work))


def test_a_channel_overtakes_what_waits_of_others(runner):
    def message(channel, offset):
        said = Message(channel=channel, offset=offset, payload=b"x" * 700)
        return encoding.stream_entry(Entry(message=said), CRC.encode)

    async def work(events, connection, device):
        connection.overtake([2], ())
        names = fill(connection, parts=True)
        connection.send([message(2, 1), message(1, 2), message(2, 3)])
        buffered_bytes = connection.buffered_bytes
        connection.overtake([2], ())
        assert connection.buffered_bytes > buffered_bytes
        connection.overtake([2], [message(2, 9)])
        connection.send([frame(LAST)])
        told = await device.frames(LAST)
        of_channels = [(one.message.offset, one.message.paged) for one in told if one.HasField("message")]
        assert of_channels == [(1, True), (3, True), (9, False), (1, False), (2, False), (3, False)]
        assert [one.notification.name for one in told if one.HasField("notification")] == [*names, LAST]
        first = next(place for place, one in enumerate(told) if one.HasField("message"))
        overtaken_bytes = sum(one.ByteSize() for one in told[first:] if one.HasField("notification"))
        assert overtaken_bytes > HIGH_WATER_BYTES // 2

    runner.run(connected(work))


def test_where_nothing_waits_it_comes_once_at_its_place(runner):
    async def work(events, connection, device):
        connection.send([frame("o")])
        assert await device.names("o") == ["o"]
        connection.send_urgent(Urgent(frame("ahead"), frame("at its place")))
        connection.send_urgent(Urgent(frame("ahead"), None))
        assert await device.names("ahead") == ["at its place", "ahead"]
        assert events.heard == []

    runner.run(connected(work))


def test_it_is_full_and_drained_again_and_again_also_where_little_may_wait(runner):
    async def work(events, connection, device):
        for turn in range(3):
            connection.set_high_water(4096, 512)
            fill(connection, parts=bool(turn % 2))
            connection.send([frame(f"{LAST} {turn}")])
            await device.names(f"{LAST} {turn}")
            await until(lambda: not connection.blocked, "drained")
        assert events.heard == ["blocked", "drained"] * 3

    runner.run(connected(work))


def test_a_page_that_is_taken_at_once_makes_nothing_full(runner):
    async def work(events, connection, device):
        connection.set_high_water(4096, 512)
        connection.send([*(frame(f"o{number}", 700) for number in range(20)), frame(LAST)])
        assert len(await device.names(LAST)) == 21
        await until(lambda: not connection.blocked, "drained")

    runner.run(connected(work))


def test_what_waits_is_flushed_before_it_is_closed(runner):
    async def work(events, connection, device):
        names = fill(connection, parts=True)
        connection.send([frame(LAST)])
        connection.finish()
        assert await device.names(LAST) == [*names, LAST]

    runner.run(connected(work))


def test_what_waits_when_it_is_gone_is_forgotten(runner):
    async def work(events, connection, device):
        fill(connection, parts=True)
        connection.abort()
        await until(lambda: "disconnected" in events.heard, "disconnected")
        assert connection.buffered_bytes == 0

    runner.run(connected(work))
