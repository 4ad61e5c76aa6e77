import base64
import json
from contextlib import suppress

import msgspec
import pytest
from coldnotify_common.http.json_items import JsonItems
from coldnotify_common.http.web import BadRequest
from coldnotify_http.bodies import InvalidObject, Named, object_of_path, parse_one
from coldnotify_http.bodies import parse_many as each_of_many
from coldnotify_http.message_bodies import channel_of_path
from coldnotify_schemas.names import InvalidName
from coldnotify_schemas.protocol import PUBLISHES_PER_REQUEST_MAX
from coldnotify_schemas.records import PublicRecord, is_high
from hypothesis import given
from hypothesis import strategies as st


def parse_many(body: bytes) -> list[Named]:
    return list(each_of_many(body))


BASE = "/v1/domains/d/groups/g/objects/"


@pytest.mark.parametrize(
    ("path", "name"),
    [("a", "a"), ("a/b", "a/b"), ("a%2Fb", "a/b"), ("%C3%A9", "é"), ("a/objects/b", "a/objects/b"), ("+", "+")],
)
def test_an_objects_name_comes_plain_or_encoded(path: str, name: str) -> None:
    assert object_of_path(BASE + path) == name


@pytest.mark.parametrize(("domain", "group"), [("objects", "g"), ("d", "objects"), ("objects", "objects")])
def test_a_domain_or_a_group_may_be_called_as_a_part_of_the_path(domain: str, group: str) -> None:
    assert object_of_path(f"/v1/domains/{domain}/groups/{group}/objects/a/objects/b") == "a/objects/b"
    named = f"/v1/domains/{domain.replace('objects', 'channels')}/groups/{group.replace('objects', 'channels')}"
    assert channel_of_path(f"{named}/channels/a%2Fb") == "a/b"


@pytest.mark.parametrize("path", ["", "%FF", "x" * 256])
def test_a_bad_object_name_is_named(path: str) -> None:
    with pytest.raises(InvalidName, match=r"^object: "):
        object_of_path(BASE + path)


@pytest.mark.parametrize("body", [b"", b"  \n", b"{}"])
def test_no_body_is_an_empty_record(body: bytes) -> None:
    assert parse_one(body) == PublicRecord()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"version": -1}', "version"),
        (b'{"version": "1"}', "version"),
        (b"[]", "record"),
        (b"{", "record"),
        (b"\xff", "record"),
        (b'{"verison": 1}', "record"),
        (b'{"payload": {]}', "record"),
        (b'{"payload": "' + b"x" * 5000 + b'"}', "payload"),
        (b'{"source": "a b"}', "source"),
    ],
)
def test_a_bad_record_is_named_by_its_field(body: bytes, field: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_one(body)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")


def test_many_come_as_an_object_or_as_a_list() -> None:
    expected = [("a", PublicRecord(version=1)), ("b/c", PublicRecord(deleted=True))]
    assert parse_many(b'{"objects": {"a": {"version": 1}, "b/c": {"deleted": true}}}') == expected
    assert parse_many(b'[{"object": "a", "version": 1}, {"deleted": true, "object": "b/c"}]') == expected


def test_a_list_keeps_order_and_repetition() -> None:
    assert [(n, r.version) for n, r in parse_many(b'[{"object":"a","version":2},{"object":"a","version":1}]')] == [
        ("a", 2),
        ("a", 1),
    ]


@pytest.mark.parametrize(
    ("body", "object_", "field"),
    [
        (b'{"objects": {"a": {}, "b": {"version": -1}}}', "b", "version"),
        (b'[{"object": "a"}, {"version": 1}]', "objects[1]", "object"),
        (b'[{"object": 5}]', "objects[0]", "object"),
        (b'[{"object": "", "version": 1}]', "", "object"),
        (b'{"objects": {"a": 5}}', "a", "record"),
    ],
)
def test_the_bad_one_among_many_is_named(body: bytes, object_: str, field: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        parse_many(body)
    assert (caught.value.object, caught.value.field) == (object_, field)


@pytest.mark.parametrize("body", [b"", b"{}", b"5", b'{"objects": []}', b'{"objects": {}, "more": 1}', b"[5]", b"\xff"])
def test_a_body_of_neither_form_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest, match=r"^objects: "):
        parse_many(body)


def test_the_limit_is_the_last_that_is_allowed() -> None:
    at_limit: dict[str, dict[str, object]] = {"objects": {f"o{i}": {} for i in range(PUBLISHES_PER_REQUEST_MAX)}}
    assert len(parse_many(json.dumps(at_limit).encode())) == PUBLISHES_PER_REQUEST_MAX
    at_limit["objects"]["one-more"] = {}
    with pytest.raises(BadRequest, match=r"^objects: are more than the 1000"):
        parse_many(json.dumps(at_limit).encode())


@pytest.mark.parametrize(
    "tiny", [b'{"objects":{%s}}' % b",".join([b'"a":1'] * 100_000), b"[%s]" % b",".join([b"{}"] * 100_000)]
)
def test_too_many_are_counted_before_any_is_made(tiny: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """8 MiB of them took half a second and hundreds of MB, for an answer that says that a thousand are allowed."""
    stepped_over: list[object] = []
    value = JsonItems.value

    def counted(text: JsonItems) -> msgspec.Raw:
        stepped_over.append(text)
        return value(text)

    monkeypatch.setattr(JsonItems, "value", counted)
    monkeypatch.setattr("coldnotify_http.bodies._record", pytest.fail)
    with pytest.raises(BadRequest, match=r"^objects: are more than the 1000"):
        parse_many(tiny)
    assert len(stepped_over) <= 2 * PUBLISHES_PER_REQUEST_MAX + 3, "names and values of those that may be, and one more"


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail_otherwise(body: bytes) -> None:
    for parse in (parse_one, parse_many):
        with suppress(BadRequest):
            parse(body)


@pytest.mark.parametrize("incarnation", [0, 1, 2**31 - 1])
def test_only_a_reset_sets_an_incarnation(incarnation: int) -> None:
    record = b'{"version":%d,"incarnation":%d}' % (2**63 - 1, incarnation)
    with pytest.raises(BadRequest) as one:
        parse_one(record)
    with pytest.raises(BadRequest) as many:
        parse_many(b'{"objects":{"camera":%s}}' % record)
    assert one.value.field == many.value.field == "incarnation"
    assert "object reset" in str(one.value)


def test_a_record_may_say_that_it_is_of_high_priority() -> None:
    assert is_high(parse_one(b'{"version": 1, "priority": "high"}'))
    assert not is_high(parse_one(b'{"version": 1}'))
    named = parse_many(b'{"objects": {"a": {"priority": "high"}, "b": {}}}')
    assert [(name, is_high(record)) for name, record in named] == [("a", True), ("b", False)]
    with pytest.raises(BadRequest) as refused:
        parse_one(b'{"priority": "low"}')
    assert refused.value.field == "priority"


@pytest.mark.parametrize("payload_bytes_max", [4096, 65_536])
@pytest.mark.parametrize("name", ["payload", "payload_base64"])
def test_a_payload_is_as_long_as_is_set(payload_bytes_max: int, name: str) -> None:
    def payload(length: int) -> bytes:
        return b'"%b"' % (b"x" * (length - 2)) if name == "payload" else b"\xff" * length

    def body(length: int) -> bytes:
        said = payload(length) if name == "payload" else b'"%b"' % base64.b64encode(payload(length))
        return b'{"%b":%b}' % (name.encode(), said)

    assert parse_one(body(payload_bytes_max), payload_bytes_max).payload_bytes == payload(payload_bytes_max)
    ((_, found),) = each_of_many(b'{"objects":{"a":%b}}' % body(payload_bytes_max), payload_bytes_max)
    assert found.payload_bytes == payload(payload_bytes_max)
    with pytest.raises(BadRequest, match=f"at most {payload_bytes_max} are") as refused:
        parse_one(body(payload_bytes_max + 1), payload_bytes_max)
    assert refused.value.field == "payload"
