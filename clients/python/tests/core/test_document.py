"""The state as JSON.

Stands for: document, stored_fields, stored_queries, stored_channels
"""

import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from coldnotify._core.delivery.membership import KeptQuery, MembersChange, Reached
from coldnotify._core.delivery.newest import KeptPayload
from coldnotify._core.document.document import ClientIdentity, Document, decode, encode
from coldnotify._core.interests.registrations import OperationKind
from coldnotify.errors import StateDamaged, StateMismatch
from coldnotify_schemas.protocol import STATE_FORMAT_WITH_BYTES
from hypothesis import given
from hypothesis import strategies as st

ME = ClientIdentity("d", "g", "c")
SOME = Document(
    identity=ME,
    wanted=frozenset({"a", "ü/b"}),
    pending={"a": OperationKind.REGISTER, "gone": OperationKind.UNREGISTER},
    applied={"a": (0, (1 << 63) - 1)},
    newest={"a": KeptPayload('{"ü": [1]}', deleted=True), "b": KeptPayload()},
    epoch=7,
    cursor=1 << 40,
)

QUERIES = Document(
    identity=ME,
    wanted=frozenset({"a"}),
    applied={"a": (0, 1), "m": (0, 2)},
    queries={
        "lamps": KeptQuery(
            members=frozenset({"m", "n"}),
            telling=MembersChange(frozenset({"n"}), frozenset({"gone"})),
            entering=frozenset({"n"}),
            answer=frozenset({"m"}),
            reached=Reached("m", 12),
        ),
        "room": KeptQuery(followed=True, dropped=True),
    },
    pending_queries={"lamps": OperationKind.REGISTER, "old": OperationKind.UNREGISTER},
    epoch=7,
    cursor=11,
)


BYTES = replace(QUERIES, newest={"a": KeptPayload("/wA=", raw=True), "m": KeptPayload("7")})


def test_bytes_make_it_a_document_that_older_libraries_set_aside():
    fields = json.loads(encode(BYTES))
    assert fields["format"] == STATE_FORMAT_WITH_BYTES
    assert fields["newest"] == {"a": {"payload_base64": "/wA="}, "m": {"payload": "7"}}
    assert json.loads(encode(QUERIES))["format"] < STATE_FORMAT_WITH_BYTES


def test_a_round_trip_preserves_everything():
    assert decode(encode(QUERIES), ME) == QUERIES
    assert decode(encode(SOME), ME) == SOME
    assert decode(encode(Document(identity=ME)), ME) == Document(identity=ME)
    assert decode(encode(BYTES), ME) == BYTES


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_are_damaged(data):
    with pytest.raises((StateDamaged, StateMismatch)):
        decode(data, ME)


@given(st.integers(0, len(encode(SOME)) * 8 - 1))
def test_no_flipped_bit_goes_unnoticed(bit):
    data = bytearray(encode(SOME))
    data[bit // 8] ^= 1 << bit % 8
    with suppress(StateDamaged, StateMismatch):
        assert decode(bytes(data), ME) == SOME


@given(st.integers(0, len(encode(SOME)) - 2))
def test_a_file_that_is_cut_off_is_damaged(length):
    with pytest.raises(StateDamaged):
        decode(encode(SOME)[:length], ME)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("format", 0, "format"),
        ("format", None, "format"),
        ("newest", [], "newest"),
        ("newest", {"a": 7}, "newest"),
        ("newest", {"a": {"payload": 7}}, "newest"),
        ("newest", {"a": {"payload_base64": "x"}}, "newest"),
        ("newest", {"a": {"deleted": "yes"}}, "newest"),
        ("domain", 3, "domain"),
        ("epoch", 1 << 32, "epoch"),
        ("cursor", -1, "cursor"),
        ("cursor", True, "cursor"),
        ("epoch", None, "cursor"),
        ("wanted", {}, "wanted"),
        ("wanted", ["a", ""], "wanted"),
        ("pending", {"b": "register"}, "pending"),
        ("pending", {"a": "unregister"}, "pending"),
        ("pending", {"a": "x"}, "pending"),
        ("applied", {"a": [1]}, "applied"),
        ("applied", {"a": [0, -1]}, "applied"),
        ("applied", [], "applied"),
    ],
)
def test_the_field_that_is_wrong_is_named(field, value, words):
    fields = json.loads(encode(SOME)) | {field: value}
    del fields["check"]
    with pytest.raises(StateDamaged, match=f"^{words}:"):
        decode(json.dumps(fields).encode(), ME)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("queries", [], "queries"),
        ("queries", {"": {"members": []}}, "queries: query"),
        ("queries", {"lamps": 3}, "queries"),
        ("queries", {"lamps": {}}, "queries: members"),
        ("queries", {"lamps": {"members": [""]}}, "queries: object"),
        ("queries", {"lamps": {"members": [], "telling": 1}}, "queries: telling"),
        ("queries", {"lamps": {"members": [], "telling": {"added": []}}}, "queries: telling.removed"),
        ("queries", {"lamps": {"members": [], "followed": 1}}, "queries: followed"),
        ("queries", {"lamps": {"members": [], "dropped": None}}, "queries: dropped"),
        ("queries", {"lamps": {"members": [], "entering": {}}}, "queries: entering"),
        (
            "queries",
            {"lamps": {"members": [], "answer": {"members": [], "reached": "a"}}},
            "queries: answer.reached_at",
        ),
        ("queries", {}, "pending_queries: 'lamps' contradicts queries"),
        ("pending_queries", {"lamps": "unregister"}, "pending_queries: 'lamps' contradicts queries"),
        ("pending_queries", {"lamps": "x"}, "pending_queries"),
        ("pending_queries", None, "pending_queries"),
    ],
)
def test_the_field_that_is_wrong_with_queries_is_named(field, value, words):
    fields = json.loads(encode(QUERIES)) | {field: value}
    del fields["check"]
    with pytest.raises(StateDamaged, match=f"^{words}"):
        decode(json.dumps(fields).encode(), ME)


def test_only_a_document_with_a_query_has_a_format_that_release_0_1_0_refuses():
    assert json.loads(encode(SOME))["format"] == 1
    assert json.loads(encode(QUERIES))["format"] == 2
    gone = Document(identity=ME, pending_queries={"lamps": OperationKind.UNREGISTER})
    assert json.loads(encode(gone))["format"] == 2


def test_floors_are_those_of_registered_objects_and_members():
    extra = replace(QUERIES, applied={**QUERIES.applied, "z": (0, 1)})
    assert set(extra.floors) == {"a", "m"}


def test_the_state_of_another_client_is_refused():
    with pytest.raises(StateMismatch, match="belongs to d/g/c, not to d/g/other"):
        decode(encode(SOME), ClientIdentity("d", "g", "other"))


def test_the_state_of_a_newer_library_is_not_thrown_away():
    with pytest.raises(StateMismatch, match="format"):
        decode(b'{"format": 5}', ME)


def test_the_example_of_the_documentation_is_written_so():
    text = (Path(__file__).parents[4] / "docs" / "state-file.md").read_text(encoding="utf-8")
    example = re.search(r"^```\n(\{.*?\})\n```", text, re.DOTALL | re.MULTILINE)
    assert example is not None
    line = "".join(line.strip() for line in example[1].splitlines()).encode() + b"\n"
    assert encode(decode(line, ClientIdentity("animal.observer", "region-1", "observer-1"))) == line
