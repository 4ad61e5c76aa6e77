"""Payloads up to 64 KiB, where all services are set so: each way in and out, to a slow reader, through a takeover."""

import base64
import json
import random
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request

import pytest
from coldnotify import Connection, Notify, State
from coldnotify.http_publisher import HttpPublisher
from coldnotify.publisher import InvalidRecord, PublishManyError
from coldnotify_schemas.protocol import CLIENT_FRAME_BYTES_MAX
from coldnotify_schemas.records import LARGEST_PAYLOAD_BYTES
from coldnotify_schemas.wire_pb2 import CAPABILITY_NAMES, CAPABILITY_RAW, Publish
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.device_frames import hello, register
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.raw_client import RawClient
from coldnotify_testkit.stack import Recorder, Stacks, Up, notify
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "animal.observer", "region-1"
LIMIT_S = 120
IN_A_FRAME = CLIENT_FRAME_BYTES_MAX - 200
"""What a session can publish: its frame has the other fields, too."""
SETTING = {"object_payload_bytes_max": str(LARGEST_PAYLOAD_BYTES)}
ANSWERED = 4 * 64
"""Objects in the requests that a client may have unanswered."""


@pytest.fixture(scope="module")
def wide(stacks: Stacks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A stack with the highest limit."""
    with stacks.running(tmp_path_factory.mktemp("wide"), **SETTING) as up:
        yield up


def drawn(seed: str, bytes_max: int = LARGEST_PAYLOAD_BYTES) -> dict[str, bytes]:
    draw = random.Random(seed)
    text = json.dumps("".join(draw.choices("abc \u00e9\u4e2d", k=bytes_max // 4)), ensure_ascii=False).encode()
    filler = b"x" * (bytes_max - 2)
    payloads = {"bytes": draw.randbytes(bytes_max), "json": b'"%b"' % filler, "text": text, "short": b"1"}
    return {f"{seed}/{name}": payload for name, payload in payloads.items()}


def shown(one: dict[str, object]) -> bytes:
    """The payload in an answer by HTTP."""
    if "payload_base64" in one:
        return base64.b64decode(str(one["payload_base64"]), validate=True)
    return json.dumps(one["payload"], ensure_ascii=False).encode()


def keeping_all(up: Up, state: Path) -> Notify:
    """A client with room for the latest payloads, so that `current` has each."""
    host, port = up.gateway
    return Notify(
        domain=DOMAIN,
        group_id=GROUP,
        client_id="receiver",
        state=State(filename=str(state)),
        connection=Connection(address=host, port=port),
        newest_bytes_max=4 * 1024 * 1024,
    )


def told(up: Up, names: list[str], client: str) -> dict[str, bytes]:
    """What a session is told in answer to its registrations."""
    found = {}
    with RawClient(up.gateway[1]) as device:
        device.send(hello(client, domain=DOMAIN, group=GROUP, capabilities=CAPABILITY_NAMES | CAPABILITY_RAW))
        device.until("caught_up")
        for first in range(0, len(names), 64):
            device.send(register(first + 1, *names[first : first + 64]))
        for _ in names:
            said = device.until("notification").notification
            found[said.name] = said.payload
    return found


def test_every_way_in_leads_to_every_way_out(wide: Up, tmp_path: Path) -> None:
    payloads: dict[str, bytes] = {}
    with wide.publisher(object_payload_bytes_max=LARGEST_PAYLOAD_BYTES) as publisher:
        payloads |= (these := drawn("kafka"))
        publisher.publish_many(DOMAIN, GROUP, {name: {"payload": payload} for name, payload in these.items()})
    with HttpPublisher(wide.http_url, object_payload_bytes_max=LARGEST_PAYLOAD_BYTES) as publisher:
        payloads |= (these := drawn("http"))
        for name, payload in these.items():
            publisher.publish(DOMAIN, GROUP, name, payload)
        payloads |= (these := drawn("together"))
        publisher.publish_many(DOMAIN, GROUP, {name: {"payload": payload} for name, payload in these.items()})
    with notify(wide, "sensor", None) as sensor:
        payloads |= (these := drawn("session", IN_A_FRAME))
        for publication in [sensor.publish(name, payload) for name, payload in these.items()]:
            publication.wait(LIMIT_S)
    file = tmp_path / "payload"
    payloads |= (these := drawn("command"))
    for name, payload in these.items():
        file.write_bytes(payload)
        argv = ["publish", DOMAIN, GROUP, name, f"--payload-file={file}"]
        done = coldnotify(*argv, **wide.in_kafka, http=wide.http_url, **SETTING)
        assert done.returncode == 0, done.stderr

    names = list(payloads)
    assert told(wide, names, "raw") == payloads
    body = json.dumps({"domain": DOMAIN, "group": GROUP, "client": "sync", "registrations": names}).encode()
    sync = Request(f"{wide.http_url}/v1/sync", body, {"Content-Type": "application/json"})
    assert {one["object"]: shown(one) for one in fetch(sync).json()["notifications"]} == payloads
    for name, payload in payloads.items():
        assert shown(fetch(f"{wide.http_url}/v1/domains/{DOMAIN}/groups/{GROUP}/objects/{name}").json()) == payload
    with keeping_all(wide, tmp_path / "state") as receiver:
        registrations = {name: receiver.register(name) for name in names}
        live = Recorder()
        for registration in registrations.values():
            registration.subscribe(live)
        assert receiver.wait_caught_up(LIMIT_S)
        wait_for(lambda: len(live.seen) >= len(names), "it is told all")
        assert {one.object_id: one.data for one in live.seen} == payloads
        # And live.
        payload = random.Random(3).randbytes(LARGEST_PAYLOAD_BYTES)
        with HttpPublisher(wide.http_url) as publisher:
            publisher.publish(DOMAIN, GROUP, names[0], payload)
        wait_for(lambda: live.seen[-1].data == payload, "it is told the next version")
    with keeping_all(wide, tmp_path / "state") as receiver:
        current = receiver.register(names[0]).current
        assert current is not None
        assert current.data == payload, "its state file has it"


def test_a_client_that_reads_slowly_is_told_all_that_it_registers_for_at_once(wide: Up) -> None:
    draw = random.Random(4)
    payloads = {f"many/{number}": draw.randbytes(LARGEST_PAYLOAD_BYTES) for number in range(ANSWERED)}
    with wide.publisher(object_payload_bytes_max=LARGEST_PAYLOAD_BYTES) as publisher:
        publisher.publish_many(DOMAIN, GROUP, {name: {"payload": payload} for name, payload in payloads.items()})
    names = list(payloads)
    with RawClient(wide.gateway[1], receive_buffer_bytes=4096) as device:
        device.send(hello("slow", domain=DOMAIN, group=GROUP, capabilities=CAPABILITY_NAMES | CAPABILITY_RAW))
        device.until("caught_up")
        for first in range(0, ANSWERED, 64):
            device.send(register(first + 1, *names[first : first + 64]))
        gateway = f"http://{wide.report['gateways_http'][0]}/metrics"

        def buffered_bytes() -> float:
            lines = fetch(gateway).text.splitlines()
            return sum(
                float(line.split()[-1]) for line in lines if line.startswith("coldnotify_gateway_buffered_bytes")
            )

        wait_for(lambda: buffered_bytes() > ANSWERED * LARGEST_PAYLOAD_BYTES // 2, "all answers wait", LIMIT_S)
        said = [device.until("notification").notification for _ in names]
    assert {one.name: one.payload for one in said} == payloads


def test_every_door_names_a_longer_payload(wide: Up) -> None:
    longer = b"\xff" * (LARGEST_PAYLOAD_BYTES + 1)
    words = f"payload: has {len(longer)} bytes"
    to_kafka = wide.publisher(object_payload_bytes_max=LARGEST_PAYLOAD_BYTES)
    with to_kafka as publisher, pytest.raises(InvalidRecord, match=words):
        publisher.publish(DOMAIN, GROUP, "longer", longer)
    with HttpPublisher(wide.http_url) as publisher, pytest.raises(ValueError, match=words):
        publisher.publish(DOMAIN, GROUP, "longer", longer)
    with notify(wide, "sensor", None) as sensor, pytest.raises(ValueError, match="at most 32768 fit a frame"):
        sensor.publish("longer", longer[:CLIENT_FRAME_BYTES_MAX])


def test_a_service_with_the_lower_limit_names_it_and_its_matcher_rejects_records_above(up: Up) -> None:
    longer, words = b"\xff" * 4097, "payload: has 4097 bytes"
    with HttpPublisher(up.http_url, object_payload_bytes_max=5000) as publisher:
        with pytest.raises(ValueError, match=words):
            publisher.publish(DOMAIN, GROUP, "longer", longer)
        with pytest.raises(PublishManyError, match=words):
            publisher.publish_many(DOMAIN, GROUP, {"longer": {"payload": longer}})
    with RawClient(up.gateway[1]) as device:
        device.send(hello("sensor-of-longer", domain=DOMAIN, group=GROUP))
        device.until("caught_up")
        device.say(publish=Publish(request=1, object="longer", payload=longer))
        assert words in device.until("not_published").not_published.reason
    with up.publisher(object_payload_bytes_max=5000, http=up.http_url) as publisher:
        outcome = publisher.publish(DOMAIN, GROUP, "longer", longer).outcome(LIMIT_S)
    assert (outcome.outcome, words in outcome.reason) == ("rejected", True)


def test_the_next_matcher_tells_them_too(wide: Up) -> None:
    payloads = drawn("takeover")
    with wide.publisher(object_payload_bytes_max=LARGEST_PAYLOAD_BYTES) as publisher:
        publisher.publish_many(
            DOMAIN, GROUP, {name: {"version": 5, "payload": payload} for name, payload in payloads.items()}
        )
        for name in payloads:
            publisher.publish(DOMAIN, GROUP, name, b"stale", version=4)
    assert told(wide, list(payloads), "before") == payloads
    wide.wait_ready(other_than=wide.kill("matcher"))
    assert told(wide, list(payloads), "after") == payloads
