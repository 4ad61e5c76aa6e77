"""Messages of pgoutput, byte for byte, and whatever else may come."""

import struct
from contextlib import suppress

import pytest
from coldnotify_auto.sources.postgres.pgoutput import (
    Begin,
    Decoder,
    InvalidOutput,
    Relation,
    RowChange,
    TransactionEnd,
    Truncate,
)
from hypothesis import given
from hypothesis import strategies as st

RELATION = (
    b"R" + struct.pack(">I", 7) + b"public\0units\0" + struct.pack(">BH", ord("d"), 2)
    + b"\1" + b"id\0" + struct.pack(">Ii", 23, -1) + b"\0" + b"words\0" + struct.pack(">Ii", 25, -1)
)  # fmt: skip


def text(value: bytes) -> bytes:
    return b"t" + struct.pack(">I", len(value)) + value


def row(*values: bytes) -> bytes:
    return struct.pack(">H", len(values)) + b"".join(values)


def decoded(*messages: bytes) -> object:
    decoder = Decoder()
    found: object = None
    for one in (RELATION, *messages):
        found = decoder.decode(one)
    return found


def change(found: object) -> RowChange:
    assert isinstance(found, RowChange)
    return found


def test_a_transaction_has_a_place_and_a_time() -> None:
    assert decoded(b"B" + struct.pack(">QqI", 1 << 40, 1_500_000, 9)) == Begin(1 << 40, 946_684_801.5)
    assert decoded(b"C" + struct.pack(">BQQq", 0, 1, 2, 3)) == TransactionEnd(2)
    assert decoded(b"O" + struct.pack(">Q", 1) + b"x\0") is None
    assert decoded(b"Y" + struct.pack(">I", 1) + b"x\0y\0") is None


def test_a_relation_is_described_once() -> None:
    relation = decoded()
    assert isinstance(relation, Relation)
    assert (relation.schema, relation.table) == ("public", "units")
    assert [(one.name, one.type_oid, one.is_key) for one in relation.columns] == [
        ("id", 23, True),
        ("words", 25, False),
    ]


def test_rows_are_inserted_updated_and_deleted() -> None:
    seven = struct.pack(">I", 7)
    inserted = change(decoded(b"I" + seven + b"N" + row(text(b"1"), b"n")))
    assert (inserted.new, inserted.old, inserted.is_insert) == ({"id": "1", "words": None}, None, True)
    updated = change(decoded(b"U" + seven + b"N" + row(text(b"1"), b"u")))
    assert (updated.new, updated.old, updated.is_insert) == ({"id": "1"}, None, False)
    moved = change(decoded(b"U" + seven + b"K" + row(text(b"0"), b"n") + b"N" + row(text(b"1"), b"u")))
    assert (moved.new, moved.old) == ({"id": "1"}, {"id": "0"})
    whole = change(
        decoded(b"U" + seven + b"O" + row(text(b"1"), text("\u00e9".encode())) + b"N" + row(text(b"1"), b"u"))
    )
    assert (whole.new, whole.old) == ({"id": "1", "words": "\u00e9"}, {"id": "1", "words": "\u00e9"})
    deleted = change(decoded(b"D" + seven + b"K" + row(text(b"1"), b"n")))
    assert (deleted.new, deleted.old) == (None, {"id": "1"})


def test_a_truncation_names_its_tables() -> None:
    found = decoded(b"T" + struct.pack(">IBI", 1, 0, 7))
    assert isinstance(found, Truncate)
    assert [one.table for one in found.relations] == ["units"]


@pytest.mark.parametrize(
    "data",
    [b"", b"Z", b"B",
     b"I" + struct.pack(">I", 8) + b"N", b"I" + struct.pack(">I", 7) + b"X", RELATION[:-3],
     b"I" + struct.pack(">I", 7) + b"N" + row(text(b"1")),
     b"I" + struct.pack(">I", 7) + b"N" + row(text(b""), b"t\0\0\0\5x"),
     b"I" + struct.pack(">I", 7) + b"N" + row(text(b"\xff"), b"n"), b"D" + struct.pack(">I", 7) + b"N"],
)  # fmt: skip
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidOutput):
        decoded(data)


@given(st.binary(max_size=60), st.sampled_from([b"", b"I\0\0\0\7N", b"U\0\0\0\7", b"R", b"T", b"D\0\0\0\7K"]))
def test_any_bytes_are_a_message_or_refused(data: bytes, begin: bytes) -> None:
    with suppress(InvalidOutput):
        decoded(begin + data)
