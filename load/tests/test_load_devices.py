"""The devices' side of ColdNotify's protocols and of MQTT, byte by byte.

Stands for: tcp_device, web_device, mqtt_device, channel_device, tls_device, load_device, transports, remembered
Stands for: population
"""

import ssl
import struct
from pathlib import Path

import pytest
from coldnotify_load.bench_topics import BenchTopics
from coldnotify_load.channel_device import ChannelDevice
from coldnotify_load.load_device import LoadDevice
from coldnotify_load.marks import Mark, payload_of
from coldnotify_load.mqtt_device import MqttDevice, MqttToColdNotify0, cut, packet, publish
from coldnotify_load.population import Population
from coldnotify_load.remembered import ENTRIES_MAX, Remembered
from coldnotify_load.tcp_device import ColdNotifyDevice
from coldnotify_load.tls_device import TlsFiles
from coldnotify_load.transports import PORTS, device_of
from coldnotify_load.web_device import WebDevice
from coldnotify_schemas.digest import digest
from coldnotify_schemas.frames import encode
from coldnotify_schemas.wire_pb2 import GatewayFrame
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.light_frames import caught_up, message, notification, said, welcome

FEW = Population(fan_out=2, registrations=3, groups=2)
MANY = Population(fan_out=2, registrations=130)


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


def test_frames_remembered_for_one_device_are_right_for_the_next() -> None:
    devices = [ColdNotifyDevice(FEW, n) for n in range(2)]
    for device in devices:
        device.hello()
        device.receive(welcome(in_sync=True) + caught_up(1))
    data = notification(21, 2) + notification(22, 3)
    for device in devices:
        assert device.receive(data) == (b"", (21, 22))
        assert device.cursor == 3


def test_a_device_over_websocket_masks_what_it_says_and_tells_a_refusal() -> None:
    device = WebDevice(FEW, 0)
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


def test_mqtt_subscribes_once_and_acknowledges() -> None:
    device = MqttDevice(FEW, 0)
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
    device = MqttToColdNotify0(FEW, 3)
    assert device.hello().endswith(b"animal.observer/region-2/observer-3")
    subscribe, _ = device.receive(b"\x20\x02\x00\x00")
    assert subscribe.endswith(b"\x00\x0aobject-1-2\x00"), "QoS 0, a name in the group"


def test_the_memory_of_frames_is_bounded() -> None:
    remembered: Remembered[int] = Remembered()
    for number in range(3 * ENTRIES_MAX):
        remembered.put(b"%d" % number, number)
    assert sum(remembered.get(b"%d" % number) is not None for number in range(3 * ENTRIES_MAX)) <= ENTRIES_MAX


# --- channels, TLS, transports

CHANNELS = BenchTopics(topics=130, per_client=2, channels=True)
MARK = Mark("0123abcd", "89abcdef", 0, 1, 100, 1)


def stream_frame(**fields: object) -> GatewayFrame:
    """A CaughtUp or Welcome with one stream."""
    frame = GatewayFrame()
    streams = frame.caught_up.streams if "complete" in fields else frame.welcome.streams
    streams.add(**fields)
    return frame


def test_a_channels_device_subscribes_and_comes_back_to_its_place() -> None:
    device = ChannelDevice(CHANNELS, 3)
    (first,) = said(device.hello())
    assert [one.text for one in first.hello.interests] == list(CHANNELS.objects(3))
    frame = stream_frame(epoch=5)
    frame.welcome.in_sync = True
    assert device.receive(encode(frame)) == (b"", ())
    assert not is_ready(device)
    device.receive(encode(stream_frame(complete=10)))
    assert is_ready(device)
    frame = GatewayFrame()
    frame.message.offset, frame.message.payload = 12, payload_of(MARK, 120)
    assert device.receive(encode(frame)) == (b"", (MARK,))
    (ack,) = said(device.tick())
    assert ack.ack.streams[0].complete == 12
    assert device.tick() == b""
    (again,) = said(device.hello())
    assert (again.hello.streams[0].epoch, again.hello.streams[0].complete) == (5, 12)
    assert not again.hello.interests
    frame = GatewayFrame()
    frame.page_end.page, frame.page_end.stream, frame.page_end.last = 4, 1, True
    (ack,) = said(device.receive(encode(frame))[0])
    assert (ack.ack.streams[0].page, is_ready(device)) == (4, True)
    frame.close.reason = "over"
    device.receive(encode(frame))
    assert device.closed == "0 over"
    assert said(device.ping())[0].ping.digest == first.hello.digest


def test_a_channels_device_with_many_channels_says_them_in_chunks() -> None:
    device = ChannelDevice(BenchTopics(topics=130, per_client=130, channels=True), 0)
    (hello,) = said(device.hello())
    assert not hello.hello.interests
    chunks = [frame.sync for frame in said(device.receive(welcome(in_sync=False))[0])]
    assert [len(chunk.interests) for chunk in chunks] == [64, 64, 2]
    assert [chunk.last for chunk in chunks] == [False, False, True]


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    directory = tmp_path / "certs"
    assert coldnotify("certs", str(directory)).returncode == 0
    return directory


def test_a_device_in_tls_says_the_same(certificates: Path) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificates / "gateway.pem", certificates / "gateway.key")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    theirs = server.wrap_bio(incoming, outgoing, server_side=True)
    files = TlsFiles(str(certificates / "ca.pem"), "", "", "localhost")
    device = device_of("tcp", files, channels=False)(FEW, 3)
    incoming.write(device.hello())
    plain = b""
    for _ in range(10):
        try:
            plain += theirs.read(65_536)
            break
        except ssl.SSLWantReadError:
            incoming.write(device.receive(outgoing.read())[0])
    assert said(plain)[0].hello.client == "observer-3"
    theirs.write(welcome(in_sync=True) + caught_up(1) + notification(31, 2))
    data = outgoing.read()
    assert device.receive(data[:7]) == (b"", ())
    assert device.receive(data[7:]) == (b"", (31,))
    assert is_ready(device)
    incoming.write(device.tick() + device.ping())
    records = theirs.read(65_536) + theirs.read(65_536)
    assert [frame.WhichOneof("frame") for frame in said(records)] == ["ack", "ping"]
    assert device.receive(b"no TLS at all")[1] == ()
    assert device.closed.startswith("TLS: ")


@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("transport", PORTS)
def test_every_transport_has_devices(transport: str, channels: bool) -> None:
    device = device_of(transport, None, channels=channels)(BenchTopics(topics=4, channels=channels), 1)
    begins = {"tcp": b"", "ws": b"GET /v1/connect ", "wss": b"GET /v1/connect ", "mqtt": b"\x10"}
    hello = device.hello()
    assert hello.startswith(begins[transport])
    assert not is_ready(device)


def test_a_token_is_in_every_hello() -> None:
    topics = BenchTopics(topics=1, token="proof")
    assert said(ColdNotifyDevice(topics, 0).hello())[0].hello.token == "proof"
    assert said(ChannelDevice(topics, 0).hello())[0].hello.token == "proof"
    assert MqttToColdNotify0(topics, 0).hello().endswith(b"\x00\x00\x00\x05proof")
    assert "proof" not in repr(topics)
