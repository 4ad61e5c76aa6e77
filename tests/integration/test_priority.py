"""Priority, with real processes and a slow link: what is published urgently comes before pages that still wait.

It is the order that is looked at, and never the time: the device does not ask for its next page before, or there is far
more before it than can have come.
"""

import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from coldnotify import Connection, Message, Notify, State
from coldnotify.http_publisher import HttpPublisher
from coldnotify_schemas.digest import object_crc
from coldnotify_schemas.frames import encode
from coldnotify_schemas.interests import query_hash
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import REASON_HEADER
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.wire_pb2 import (
    CAPABILITY_NAMES,
    CAPABILITY_QUERIES,
    INTEREST_QUERY,
    ClientFrame,
    Hello,
    Interest,
    Notification,
)
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.device_frames import ack, hello
from coldnotify_testkit.raw_client import RawClient
from coldnotify_testkit.slow_link import slow_link
from coldnotify_testkit.stack import PARTITIONS, Recorder, Up
from coldnotify_testkit.waiting import WAIT_S, wait_for
from confluent_kafka import Consumer, Producer

TOPICS = TopicNames()

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "animal.observer", "priority-1"
BITS_PER_S = 50_000
BACKLOG = tuple(f"backlog-{number}" for number in range(50))
PAYLOAD = "x" * 700
"""With these, the backlog is more than two first pages."""
ALARMS = ("alarm-by-kafka", "alarm-by-http", "alarm-by-library", "alarm-by-command", "alarm-by-session")
NAMES = {object_crc(name): name for name in (*BACKLOG, *ALARMS)}


def post(up: Up, path: str, body: dict[str, object]) -> None:
    request = urllib.request.Request(f"{up.http_url}{path}", json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=60) as response:
        assert response.status == 200


def raise_alarms(up: Up) -> None:
    """One by each way to publish, one after the other."""
    with up.publisher() as publisher:
        publisher.publish(DOMAIN, GROUP, ALARMS[0], version=1, payload="now", priority="high")
    post(up, f"/v1/domains/{DOMAIN}/groups/{GROUP}/objects/{ALARMS[1]}", {"version": 1, "priority": "high"})
    HttpPublisher(up.http_url).publish(DOMAIN, GROUP, ALARMS[2], version=1, priority="high")
    words = ("publish", DOMAIN, GROUP, ALARMS[3], "--version=1", "--priority=high")
    assert coldnotify(*words, **up.in_kafka).returncode == 0
    host, port = up.gateway
    with Notify(DOMAIN, GROUP, "unit-that-tells", State(None), Connection(host, port)) as unit:
        publication = unit.publish(ALARMS[4], version=1, priority="high")
        assert publication is not None
        publication.wait(60)


def test_what_is_urgent_comes_before_the_pages_that_wait_and_all_comes(up: Up) -> None:
    with up.publisher() as publisher:
        for name in BACKLOG:
            publisher.publish(DOMAIN, GROUP, name, version=1, payload=PAYLOAD)
    wanted = BACKLOG + ALARMS
    told: list[Notification] = []
    with slow_link(*up.gateway, bits_per_s=BITS_PER_S) as link, RawClient(link.port) as device:
        device.send(hello("slow", group=GROUP, wanted=wanted, register=wanted))
        while (frame := device.frame()) is not None and not frame.HasField("page_end"):
            told.append(frame.notification)
        assert frame is not None
        before = {NAMES[one.crc] for one in told if one.crc in NAMES}
        assert len(before & {*BACKLOG}) < len(BACKLOG), "there is more than a page"
        raise_alarms(up)
        # The device has acknowledged no page, so nothing else can come.
        urgent = [device.until("notification").notification for _ in ALARMS]
        assert [(NAMES[one.crc], one.version, one.answer) for one in urgent] == [(name, 1, True) for name in ALARMS]
        after: list[Notification] = []
        while not frame.HasField("caught_up"):
            if frame.HasField("page_end"):
                device.send(ack(page=frame.page_end.page))
            next_frame = device.frame()
            assert next_frame is not None
            frame = next_frame
            if frame.HasField("notification"):
                after.append(frame.notification)
    newest = {NAMES[one.crc]: one.version for one in (*told, *after) if one.crc in NAMES and one.HasField("version")}
    assert newest == dict.fromkeys(wanted, 1), "the backlog is whole, and what overtook it has come again at its place"


def test_an_application_is_told_once_and_stands_where_it_stood(up: Up, tmp_path: Path) -> None:
    host, port = up.gateway
    group = "priority-2"
    first, told, again = Recorder(), Recorder(), Recorder()
    state = tmp_path / "state"

    def unit(port: int, recorder: Recorder) -> Notify:
        made = Notify(DOMAIN, group, "unit", State(filename=str(state)), Connection(host, port))
        for name in (*BACKLOG, ALARMS[0]):
            made.register(name).subscribe(recorder)
        return made

    with unit(port, first):
        wait_for(lambda: len({one.object_id for one in first.seen}) == len(BACKLOG) + 1, "registered")
    with up.publisher() as publisher:
        for name in BACKLOG:
            publisher.publish(DOMAIN, group, name, version=1, payload=PAYLOAD)
        with slow_link(host, port, bits_per_s=BITS_PER_S) as link, unit(link.port, told) as slow:
            wait_for(lambda: told.seen, "it makes progress")
            publisher.publish(DOMAIN, group, ALARMS[0], version=1, priority="high")
            wait_for(lambda: told.newest(ALARMS[0]) == 1, "it is told", timeout_s=240)
            wait_for(lambda: all(told.newest(name) == 1 for name in BACKLOG), "so is all else", timeout_s=240)
            wait_for(lambda: slow.caught_up, "caught up", timeout_s=240)
    assert len(told.seen) == len(BACKLOG) + 1, "each once"
    with unit(port, again) as awake:
        wait_for(lambda: awake.caught_up, "caught up")
    assert again.seen == []


def test_a_member_is_told_at_once_as_soon_as_the_device_knows_it_as_one_and_not_before(up: Up) -> None:
    group, text = "priority-of-members", "NAME STARTS WITH 'backlog'"
    with up.publisher() as publisher:
        for name in BACKLOG:
            publisher.publish(DOMAIN, group, name, version=1, payload=PAYLOAD)
        said = Hello(
            protocol=1, capabilities=CAPABILITY_NAMES | CAPABILITY_QUERIES, domain=DOMAIN, group=group, client="unit",
            digest=query_hash(text), interests=[Interest(kind=INTEREST_QUERY, text=text)],
        )  # fmt: skip
        told: list[Notification] = []
        with RawClient(up.gateway[1]) as device:
            device.send(encode(ClientFrame(hello=said)))
            while (frame := device.frame()) is not None and not frame.HasField("page_end"):
                if frame.HasField("notification"):
                    told.append(frame.notification)
            assert frame is not None
            known = [one.name for one in told if one.entered]
            to_come = sorted({*BACKLOG} - {*known})
            assert known, "some have been named"
            assert to_come, "there is more than a page"
            for name in (to_come[-1], known[0]):
                publisher.publish(DOMAIN, group, name, version=2, priority="high")
            # The device has acknowledged no page, so nothing else can come.
            urgent = device.until("notification").notification
            assert (urgent.name, urgent.version, urgent.answer) == (known[0], 2, True)
            while not frame.HasField("caught_up"):
                if frame.HasField("page_end"):
                    device.send(ack(page=frame.page_end.page))
                next_frame = device.frame()
                assert next_frame is not None
                frame = next_frame
                if frame.HasField("notification"):
                    told.append(frame.notification)
    first = next(one for one in told if one.name == to_come[-1])
    assert list(first.entered) == [query_hash(text)]
    assert max(one.version for one in told if one.name == to_come[-1]) == 2, "it comes at its place"


def test_a_priority_that_is_none_is_refused_by_the_fields_name(up: Up) -> None:
    path = f"{up.http_url}/v1/domains/{DOMAIN}/groups/{GROUP}/objects/o"
    request = urllib.request.Request(path, b'{"priority": "low"}', method="POST")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    with refused.value as error:
        assert (error.code, json.load(error)["field"]) == (400, "priority")
    with up.publisher() as publisher, pytest.raises(ValueError, match=r"^priority: 'low' is not high$"):
        publisher.publish(DOMAIN, GROUP, "o", priority="low")
    host, port = up.gateway
    with (
        Notify(DOMAIN, GROUP, "unit-that-errs", State(None), Connection(host, port)) as unit,
        pytest.raises(ValueError, match=r"^priority: 'low' is not high$"),
    ):
        unit.publish("o", priority="low")
    done = coldnotify("publish", DOMAIN, GROUP, "o", "--priority=low", **up.in_kafka)
    assert done.returncode == 2
    assert "--priority" in done.stderr


# --- channels

SLOW_LINK_S = 240.0
"""What waits behind the link takes a tenth of it."""


def channels_unit(
    up: Up, group: str, state: Path, port: int, told: list[Message], *more: str, objects: Recorder | None = None
) -> Notify:
    """It is registered for the channels log and alarms, and for these objects, and notes messages."""
    unit = Notify(DOMAIN, group, "unit", State(filename=str(state)), Connection(up.gateway[0], port))
    for name in ("log", "alarms"):
        unit.channel(name).subscribe(told.append)
    for name in more:
        unit.register(name).subscribe(objects or Recorder())
    return unit


def asleep(up: Up, group: str, state: Path, *more: str) -> None:
    with channels_unit(up, group, state, up.gateway[1], [], *more) as unit:
        wait_for(lambda: unit.caught_up, "registered")


def alarms_by_all_ways(up: Up, group: str) -> list[str]:
    """One message that is like all others, and then one of high priority by each way to send, one after the other."""
    about = f"/v1/domains/{DOMAIN}/groups/{group}/channels"
    with up.publisher() as publisher:
        publisher.send(DOMAIN, group, "alarms", "plain")
        publisher.send(DOMAIN, group, "alarms", "kafka", priority="high")
    post(up, f"{about}/alarms", {"payload": "http", "priority": "high"})
    post(up, about, {"messages": [{"channel": "alarms", "payload": "http, of many", "priority": "high"}]})
    HttpPublisher(up.http_url).send(DOMAIN, group, "alarms", "library", priority="high")
    words = ("send", DOMAIN, group, "alarms", "--payload", '"command"', "--priority=high")
    assert coldnotify(*words, **up.in_kafka).returncode == 0
    host, port = up.gateway
    with Notify(DOMAIN, group, "unit-that-tells", State(None), Connection(host, port)) as unit:
        sent = unit.send("alarms", "session", priority="high")
        assert sent is not None
        sent.wait(60)
    producer = Producer({"bootstrap.servers": up.kafka})
    partition = partition_of(DOMAIN, group, PARTITIONS)
    producer.produce(
        up.topics.channels_1d, b'"raw"', f"{DOMAIN}/{group}/alarms", partition, headers={"priority": "high"}
    )
    assert producer.flush(60) == 0
    return ["plain", "kafka", "http", "http, of many", "library", "command", "session", "raw"]


def test_a_channel_comes_before_pages_of_others_that_wait_in_its_order_and_all_comes(up: Up, tmp_path: Path) -> None:
    group, state = "priority-3", tmp_path / "state"
    asleep(up, group, state)
    with up.publisher() as publisher:
        for number in range(150):
            publisher.send(DOMAIN, group, "log", {"number": number, "text": PAYLOAD})
    told: list[Message] = []
    with (
        slow_link(*up.gateway, bits_per_s=BITS_PER_S) as link,
        channels_unit(up, group, state, link.port, told) as unit,
    ):
        wait_for(lambda: told, "it makes progress")
        alarms = alarms_by_all_ways(up, group)
        wait_for(lambda: len(told) == 150 + len(alarms), "all is told", timeout_s=SLOW_LINK_S)
        wait_for(lambda: unit.caught_up, "caught up", timeout_s=SLOW_LINK_S)
    assert [one.payload for one in told if one.channel == "alarms"] == alarms
    assert [one.payload["number"] for one in told if one.channel == "log"] == list(range(150))
    last_alarm = max(place for place, one in enumerate(told) if one.channel == "alarms")
    assert last_alarm < len(told) - 1, "a part of what was sent before comes behind it"
    previous: dict[str, int | None] = {"log": None, "alarms": None}
    for one in told:
        assert previous[one.channel] in (None, one.previous)
        previous[one.channel] = one.offset
    again: list[Message] = []
    with channels_unit(up, group, state, up.gateway[1], again) as awake:
        wait_for(lambda: awake.caught_up, "caught up")
    assert again == []


def test_a_live_message_takes_its_channel_in_front_of_pages_of_objects(up: Up, tmp_path: Path) -> None:
    group, state = "priority-4", tmp_path / "state"
    asleep(up, group, state, *BACKLOG)
    told: list[Message] = []
    objects = Recorder()
    with up.publisher() as publisher:
        for name in BACKLOG:
            publisher.publish(DOMAIN, group, name, version=1, payload=PAYLOAD)
        with (
            slow_link(*up.gateway, bits_per_s=BITS_PER_S) as link,
            channels_unit(up, group, state, link.port, told, *BACKLOG, objects=objects) as unit,
        ):
            wait_for(lambda: link.times_of("notification"), "it makes progress")
            publisher.send(DOMAIN, group, "alarms", "plain")
            publisher.send(DOMAIN, group, "alarms", "now", priority="high")
            wait_for(lambda: len(told) == 2, "they are told", timeout_s=SLOW_LINK_S)
            assert not unit.caught_up, "what was published before is still to come"
            wait_for(lambda: unit.caught_up, "caught up", timeout_s=SLOW_LINK_S)
            assert all(objects.newest(name) == 1 for name in BACKLOG)
    assert [one.payload for one in told] == ["plain", "now"]


def test_who_loses_power_when_only_what_overtook_has_come_is_told_the_rest_and_nothing_twice(
    up: Up, tmp_path: Path
) -> None:
    group, state = "priority-5", tmp_path / "state"
    asleep(up, group, state)
    with up.publisher() as publisher:
        for number in range(100):
            publisher.send(DOMAIN, group, "log", {"number": number, "text": PAYLOAD})
        told: list[Message] = []
        with slow_link(*up.gateway, bits_per_s=BITS_PER_S) as link:
            with channels_unit(up, group, state, link.port, told):
                wait_for(lambda: told, "it makes progress")
                publisher.send(DOMAIN, group, "alarms", "now", priority="high")
                wait_for(lambda: told[-1].channel == "alarms", "it is told", timeout_s=SLOW_LINK_S)
            before = len(told)
            assert before < 101
    with channels_unit(up, group, state, up.gateway[1], told) as awake:
        wait_for(lambda: awake.caught_up, "caught up")
    assert [one.payload["number"] for one in told if one.channel == "log"] == list(range(100))
    assert [one.payload for one in told if one.channel == "alarms"] == ["now"]


def test_a_messages_priority_that_is_none_is_refused_by_the_fields_name_or_rejected(up: Up) -> None:
    path = f"{up.http_url}/v1/domains/{DOMAIN}/groups/{GROUP}/channels"
    one = b'{"payload": 1, "priority": "low"}'
    for url, body in ((f"{path}/alarms", one), (path, b'{"messages": [{"channel": "alarms", ' + one[1:] + b"]}")):
        request = urllib.request.Request(url, body, method="POST")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
        with refused.value as error:
            assert (error.code, json.load(error)["field"]) == (400, "priority")
    with up.publisher() as publisher, pytest.raises(ValueError, match=r"^priority: 'low' is not high$"):
        publisher.send(DOMAIN, GROUP, "alarms", 1, priority="low")
    host, port = up.gateway
    with (
        Notify(DOMAIN, GROUP, "unit-that-errs", State(None), Connection(host, port)) as unit,
        pytest.raises(ValueError, match=r"^priority: 'low' is not high$"),
    ):
        unit.send("alarms", 1, priority="low")
    producer = Producer({"bootstrap.servers": up.kafka})
    key = f"{DOMAIN}/{GROUP}/wrong"
    producer.produce(
        up.topics.channels_1d, b"1", key, partition_of(DOMAIN, GROUP, PARTITIONS), headers=[("priority", b"low")]
    )
    assert producer.flush(60) == 0
    consumer = Consumer(
        {"bootstrap.servers": up.kafka, "group.id": up.topics.group("looks"), "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([up.topics.rejected])
    until_s = time.monotonic() + WAIT_S
    reasons: list[str] = []
    while not reasons and time.monotonic() < until_s:
        record = consumer.poll(1)
        if record is not None and record.key() == key.encode():
            said: Any = record.headers()
            reasons = [value.decode() for name, value in said if name == REASON_HEADER]
    consumer.close()
    assert reasons == ["priority: b'low' is not high"]
