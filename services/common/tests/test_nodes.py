"""Nodes' records and their table: strict about each record, and no single bad one hurts the others."""

import json
from typing import Any

import pytest
from coldnotify_common.nodes import (
    KEPT_S,
    NODE_BYTES_MAX,
    NODES_MAX,
    SILENT_S,
    InvalidNode,
    Node,
    NodeKey,
    NodeTable,
    encode_key,
    encode_node,
    parse_key,
    parse_node,
)
from hypothesis import given
from hypothesis import strategies as st

KEY = NodeKey("gateway", "User:CN=a/b", "g-1")
GATEWAY = Node(
    role="gateway",
    id="g-1",
    addresses={"device": "gw1.example:55000", "web": "https://gw1.example:55080", "inside": "[::1]:55001"},
    ready=True,
    connections=3,
    limit=100,
    labels={"zone": "a"},
    version="0.1.0",
)


def value(**changed: Any) -> bytes:
    return json.dumps({"role": "gateway", "id": "g-1", **changed}).encode()


def put(table: NodeTable, name: str, at_s: float, *, heard_s: float | None = None, ready: bool = True) -> None:
    key = encode_key(NodeKey("gateway", "anonymous", name))
    record = encode_node(Node(role="gateway", id=name, ready=ready))
    table.on_record(key, record, round(at_s * 1000), at_s if heard_s is None else heard_s)


def names(table: NodeTable) -> list[str]:
    return [node.id for node in table.nodes("gateway")]


def test_a_record_comes_back_as_it_was_written() -> None:
    assert parse_key(encode_key(KEY)) == KEY
    assert encode_key(KEY) == b"gateway/User%3ACN%3Da%2Fb/g-1"
    assert parse_node(KEY, encode_node(GATEWAY)) == GATEWAY


def test_a_field_of_a_later_release_is_ignored() -> None:
    assert parse_node(KEY, value(planet="earth")) == Node(role="gateway", id="g-1")


@pytest.mark.parametrize(
    "key",
    [None, b"", b"gateway", b"gateway//a", b"gateway/p/a/b", b"Gate/p/a", b"gateway/p/%zz", b"gateway/p/\xff",
     b"gateway/p/%ff", b"gateway/p/%61", b"gateway/p/%00", b"gateway/p/" + b"a" * 2000],
)  # fmt: skip
def test_a_key_of_another_form_is_refused(key: bytes | None) -> None:
    with pytest.raises(InvalidNode, match=r"^key:"):
        parse_key(key)


@pytest.mark.parametrize(
    ("record", "field"),
    [
        (b"{", "record"),
        (b"[" * 100_000, "record"),
        (b"\xff", "record"),
        (b" " * (NODE_BYTES_MAX + 1), "record"),
        (value(role="matcher"), "role"),
        (value(id="g-2"), "role, id"),
        (value(connections=-1), "connections"),
        (value(limit=10**30), "limit"),
        (value(load=1.1), "load"),
        (value(weight=1e9), "weight"),
        (value(ready=1), "ready"),
        (value(version="a" * 65), "version"),
        (value(version="a\n"), "version"),
        (value(addresses={"inside": "no-port"}), "addresses: inside"),
        (value(addresses={"inside": "a/b@c:80"}), "addresses: inside"),
        (value(addresses={"In side": "a:80"}), "addresses"),
        (value(addresses={f"a{n}": "a:80" for n in range(17)}), "addresses"),
        (value(labels={"a-b": "c"}), "labels"),
        (value(labels={"a": "c\n"}), "labels"),
        (value(labels={"a": "c" * 81}), "labels"),
    ],
)  # fmt: skip
def test_a_bad_record_is_refused_with_its_field(record: bytes, field: str) -> None:
    with pytest.raises(InvalidNode, match=f"^{field}"):
        parse_node(KEY, record)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_no_bytes_raise_anything_else(key: bytes, record: bytes) -> None:
    table = NodeTable()
    table.on_record(key, record, 0, 0)
    table.on_record(encode_key(KEY), record, 0, 0)
    table.on_record(key, None, 0, 0)
    assert len(table.seen()) <= 1


def test_bad_records_are_passed_over_and_counted() -> None:
    table = NodeTable()
    put(table, "g-1", 10)
    table.on_record(encode_key(NodeKey("gateway", "anonymous", "g-1")), b"{", 10_000, 10)
    table.on_record(b"what", b"{}", 10_000, 10)
    table.on_record(encode_key(NodeKey("matcher", "anonymous", "g-1")), encode_node(GATEWAY), 10_000, 10)
    assert (table.passed_over, names(table)) == (3, ["g-1"])
    assert table.last_passed_over.startswith("role, id")


def test_a_null_removes_its_node_at_once() -> None:
    table = NodeTable()
    put(table, "g-1", 10)
    put(table, "g-2", 10)
    table.on_record(encode_key(NodeKey("gateway", "anonymous", "g-1")), None, 10_000, 10)
    assert names(table) == ["g-2"]


def test_a_silent_node_counts_no_longer_but_is_shown_for_a_while() -> None:
    table = NodeTable()
    put(table, "g-1", 10)
    put(table, "g-2", 10 + SILENT_S - 0.1)
    assert names(table) == ["g-1", "g-2"]
    put(table, "g-2", 10 + SILENT_S)
    assert names(table) == ["g-2"]
    assert [(one.node.id, one.age_s) for one in table.seen()] == [("g-1", SILENT_S), ("g-2", 0)]
    put(table, "g-2", 10 + KEPT_S)
    assert [one.node.id for one in table.seen()] == ["g-2"]


def test_nobody_ages_while_nothing_is_read() -> None:
    table = NodeTable()
    put(table, "g-1", 10)
    put(table, "g-2", 12)
    assert [one.age_s for one in table.seen()] == [2, 0], "whatever the time is now"


def test_a_log_whose_clock_jumps_back_keeps_no_dead_node_young() -> None:
    table = NodeTable()
    put(table, "dead", 100_000, heard_s=0)
    for turn in range(8):
        put(table, "g-2", 10 + 5 * turn, heard_s=5 * turn)
    assert names(table) == ["g-2"]


def test_a_log_whose_clock_jumps_ahead_is_believed_from_the_next_record_on() -> None:
    table = NodeTable()
    put(table, "g-1", 10, heard_s=0)
    put(table, "g-2", 100_000, heard_s=1)
    put(table, "g-1", 100_004, heard_s=5)
    assert names(table) == ["g-1", "g-2"]


def test_a_table_is_bounded_and_silent_nodes_make_room() -> None:
    table = NodeTable()
    for number in range(NODES_MAX):
        put(table, f"g-{number}", 10)
    put(table, "late", 11)
    assert (len(table.nodes()), table.passed_over) == (NODES_MAX, 1)
    put(table, "g-0", 10 + SILENT_S)
    put(table, "late", 11 + SILENT_S)
    assert names(table) == ["g-0", "late"]
    assert len(table.seen()) == 2
