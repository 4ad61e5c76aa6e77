"""The gateway as a process, with a real Kafka and real sockets; the test plays the matcher.

Stands for: app, session_endpoints, client_connection, topics_watch
"""

import random
import signal
import socket
import time
from collections import Counter
from contextlib import ExitStack, closing

import pytest
from coldnotify_gateway.listeners.port import DevicePort
from coldnotify_gateway.settings import GatewaySettings
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.broker.freezing import freeze, thaw
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.digest import object_crc
from coldnotify_schemas.internal_pb2 import Inbox
from coldnotify_schemas.partitioner import partition_of
from coldnotify_testkit.device_frames import ack, bye, hello, ping, register, use_names
from coldnotify_testkit.gateway_process import GatewayProcess, MatcherOnKafka
from coldnotify_testkit.kafka import broker, reset_topics
from coldnotify_testkit.raw_client import RawClient
from coldnotify_testkit.waiting import WAIT_S, wait_for

pytestmark = pytest.mark.kafka

PARTITIONS = 8
PARTITION = partition_of("animal.observer", "region-1", PARTITIONS)


@pytest.fixture
def matcher(fresh_kafka: EmbeddedBroker):
    with MatcherOnKafka(fresh_kafka.bootstrap, PARTITIONS) as running:
        yield running


@pytest.fixture
def gateway(fresh_kafka: EmbeddedBroker):
    with GatewayProcess(fresh_kafka.bootstrap) as running:
        yield running.wait_ready()


def test_the_whole_way_from_hello_to_a_live_notification_and_back(matcher, gateway):
    matcher.publish(PARTITION, "camera-config", 1)
    with RawClient(gateway.port) as client:
        client.send(hello(wanted=("camera-config",), register=("camera-config",)))
        welcome = client.until("welcome").welcome
        assert welcome.in_sync
        assert client.until("notification").notification.version == 1
        caught_up = client.until("caught_up").caught_up
        assert caught_up.complete == 0

        offset = matcher.publish(PARTITION, "camera-config", 2)
        live = client.until("notification").notification
        assert (live.crc, live.version, live.offset) == (object_crc("camera-config"), 2, offset)

        client.send(use_names())
        client.send(register(1, "release"))
        assert client.until("registered").registered.request == 1
        unknown = client.until("notification").notification
        assert unknown.name == "release"
        assert not unknown.HasField("version")
        matcher.publish(PARTITION, "camera-config", 3)
        assert client.until("notification").notification.name == "camera-config"

        (shown,) = gateway.json("/v1/domains/animal.observer/groups/region-1/clients/client-1")["sessions"]
        assert (shown["state"], shown["address"], shown["names"]) == ("live", "127.0.0.1", True)
        client.send(ack(2), bye())
        assert client.rest() == []
    wait_for(lambda: matcher.of_kind("leave"), "Leave")
    assert matcher.of_kind("leave")[0].leave.complete == 2
    wait_for(lambda: matcher.of_kind("beat") and matcher.of_kind("beat")[-1].beat.sessions == 0, "the last beat")


def test_acks_are_merged_and_position_is_told_by_pong(matcher, gateway):
    with RawClient(gateway.port) as client, RawClient(gateway.port) as other:
        client.send(hello("client-1", wanted=("a",), register=("a",)))
        other.send(hello("client-2", wanted=("b",), register=("b",)))
        client.until("caught_up")
        other.until("caught_up")
        offset = matcher.publish(PARTITION, "a", 1)
        client.until("notification")
        client.send(ack(offset))
        wait_for(lambda: matcher.of_kind("acks"), "Acks")
        (acks,) = [request.acks for request in matcher.of_kind("acks")]
        assert list(acks.completes) == [offset]

        def pong() -> int | None:
            other.send(ping())
            said = other.until("pong").pong
            return said.complete if said.HasField("complete") else None

        wait_for(lambda: pong() == offset, "complete without a notification of its own")


def test_a_gateway_that_stands_still_makes_a_crowd_wait_in_its_backlog(gateway):
    freeze(gateway.process.pid)
    try:
        begun_s = time.monotonic()
        crowd = [socket.create_connection(("127.0.0.1", gateway.port), 60) for _ in range(400)]
        # Without room a SYN is sent again, after 1, 3, 7 ... seconds; the gateway stands still meanwhile.
        took_s = time.monotonic() - begun_s
    finally:
        thaw(gateway.process.pid)
    for one in crowd:
        one.close()
    assert took_s < 50


def test_bytes_one_at_a_time(matcher, gateway):
    with RawClient(gateway.port) as client:
        for byte in hello(wanted=("a",), register=("a",)) + ping():
            client.send(bytes([byte]))
        client.until("pong")  # it does not wait for the matcher
        client.until("caught_up")


def test_what_is_wrong_is_told_and_harms_nobody_else(matcher, gateway):
    """One after the other at one gateway: what each leaves behind is there for the next."""
    wrong = [
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"x" * 200, CloseCode.PROTOCOL_ERROR, ""),
        (b"\xff" * 300, CloseCode.PROTOCOL_ERROR, "varint"),
        (b"\xff\xff\xff\x0f" + b"x" * 100_000, CloseCode.FRAME_TOO_LARGE, "at most 32768"),
        (hello(protocol=0), CloseCode.UNSUPPORTED_PROTOCOL, "protocol: 0"),
        (hello("no/name"), CloseCode.BAD_NAME, "client: 'no/name'"),
        (ping(), CloseCode.PROTOCOL_ERROR, "ping: came before hello"),
        (hello(register=tuple(map(str, range(65)))), CloseCode.PROTOCOL_ERROR, "65 objects"),
    ]
    random.shuffle(wrong)
    closes = Counter()
    with RawClient(gateway.port) as good:
        good.send(hello(wanted=("a",), register=("a",)))
        good.until("caught_up")
        for version, (said, code, words) in enumerate(wrong, 1):
            with RawClient(gateway.port) as bad:
                bad.send(said)
                (frame,) = bad.rest()
            closes[code] += 1
            assert frame.close.code == code, said[:40]
            assert words in frame.close.reason
            assert gateway.metric(f'coldnotify_gateway_closes_total{{code="{code.name.lower()}"}}') == closes[code]
            matcher.publish(PARTITION, "a", version)
            assert good.until("notification").notification.version == version


@pytest.mark.skipif(not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="this OS has no TCP_NOTSENT_LOWAT")
def test_the_kernel_takes_little_of_a_connection_that_it_cannot_send_yet():
    with (
        closing(DevicePort(GatewaySettings(), 0, "PORT")) as port,
        port.listeners()[0] as listener,
        socket.create_connection(("127.0.0.1", port.port)),
    ):
        listener.settimeout(WAIT_S)
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == 16 * 1024


def test_a_client_that_does_not_read_misses_nothing_and_costs_nothing(matcher, fresh_kafka):
    payload = b'"' + b"x" * 4000 + b'"'
    with (
        GatewayProcess(fresh_kafka.bootstrap, gateway_send_buffer_bytes=4096) as gateway,
        RawClient(gateway.wait_ready().port, receive_buffer_bytes=4096) as slow,
        RawClient(gateway.port) as quick,
    ):
        slow.send(hello("slow", wanted=("a", "b"), register=("a", "b")))
        quick.send(hello("quick", wanted=("a",), register=("a",)))
        slow.until("caught_up")
        quick.until("caught_up")
        version = 0
        while not gateway.metric("coldnotify_gateway_slow_phases_total"):
            version += 1
            assert version < 2000, "it is never slow"
            matcher.publish(PARTITION, "a", version, payload)
            assert quick.until("notification").notification.version == version
        for _ in range(200):
            version += 1
            matcher.publish(PARTITION, "a", version, payload)
            assert quick.until("notification").notification.version == version
        (shown,) = gateway.json("/v1/domains/animal.observer/groups/region-1/clients/slow")["sessions"]
        assert shown["state"] == "slow"
        assert shown["buffered_bytes"] < 512 * 1024
        assert gateway.metric("coldnotify_gateway_live_dropped_total") >= 199
        # It reads again: what waited, then the newest only.
        last = matcher.publish(PARTITION, "b", 1)
        told = []
        caught_up = None
        while caught_up is None or caught_up < last:
            frame = slow.frame()
            assert frame is not None
            if frame.WhichOneof("frame") == "notification":
                told.append((frame.notification.crc, frame.notification.version))
            elif frame.WhichOneof("frame") == "caught_up":
                caught_up = frame.caught_up.complete
        assert (object_crc("a"), version) in told
        assert (object_crc("b"), 1) in told
        assert len(told) < version - 100, "what it had missed came piece by piece"


def test_a_burst_comes_whole_and_in_order_to_everybody(matcher, gateway):
    """Faster than one write for each: frames are gathered then, live ones and answers."""
    clients = [RawClient(gateway.port) for _ in range(20)]
    try:
        for i, client in enumerate(clients):
            client.send(hello(f"client-{i}", wanted=("a",), register=("a",)))
            client.until("caught_up")
        count = 2000
        for version in range(1, count + 1):
            matcher.publish(PARTITION, "a", version, b'"payload"')
            if version == count // 2:
                clients[0].send(register(1, "b"))
        for client in clients:
            told = []
            while not told or told[-1] < count:
                frame = client.frame()
                assert frame is not None
                if frame.WhichOneof("frame") == "notification" and frame.notification.HasField("version"):
                    told.append(frame.notification.version)
            assert told == list(range(1, count + 1))
        assert gateway.metric("coldnotify_gateway_live_dropped_total") == 0
        assert gateway.metric("coldnotify_gateway_deliveries_total") == count * len(clients)
    finally:
        for client in clients:
            client.__exit__(None, None, None)


def test_pages_wait_for_their_acknowledgement(matcher, gateway):
    for i in range(5):
        matcher.publish(PARTITION, f"object-{i}", i + 1)
    names = tuple(f"object-{i}" for i in range(5))
    with RawClient(gateway.port) as client:
        client.send(hello(wanted=names, register=names))
        client.until("welcome")
        pages = []
        page = []
        while True:
            frame = client.frame()
            assert frame is not None
            kind = frame.WhichOneof("frame")
            if kind == "notification":
                page.append(frame.notification.version)
                continue
            pages.append(page)
            page = []
            if kind == "caught_up":
                break
            assert frame.page_end.page == len(pages)
            client.send(ack(page=frame.page_end.page))
        assert pages == [[1, 2], [3, 4], [5]]


def test_sigterm_sends_clients_away_and_tells_the_matcher(matcher, gateway):
    clients = [RawClient(gateway.port) for _ in range(50)]
    try:
        for i, client in enumerate(clients):
            client.send(hello(f"client-{i}", wanted=("a",), register=("a",)))
        for client in clients:
            client.until("caught_up")
        offset = matcher.publish(PARTITION, "a", 1)
        for client in clients:
            client.until("notification")
            client.send(ack(offset))
        gateway.process.send_signal(signal.SIGTERM)
        for client in clients:
            frames = client.rest()
            assert [frame.close.code for frame in frames] == [CloseCode.GOING_AWAY]
    finally:
        for client in clients:
            client.__exit__(None, None, None)
    assert gateway.process.wait(30) == 0
    wait_for(lambda: len(matcher.of_kind("leave")) == len(clients), "every Leave")
    assert {request.leave.complete for request in matcher.of_kind("leave")} == {offset}
    wait_for(lambda: not matcher.matchers[PARTITION].sessions, "no session at the matcher")


def test_clients_that_wait_to_be_sent_away_are_served_as_before(matcher, fresh_kafka):
    """One of a partition of its own is the last to leave: while the others do, its matcher must hear of it."""
    other_group = next(
        group
        for group in map("other-{}".format, range(100))
        if partition_of("animal.observer", group, PARTITIONS) != PARTITION
    )
    others = 150  # far more than leave while this test looks on
    with (
        GatewayProcess(fresh_kafka.bootstrap, gateway_drain_per_s=1, gateway_drain_s=300) as gateway,
        ExitStack() as stack,
    ):
        gateway.wait_ready()
        leaving = [stack.enter_context(RawClient(gateway.port)) for _ in range(others)]
        for i, client in enumerate(leaving):
            client.send(hello(f"client-{i}", group=other_group))
        for client in leaving:
            client.until("caught_up")
        last = stack.enter_context(RawClient(gateway.port))
        last.send(hello("last", wanted=("a",), register=("a",)))
        last.until("caught_up")

        def left() -> bool:
            return any(request.client == "last" for request in matcher.of_kind("leave"))

        def beats_of_the_last() -> int:
            return sum(request.beat.sessions == 1 for request in matcher.of_kind("beat"))

        wait_for(beats_of_the_last, "the partition is in its stride")
        began_s = time.monotonic()
        gateway.process.send_signal(signal.SIGTERM)
        assert leaving[0].until("close").close.code == CloseCode.GOING_AWAY
        before = beats_of_the_last()
        wait_for(lambda: beats_of_the_last() >= before + 2 or left(), "Beats go on")
        assert not left(), "it left, and no Beat said meanwhile that it was there"
        offset = matcher.publish(PARTITION, "a", 1)
        assert last.until("notification").notification.version == 1
        last.send(ack(offset))
        wait_for(lambda: matcher.of_kind("acks") or left(), "what it acknowledged is passed on")
        assert not left(), "it left, and its acknowledgement had waited until then"
        # The pace: so many could have left, and no more.
        assert len(matcher.of_kind("leave")) - 1 <= time.monotonic() - began_s
        gateway.process.kill()


def test_a_client_that_hangs_does_not_hold_up_the_stop(matcher, fresh_kafka):
    with (
        GatewayProcess(fresh_kafka.bootstrap, gateway_drain_s=3) as gateway,
        RawClient(gateway.wait_ready().port) as client,
    ):
        client.send(hello(wanted=("a",), register=("a",)))
        client.until("caught_up")
        assert gateway.stop() == 0  # it never reads its Close, and never closes


@pytest.mark.own_broker("stops Kafka")
def test_kafka_restarts_under_connected_clients():
    """On a broker of its own: the others' tests need theirs."""
    with broker() as kafka:
        reset_topics(kafka.bootstrap)
        with (
            GatewayProcess(kafka.bootstrap, gateway_topics_check_s=0.5, gateway_ask_again_s=1) as gateway,
            MatcherOnKafka(kafka.bootstrap, PARTITIONS) as matcher,
            RawClient(gateway.wait_ready().port) as client,
            RawClient(gateway.port) as waiting,
        ):
            client.send(hello("client-1", wanted=("a",), register=("a",)))
            client.until("caught_up")
            kafka.stop()
            wait_for(lambda: gateway.get("/readyz")[0] == 503, "not ready without Kafka")
            client.send(ping())
            client.until("pong")
            waiting.send(hello("client-2", wanted=("a",), register=("a",)))
            assert waiting.until("wait").wait.seconds > 0
            kafka.start()
            kafka.wait_ready()
            wait_for(lambda: gateway.get("/readyz")[0] == 200, "ready again")
            waiting.until("caught_up")
            matcher.publish(PARTITION, "a", 1)
            assert client.until("notification").notification.version == 1
            assert waiting.until("notification").notification.version == 1
            assert gateway.metric('coldnotify_gateway_sessions{state="live"}') == 2
            assert gateway.stop() == 0


def test_topics_made_anew_make_it_begin_anew(fresh_kafka):
    with GatewayProcess(fresh_kafka.bootstrap, gateway_topics_check_s=0.2) as gateway:
        port = gateway.wait_ready().port
        first = gateway.json("/v1/gateway")["gateway"]
        with MatcherOnKafka(fresh_kafka.bootstrap, PARTITIONS), RawClient(port) as client:
            client.send(hello(wanted=("a",), register=("a",)))
            client.until("caught_up")
            reset_topics(fresh_kafka.bootstrap)
            assert client.until("close").close.code == CloseCode.GOING_AWAY
        gateway.event("gateway ready", count=2)
        wait_for(lambda: gateway.json("/v1/gateway")["gateway"] != first, "another gateway id")
        with MatcherOnKafka(fresh_kafka.bootstrap, PARTITIONS), RawClient(port) as client:
            client.send(hello(wanted=("a",), register=("a",)))
            client.until("caught_up")
        assert gateway.stop() == 0


def test_records_of_others_and_garbage_in_the_inbox(matcher, gateway):
    with RawClient(gateway.port) as client:
        client.send(hello(wanted=("a",), register=("a",)))
        client.until("caught_up")
        inbox = gateway.json("/v1/gateway")["inbox"]
        double = matcher.matchers[PARTITION]
        with matcher.lock:
            matcher.produce(inbox, b"\xff\xff no record")
            matcher.produce(inbox, double.record(4711, 1))
            far_ahead = Inbox(format=1, partition=PARTITION, generation=1 << 62)
            matcher.produce(inbox, far_ahead.SerializeToString())
        matcher.publish(PARTITION, "a", 1)
        assert client.until("notification").notification.version == 1
        assert gateway.metric("coldnotify_gateway_inbox_malformed_records_total") == 2
        assert gateway.metric("coldnotify_gateway_inbox_foreign_records_total") == 1


def test_a_lost_inbox_record_is_caught_up(matcher, gateway):
    with RawClient(gateway.port) as client:
        client.send(hello(wanted=("a", "b"), register=("a", "b")))
        client.until("caught_up")
        with matcher.lock:
            matcher.matchers[PARTITION].publish("a", 1)
            matcher.matchers[PARTITION].take_records()  # and never written
        matcher.publish(PARTITION, "b", 2)
        told = {client.until("notification").notification.crc for _ in range(2)}
        assert told == {object_crc("a"), object_crc("b")}
        client.until("caught_up")
        assert gateway.metric("coldnotify_gateway_gaps_total") == 1


def test_a_taken_port_is_an_error_that_names_the_setting(fresh_kafka):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with GatewayProcess(fresh_kafka.bootstrap, gateway_port=port) as gateway:
            assert gateway.process.wait(60) == 1
            said = gateway.event("cannot start")["error"]
            assert f"--gateway-port: cannot listen on 127.0.0.1:{port}" in said


def test_two_gateways_share_a_port(matcher, gateway, fresh_kafka):
    with GatewayProcess(fresh_kafka.bootstrap, gateway_port=gateway.port) as second:
        second.wait_ready()
        clients = [RawClient(gateway.port) for _ in range(40)]
        try:
            for i, client in enumerate(clients):
                client.send(hello(f"client-{i}", wanted=("a",), register=("a",)))
            for client in clients:
                client.until("caught_up")
            matcher.publish(PARTITION, "a", 1)
            for client in clients:
                assert client.until("notification").notification.version == 1
            counts = [one.json("/v1/gateway")["connections"] for one in (gateway, second)]
            assert sum(counts) == len(clients)
            assert all(counts)
        finally:
            for client in clients:
                client.__exit__(None, None, None)


def test_too_many_connections_are_told_so(fresh_kafka):
    with (
        GatewayProcess(fresh_kafka.bootstrap, gateway_connections_max=1) as gateway,
        RawClient(gateway.wait_ready().port) as first,
    ):
        wait_for(lambda: gateway.json("/v1/gateway")["connections"] == 1, "the first is in")
        with RawClient(gateway.port) as second:
            (frame,) = second.rest()
            assert frame.close.code == CloseCode.OVERLOADED
        first.send(ping())
        assert first.until("close").close.code == CloseCode.PROTOCOL_ERROR


def test_no_hello_no_stay(fresh_kafka):
    with (
        GatewayProcess(fresh_kafka.bootstrap, gateway_handshake_s=0.3) as gateway,
        RawClient(gateway.wait_ready().port) as client,
    ):
        client.send(hello()[:10])
        (frame,) = client.rest()
        assert frame.close.code == CloseCode.HANDSHAKE_TIMEOUT


def test_looking_in_pages_and_names_what_is_wrong(matcher, gateway):
    clients = [RawClient(gateway.port) for _ in range(3)]
    try:
        for i, client in enumerate(clients):
            client.send(hello(f"client-{i}"))
            client.until("caught_up")
        first = gateway.json("/v1/sessions?limit=2")
        assert [item["client"] for item in first["items"]] == ["client-0", "client-1"]
        second = gateway.json(f"/v1/sessions?limit=2&after={first['next']}")
        assert [item["client"] for item in second["items"]] == ["client-2"]
        assert second["next"] is None
        assert gateway.get("/v1/sessions?limit=0")[0] == 400
        (last,) = second["items"]
        assert gateway.json(f"/v1/sessions?address={last['address']}")["items"][-1]["client"] == "client-2"
        assert gateway.json("/v1/sessions?address=nowhere")["items"] == []
        status, body = gateway.get("/v1/domains/d/groups/g/clients/nobody")
        assert status == 404
        assert "d/g/nobody" in body
        status, body = gateway.get("/v1/domains/d/groups/g/clients/no%20name")
        assert status == 400
        assert "client" in body
        (mine,) = [one for one in gateway.json("/v1/gateway")["partitions"] if one["sessions"]]
        assert (mine["partition"], mine["sessions"], mine["generation"]) == (PARTITION, 3, 1)
    finally:
        for client in clients:
            client.__exit__(None, None, None)


def test_without_kafka_it_waits_and_stops():
    with GatewayProcess("127.0.0.1:1") as gateway:
        status, reason = gateway.get("/readyz")
        assert status == 503
        assert "Kafka" in reason
        assert gateway.get("/healthz")[0] == 200
        began_s = time.monotonic()
        assert gateway.stop() == 0
        assert time.monotonic() - began_s < 30
