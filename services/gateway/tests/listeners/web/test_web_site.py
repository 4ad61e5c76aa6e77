"""Devices over WebSocket, with a gateway's process and a real Kafka; the test plays the matcher.

Stands for: device_connection, websocket
"""

import asyncio
import signal
import socket

import pytest
from aiohttp import ClientSession, ClientTimeout, WSMsgType, WSServerHandshakeError
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.frames import FrameBuffer, parse_gateway_frame
from coldnotify_schemas.mqtt.encoding import encode
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion, Side
from coldnotify_schemas.mqtt.packets import Connect, Will
from coldnotify_schemas.mqtt.parsing import PacketBuffer
from coldnotify_schemas.mqtt.reasons import ReasonCode
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.protocol import GATEWAY_FRAME_BYTES_MAX
from coldnotify_testkit.device_frames import ack, bye, hello
from coldnotify_testkit.gateway_process import GatewayProcess, MatcherOnKafka
from coldnotify_testkit.kafka import reset_topics
from coldnotify_testkit.raw_client import RawClient
from coldnotify_testkit.waiting import WAIT_S, wait_for

pytestmark = pytest.mark.kafka

PARTITIONS = 8
PARTITION = partition_of("animal.observer", "region-1", PARTITIONS)


@pytest.fixture(scope="module")
def matcher(kafka):
    reset_topics(kafka.bootstrap)
    with MatcherOnKafka(kafka.bootstrap, PARTITIONS) as running:
        yield running


class Device:
    """A WebSocket, and the frames that come over it."""

    def __init__(self, websocket):
        self.websocket = websocket
        self._buffer = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        self._frames = []

    async def until(self, kind):
        async with asyncio.timeout(WAIT_S):
            while True:
                while self._frames:
                    frame = self._frames.pop(0)
                    if frame.WhichOneof("frame") == kind:
                        return getattr(frame, kind)
                message = await self.websocket.receive()
                assert message.type is WSMsgType.BINARY, f"the connection ended without {kind}: {message}"
                self._frames += [parse_gateway_frame(body) for body in self._buffer.feed(message.data)]


@pytest.fixture
async def http():
    async with ClientSession(timeout=ClientTimeout(WAIT_S)) as session:
        yield session


def address(gateway, path="/v1/connect"):
    return f"http://127.0.0.1:{gateway.web_port}{path}"


async def test_a_session_over_websocket_is_one_like_any_other_and_ends_with_the_gateway(matcher, kafka, http):
    with GatewayProcess(kafka.bootstrap) as gateway:
        await asyncio.to_thread(gateway.wait_ready)
        with RawClient(gateway.port) as over_tcp:
            over_tcp.send(hello("over-tcp", wanted=("a",), register=("a",)))
            async with http.ws_connect(address(gateway)) as websocket:
                device = Device(websocket)
                said = hello(wanted=("a",), register=("a",))
                # A byte stream: where messages begin and end means nothing.
                await websocket.send_bytes(said[:7])
                await websocket.send_bytes(said[7:])
                assert (await device.until("welcome")).in_sync
                await device.until("caught_up")
                await asyncio.to_thread(over_tcp.until, "caught_up")

                offset = await asyncio.to_thread(matcher.publish, PARTITION, "a", 5)
                live = await device.until("notification")
                assert (live.version, live.offset) == (5, offset)
                assert over_tcp.until("notification").notification.version == 5

                await websocket.send_bytes(ack(offset) + bye())
                assert (await websocket.receive()).type is WSMsgType.CLOSE

                def left():
                    return any(request.leave.complete == offset for request in matcher.of_kind("leave"))

                await asyncio.to_thread(wait_for, left, "Leave")

        async with http.ws_connect(address(gateway)) as websocket:
            device = Device(websocket)
            await websocket.send_bytes(hello("stays"))
            await device.until("caught_up")
            gateway.process.send_signal(signal.SIGTERM)
            assert (await device.until("close")).code == CloseCode.GOING_AWAY
            assert (await websocket.receive()).type is WSMsgType.CLOSE
        assert await asyncio.to_thread(gateway.process.wait, WAIT_S) == 0


async def test_one_that_does_not_read_is_slow_and_gets_the_newest_once_it_reads(matcher, kafka, http):
    payload = b'"' + b"x" * 4000 + b'"'
    with GatewayProcess(kafka.bootstrap, gateway_send_buffer_bytes=4096) as gateway:
        await asyncio.to_thread(gateway.wait_ready)
        async with http.ws_connect(address(gateway)) as websocket:
            device = Device(websocket)
            await websocket.send_bytes(hello(wanted=("a",), register=("a",)))
            await device.until("caught_up")

            def publish():
                version = 0
                while not gateway.metric("coldnotify_gateway_slow_phases_total"):
                    assert version < 20_000
                    for _ in range(100):
                        version += 1
                        matcher.publish(PARTITION, "a", version, payload)
                matcher.publish(PARTITION, "a", version + 1, payload)
                return version + 1

            # The test's loop reads nothing meanwhile: the socket's buffers fill.
            newest = await asyncio.to_thread(publish)
            session = await asyncio.to_thread(gateway.json, "/v1/sessions")
            assert session["items"][0]["buffered_bytes"] < 2 * 64 * 1024
            seen = [0]
            while seen[-1] < newest:
                seen.append((await device.until("notification")).version)
            assert seen == sorted(set(seen))
            assert len(seen) < newest  # the rest was spared


async def test_those_who_say_nothing_are_bounded_and_other_pages_are_refused(matcher, kafka, http):
    with GatewayProcess(
        kafka.bootstrap,
        gateway_handshake_s=5,  # those that do say something are to manage it on a busy machine, too
        gateway_unidentified_max=2,
        gateway_web_origins="https://ours.test",
    ) as gateway:
        await asyncio.to_thread(gateway.wait_ready)

        def end(silent):
            silent.settimeout(WAIT_S)
            return silent.recv(1)

        silents = [socket.create_connection(("127.0.0.1", gateway.web_port)) for _ in range(4)]
        try:
            silents[3].sendall(b"GET /v1/conn")  # half a request is none
            assert [await asyncio.to_thread(end, silent) for silent in silents] == [b""] * 4
        finally:
            for silent in silents:
                silent.close()

        opened = len(matcher.of_kind("open"))
        async with http.ws_connect(address(gateway), headers={"Origin": "https://other.test"}) as websocket:
            await websocket.send_bytes(hello())  # a page may say what it likes: nothing of it is looked at
            refused = await Device(websocket).until("close")
            assert (refused.code, refused.reason) == (
                CloseCode.NOT_ALLOWED,
                "pages of 'https://other.test' may not connect here: see COLDNOTIFY_GATEWAY_WEB_ORIGINS",
            )
            assert (await websocket.receive()).type is WSMsgType.CLOSE
        assert len(matcher.of_kind("open")) == opened
        logged = gateway.event("page not allowed")
        assert (logged["setting"], logged["value"]) == ("COLDNOTIFY_GATEWAY_WEB_ORIGINS", "https://other.test")
        own = f"http://127.0.0.1:{gateway.web_port}"
        evil = f"evil.test:{gateway.web_port}"
        image = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
        events = f"{own}/v1/events?domain=d&group=g&object=o"
        for url, headers, field in (
            (events, image, "Sec-Fetch-Site"),
            (events, image | {"Sec-Fetch-Site": "same-site"}, "Sec-Fetch-Site"),
            (address(gateway), {"Origin": own, "Sec-Fetch-Site": "cross-site"}, "Sec-Fetch-Site"),
            (address(gateway), {"Origin": f"http://{evil}", "Host": evil}, "Host"),
            (events, {"Host": evil}, "Host"),
        ):
            async with http.get(url, headers=headers) as answer:
                assert (answer.status, (await answer.json())["field"]) == (403, field), (url, headers)
        for headers in (
            {"Origin": "https://ours.test"},
            {"Origin": own},
            {"Origin": own, "Sec-Fetch-Site": "same-origin"},
            {"Origin": "https://ours.test", "Sec-Fetch-Site": "cross-site"},
            {"Origin": f"http://ours.test:{gateway.web_port}", "Host": f"ours.test:{gateway.web_port}"},
            {"Host": f"a.name.of.devices:{gateway.web_port}"},
        ):
            async with http.ws_connect(address(gateway), headers=headers) as websocket:
                await websocket.send_bytes(bye())
                assert (await Device(websocket).until("close")).code == CloseCode.PROTOCOL_ERROR
        async with http.ws_connect(address(gateway)) as websocket:
            assert (await Device(websocket).until("close")).code == CloseCode.HANDSHAKE_TIMEOUT

        async with http.ws_connect(address(gateway)) as websocket:
            await websocket.send_str("text")
            assert (await websocket.receive()).data == 1003
        async with http.ws_connect(address(gateway)) as websocket:
            await websocket.send_bytes(b"\xff" * 20)
            assert (await Device(websocket).until("close")).code == CloseCode.PROTOCOL_ERROR


async def test_mqtt_over_websocket_is_for_those_who_offer_it_and_for_known_pages(matcher, kafka, http):
    spoken = ProtocolVersion.MQTT_5
    with GatewayProcess(kafka.bootstrap) as gateway:
        await asyncio.to_thread(gateway.wait_ready)
        url = address(gateway, "/mqtt")
        for protocols, origin, refused in (
            ((), None, 400),
            (("mqttv3.1",), None, 400),
            (("mqtt",), "https://other.test", 403),
        ):
            with pytest.raises(WSServerHandshakeError) as error:
                await http.ws_connect(url, protocols=protocols, origin=origin)
            assert error.value.status == refused
        async with http.get(url, headers={"Sec-WebSocket-Protocol": "mqtt"}) as answer:
            assert answer.status == 400, "no upgrade was asked for"

        async with http.ws_connect(url, protocols=("mqttv3.1", "mqtt")) as websocket:
            assert websocket.protocol == "mqtt"
            said = encode(Connect(spoken, "a/b/c", will=Will("$t", b"")), spoken)
            for byte in said:
                await websocket.send_bytes(bytes([byte]))
            message = await websocket.receive()
            assert message.type is WSMsgType.BINARY
            (connack,) = PacketBuffer(1000, spoken, Side.SERVER).feed(message.data)
            assert connack.reason is ReasonCode.TOPIC_NAME_INVALID
            assert (await websocket.receive()).type is WSMsgType.CLOSE
        async with http.ws_connect(url, protocols=("mqtt",)) as websocket:
            await websocket.send_str("text")
            assert (await websocket.receive()).data == 1003
