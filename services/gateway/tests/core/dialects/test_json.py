"""The dialect json hands over values that fan-outs share; and the table lists each dialect.

Stands for: framed
"""

import struct
from collections.abc import Collection, Sequence

import pytest
from coldnotify_gateway.core import (
    CRC,
    DIALECTS,
    JSON,
    MQTT,
    NAMES,
    RAW_CRC,
    RAW_NAMES,
    Dialect,
    Frame,
    Peer,
    Urgent,
    WaitingFrames,
    encoding,
    values_of,
)
from coldnotify_gateway.core.dialects.framed import framed
from coldnotify_gateway.core.told import Told
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.frames import encode
from coldnotify_schemas.internal_pb2 import (
    LOG_1D,
    BegunStream,
    CompleteStream,
    Entry,
    FanOut,
    Item,
    Newest,
    Opened,
    Page,
)
from coldnotify_schemas.wire_pb2 import (
    CAPABILITY_NAMES,
    INTEREST_CHANNEL,
    ClientFrame,
    GatewayFrame,
    Hello,
    Message,
    Missed,
)
from coldnotify_testkit.device_frames import parse, ping, use_names
from coldnotify_testkit.gateway_bench import GatewayBench, WireDouble

SESSIONS = struct.pack("<3I", 1, 2, 3)


class PlayedDouble:
    """The connection of a device that the gateway plays."""

    def __init__(self) -> None:
        self._waiting = WaitingFrames(JSON.encode)
        self.finished = False

    def send(self, frames: Sequence[Frame], /) -> None:
        self._waiting.add(*frames)

    def send_urgent(self, urgent: Urgent, /) -> None:
        self._waiting.add_urgent(urgent)

    def overtake(self, channels: Collection[int], repeats: Sequence[Frame], /) -> None:
        self._waiting.overtake(channels, repeats)

    def finish(self) -> None:
        self.finished = True

    def take(self) -> list[GatewayFrame]:
        frames = self._waiting.take_frames(self._waiting.size_bytes)
        values = values_of(frames)
        assert [frame.data for frame in frames] == [framed(value, Told()).data for value in values], (
            "what counts is the frame"
        )
        return values

    def __hash__(self) -> int:
        return id(self)


def say(bench: GatewayBench, wire: PlayedDouble, data: bytes) -> None:
    bench.do(bench.gateway.on_client_bytes(wire, data, bench.now_s))


def live(bench: GatewayBench) -> tuple[WireDouble, WireDouble, PlayedDouble]:
    """Returns sessions 1, 2, 3, which speak crc, names and json; their objects and channels are live."""
    by_crc, by_name, played = WireDouble(), WireDouble(), PlayedDouble()
    told: list[tuple[Peer, int, Dialect | None]] = [(by_crc, 0, None), (by_name, CAPABILITY_NAMES, None)]
    for number, (wire, capabilities, dialect) in enumerate([*told, (played, CAPABILITY_NAMES, JSON)], 1):
        bench.do(bench.gateway.on_connect(wire, "127.0.0.1", bench.now_s, dialect=dialect))
        said = Hello(protocol=1, domain="d", group="g", client=f"c{number}", capabilities=capabilities)
        said.interests.add(kind=INTEREST_CHANNEL, text="tasks")
        bench.do(bench.gateway.on_client_bytes(wire, encode(ClientFrame(hello=said)), bench.now_s))
        (request,) = bench.take_requests("open")
        ask = request.open.ask
        streams = [BegunStream(log=LOG_1D)]
        opened = Opened(session=number, ask=ask, in_sync=True, digest=request.open.digest, streams=streams)
        bench.inbox(
            Item(opened=opened),
            Item(page=Page(session=number, ask=ask, page=1, last=True, streams=[CompleteStream(complete=1, ask=1)])),
        )
        bench.take_requests()
    return by_crc, by_name, played


def kinds(values: Sequence[GatewayFrame]) -> list[str]:
    return [value.WhichOneof("frame") or "" for value in values]


def test_the_table_lists_each_dialect_once_those_of_one_encoding_together():
    assert (CRC, NAMES, RAW_CRC, RAW_NAMES, JSON, MQTT) == DIALECTS, "fan-outs are written in this order"
    assert [dialect.name for dialect in DIALECTS] == ["crc", "names", "raw crc", "raw names", "json", "mqtt"]
    assert [dialect.by_name for dialect in DIALECTS] == [False, True, False, True, True, True]
    assert [dialect.raw for dialect in DIALECTS] == [False, False, True, True, True, True]


def test_each_frame_of_a_session_is_a_value():
    bench = GatewayBench()
    _, _, played = live(bench)
    assert kinds(played.take()) == ["welcome", "caught_up"]
    say(bench, played, ping())
    assert kinds(played.take()) == ["pong"]
    bench.do(bench.gateway.go_away(3, bench.now_s))
    (close,) = played.take()
    assert (close.close.code, played.finished) == (CloseCode.GOING_AWAY, True)


def test_a_connection_that_is_refused_is_told_by_a_value():
    bench = GatewayBench()
    bench.gateway.go_away(0, bench.now_s)
    played = PlayedDouble()
    bench.do(bench.gateway.on_connect(played, "127.0.0.1", bench.now_s, dialect=JSON))
    assert kinds(played.take()) == ["close"]


def test_a_publish_is_told_in_each_dialect():
    bench = GatewayBench()
    by_crc, by_name, played = live(bench)
    for wire in (by_crc, by_name, played):
        wire.take()
    newest = Newest(name="a", version=1, offset=5, payload=b"{}")
    for urgent in (False, True):
        bench.inbox(Item(fan_out=FanOut(newest=newest, sessions=SESSIONS, urgent=urgent)))
        (crc,), (name,), (value,) = by_crc.take(), by_name.take(), played.take()
        assert (bool(crc.notification.crc), crc.notification.name) == (True, "")
        assert (name, value.notification.name) == (value, "a")


def test_a_message_is_told_once_by_frames_and_once_by_values():
    bench = GatewayBench()
    by_crc, by_name, played = live(bench)
    for wire in (by_crc, by_name, played):
        wire.take()
    counters = bench.gateway.counters
    entry = Entry(message=Message(channel=7, offset=9, back=1, payload=b"1"))
    outputs = bench.gateway.on_item(
        0, Item(stream_fan_out=FanOut(entry=entry, sessions=SESSIONS + SESSIONS[:4])), bench.now_s
    )
    bench.do(outputs)
    assert len(outputs) == 2
    assert by_crc.take()[0] == by_name.take()[0] == played.take()[0]
    assert counters.live_dropped == 0
    say(bench, played, use_names())
    entry = Entry(missed=Missed(channel=7, before=12))
    bench.inbox(Item(stream_fan_out=FanOut(entry=entry, sessions=SESSIONS)))
    assert kinds(played.take()) == ["missed"]


def test_an_overtaking_frame_stays_a_value_and_moves_no_cursor():
    waiting = WaitingFrames(JSON.encode)
    for offset, channel in ((1, 8), (2, 7)):
        waiting.add(encoding.stream_entry(Entry(message=Message(channel=channel, offset=offset)), JSON.encode))
    waiting.overtake((7,))
    values = values_of(waiting.take_frames(waiting.size_bytes))
    assert [(one.message.offset, one.message.paged) for one in values] == [(2, True), (1, False), (2, False)]
    assert waiting.size_bytes == 0


def test_a_frame_of_another_dialect_is_no_value():
    frame = encoding.wait(30, CRC.encode)
    assert parse(frame.data)[0].wait.seconds == 30
    with pytest.raises(TypeError, match="dialect"):
        values_of([frame])
