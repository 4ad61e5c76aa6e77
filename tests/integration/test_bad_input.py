"""Bad input is answered or rejected with a reason, and everybody else is served as before."""

import contextlib
import socket
import urllib.request
from collections.abc import Iterator

import pytest
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.frames import FrameBuffer, encode, encode_length, parse_gateway_frame
from coldnotify_schemas.names import InvalidName
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import REASON_HEADER
from coldnotify_schemas.wire_pb2 import ClientFrame, Close, Hello
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.stack import PARTITIONS, Recorder, Up, notify
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Consumer, Producer, TopicPartition

pytestmark = pytest.mark.kafka

HTTP_REQUEST = b"GET / HTTP/1.1\r\nHost: example\r\nUser-Agent: " + b"x" * 100 + b"\r\n\r\n"
"""Longer than the length that its first letter announces."""


@pytest.fixture
def bystander(up: Up, request: pytest.FixtureRequest) -> Iterator[None]:
    """A client that is connected all the while: after the test it is still served, on the same connection."""
    told = Recorder()
    name = f"bystander/{request.node.name}"
    with notify(up, "bystander", None) as ou:
        ou.register(name).subscribe(told)
        wait_for(lambda: told.seen, "the bystander is registered")
        yield
        with up.publisher() as publisher:
            publisher.publish("animal.observer", "region-1", name, version=1)
        wait_for(lambda: told.newest(name) == 1, "the bystander is served")
        assert ou.status.last_problem is None


def close_of(up: Up, data: bytes) -> Close:
    """What the gateway answers to these bytes before it closes the connection."""
    with socket.create_connection(up.gateway, timeout=60) as connection:
        connection.sendall(data)
        received = bytearray()
        with contextlib.suppress(ConnectionResetError):
            while chunk := connection.recv(65536):
                received += chunk
    frames = [parse_gateway_frame(body) for body in FrameBuffer(1 << 20).feed(bytes(received))]
    assert [frame.WhichOneof("frame") for frame in frames] == ["close"], frames
    return frames[0].close


def hello(**fields: object) -> bytes:
    """A Hello's frame."""
    names: dict[str, object] = {"protocol": 1, "domain": "animal.observer", "group": "region-1", "client": "bad"}
    return encode(ClientFrame(hello=Hello(**{**names, **fields})))  # type: ignore[arg-type]


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        pytest.param(HTTP_REQUEST, CloseCode.PROTOCOL_ERROR, "", id="http"),
        pytest.param(b"\xff" * 64, CloseCode.PROTOCOL_ERROR, "varint", id="no-varint"),
        pytest.param(encode_length(5) + b"\xff" * 5, CloseCode.PROTOCOL_ERROR, "frame", id="no-protobuf"),
        pytest.param(encode_length(1 << 24), CloseCode.FRAME_TOO_LARGE, "16777216", id="oversized"),
        pytest.param(hello(domain="no spaces"), CloseCode.BAD_NAME, "domain", id="domain"),
        pytest.param(hello(group=""), CloseCode.BAD_NAME, "group", id="group"),
        pytest.param(hello(client="ü"), CloseCode.BAD_NAME, "client", id="client"),
        pytest.param(hello(register=["x" * 256]), CloseCode.BAD_NAME, "object", id="object"),
        pytest.param(hello(protocol=99), CloseCode.UNSUPPORTED_PROTOCOL, "99", id="protocol"),
    ],
)
def test_what_is_no_hello_is_answered_with_a_reason(up: Up, data: bytes, code: CloseCode, words: str) -> None:
    close = close_of(up, data)
    assert (close.code, words in close.reason) == (code, True), close


@pytest.mark.usefixtures("bystander")
def test_a_half_sent_hello_held_open_is_closed_at_the_handshake_timeout(up: Up) -> None:
    assert close_of(up, hello()[:10]).code == CloseCode.HANDSHAKE_TIMEOUT


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"version": -1}', "version"),
        (b'{"version": "seven"}', "version"),
        (b'{"version": 9223372036854775808}', "version"),
        (b'{"source": "a b"}', "source"),
        (b'{"payload": "' + b"x" * 5000 + b'"}', "payload"),
        (b"{", "record"),
    ],
)
def test_a_bad_publish_over_http_names_the_field(up: Up, body: bytes, field: str) -> None:
    url = f"{up.http_url}/v1/domains/animal.observer/groups/region-1/objects/bad"
    answer = fetch(urllib.request.Request(url, body, method="POST"))
    assert answer.status == 400
    assert answer.json()["field"] == field, answer.text


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize(
    ("path", "field"),
    [
        (f"/v1/events?domain=animal.observer&group=region-1&channel=c&since={since}", "since")
        for since in ("%C2%B2", "9" * 5000, "%D9%A3", "1e3", "nan")
    ]
    + [
        (f"/v1/domains/animal.observer/groups/region-1/outcomes?partition={number}&offsets=1", "partition")
        for number in ("%C2%B2", "9" * 5000)
    ]
    + [("/v1/domains/animal.observer/groups/region-1/outcomes?partition=1&offsets=1&wait_s=%D9%A3", "wait_s")],
    ids=lambda one: one[-20:],
)
def test_a_number_that_is_none_names_the_parameter_and_fills_no_log(up: Up, path: str, field: str) -> None:
    for _ in range(100):
        answer = fetch(up.http_url + path)
        assert answer.status == 400, answer.text
        assert answer.json()["field"] == field, answer.text
    assert "request failed" not in up.log_tail()


@pytest.mark.usefixtures("bystander")
def test_a_bad_publish_over_kafka_goes_to_rejected_and_hides_nothing(up: Up) -> None:
    """Also a null: the newest version is still told to whoever registers later."""
    partition = partition_of("animal.observer", "region-1", PARTITIONS)
    records: list[tuple[bytes, bytes | None, str]] = [
        (b"animal.observer/region-1/good", b'{"version": -7}', "version"),
        (b"animal.observer/region-1/good", b'{"verison": 7}', "verison"),
        (b"animal.observer/region-1/good", b"\xff\xfe", "record"),
        (b"animal.observer/region-1/good", None, "null"),
        (b"animal.observer/region-1", b'{"version": 7}', "key"),
        (b"no domain/region-1/x", b'{"version": 7}', "domain"),
    ]
    producer = Producer({"bootstrap.servers": up.kafka})
    with up.publisher() as publisher:
        publisher.publish("animal.observer", "region-1", "good", version=5)
    errors = []
    for key, value, _ in records:
        producer.produce(
            up.topics.objects,
            key=key,
            value=value,
            partition=partition,
            on_delivery=lambda error, _: errors.append(error),
        )
    assert producer.flush(30) == 0
    assert set(errors) == {None}

    rejected = Consumer({"bootstrap.servers": up.kafka, "group.id": up.topics.group("test-rejected")})
    count = len(rejected.list_topics(up.topics.rejected, timeout=30).topics[up.topics.rejected].partitions)
    rejected.assign([TopicPartition(up.topics.rejected, p, 0) for p in range(count)])
    reasons: dict[tuple[bytes | None, bytes | None], str] = {}

    def all_there() -> bool:
        message = rejected.poll(0.1)
        if message is not None and message.error() is None:
            reason = dict(message.headers() or [])[REASON_HEADER]
            assert isinstance(reason, bytes)
            reasons[message.key(), message.value()] = reason.decode()
        return {(key, value) for key, value, _ in records} <= reasons.keys()

    wait_for(all_there, "all bad records are in the rejected topic")
    rejected.close()
    for key, value, words in records:
        assert words in reasons[key, value]

    told = Recorder()
    with notify(up, "later", None) as ou:
        ou.register("good").subscribe(told)
        wait_for(lambda: told.seen, "told")
    assert told.versions("good") == [5]


def test_a_bad_name_never_leaves_the_client(up: Up) -> None:
    with notify(up, "careful", None) as ou, pytest.raises(InvalidName, match="object"):
        ou.register("x" * 256)
