"""Transactions: what a database's messages publish. Of each object the last change of a transaction counts. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from coldnotify_schemas.descriptions import Value
from coldnotify_schemas.names import ObjectKey

from coldnotify_auto.cells import Row
from coldnotify_auto.changes import Put, PutMessage, RowRejected
from coldnotify_auto.sources.postgres.pg_cells import pg_row
from coldnotify_auto.sources.postgres.pgoutput import Begin, Message, Relation, RowChange, TransactionEnd, Truncate
from coldnotify_auto.sources.postgres.table_rules import TableRule, with_hint

OBJECTS_MAX = 200_000
"""Objects of one transaction that are held in memory: some 200 MB. Beyond, the tables are read as a whole."""


class Untold(Exception):
    """The log does not say what a transaction has made of objects, so the tables are to be compared; says why."""


class TooManyObjects(Untold):
    """A transaction changes more than OBJECTS_MAX objects."""

    def __init__(self) -> None:
        super().__init__("a transaction changes too many objects")


class ColumnGone(Untold):
    """A table has changed, and has not every column any more that a rule reads."""

    def __init__(self, rule: TableRule, column: str) -> None:
        super().__init__(f"{rule.name} had no column {column!r} in a transaction, which {rule.label} reads")


@dataclass(frozen=True, kw_only=True)
class Committed:
    """A transaction, complete."""

    end_lsn: int
    time_s: float
    puts: Sequence[Put] = ()
    truncated: frozenset[str] = frozenset()
    """Labels of rules whose tables were truncated: every object of theirs that is older, and not in `puts`, is gone."""
    version: int = 0


@dataclass
class _Open:
    """The transaction that is being read."""

    begin: Begin
    skipped: bool
    puts: dict[ObjectKey, Put] = field(default_factory=dict)
    rows: dict[ObjectKey, int] = field(default_factory=dict)
    """Hashes of the rows that these objects have become."""
    truncated: set[str] = field(default_factory=set)


class Transactions:
    """Turns messages into changes. Messages of outboxes go at once, objects with their transaction's end."""

    def __init__(
        self,
        rules: Iterable[TableRule],
        incarnation: int,
        from_lsn: int,
        send: Callable[[PutMessage, float], None],
        set_aside: Callable[[str, str], None],
    ) -> None:
        """`from_lsn`: objects' changes of earlier transactions are known from a snapshot."""
        self._rules: dict[tuple[str, str], list[TableRule]] = {}
        for rule in rules:
            self._rules.setdefault((rule.schema, rule.table), []).append(rule)
        self._incarnation, self._from_lsn, self._send, self._set_aside = incarnation, from_lsn, send, set_aside
        self._open: _Open | None = None
        self._facts: dict[int, tuple[Relation, Mapping[str, int], Mapping[str, str]]] = {}

    def take(self, message: Message | None) -> Committed | None:
        """Returns a transaction when its end comes. Raises Untold."""
        if isinstance(message, Begin):
            self._open = _Open(message, message.final_lsn < self._from_lsn)
        elif self._open is None:
            return None
        elif isinstance(message, RowChange):
            self._row(self._open, message)
        elif isinstance(message, Truncate):
            self._truncate(self._open, message)
        elif isinstance(message, TransactionEnd):
            done, self._open = self._open, None
            return Committed(
                end_lsn=message.end_lsn,
                time_s=done.begin.time_s,
                puts=tuple(done.puts.values()),
                truncated=frozenset(done.truncated),
                version=done.begin.final_lsn,
            )
        return None

    def _row(self, opened: _Open, change: RowChange) -> None:
        relation = change.relation
        for rule in self._rules.get((relation.schema, relation.table), ()):
            if opened.skipped and not rule.is_outbox:
                continue
            types, gone = self._facts_of(relation)
            if rule.label in gone and not opened.skipped:
                raise ColumnGone(rule, gone[rule.label])
            new = None if change.new is None else pg_row(change.new, types)
            old = None if change.old is None else pg_row(change.old, types)
            try:
                if rule.is_outbox:
                    if change.is_insert and new is not None:
                        self._send(rule.message(new), opened.begin.time_s)
                    continue
                self._object(opened, rule, new, old, is_insert=change.is_insert)
            except RowRejected as error:
                self._set_aside(
                    f"{rule.name} at {lsn_text(opened.begin.final_lsn)}: {_key_of(change)}", with_hint(error, rule.name)
                )

    def _facts_of(self, relation: Relation) -> tuple[Mapping[str, int], Mapping[str, str]]:
        """Returns the types of the columns that rules read; and by rule the first one that the table has not."""
        known = self._facts.get(relation.oid)
        if known is None or known[0] is not relation:
            wanted = {one.label: one.columns for one in self._rules[relation.schema, relation.table]}
            all_wanted = frozenset().union(*wanted.values())
            types = {column.name: column.type_oid for column in relation.columns if column.name in all_wanted}
            gone = {label: min(lacking) for label, columns in wanted.items() if (lacking := columns - types.keys())}
            known = self._facts[relation.oid] = relation, types, gone
        return known[1:]

    def _object(self, opened: _Open, rule: TableRule, new: Row | None, old: Row | None, *, is_insert: bool) -> None:
        if new is None:
            assert old is not None
            self._leave(opened, rule, old)
            return
        try:
            key = rule.naming.key(new)
        except RowRejected:
            # It has no name any more: the object that it was is gone.
            if not is_insert and old is not None:
                self._leave(opened, rule, old)
            raise
        if old is not None and not is_insert and (old_key := _name_of(rule, old)) != key:
            if old_key is not None:
                self._leave(opened, rule, old)
            old, is_insert = None, True
        if rule.when is None or rule.when.holds(new, None if is_insert else old or {}):
            self._put(opened, rule, key, new)

    def _leave(self, opened: _Open, rule: TableRule, old: Row) -> None:
        key = rule.naming.key(old)
        if opened.rows.get(key, (row := _hash_of(old))) != row:
            return  # another row has become this object meanwhile
        if rule.when is None or rule.when.holds_for_deletion(old):
            self._put(opened, rule, key, None)

    def _put(self, opened: _Open, rule: TableRule, key: ObjectKey, row: Row | None) -> None:
        put = put_of(rule, key, row, opened.begin.final_lsn, self._incarnation)
        opened.puts.pop(key, None)  # the order is that of the last changes
        opened.puts[key] = put
        if row is None:
            opened.rows.pop(key, None)
        else:
            opened.rows[key] = _hash_of(row)
        if len(opened.puts) > OBJECTS_MAX:
            raise TooManyObjects

    def _truncate(self, opened: _Open, message: Truncate) -> None:
        for relation in message.relations:
            for rule in self._rules.get((relation.schema, relation.table), ()):
                if rule.is_outbox or opened.skipped:
                    continue
                opened.truncated.add(rule.label)
                for key, put in list(opened.puts.items()):
                    if put.source == rule.label and not put.deleted:
                        self._put(opened, rule, key, None)


def put_of(rule: TableRule, key: ObjectKey, row: Row | None, version: int, incarnation: int) -> Put:
    """Returns the version of a row's object; None: the row is gone. Raises RowRejected."""
    if row is None:
        description: Mapping[str, Value] | None = None if rule.description is None else {}
        return Put(
            key=key, version=version, incarnation=incarnation, deleted=True, description=description, source=rule.label
        )
    return Put(
        key=key,
        version=version,
        incarnation=incarnation,
        payload=rule.payload_of(row),
        description=rule.description_of(row),
        source=rule.label,
    )


def lsn_text(lsn: int) -> str:
    """Returns a place in the database's log as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """Returns the number of a place. Raises ValueError."""
    high, low = text.split("/")
    return (int(high, 16) << 32) | int(low, 16)


def _name_of(rule: TableRule, row: Row) -> ObjectKey | None:
    """Returns the object that a row is; None: it has no name that is allowed."""
    try:
        return rule.naming.key(row)
    except RowRejected:
        return None


def _hash_of(row: Row) -> int:
    return hash(tuple((name, None if cell is None else cell.text) for name, cell in row.items()))


def _key_of(change: RowChange) -> str:
    values = change.new if change.new is not None else change.old or {}
    keys = [f"{one.name}={values.get(one.name)}" for one in change.relation.columns if one.is_key]
    return ", ".join(keys)[:200] or "row"
