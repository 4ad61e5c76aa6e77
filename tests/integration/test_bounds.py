"""Clients that are stuck, greedy or hostile: what waits for them keeps its bounds, and everybody else is served."""

import json
import os
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.digest import digest, object_crc
from coldnotify_schemas.frames import encode, encode_length
from coldnotify_schemas.wire_pb2 import Ack, ClientFrame, GatewayFrame, Hello, Register, SyncChunk
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.raw_client import RawClient
from coldnotify_testkit.stack import Recorder, Stacks, Up, get_json, notify
from coldnotify_testkit.waiting import WAIT_S, wait_for

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "animal.observer", "region-1"
PER_ADDRESS_MAX = 1_000
UNIDENTIFIED_MAX = 100
BUFFERED_BYTES_MAX = 8 * 1024 * 1024
HIGH_WATER_BYTES = 64 * 1024
REGISTRATIONS_MAX = 10_000
SYNC_CHUNKS_MAX = 1024
SETTINGS = {
    "CONNECTIONS_PER_ADDRESS_MAX": PER_ADDRESS_MAX,
    "UNIDENTIFIED_MAX": UNIDENTIFIED_MAX,
    "BUFFERED_BYTES_MAX": BUFFERED_BYTES_MAX,
    "HIGH_WATER_BYTES": HIGH_WATER_BYTES,
    "SYNC_CHUNKS_MAX": SYNC_CHUNKS_MAX,
}
RSS_GROWTH_BYTES_MAX = 128 * 1024 * 1024
"""Generous: allocators keep what they had. Without bounds these tests would fill far more."""
HOSTILE = "127.0.0.66"
"""Where the hostile clients come from; the others come from 127.0.0.1."""
PAYLOAD = "x" * 4000
BYTE_EVERY_S = 1.0
FRAME_BYTES_MAX = 32 * 1024


@pytest.fixture(scope="module")
def bounded(stacks: Stacks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """All of it, with low bounds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    settings = {f"gateway_{name}": str(value) for name, value in SETTINGS.items()}
    with stacks.running(tmp_path_factory.mktemp("bounded"), **settings) as up:
        yield up
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def up(bounded: Up, request: pytest.FixtureRequest) -> Iterator[Up]:
    """With a bystander: it is served during the test (see `served`) and after it, on the connection that it began."""
    told = Recorder()
    name = f"bystander/{request.node.name}"
    before = {part: rss_bytes(bounded, part) for part in ("gateway", "matcher")}
    with notify(bounded, "bystander", None) as ou:
        ou.register(name).subscribe(told)
        wait_for(lambda: told.seen, "the bystander is registered")
        yield bounded
        with bounded.publisher() as publisher:
            publisher.publish(DOMAIN, GROUP, name, version=1)
        wait_for(lambda: told.newest(name) == 1, "the bystander is served")
        assert ou.status.last_problem is None
    for part, bytes_before in before.items():
        assert rss_bytes(bounded, part) - bytes_before < RSS_GROWTH_BYTES_MAX, f"{part} has grown"


def rss_bytes(up: Up, part: str) -> int:
    """What a process holds in memory."""
    pages = int(Path(f"/proc/{up.report['pids'][part]}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def metric(up: Up, name: str) -> float:
    """A metric of the gateway, with its labels if `name` has them."""
    with urlopen(f"http://{up.report['gateways_http'][0]}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} "))


def sessions(up: Up) -> list[dict[str, object]]:
    """What the gateway says of its sessions, the first hundreds."""
    items = get_json(f"http://{up.report['gateways_http'][0]}/v1/sessions?limit=500")["items"]
    assert isinstance(items, list)
    return items


class Sipping(RawClient):
    """A device that takes little at a time, from the address of the hostile ones."""

    def __init__(self, up: Up, *, address: str = HOSTILE) -> None:
        super().__init__(up.gateway[1], receive_buffer_bytes=4096, address=address)

    def frame(self) -> GatewayFrame:
        frame = super().frame()
        assert frame is not None, "the connection ended"
        return frame

    def hello(self, client: str, *register: str, said: int | None = None) -> None:
        """A Hello, with these registrations."""
        hello = Hello(protocol=1, domain=DOMAIN, group=GROUP, client=client, register=register, keepalive_s=3600)
        hello.digest = digest(register) if said is None else said
        self.say(hello=hello)


def test_clients_that_never_read(up: Up) -> None:
    count = 30
    with ExitStack() as stack, up.publisher() as publisher:
        stuck = [stack.enter_context(Sipping(up)) for _ in range(count)]
        for i, one in enumerate(stuck):
            one.hello(f"stuck-{i}", "hot")
            one.until("caught_up")  # it acknowledges nothing, and reads no more from here on
        peak_bytes = 0.0
        for version in range(1, 1501):
            publisher.publish(DOMAIN, GROUP, "hot", version=version, payload=PAYLOAD)
            if version % 100 == 0:
                publisher.flush(60)
                peak_bytes = max(peak_bytes, metric(up, "coldnotify_gateway_buffered_bytes"))
        assert 0 < peak_bytes <= count * (HIGH_WATER_BYTES + 2 * 64 * 1024)
        wait_for(lambda: metric(up, 'coldnotify_gateway_sessions{state="slow"}') == count, "they are slow")
        held = [one for one in sessions(up) if str(one["client"]).startswith("stuck-")]
        assert len(held) == count, "who does not read is kept, as long as it asks for nothing"
        # Whoever reads again learns the newest at once, and nothing twice that lay in between.
        reader = stuck[1]
        newest = 0
        notifications = 0
        while newest < 1500:
            newest = max(newest, reader.until("notification").notification.version)
            notifications += 1
        assert notifications < 1000


def test_a_client_that_never_acknowledges_a_page_is_sent_no_other(up: Up) -> None:
    names = [f"paged-{i}" for i in range(64)]  # 256 KB: some pages
    told = Recorder()
    with ExitStack() as stack, up.publisher() as publisher:
        for name in names:
            publisher.publish(DOMAIN, GROUP, name, version=1, payload=PAYLOAD)
        publisher.flush(60)
        quick = stack.enter_context(notify(up, "beside-pages", None))
        quick.register(names[0]).subscribe(told)
        silent = [stack.enter_context(Sipping(up)) for _ in range(10)]
        for i, one in enumerate(silent):
            one.hello(f"unpaged-{i}", *names)
            assert one.until("page_end").page_end.page == 1
        peak_bytes = 0.0
        for version in range(2, 42):
            for name in names[:10]:
                publisher.publish(DOMAIN, GROUP, name, version=version, payload=PAYLOAD)
            publisher.flush(60)
            wait_for(told.reaches(names[0], version), "the one beside them is told")
            peak_bytes = max(peak_bytes, metric(up, "coldnotify_gateway_buffered_bytes"))
        # 1.6 MB were published to each.
        assert peak_bytes <= 3 * HIGH_WATER_BYTES
        for one in silent:
            assert not one.kinds_before_pong()
        # Whoever does acknowledge it is sent the others, and the newest of each.
        versions: dict[int, int] = {}
        silent[0].say(ack=Ack(page=1))
        while (frame := silent[0].frame()).WhichOneof("frame") != "caught_up":
            if frame.WhichOneof("frame") == "page_end":
                silent[0].say(ack=Ack(page=frame.page_end.page))
            elif frame.WhichOneof("frame") == "notification":
                versions[frame.notification.crc] = frame.notification.version
        assert {versions[object_crc(name)] for name in names[:10]} == {41}


def test_a_client_that_never_acknowledges_a_version_is_told_each_and_nothing_of_it_is_kept(up: Up) -> None:
    count, versions = 10, 500
    with ExitStack() as stack, up.publisher() as publisher:
        silent = [stack.enter_context(Sipping(up)) for _ in range(count)]
        for i, one in enumerate(silent):
            one.hello(f"unacked-{i}", "unacked")
            one.until("caught_up")
        before = {part: rss_bytes(up, part) for part in ("gateway", "matcher")}
        for begin in range(0, versions, 5):  # so few fit into the kernel's buffers
            for version in range(begin + 1, begin + 6):
                publisher.publish(DOMAIN, GROUP, "unacked", version=version, payload=PAYLOAD)
            publisher.flush(60)
            for one in silent:
                told = [one.until("notification").notification.version for _ in range(5)]
                assert told == list(range(begin + 1, begin + 6))
        assert metric(up, "coldnotify_gateway_buffered_bytes") <= HIGH_WATER_BYTES
        # 20 MB were told.
        for part, bytes_before in before.items():
            assert rss_bytes(up, part) - bytes_before < 12 * 1024 * 1024, f"{part} has grown"


def test_clients_that_ask_for_more_than_they_read_are_closed(up: Up) -> None:
    names = [f"big-{i}" for i in range(64)]
    with up.publisher() as publisher:
        for name in names:
            publisher.publish(DOMAIN, GROUP, name, version=1, payload=PAYLOAD)
    cut_off = metric(up, "coldnotify_gateway_connections_cut_off_total")
    peak_bytes = 0.0
    with ExitStack() as stack:
        greedy = [stack.enter_context(Sipping(up)) for _ in range(12)]
        for i, one in enumerate(greedy):
            one.hello(f"greedy-{i}")
            one.until("caught_up")
            for request in range(1, 7):
                one.say(register=Register(request=request, objects=names))
        # 12 x 6 x 64 x 4 KB are 18 MB of answers.

        def some_cut_off() -> bool:
            nonlocal peak_bytes
            peak_bytes = max(peak_bytes, metric(up, "coldnotify_gateway_buffered_bytes"))
            return metric(up, "coldnotify_gateway_connections_cut_off_total") > cut_off

        wait_for(some_cut_off, "the bound on what waits in all is kept")
        wait_for(lambda: metric(up, "coldnotify_gateway_buffered_bytes") <= BUFFERED_BYTES_MAX, "it is below again")
        # Between two looks, a quarter of a second apart, it may be above.
        assert peak_bytes <= 3 * BUFFERED_BYTES_MAX


def test_who_registers_100_000_objects_gets_10_000_and_a_reason_for_the_others(up: Up) -> None:
    refused = 0
    reasons = set()
    with Sipping(up) as client:
        client.hello("collector")
        client.until("caught_up")
        requests = [
            [f"collected/{i}" for i in range(start, min(start + 64, 100_000))] for start in range(0, 100_000, 64)
        ]
        for number, objects in enumerate(requests, 1):
            client.say(register=Register(request=number, objects=objects))
            if number > 4:
                answer = client.until("registered").registered
                refused += len(answer.refused)
                reasons |= {one.reason for one in answer.refused}
        for _ in range(4):
            answer = client.until("registered").registered
            refused += len(answer.refused)
    assert refused == 100_000 - REGISTRATIONS_MAX
    assert all(str(REGISTRATIONS_MAX) in reason for reason in reasons)
    assert reasons


def test_half_frames_are_held_no_longer_than_a_whole_one(up: Up) -> None:
    count = 900
    with ExitStack() as stack:
        silent = stack.enter_context(Sipping(up))
        silent.send(encode_length(100))
        halves: list[Sipping] = []
        while len(halves) < count:
            some = [stack.enter_context(Sipping(up)) for _ in range(UNIDENTIFIED_MAX // 2)]
            for i, one in enumerate(some, len(halves)):
                one.hello(f"half-{i}")
            for one in some:
                one.until("caught_up")
            halves += some
        idle_bytes = rss_bytes(up, "gateway")
        received = metric(up, "coldnotify_gateway_received_bytes_total")
        for one in halves:
            one.send(encode_length(FRAME_BYTES_MAX) + b"x" * (FRAME_BYTES_MAX - 1))
        wait_for(
            lambda: metric(up, "coldnotify_gateway_received_bytes_total") - received >= count * FRAME_BYTES_MAX,
            "all of it is in",
        )
        # With twice a frame for each, and some for the process.
        grown_bytes = rss_bytes(up, "gateway") - idle_bytes
        assert grown_bytes < count * 2 * FRAME_BYTES_MAX + 8 * 1024 * 1024
        too_long = stack.enter_context(Sipping(up))
        too_long.send(encode_length(FRAME_BYTES_MAX + 1))
        assert too_long.until("close").close.code == CloseCode.FRAME_TOO_LARGE
        assert silent.until("close").close.code == CloseCode.HANDSHAKE_TIMEOUT


def test_who_sends_or_reads_a_byte_a_second_is_served_at_that_pace_and_nobody_feels_it(up: Up) -> None:
    told = Recorder()
    hello = encode(ClientFrame(hello=Hello(protocol=1, domain=DOMAIN, group=GROUP, client="never")))
    register = encode(ClientFrame(register=Register(request=1, objects=["o"])))
    assert len(register) < len(hello)
    sips, a_second = 20, 80
    peak_bytes = 0.0
    with ExitStack() as stack, up.publisher() as publisher:
        quick = stack.enter_context(notify(up, "quick", None))
        quick.register("beside").subscribe(told)
        wait_for(lambda: told.seen, "the one beside them is registered")
        never, slow = ([stack.enter_context(Sipping(up)) for _ in range(40)] for _ in range(2))
        for i, one in enumerate(slow):
            one.hello(f"slow-{i}")
            one.until("caught_up")
        sipping = [stack.enter_context(Sipping(up)) for _ in range(sips)]
        for i, one in enumerate(sipping):
            one.hello(f"sipping-{i}", "sipped")
            one.until("caught_up")
        for i in range(len(register)):
            time.sleep(BYTE_EVERY_S)
            for version in range(a_second * i + 1, a_second * (i + 1) + 1):
                publisher.publish(DOMAIN, GROUP, "sipped", version=version, payload=PAYLOAD)
            for one in sipping:
                assert one.receive(1)
            for one in never:
                with suppress(OSError):  # sent away meanwhile
                    one.send(hello[i : i + 1])
            for one in slow:
                one.send(register[i : i + 1])
            publisher.publish(DOMAIN, GROUP, "beside", version=i + 1)
            wait_for(lambda i=i: told.newest("beside") == i + 1, "the one beside them is told")  # type: ignore[misc]
            peak_bytes = max(peak_bytes, metric(up, "coldnotify_gateway_buffered_bytes"))
        for one in slow:
            assert one.until("registered").registered.request == 1
        wait_for(lambda: metric(up, 'coldnotify_gateway_sessions{state="slow"}') == sips, "those that sip are slow")
        assert peak_bytes <= sips * (HIGH_WATER_BYTES + 2 * 64 * 1024)
        newest, notifications = 0, 0
        while newest < a_second * len(register):
            newest = sipping[0].until("notification").notification.version
            notifications += 1
        assert notifications < a_second * len(register) / 2, "what lay in between is not sent"
        wait_for(lambda: metric(up, "coldnotify_gateway_connections_unidentified") == 0, "no Hello takes for ever")
    assert told.versions("beside") == [None, *range(1, len(register) + 1)]


def test_chunks_of_a_set_that_never_ends_stop_at_the_gateway(up: Up) -> None:
    passed = 'coldnotify_gateway_requests_total{kind="sync"}'
    before = metric(up, passed)
    with Sipping(up) as client:
        client.hello("endless", said=7)
        assert not client.until("welcome").welcome.in_sync
        chunk = encode(ClientFrame(sync=SyncChunk(index=0, objects=["a"])))
        client.send(chunk * 5 * SYNC_CHUNKS_MAX)
        wait_for(lambda: metric(up, "coldnotify_gateway_requests_dropped_total") > 0, "chunks are dropped")
        client.say(sync=SyncChunk(index=SYNC_CHUNKS_MAX, objects=["a"]))
        close = client.until("close").close
        assert (close.code, "sync" in close.reason) == (CloseCode.PROTOCOL_ERROR, True)
    # A machine that stood still for 30 s in the middle begins a second count.
    assert metric(up, passed) - before <= 2 * SYNC_CHUNKS_MAX


def test_5_000_connections_from_one_address(up: Up) -> None:
    """Silent ones are bounded for all addresses together, greeting ones for each address."""
    told = Recorder()
    with ExitStack() as stack:
        for i in range(3000):
            stack.enter_context(Sipping(up))
            if i % 500 == 0:
                assert metric(up, "coldnotify_gateway_connections_unidentified") <= UNIDENTIFIED_MAX
        with notify(up, "in-between", None) as ou:
            ou.register("in-between").subscribe(told)
            wait_for(lambda: told.seen, "a newcomer is served while silent ones are there")
        for i in range(2000):
            one = stack.enter_context(Sipping(up))
            one.hello(f"crowd-{i}")
        wait_for(lambda: metric(up, "coldnotify_gateway_connections_refused_total") >= 900, "the excess is refused")
        assert metric(up, "coldnotify_gateway_connections_open") <= PER_ADDRESS_MAX + UNIDENTIFIED_MAX + 10
    wait_for(lambda: metric(up, "coldnotify_gateway_connections_open") <= 10, "they are gone")
    assert metric(up, "coldnotify_gateway_connections_dropped_unidentified_total") > 0


def test_messages_in_order_keep_no_other_tenant_out(up: Up) -> None:
    """A thousand permits each, for one message under way: 57 of 59 publishes of another tenant were refused."""
    many = json.dumps({"messages": [{"channel": "tasks", "payload": number} for number in range(1_000)]}).encode()
    one = b'{"version": 1}'

    def post(path: str, body: bytes) -> tuple[int, Any]:
        answer = fetch(Request(f"{up.http_url}/v1/domains/{path}", body, {"Content-Type": "application/json"}), WAIT_S)
        return answer.status, answer.json()

    orderly = "orderly.example/groups/g/channels?in_order=yes"
    with ThreadPoolExecutor(3) as greedy:
        under_way = [greedy.submit(post, orderly, many) for _ in range(3)]
        statuses = []
        while not all(each.done() for each in under_way):
            statuses.append(post(f"{DOMAIN}/groups/{GROUP}/objects/not-in-order", one)[0])
    assert set(statuses) == {200}
    for answer in under_way:
        assert len(answer.result()[1]["results"]) == 1_000
