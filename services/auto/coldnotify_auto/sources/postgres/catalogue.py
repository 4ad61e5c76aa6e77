"""Catalogue: what a database's tables are, held against the rules before anything is published."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from coldnotify_auto.source import SourceRefused
from coldnotify_auto.sources.postgres.table_rules import TableRule

VERSION_MIN = 140_000


class TableFacts(NamedTuple):
    """A table of the database."""

    types: Mapping[str, int]
    """Type by column."""
    generated: frozenset[str]
    """Columns that are not replicated."""
    identity: frozenset[str]
    """Columns of the replica identity."""
    has_every_old_row: bool
    """True with REPLICA IDENTITY FULL."""


def check_rules(connection: Any, rules: Sequence[TableRule]) -> dict[str, TableFacts]:
    """Returns the facts of the rules' tables by name. Raises SourceRefused, which says what to change."""
    with connection.cursor() as cursor:
        if connection.server_version < VERSION_MIN:
            raise SourceRefused(f"PostgreSQL {connection.server_version // 10000} is too old, expected 14 or later")
        cursor.execute("SHOW wal_level")
        if (level := cursor.fetchone()[0]) != "logical":
            raise SourceRefused(
                f"wal_level is {level}, expected logical: ALTER SYSTEM SET wal_level = logical, and restart PostgreSQL"
            )
        found = {}
        for rule in rules:
            if rule.name not in found:
                found[rule.name] = _facts(cursor, rule)
            _check(rule, found[rule.name])
    return found


def _facts(cursor: Any, rule: TableRule) -> TableFacts:
    cursor.execute(
        "SELECT c.oid, c.relreplident, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relname = %s",
        (rule.schema, rule.table),
    )
    row = cursor.fetchone()
    if row is None:
        raise SourceRefused(f"{rule.place}.table: table {rule.name} does not exist")
    oid, identity, kind = row
    if kind != "r":
        raise SourceRefused(f"{rule.place}.table: {rule.name} is not an ordinary table")
    cursor.execute(
        "SELECT attname, atttypid, attgenerated <> '' FROM pg_attribute WHERE attrelid = %s AND attnum > 0 "
        "AND NOT attisdropped ORDER BY attnum",
        (oid,),
    )
    columns = cursor.fetchall()
    cursor.execute(
        "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) "
        "WHERE i.indrelid = %s AND CASE WHEN %s = 'i' THEN i.indisreplident ELSE %s = 'd' AND i.indisprimary END",
        (oid, identity, identity),
    )
    key = {name for (name,) in cursor.fetchall()}
    return TableFacts(
        types={name: type_oid for name, type_oid, _ in columns},
        generated=frozenset(name for name, _, generated in columns if generated),
        identity=frozenset(one for one, _, _ in columns) if identity == "f" else frozenset(key),
        has_every_old_row=identity == "f",
    )


def _check(rule: TableRule, facts: TableFacts) -> None:
    known = facts.types.keys() - facts.generated
    if unknown := sorted(rule.columns - known):
        raise SourceRefused(
            f"{rule.place}: {rule.name} has no column {unknown[0]!r} that is replicated, expected one of "
            f"{', '.join(sorted(known))}"
        )
    full = f"ALTER TABLE {rule.name} REPLICA IDENTITY FULL"
    if not facts.identity:
        raise SourceRefused(
            f"{rule.place}: {rule.name} has no primary key, so PostgreSQL would refuse updates and deletions: {full}"
        )
    if rule.needs_every_old_row and not facts.has_every_old_row:
        raise SourceRefused(f"{rule.place}.when: `changes` needs the old row: {full}")
    if lacking := sorted(rule.columns_of_the_old_row - facts.identity):
        raise SourceRefused(
            f"{rule.place}: the old value of {', '.join(lacking)} is needed to know which object was deleted: {full}"
        )


def check_publication(connection: Any, name: str, rules: Iterable[TableRule], *, create: bool) -> bool:
    """Creates the publication, or adds the tables that it lacks. Returns false if it lacks some, and `create` is false.

    Raises SourceRefused."""
    from psycopg2 import errors, sql

    wanted = {(rule.schema, rule.table) for rule in rules}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate, "
            "pg_has_role(pubowner, 'USAGE') FROM pg_publication WHERE pubname = %s",
            (name,),
        )
        row = cursor.fetchone()
        if row is not None and not row[0]:
            raise SourceRefused(f"publication {name} does not publish insert, update, delete and truncate")
        if row is not None and not row[1]:
            raise SourceRefused(f"publication {name} is another role's: ALTER PUBLICATION {name} OWNER TO ...")
        cursor.execute("SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", (name,))
        lacking = sorted(wanted - set(cursor.fetchall()))
        if not lacking and row is not None:
            return True
        if not create:
            return False
        tables = sql.SQL(", ").join(sql.Identifier(*one) for one in lacking)
        statement = "CREATE PUBLICATION {} FOR TABLE {}" if row is None else "ALTER PUBLICATION {} ADD TABLE {}"
        try:
            cursor.execute(sql.SQL(statement).format(sql.Identifier(name), tables))
        except errors.InsufficientPrivilege as error:
            raise SourceRefused(f"publication {name} cannot be made: {str(error).strip()}") from None
    return True
