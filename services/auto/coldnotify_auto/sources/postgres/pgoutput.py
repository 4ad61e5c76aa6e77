"""Messages of PostgreSQL's output plugin pgoutput, protocol version 1, decoded. Pure."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass

EPOCH_S = 946_684_800
"""PostgreSQL counts microseconds from 2000-01-01, in seconds of Unix time."""
_KEY_FLAG = 1


class InvalidOutput(ValueError):
    """The bytes are no message of pgoutput."""


Values = Mapping[str, str | None]
"""Texts by column, None is null. Columns whose value was not sent, because it lies outside of the row, are missing."""


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction begins; it is committed already."""

    final_lsn: int
    """Place of its commit. It rises from each transaction to the next."""
    time_s: float
    """Unix time of its commit."""


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """A transaction ends."""

    end_lsn: int
    """Place behind it."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation."""

    name: str
    type_oid: int
    is_key: bool
    """True if it belongs to the replica identity."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, as it is from here on."""

    oid: int
    schema: str
    table: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row was inserted (no old one), updated, or deleted (no new one)."""

    relation: Relation
    new: Values | None
    old: Values | None
    """The row before; of an update only if the table's replica identity has it. Columns that are not known are
    missing."""
    is_insert: bool = False


@dataclass(frozen=True, slots=True)
class Truncate:
    """All rows of some tables are gone."""

    relations: tuple[Relation, ...]


Message = Begin | TransactionEnd | Relation | RowChange | Truncate


class Decoder:
    """Decodes the messages of one connection: a relation is described once, and then named by its number."""

    def __init__(self) -> None:
        self._relations: dict[int, Relation] = {}

    def decode(self, data: bytes) -> Message | None:
        """Returns the message; None for one that says nothing about rows. Raises InvalidOutput."""
        reader = _Reader(data)
        try:
            kind = reader.byte()
            if kind in b"OYM":
                return None  # origin of a transaction, name of a type, message of an application
            return self._decode(kind, reader)
        except (struct.error, IndexError, UnicodeDecodeError, KeyError) as error:
            raise InvalidOutput(f"{type(error).__name__}: {error} in {data[:40]!r}") from None

    def _decode(self, kind: int, reader: "_Reader") -> Message:
        match chr(kind):
            case "B":
                return self._begin(reader)
            case "C":
                return self._commit(reader)
            case "R":
                return self._relation(reader)
            case "I":
                return self._insert(reader)
            case "U":
                return self._update(reader)
            case "D":
                return self._delete(reader)
            case "T":
                return self._truncate(reader)
        raise InvalidOutput(f"unknown kind {chr(kind)!r}")

    def _begin(self, reader: "_Reader") -> Begin:
        final_lsn, time_us, _xid = reader.unpack(">QqI")
        return Begin(final_lsn, EPOCH_S + time_us / 1_000_000)

    def _commit(self, reader: "_Reader") -> TransactionEnd:
        _flags, _commit_lsn, end_lsn, _time_us = reader.unpack(">BQQq")
        return TransactionEnd(end_lsn)

    def _relation(self, reader: "_Reader") -> Relation:
        (oid,) = reader.unpack(">I")
        schema, table = reader.text(), reader.text()
        _identity, count = reader.unpack(">BH")
        columns = []
        for _ in range(count):
            flags = reader.byte()
            name = reader.text()
            type_oid, _modifier = reader.unpack(">Ii")
            columns.append(Column(name, type_oid, bool(flags & _KEY_FLAG)))
        relation = Relation(oid, schema, table, tuple(columns))
        self._relations[oid] = relation
        return relation

    def _insert(self, reader: "_Reader") -> RowChange:
        relation = self._named(reader)
        _expect(reader.byte(), b"N")
        return RowChange(relation, reader.values(relation), None, is_insert=True)

    def _update(self, reader: "_Reader") -> RowChange:
        relation = self._named(reader)
        kind, old = reader.byte(), None
        if kind in b"KO":
            old = reader.values(relation, only_key=kind == ord("K"))
            kind = reader.byte()
        _expect(kind, b"N")
        new = dict(reader.values(relation))
        for column in relation.columns:
            # A long value that has not changed is not sent; with the old row it is known.
            if column.name not in new and old is not None and column.name in old:
                new[column.name] = old[column.name]
        return RowChange(relation, new, old)

    def _delete(self, reader: "_Reader") -> RowChange:
        relation = self._named(reader)
        kind = reader.byte()
        _expect(kind, b"KO")
        return RowChange(relation, None, reader.values(relation, only_key=kind == ord("K")))

    def _truncate(self, reader: "_Reader") -> Truncate:
        count, _options = reader.unpack(">IB")
        return Truncate(tuple(self._named(reader) for _ in range(count)))

    def _named(self, reader: "_Reader") -> Relation:
        (oid,) = reader.unpack(">I")
        return self._relations[oid]


class _Reader:
    """Reads a message from its beginning to its end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def unpack(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return found

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def text(self) -> str:
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise InvalidOutput("a name has no end")
        found = self._data[self._at : end].decode()
        self._at = end + 1
        return found

    def values(self, relation: Relation, *, only_key: bool = False) -> Values:
        """Reads a row. `only_key`: its other columns are sent as null, and are not known."""
        (count,) = self.unpack(">H")
        if count != len(relation.columns):
            raise InvalidOutput(f"{relation.table} has {len(relation.columns)} columns, the row has {count}")
        found: dict[str, str | None] = {}
        for column in relation.columns:
            kind = self.byte()
            value = None
            if kind == ord("t"):
                (length,) = self.unpack(">I")
                if self._at + length > len(self._data):
                    raise InvalidOutput("a value is cut off")
                value = self._data[self._at : self._at + length].decode()
                self._at += length
            elif kind == ord("u"):
                continue
            elif kind != ord("n"):
                raise InvalidOutput(f"unknown kind of value {chr(kind)!r}")
            if column.is_key or not only_key:
                found[column.name] = value
        return found


def _expect(kind: int, kinds: bytes) -> None:
    if kind not in kinds:
        raise InvalidOutput(f"unknown kind of row {chr(kind)!r}")
