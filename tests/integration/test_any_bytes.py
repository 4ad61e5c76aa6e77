"""Payloads of any bytes: every way in and out, through repair, compaction and a takeover of the matcher."""

import base64
import hashlib
import json
import random
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.request import Request

import pytest
from coldnotify.http_publisher import HttpPublisher
from coldnotify.publisher import Publisher
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import PAYLOAD_BYTES_MAX, payload_header
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.wire_pb2 import CAPABILITY_NAMES, CAPABILITY_RAW, Publish
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.device_frames import hello, register
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.gateway_process import GatewayProcess
from coldnotify_testkit.kafka import compact_soon
from coldnotify_testkit.matcher_process import DOMAIN, GROUP, PARTITION, MatcherProcess, records_of
from coldnotify_testkit.raw_client import RawClient
from coldnotify_testkit.stack import Recorder, Stacks, Up, notify
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer

TOPICS = TopicNames()

pytestmark = pytest.mark.kafka

MANY = 10_000
"""As many as a client may be registered for."""
SPECIAL = 6
STALE = 300
LIMIT_S = 300
RAW = CAPABILITY_NAMES | CAPABILITY_RAW
Payloads = dict[str, bytes]


def drawn(count: int, seed: int, prefix: str = "") -> Payloads:
    """Random bytes by object: some of them happen to be JSON, or to begin like that."""
    draw = random.Random(seed)
    found = {f"{prefix}{number}": draw.randbytes(draw.randint(1, 40)) for number in range(count)}
    long = {"long": draw.randbytes(PAYLOAD_BYTES_MAX), "long-json": b"1" * PAYLOAD_BYTES_MAX}
    special = {"json": b'{"a": [1]}', "spaced": b" 1 ", "utf-16": b"\xff\xfe1\0", "more": b'1,"source":"x"', **long}
    return found | {f"{prefix}{name}": payload for name, payload in special.items()}


def hashes(payloads: Payloads) -> dict[str, str]:
    return {name: hashlib.sha256(payload).hexdigest() for name, payload in payloads.items()}


def told(port: int, names: Iterable[str], *, capabilities: int = RAW, client: str = "device") -> Payloads:
    """Returns what a session is told of these objects, as answers to its registrations."""
    wanted, found = list(names), dict[str, bytes]()
    with RawClient(port) as device:
        device.send(hello(client, domain=DOMAIN, group=GROUP, capabilities=capabilities))
        device.until("caught_up")
        for first in range(0, len(wanted), 64):
            part = wanted[first : first + 64]
            device.send(register(first + 1, *part))
            for _ in part:
                said = device.until("notification").notification
                assert said.HasField("version")
                found[said.name] = said.payload
    return found


def shown(one: dict[str, object]) -> bytes:
    """The payload in an answer by HTTP."""
    if "payload_base64" in one:
        return base64.b64decode(str(one["payload_base64"]), validate=True)
    return json.dumps(one["payload"]).encode()


def by_kafka(up: Up, payloads: Payloads) -> None:
    with up.publisher() as publisher:
        publisher.publish_many(DOMAIN, GROUP, {name: {"payload": payload} for name, payload in payloads.items()})


def by_http(up: Up, payloads: Payloads) -> None:
    with HttpPublisher(up.http_url) as publisher:
        for name, payload in payloads.items():
            publisher.publish(DOMAIN, GROUP, name, payload)


def by_http_together(up: Up, payloads: Payloads) -> None:
    with HttpPublisher(up.http_url) as publisher:
        publisher.publish_many(DOMAIN, GROUP, {name: {"payload": payload} for name, payload in payloads.items()})


def by_session(up: Up, payloads: Payloads) -> None:
    with RawClient(up.gateway[1]) as device:
        device.send(hello("sensor", domain=DOMAIN, group=GROUP))
        device.until("caught_up")
        for number, (name, payload) in enumerate(payloads.items(), 1):
            device.say(publish=Publish(request=number, object=name, payload=payload))
        for number in range(1, len(payloads) + 1):
            assert device.until("published").published.request == number


def by_notify(up: Up, payloads: Payloads) -> None:
    with notify(up, "by-notify", None) as sensor:
        for publication in [sensor.publish(name, payload) for name, payload in payloads.items()]:
            publication.wait(LIMIT_S)


def by_command(up: Up, payloads: Payloads) -> None:
    with tempfile.NamedTemporaryFile() as file:
        for name in list(payloads)[-8:]:
            Path(file.name).write_bytes(payloads[name])
            argv = ["publish", DOMAIN, GROUP, name, f"--payload-file={file.name}"]
            done = coldnotify(*argv, **up.in_kafka, http=up.http_url)
            assert done.returncode == 0, done.stderr
    by_http(up, payloads)


@pytest.mark.parametrize("publish", [by_kafka, by_http, by_http_together, by_session, by_notify, by_command])
def test_every_way_in_leads_to_every_way_out(up: Up, publish: Callable[[Up, Payloads], None]) -> None:
    payloads = drawn(40, 7, f"{publish.__name__}/")
    publish(up, payloads)
    port, client = up.gateway[1], f"device-{publish.__name__}"
    assert hashes(told(port, payloads, client=client)) == hashes(payloads)
    asked = {"domain": DOMAIN, "group": GROUP, "client": f"sync-{publish.__name__}", "registrations": list(payloads)}
    sync = Request(f"{up.http_url}/v1/sync", json.dumps(asked).encode(), {"Content-Type": "application/json"})
    synced = {one["object"]: shown(one) for one in fetch(sync).json()["notifications"]}
    for name, payload in payloads.items():
        looked = fetch(f"{up.http_url}/v1/domains/{DOMAIN}/groups/{GROUP}/objects/{name}").json()
        for found in (shown(looked), synced[name]):
            assert found == payload or json.loads(found) == json.loads(payload)
    # Each is 0.1.0's: it knows no such payload, and is told the version without one.
    older = told(port, payloads, capabilities=CAPABILITY_NAMES, client=f"older-{publish.__name__}")
    as_json = {f"{publish.__name__}/{name}" for name in ("json", "long-json")}
    assert {name for name, payload in older.items() if payload} >= as_json
    assert all(payload in (b"", payloads[name]) for name, payload in older.items())
    assert not older[f"{publish.__name__}/long"]


def test_a_client_has_the_bytes_also_after_a_restart(up: Up, tmp_path: Path) -> None:
    payloads = drawn(20, 9, "restart/")
    by_kafka(up, payloads)
    for _ in range(2):
        with notify(up, "restarted", tmp_path / "state") as client:
            registrations = {name: client.register(name) for name in payloads}
            told = Recorder()
            for registration in registrations.values():
                registration.subscribe(told)
            assert client.wait_caught_up(LIMIT_S)
            wait_for(lambda: all(one.current for one in registrations.values()), "all are told")  # noqa: B023
            for name, registration in registrations.items():
                assert registration.current is not None
                assert registration.current.data == payloads[name]
    watched = coldnotify(
        "watch", DOMAIN, GROUP, "watching", *payloads, "--once", "--json", gateway=":".join(map(str, up.gateway))
    )
    said = {one["object"]: shown(one) for one in map(json.loads, watched.stdout.splitlines())}
    assert said.keys() == payloads.keys(), watched.stderr
    assert all(said[name] == one or json.loads(said[name]) == json.loads(one) for name, one in payloads.items())


def test_a_dump_holds_them_and_the_checker_knows_them(up: Up, stacks: Stacks, tmp_path: Path) -> None:
    payloads, files = drawn(60, 10, "dumped/"), [str(tmp_path / name) for name in ("said", "told", "dump")]
    said, told_, dump = files
    file = tmp_path / "payload"
    by_kafka(up, payloads)
    for name in list(payloads)[-SPECIAL:]:
        file.write_bytes(payloads[name])
        argv = ["publish", DOMAIN, GROUP, name, f"--payload-file={file}", f"--history={said}"]
        assert coldnotify(*argv, **up.in_kafka, http=up.http_url).returncode == 0
    names = list(payloads)[-SPECIAL:]
    argv = ["watch", DOMAIN, GROUP, "watching-dumped", *names, "--once", f"--history={told_}"]
    assert coldnotify(*argv, gateway=":".join(map(str, up.gateway))).returncode == 0
    assert coldnotify("topics", "dump", dump, **up.in_kafka).returncode == 0
    judged = coldnotify("check", *files, topics_prefix=up.topics.prefix)
    assert judged.returncode == 0, judged.stdout + judged.stderr

    records = [json.loads(line) for line in Path(dump).read_text().splitlines()]
    # What is in the dump is enough to write them again.
    with stacks.running(tmp_path) as restored:
        producer = Producer({"bootstrap.servers": restored.kafka})
        topic = restored.topics.objects
        partition = partition_of(DOMAIN, GROUP, len(producer.list_topics(topic, LIMIT_S).topics[topic].partitions))
        for one in records:
            if one.get("topic") == up.topics.objects and str(one.get("key")).startswith(f"{DOMAIN}/{GROUP}/dumped/"):
                headers: dict[str, str | bytes | None] = dict([payload_header()]) if one.get("raw") else {}
                producer.produce(topic, json.dumps(one["value"]).encode(), one["key"], partition, headers=headers)
        assert not producer.flush(LIMIT_S)
        found = told(restored.gateway[1], payloads)
    for name, payload in payloads.items():
        assert found[name] == payload or json.loads(found[name]) == json.loads(payload)


def test_ten_thousand_through_repair_compaction_and_a_takeover(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    kafka, payloads = fresh_kafka.bootstrap, drawn(MANY - SPECIAL, 8)
    stale = list(payloads)[:STALE]
    with GatewayProcess(kafka) as gateway:
        with MatcherProcess(kafka, tmp_path / "first.log") as first, Publisher(kafka) as publisher:
            first.wait_serving()
            versions = {name: {"version": 5, "payload": payload} for name, payload in payloads.items()}
            publisher.publish_many(DOMAIN, GROUP, versions)
            compact_soon(kafka, TOPICS.objects)
            publisher.publish_many(DOMAIN, GROUP, {name: {"version": 4, "payload": "stale"} for name in stale})

            def compacted() -> bool:
                publisher.publish(DOMAIN, GROUP, "filler")
                keys = [key for key, _, _ in records_of(kafka, TOPICS.objects, PARTITION)]
                return all(keys.count(f"{DOMAIN}/{GROUP}/{name}".encode()) == 1 for name in stale)

            wait_for(compacted, "each stale version is repaired, and compacted away with what was before", LIMIT_S)
            assert hashes(told(gateway.port, payloads)) == hashes(payloads)
        with MatcherProcess(kafka, tmp_path / "second.log") as second:
            second.wait_serving()
            assert hashes(told(gateway.port, payloads, client="another")) == hashes(payloads)
