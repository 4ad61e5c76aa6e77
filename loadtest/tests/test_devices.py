"""The devices' protocols, byte by byte.

Stands for: coldnotify, web, nats, mqtt, redis, bare, remembered, population
"""

import struct
from dataclasses import replace
from itertools import pairwise

import pytest
from coldnotify_loadtest.described import DescribedLoad
from coldnotify_loadtest.devices import KINDS, LoadDevice, make
from coldnotify_loadtest.devices.coldnotify import ColdNotifyDevice
from coldnotify_loadtest.devices.mqtt import cut, packet, publish
from coldnotify_loadtest.devices.queries import QueryDevice
from coldnotify_loadtest.devices.redis import Incomplete, command, value_at
from coldnotify_loadtest.devices.remembered import ENTRIES_MAX, Remembered
from coldnotify_loadtest.population import Population
from coldnotify_schemas.digest import digest, object_crc
from coldnotify_schemas.frames import CLIENT_FRAME_BYTES_MAX, FrameBuffer, encode, parse_client_frame
from coldnotify_schemas.interests import query_hash
from coldnotify_schemas.wire_pb2 import ClientFrame, GatewayFrame

FEW = Population(fan_out=2, registrations=3, groups=2)
MANY = Population(fan_out=2, registrations=130)


def said(data: bytes) -> list[ClientFrame]:
    return [parse_client_frame(body) for body in FrameBuffer(CLIENT_FRAME_BYTES_MAX).feed(data)]


def notification(stamp: int, offset: int, *, answer: bool = False) -> bytes:
    frame = GatewayFrame()
    frame.notification.crc = object_crc("object-0-0")
    frame.notification.version, frame.notification.offset = stamp, offset
    frame.notification.payload, frame.notification.answer = b"%d" % stamp, answer
    return encode(frame)


def welcome(*, in_sync: bool, epoch: int | None = None) -> bytes:
    frame = GatewayFrame()
    frame.welcome.in_sync = in_sync
    if epoch is not None:
        frame.welcome.epoch = epoch
    return encode(frame)


def caught_up(complete: int) -> bytes:
    frame = GatewayFrame()
    frame.caught_up.complete = complete
    return encode(frame)


def message(payload: bytes) -> bytes:
    """A binary message of WebSocket from a server."""
    assert len(payload) < 126
    return bytes((0x82, len(payload))) + payload


def test_a_block_shares_objects_and_blocks_are_spread_over_groups() -> None:
    assert [FEW.block_of(n) for n in range(5)] == [0, 0, 1, 1, 2]
    assert [FEW.group(block) for block in range(3)] == ["region-1", "region-2", "region-1"]
    assert len({name for block in range(3) for name in FEW.objects(block)}) == 9


def is_ready(device: LoadDevice) -> bool:
    """In a function: a checker of types does not believe that it changes."""
    return device.ready


def test_coldnotify_registers_in_its_first_hello_and_comes_back_with_its_cursor() -> None:
    device = ColdNotifyDevice(FEW, 3)
    (first,) = said(device.hello())
    assert (first.hello.group, first.hello.client) == ("region-2", "observer-3")
    assert list(first.hello.register) == list(FEW.objects(1))
    assert first.hello.digest == digest(FEW.objects(1))
    assert not first.hello.HasField("epoch")
    assert device.receive(welcome(in_sync=True, epoch=7)) == (b"", ())
    assert device.receive(notification(11, 500, answer=True)) == (b"", (11,))
    assert not is_ready(device)
    device.receive(caught_up(90))
    assert is_ready(device)
    (ack,) = said(device.tick())
    assert ack.ack.complete == 90, "the answer moved no cursor"
    assert device.tick() == b""
    assert device.receive(notification(12, 100)) == (b"", (12,))
    (again,) = said(device.hello())
    assert not again.hello.register
    assert (again.hello.epoch, again.hello.cursor) == (7, 100)
    assert not is_ready(device)


def test_coldnotify_sends_its_whole_set_where_the_digests_differ() -> None:
    device = ColdNotifyDevice(MANY, 0)
    (hello,) = said(device.hello())
    assert not hello.hello.register
    reply, _ = device.receive(welcome(in_sync=False, epoch=1))
    chunks = [frame.sync for frame in said(reply)]
    assert [chunk.index for chunk in chunks] == [0, 1, 2]
    assert [chunk.last for chunk in chunks] == [False, False, True]
    assert [name for chunk in chunks for name in chunk.objects] == list(MANY.objects(0))


def test_coldnotify_acknowledges_pages_and_says_why_it_was_closed() -> None:
    device = ColdNotifyDevice(FEW, 0)
    device.hello()
    frame = GatewayFrame()
    frame.page_end.page = 3
    (ack,) = said(device.receive(encode(frame))[0])
    assert (ack.ack.page, ack.ack.HasField("complete")) == (3, False)
    frame.close.code, frame.close.reason = 3, "too slow"
    device.receive(encode(frame))
    assert device.closed == "3 too slow"
    (ping,) = said(device.ping())
    assert ping.ping.digest == digest(FEW.objects(0))


@pytest.mark.parametrize("by", ["queries", "objects"])
def test_a_change_replaces_the_oldest_registrations(by: str) -> None:
    registered = DescribedLoad(fan_out=1, by_level=True, queries_each=0, registrations=3)
    if by == "queries":
        registered = replace(registered, queries_each=3, registrations=0, distinct=3)
    device = QueryDevice(registered, 0)
    device.hello()

    def changed() -> tuple[set[object], set[object]]:
        """What it had longest, and what is new."""
        gone, new = said(device.change(2))
        if by == "objects":
            return set(gone.unregister.objects), set(new.register.objects)
        return set(gone.unregister.interests), {query_hash(query.text) for query in new.register.interests}

    (first, once_new), (second, twice_new) = changed(), changed()
    assert len(first) == len(once_new) == len(twice_new) == 2
    assert len(second & once_new) == 1
    assert not first & once_new
    assert not (first | once_new) & twice_new
    assert device.change(2) == b"", "four requests are unanswered"


def test_frames_remembered_for_one_device_are_right_for_the_next() -> None:
    devices = [ColdNotifyDevice(FEW, n) for n in range(2)]
    for device in devices:
        device.hello()
        device.receive(welcome(in_sync=True) + caught_up(1))
    data = notification(21, 2) + notification(22, 3)
    for device in devices:
        assert device.receive(data) == (b"", (21, 22))
        assert device.cursor == 3


@pytest.mark.parametrize("cut_at", [1, 5, 20])
def test_bytes_may_come_in_any_pieces(cut_at: int) -> None:
    subscribed = b"\x20\x02\x00\x00\x90\x05\x00\x01\x01\x01\x01"
    by_mqtt = subscribed + publish("a", b"31", 1, retain=False) + publish("a", b"32", 2, retain=False)
    streams = {
        **dict.fromkeys(("mqtt", "mqtt-0", "coldnotify-mqtt", "coldnotify-mqtt-0"), by_mqtt),
        "coldnotify": welcome(in_sync=True) + caught_up(1) + notification(31, 2) + notification(32, 3),
        "coldnotify-queries": welcome(in_sync=True) + caught_up(1) + notification(31, 2) + notification(32, 3),
        "coldnotify-web": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
        + message(welcome(in_sync=True) + caught_up(1) + notification(31, 2))
        + b"\x8a\x00"
        + message(notification(32, 3)),
        "nats": b"INFO {}\r\nPONG\r\nMSG a.b 1 2\r\n31\r\nPING\r\nMSG a.b 1 2\r\n32\r\n",
        "nats-kv": b'INFO {}\r\nMSG _R.x 2 17\r\n{"num_pending":0}\r\nHMSG _D.x 1 b 12 12\r\nNATS/1.0\r\n\r\n\r\n'
        b"MSG $KV.b.k 1 $JS.ACK.s.c.1.1.1.1.0 2\r\n31\r\nMSG $KV.b.k 1 $JS.ACK.s.c.1.2.2.1.0 2\r\n32\r\n",
        "redis": b"%1\r\n$1\r\na\r\n:1\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*1\r\n_\r\n"
        b">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\n31\r\n>3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\n32\r\n",
        "bare": b"!31\n32\n",
    }
    assert set(streams) == set(KINDS)
    for kind, stream in streams.items():
        device = make(kind, FEW, 0)
        device.hello()
        got: list[int] = []
        for begin, end in pairwise([*range(0, len(stream), cut_at), len(stream)]):
            got += device.receive(stream[begin:end])[1]
        assert got == [31, 32], kind
        assert is_ready(device), kind
        assert not device.closed, kind


def test_a_device_over_websocket_masks_what_it_says_and_tells_a_refusal() -> None:
    device = make("coldnotify-web", FEW, 0)
    assert device.hello().startswith(b"GET /v1/connect HTTP/1.1\r\n")
    reply, _ = device.receive(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
    assert reply[0] == 0x82
    size, mask, masked = reply[1] & 0x7F, reply[2:6], reply[6:]
    assert size == len(masked)
    (hello,) = said(bytes(byte ^ mask[i % 4] for i, byte in enumerate(masked)))
    assert hello.hello.client == "observer-0"
    pong, _ = device.receive(b"\x89\x02ab")
    assert pong[0] == 0x8A
    device.receive(message(welcome(in_sync=True, epoch=1) + caught_up(7)))
    assert device.ready
    device.hello()
    assert not device.tick(), "no Ack before the Hello of the new connection"
    assert device.receive(b"HTTP/1.1 403 Forbidden\r\n\r\n") == (b"", ())
    assert device.closed == "HTTP/1.1 403 Forbidden"


def test_nats_answers_pings_and_flow_control_and_reports_errors() -> None:
    device = make("nats-kv", FEW, 0)
    hello = device.hello()
    assert hello.count(b"SUB ") == 2
    assert b'"filter_subjects": [' in hello
    assert device.receive(b"PING\r\n") == (b"PONG\r\n", ())
    control = b"NATS/1.0 100 FlowControl Request\r\n\r\n"
    asked = b"HMSG _D.x 1 back %d %d\r\n%s\r\n" % (len(control), len(control), control)
    assert device.receive(asked) == (b"PUB back 0\r\n\r\n", ())
    device.receive(b'MSG _R.x 2 27\r\n{"error":{"code":503,"a":1}}\r\n'.replace(b"27", b"28"))
    assert "503" in device.closed


def test_mqtt_subscribes_once_and_acknowledges() -> None:
    device = make("mqtt", FEW, 0)
    device.hello()
    subscribe, _ = device.receive(b"\x20\x02\x00\x00")
    ((first, body),) = cut(subscribe)[0]
    assert (first, body[:2]) == (0x82, b"\x00\x01")
    assert body.count(b"\x01") >= 3
    assert not is_ready(device)
    device.receive(packet(0x90, b"\x00\x01\x01\x01\x01"))
    assert is_ready(device)
    reply, stamps = device.receive(publish("a/b", b"41", 513, retain=True))
    assert (reply, stamps) == (b"\x40\x02" + struct.pack("!H", 513), (41,))
    device.hello()
    assert device.receive(b"\x20\x02\x01\x00") == (b"", ())
    assert is_ready(device), "the broker knows the session"
    assert packet(0x30, b"x" * 200)[:3] == b"\x30\xc8\x01"


def test_to_a_gateway_mqtt_says_domain_and_group_in_its_client_id() -> None:
    device = make("coldnotify-mqtt-0", FEW, 3)
    assert device.hello().endswith(b"animal.observer/region-2/observer-3")
    subscribe, _ = device.receive(b"\x20\x02\x00\x00")
    assert subscribe.endswith(b"\x00\x0aobject-1-2\x00"), "QoS 0, a name in the group"


def test_redis_values() -> None:
    assert command("GET", b"a") == b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n"
    assert value_at(b":5\r\n", 0) == (5, 4)
    assert value_at(b"$-1\r\n", 0) == (None, 5)
    with pytest.raises(Incomplete):
        value_at(b"$5\r\nab", 0)
    device = make("redis", FEW, 0)
    device.hello()
    device.receive(b"-ERR no\r\n")
    assert device.closed == "-ERR no"


def test_the_memory_of_frames_is_bounded() -> None:
    remembered: Remembered[int] = Remembered()
    for number in range(3 * ENTRIES_MAX):
        remembered.put(b"%d" % number, number)
    assert sum(remembered.get(b"%d" % number) is not None for number in range(3 * ENTRIES_MAX)) <= ENTRIES_MAX
