"""Every record that release 0.1.0 does not know, sent to its matcher and its gateway: its clients notice nothing."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from coldnotify import Connection, Notify, State
from coldnotify.publisher import Publisher
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.matcher_state import RegistrationsRecord
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.gateway_process import GatewayProcess
from coldnotify_testkit.matcher_process import PARTITION, MatcherProcess, records_of
from coldnotify_testkit.release_before import python_path, started_from, unpacked
from coldnotify_testkit.stack import Recorder
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

TOPICS = TopicNames()
DOMAIN, GROUP, CLIENT = "animal.observer", "region-1", "unit"
LIMIT_S = 120
NOBODY = 4_000_000
"""A session that nobody has."""
UNHEARD = 4_000_000
"""An ask that nobody has asked."""
FORGED = 77
"""The number in every filled field, so also the version of an object that nobody has published."""
DESCRIBES = """
import json
from coldnotify_schemas import internal_pb2, wire_pb2
messages = [one for module in (wire_pb2, internal_pb2) for one in module.DESCRIPTOR.message_types_by_name.values()]
print(json.dumps({one.full_name: {f.name: [f.number, f.type] for f in one.fields} for one in messages}))
"""
Fields = Mapping[str, Mapping[str, tuple[int, int]]]
"""By a message's full name, then by a field's name: its number and its type."""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its packages."""
    return unpacked(tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def known(release: Path) -> Fields:
    """The fields of each message in the release."""
    environ = {**os.environ, "PYTHONPATH": python_path(release)}
    said = subprocess.run([sys.executable, "-c", DESCRIBES], env=environ, check=True, capture_output=True)
    fields: Fields = json.loads(said.stdout)
    return fields


def descriptors() -> dict[str, Descriptor]:
    modules = (wire_pb2, internal_pb2)
    return {one.full_name: one for module in modules for one in module.DESCRIPTOR.message_types_by_name.values()}


def test_fields_of_the_release_keep_their_names_numbers_and_types(known: Fields) -> None:
    now = descriptors()
    changed = {
        (message, name): (number, type_)
        for message, fields in known.items()
        for name, (number, type_) in fields.items()
        if (found := now[message].fields_by_name.get(name)) is None or (found.number, found.type) != (number, type_)
    }
    # The gateway's generation count has outgrown 32 bits; both types have the same bytes.
    assert changed.keys() <= {("coldnotify.internal.Beat", "generation")}
    assert known["coldnotify.internal.Request"]["register"][0] == 11


def fill(message: Message, known: Fields, *, new_only: bool) -> None:
    """Sets every field; `new_only`: those that the release does not know, also within those that it knows."""
    in_release = known.get(message.DESCRIPTOR.full_name, {}) if new_only else {}
    for field in message.DESCRIPTOR.fields:
        is_known = field.name in in_release
        if field.containing_oneof is not None and len(field.containing_oneof.fields) > 1:
            continue
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            if not is_known:
                part = getattr(message, field.name)
                fill(part.add() if field.is_repeated else part, known, new_only=new_only)
            elif field.is_repeated:
                for part in getattr(message, field.name):
                    fill(part, known, new_only=new_only)
            elif message.HasField(field.name):
                fill(getattr(message, field.name), known, new_only=new_only)
        elif not is_known:
            value = value_of(field)
            if field.is_repeated:
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)


def value_of(field: Any) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_BOOL:
            return True
        case FieldDescriptor.CPPTYPE_ENUM:
            return field.enum_type.values[-1].number
        case FieldDescriptor.CPPTYPE_STRING:
            return b"{}" if field.type == FieldDescriptor.TYPE_BYTES else "a"
        case _:
            return FORGED


def kinds(oneof: str, message: type[Message]) -> list[str]:
    return [field.name for field in message.DESCRIPTOR.oneofs_by_name[oneof].fields]


def requests(opened: internal_pb2.Request, known: Fields) -> Iterator[internal_pb2.Request]:
    """Yields a request of each kind, by the session that sent `opened`: in full if it is new, else its new fields."""
    digest = opened.open.digest
    harmless: dict[str, Message] = {
        "open": internal_pb2.Open(digest=digest, again=True, ask=UNHEARD, epoch=opened.open.epoch),
        "register": wire_pb2.Register(objects=["a"]),
        "unregister": wire_pb2.Unregister(),
        "sync": wire_pb2.SyncChunk(last=True, objects=["a", "b"]),
        "catch_up": internal_pb2.CatchUp(ask=UNHEARD),
        "check_digest": internal_pb2.CheckDigest(digest=digest, ask=UNHEARD),
        "leave": internal_pb2.Leave(),
        "acks": internal_pb2.Acks(),
        "beat": internal_pb2.Beat(serial=1),
    }
    assert harmless.keys() == known["coldnotify.internal.Request"].keys() & set(kinds("body", internal_pb2.Request))
    for kind in kinds("body", internal_pb2.Request):
        request = internal_pb2.Request()
        request.CopyFrom(opened)
        request.ClearField("open")
        body = getattr(request, kind)
        body.SetInParent()
        if kind in harmless:
            body.CopyFrom(harmless[kind])
        if kind == "leave":
            request.session = NOBODY
        fill(body, known, new_only=kind in harmless)
        fill(request, known, new_only=True)
        yield request


def items(session: int, known: Fields) -> Iterator[internal_pb2.Item]:
    """Yields an item of each kind, for this session: in full if it is new, else its new fields."""
    numbers = session.to_bytes(4, "little")
    harmless: dict[str, Message] = {
        "fan_out": internal_pb2.FanOut(newest=internal_pb2.Newest(name="a", version=1, behind=1), sessions=numbers),
        "opened": internal_pb2.Opened(session=session, ask=UNHEARD, in_sync=True),
        "answered": internal_pb2.Answered(session=session),
        "page": internal_pb2.Page(session=session, ask=UNHEARD, page=1),
        "closed": internal_pb2.Closed(session=NOBODY),
        "beat": internal_pb2.BeatAnswer(agreed=True),
    }
    assert harmless.keys() == known["coldnotify.internal.Item"].keys()
    # A live session asks for pages after one that it did not expect, and is sent no fan-outs until then.
    for kind in sorted(kinds("item", internal_pb2.Item), key=["page", "opened"].__contains__):
        item = internal_pb2.Item()
        body = getattr(item, kind)
        body.SetInParent()
        if kind in harmless:
            body.CopyFrom(harmless[kind])
        fill(body, known, new_only=kind in harmless)
        if kind not in harmless:
            if "session" in body.DESCRIPTOR.fields_by_name:
                body.session = session
            if kind == "stream_fan_out":
                body.sessions = numbers
        yield item


def test_its_clients_notice_nothing(
    monkeypatch: pytest.MonkeyPatch, release: Path, known: Fields, fresh_kafka: EmbeddedBroker, tmp_path: Path
) -> None:
    kafka = fresh_kafka.bootstrap
    told = Recorder()
    with (
        started_from(monkeypatch, release),
        MatcherProcess(kafka, tmp_path / "matcher.log") as serving,
        GatewayProcess(kafka) as gateway,
        Publisher(kafka) as publisher,
    ):
        serving.wait_serving()
        for name in ("a", "b", "c"):
            publisher.publish(DOMAIN, GROUP, name, version=1)
        with Notify(DOMAIN, GROUP, CLIENT, State(tmp_path / "state"), Connection("127.0.0.1", gateway.port)) as client:
            for name in ("a", "b"):
                client.register(name).subscribe(told)
            assert client.wait_caught_up(timeout_s=LIMIT_S), client.status
            (opened,) = opens(kafka)
            assert opened.session == 1
            send(kafka, opened, requests(opened, known), items(opened.session, known))
            client.register("c").subscribe(told)
            wait_for(told.reaches("c", 1), "what follows all that was sent", LIMIT_S)
            publisher.publish(DOMAIN, GROUP, "a", version=2)
            wait_for(told.reaches("a", 2), "a version that is published after it", LIMIT_S)
        assert sorted((one.object_id, one.version) for one in told.seen) == [("a", 1), ("a", 2), ("b", 1), ("c", 1)]
        assert len(opens(kafka)) == 1, "its session has not ended"
        new = set(kinds("body", internal_pb2.Request)) - known["coldnotify.internal.Request"].keys()
        assert serving.output.count("request not understood") == len(new)
    for bucket in buckets(kafka):
        assert set(bucket.objects) <= {"a", "b", "c"}, "it is registered for nothing else at any time"
        assert bucket.interests == []


def opens(kafka: str) -> list[internal_pb2.Request]:
    """The first Opens of the client's sessions."""
    records = records_of(kafka, TOPICS.requests, PARTITION)
    found = [internal_pb2.Request.FromString(value or b"") for _, value, _ in records]
    return [one for one in found if one.HasField("open") and not one.open.again]


def send(
    kafka: str,
    opened: internal_pb2.Request,
    requests: Iterator[internal_pb2.Request],
    items: Iterator[internal_pb2.Item],
) -> None:
    """Writes the items, as its matcher would, and the requests, as its gateway would, each in a record of its own."""
    producer = Producer({"bootstrap.servers": kafka, "log_level": 0})
    said = (
        internal_pb2.Inbox.FromString(v or b"") for _, v, _ in records_of(kafka, TOPICS.notifications, opened.inbox)
    )
    last = [one for one in said if one.gateway == opened.gateway and one.partition == PARTITION][-1]
    for place, item in enumerate(items, 1):
        inbox = internal_pb2.Inbox(format=1, partition=PARTITION, generation=last.generation, gateway=opened.gateway)
        inbox.number = last.number + place
        inbox.items.append(item)
        producer.produce(TOPICS.notifications, inbox.SerializeToString(), b"new", opened.inbox)
    for request in requests:
        producer.produce(TOPICS.requests, request.SerializeToString(), b"new", PARTITION)
    assert producer.flush(LIMIT_S) == 0


def buckets(kafka: str) -> list[RegistrationsRecord]:
    """All records of the client's registrations, in order."""
    records = records_of(kafka, TOPICS.registrations, PARTITION)
    of_client = f"{DOMAIN}/{GROUP}/{CLIENT}/".encode()
    found = [value for key, value, _ in records if key and key.startswith(of_client) and value]
    return [msgspec.json.decode(value, type=RegistrationsRecord) for value in found]
