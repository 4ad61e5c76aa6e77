"""A database as a source: reads its slot's log of changes, and the tables as a whole where the log cannot tell."""

import hashlib
import json
import select
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg2
import structlog
from psycopg2 import errors, extensions, sql

from coldnotify_auto.changes import Put, RowRejected, is_changed
from coldnotify_auto.newest_log import NewestByKey
from coldnotify_auto.source import Outlet, RunStopped, SourceFailed, SourceRefused
from coldnotify_auto.sources.postgres.catalogue import TableFacts, check_publication, check_rules
from coldnotify_auto.sources.postgres.pg_cells import pg_row
from coldnotify_auto.sources.postgres.pg_connections import connected, replicating, words_of
from coldnotify_auto.sources.postgres.pgoutput import Decoder, InvalidOutput
from coldnotify_auto.sources.postgres.table_rules import TableRule, read_table_rule
from coldnotify_auto.sources.postgres.transactions import (
    Committed,
    Transactions,
    Untold,
    lsn_text,
    parse_lsn,
    put_of,
)
from coldnotify_auto.yaml_sections import Section

_log = structlog.get_logger()

EPOCH_MAX = 32_767
_TIMELINE_BITS = 16
_IDLE_S = 0.05
_FEEDBACK_S = 1.0
_LOOK_S = 10.0
"""Interval of looks at how much log the slot retains."""
_TAKEN_S = 1.0
"""Interval of attempts to become the slot's one reader."""
_ROWS = 1_000
"""Rows of a snapshot that are fetched at once."""
_SLOT_NAME = "abcdefghijklmnopqrstuvwxyz0123456789_"


def read_postgres(name: str, section: Section) -> "PostgresSource":
    """Makes a source of its section. Raises AutoFileError."""
    connection = section.text("connection", "libpq's parameters, such as 'host=db dbname=app user=auto', or a URL")
    try:
        extensions.parse_dsn(connection)
    except psycopg2.ProgrammingError as error:
        raise section.fault("connection", f"expected libpq's parameters, or a URL: {words_of(error)}") from None
    plain = "coldnotify_" + "".join(one if one in _SLOT_NAME else "_" for one in name.lower())
    slot = section.text("slot", "a slot's name", plain)
    if not set(slot) <= set(_SLOT_NAME) or len(slot) > 50:
        raise section.fault("slot", f"expected a name of a-z, 0-9 and _, of at most 50 characters, found {slot!r}")
    publication = section.text("publication", "a publication's name", slot)
    epoch = int(section.number("epoch", "a whole number", 0, minimum=0, maximum=EPOCH_MAX))
    rules = [read_table_rule(name, one) for one in section.sections("rules", "rules with the key `table`")]
    labels = [one.label for one in rules]
    if len(set(labels)) < len(labels):
        twice = next(one for one in labels if labels.count(one) > 1)
        raise section.fault("rules", f"expected a `name` of its own for each rule, {twice} is there twice")
    return PostgresSource(name, connection, rules, slot=slot, publication=publication, epoch=epoch)


class _Mark(NamedTuple):
    """The last complete snapshot, as the publication's comment says it."""

    slot: str
    incarnation: int
    rules: str
    lsn: int

    def text(self) -> str:
        return json.dumps({"coldnotify": {**self._asdict(), "lsn": lsn_text(self.lsn)}})

    @classmethod
    def parse(cls, text: str | None) -> "_Mark | None":
        try:
            said = json.loads(text or "")["coldnotify"]
            return cls(said["slot"], said["incarnation"], said["rules"], parse_lsn(said["lsn"]))
        except (ValueError, KeyError, TypeError):
            return None


class PostgresSource:
    """Follows the tables of a database."""

    def __init__(
        self, name: str, connection: str, rules: Sequence[TableRule], *, slot: str, publication: str, epoch: int
    ) -> None:
        """`connection`: libpq's parameters. `epoch`: rises when the database was replaced by an older one."""
        self.name = name
        self._connection, self._rules = connection, tuple(rules)
        self._slot, self._publication, self._epoch = slot, publication, epoch

    def run(self, outlet: Outlet) -> None:
        """Publishes rows that change, until the outlet raises RunStopped. Raises SourceFailed, SourceRefused."""
        with connected(self._connection) as sql_connection, replicating(self._connection) as stream:
            facts = check_rules(sql_connection, self._rules)
            there = check_publication(sql_connection, self._publication, self._rules, create=not outlet.is_plan)
            run = _PostgresRun(self, outlet, sql_connection, stream, facts)
            if outlet.is_plan:
                run.plan(there)
            else:
                run.follow()

    def resync(self) -> str:
        """Has every table compared: soon by who follows it, or at the next start.

        Raises SourceFailed, SourceRefused."""
        with connected(self._connection) as sql_connection:
            with sql_connection.cursor() as cursor:
                cursor.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (self._publication,))
                if cursor.fetchone() is None:
                    raise SourceRefused(f"publication {self._publication} does not exist: it was not followed yet")
            _comment(sql_connection, self._publication, None)
        return f"every table is compared within {_LOOK_S:g} s if `coldnotify auto` runs, else when it starts"


class _PostgresRun:
    """One run: it has the slot, and what is known of the database."""

    def __init__(
        self,
        source: PostgresSource,
        outlet: Outlet,
        sql_connection: Any,
        stream: Any,
        facts: dict[str, TableFacts],
    ) -> None:
        self._source, self._outlet, self._sql, self._stream, self._facts = source, outlet, sql_connection, stream, facts
        self._slot, self._publication, self._rules = source._slot, source._publication, source._rules
        self._connection = source._connection
        self._decoder = Decoder()
        with stream.cursor() as cursor:
            cursor.execute("IDENTIFY_SYSTEM")
            timeline = int(cursor.fetchone()[1])
        if timeline >= 1 << _TIMELINE_BITS:
            raise SourceRefused(f"timeline {timeline} is above {(1 << _TIMELINE_BITS) - 1}")
        self._incarnation = (source._epoch << _TIMELINE_BITS) | timeline
        self._mark = _Mark(self._slot, self._incarnation, self._rules_digest(), 0)
        self._feedback_s = self._look_s = 0.0
        self._compared_all = False
        """True once this run knows that the mark is there."""

    # -- the slot and its mark -------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Takes the slot, reads the tables if need be, then follows the log."""
        cursor = self._take_slot()
        mark = self._read_mark()
        if mark is None or mark._replace(lsn=0) != self._mark:
            lsn = self._snapshot(cursor)
            self._write_mark(self._mark._replace(lsn=lsn))
        else:
            lsn = mark.lsn
        self._compared_all = True
        self._outlet.while_waiting = lambda: self._feed_back(cursor)
        try:
            self._stream_from(cursor, lsn)
        except RunStopped:
            # What is acknowledged by now is not read again.
            if confirmed := self._outlet.confirmed():
                cursor.send_feedback(flush_lsn=confirmed, force=True)
            raise

    def plan(self, is_published: bool) -> None:
        """Prints the rows of a first snapshot, or what is changed from now on. Changes nothing."""
        mark = self._read_mark()
        first = mark is None or mark._replace(lsn=0) != self._mark
        temporary = f"{self._slot}_plan_{time.monotonic_ns() % 1_000_000}"
        with replicating(self._connection) as stream, stream.cursor() as cursor:
            lsn, snapshot = _create_temporary(cursor, temporary)
            if first:
                self._publish_tables(lsn, snapshot, lambda: None)
            if not is_published:
                raise RunStopped  # without the publication, nothing can be followed
            self._start(cursor, temporary)
            self._stream_from(cursor, lsn)

    def _take_slot(self) -> Any:
        """Becomes the slot's reader; waits while another one is. Returns the cursor that reads."""
        with self._sql.cursor() as cursor:
            cursor.execute("SELECT wal_status, plugin FROM pg_replication_slots WHERE slot_name = %s", (self._slot,))
            found = cursor.fetchone()
            if found is not None and found[1] != "pgoutput":
                raise SourceRefused(f"slot {self._slot} is one of {found[1]}, expected pgoutput")
            if found is not None and found[0] == "lost":
                _log.warning("the slot has lost its log: every table is compared", source=self._source.name)
                self._write_mark(None)
                cursor.execute("SELECT pg_drop_replication_slot(%s)", (self._slot,))
                found = None
            if found is None:
                self._write_mark(None)
                self._outlet.ready(f"slot {self._slot} waits for transactions that are open")
                cursor.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (self._slot,))
        stream = self._stream.cursor()
        while True:
            try:
                self._start(stream, self._slot)
                return stream
            except errors.ObjectInUse:
                self._outlet.ready(f"slot {self._slot} has another reader: this one waits")
                self._outlet.wait(_TAKEN_S)

    def _start(self, cursor: Any, slot: str) -> None:
        cursor.start_replication(
            slot_name=slot,
            decode=False,
            status_interval=_FEEDBACK_S,
            options={"proto_version": "1", "publication_names": f'"{self._publication}"'},
        )

    def _read_mark(self) -> _Mark | None:
        with self._sql.cursor() as cursor:
            cursor.execute(
                "SELECT obj_description(oid, 'pg_publication') FROM pg_publication WHERE pubname = %s",
                (self._publication,),
            )
            row = cursor.fetchone()
        return _Mark.parse(row[0]) if row else None

    def _write_mark(self, mark: _Mark | None) -> None:
        _comment(self._sql, self._publication, mark)

    def _rules_digest(self) -> str:
        said = repr([(rule.label, rule.name, _words_of_rule(rule)) for rule in self._rules])
        return hashlib.blake2b(said.encode(), digest_size=8).hexdigest()

    def _feed_back(self, cursor: Any, *, flush_lsn: int = 0) -> None:
        """Tells the database how far everything is acknowledged. Its sender gives up a silent reader after 60 s."""
        now_s = time.monotonic()
        if now_s - self._feedback_s >= _FEEDBACK_S:
            self._feedback_s = now_s
            cursor.send_feedback(flush_lsn=flush_lsn or self._outlet.confirmed(), force=True)
            self._look()

    def _look(self) -> None:
        now_s = time.monotonic()
        if now_s - self._look_s < _LOOK_S:
            return
        self._look_s = now_s
        with self._sql.cursor() as cursor:
            cursor.execute(
                "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) FROM pg_replication_slots "
                "WHERE slot_name = %s",
                (self._slot,),
            )
            row = cursor.fetchone()
        self._outlet.retained(int(row[0] or 0) if row else 0)
        if self._compared_all and self._read_mark() is None:
            raise SourceFailed("every table is compared, as was asked for")

    # -- tables as a whole -----------------------------------------------------------------------------------------

    def _snapshot(self, cursor: Any) -> int:
        """Publishes what the tables say and the newest versions do not; returns the place of this state.

        The state is that of a slot of its own, later than where the source's slot begins: what changes behind it is in
        the log."""
        self._outlet.ready("waits for transactions that are open, then compares every table")
        with replicating(self._connection) as stream, stream.cursor() as other:
            lsn, snapshot = _create_temporary(other, f"{self._slot}_{time.monotonic_ns() % 1_000_000}")
            self._outlet.ready("every table is compared with the newest versions")
            self._outlet.while_waiting = lambda: self._feed_back(cursor)
            self._publish_tables(lsn, snapshot, lambda: self._feed_back(cursor))
        self._outlet.flush()
        return lsn

    def _publish_tables(self, lsn: int, snapshot: str, go_on: Any) -> None:
        objects = [rule for rule in self._rules if not rule.is_outbox]
        newest = self._newest(objects)
        seen: set[tuple[str, str, str]] = set()
        with connected(self._connection) as connection:
            connection.set_session(autocommit=False)
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                cursor.execute("SET TRANSACTION SNAPSHOT %s", (snapshot,))
            for rule in self._rules:
                self._publish_table(connection, rule, lsn, newest, seen, go_on)
        for label in [rule.label for rule in objects]:
            for key in [one for one, known in newest.items() if known.source == label and not known.deleted]:
                if key not in seen:
                    rule = next(one for one in objects if one.label == label)
                    self._compared(put_of(rule, key, None, lsn - 1, self._incarnation), newest)

    def _publish_table(
        self,
        connection: Any,
        rule: TableRule,
        lsn: int,
        newest: NewestByKey,
        seen: set[tuple[str, str, str]],
        go_on: Any,
    ) -> None:
        facts = self._facts[rule.name]
        columns = [name for name in facts.types if name in rule.columns]
        types = {name: facts.types[name] for name in columns}
        as_text = extensions.new_type(tuple(set(types.values())), "TEXT_AS_SENT", lambda value, _cursor: value)
        with connection.cursor(name="coldnotify") as cursor:
            cursor.itersize = _ROWS
            extensions.register_type(as_text, cursor)
            names = sql.SQL(", ").join(map(sql.Identifier, columns))
            cursor.execute(sql.SQL("SELECT {} FROM {}").format(names, sql.Identifier(rule.schema, rule.table)))
            for values in cursor:
                go_on()
                row = pg_row(dict(zip(columns, values, strict=True)), types)
                try:
                    if rule.is_outbox:
                        self._outlet.put(rule.message(row))
                        continue
                    key = rule.naming.key(row)
                    seen.add(key)
                    if rule.when is None or rule.when.holds(row, None):
                        self._compared(put_of(rule, key, row, lsn - 1, self._incarnation), newest)
                except RowRejected as error:
                    self._outlet.set_aside(
                        f"{rule.name} at {lsn_text(lsn)}: {dict(list(zip(columns, values, strict=True))[:2])}",
                        str(error),
                    )

    def _newest(self, rules: Sequence[TableRule]) -> NewestByKey:
        if not rules:
            return {}
        templates = [rule.naming.domain for rule in rules]
        return self._outlet.newest(() if any(one.columns for one in templates) else {one.text for one in templates})

    def _compared(self, put: Put, newest: NewestByKey) -> None:
        """Publishes a version unless the newest one says the same. Raises SourceRefused if that outdoes it, or would
        outdo later ones."""
        known = newest.get(put.key)
        if known is not None and (known.incarnation, known.version) >= (put.incarnation, put.version):
            raise SourceRefused(
                f"the newest version of {'/'.join(put.key)} is {known.version} of incarnation {known.incarnation}, "
                f"above the database's {put.version} of {put.incarnation}: set `epoch: {self._needed_epoch(newest)}`"
            )
        if is_changed(known, put):
            self._outlet.put(put)

    def _needed_epoch(self, newest: NewestByKey) -> int:
        return (max(one.incarnation for one in newest.values()) >> _TIMELINE_BITS) + 1

    # -- the log ---------------------------------------------------------------------------------------------------

    def _stream_from(self, cursor: Any, lsn: int) -> None:
        outlet = self._outlet
        transactions = Transactions(self._rules, self._incarnation, lsn, outlet.put, outlet.set_aside)
        self._outlet.ready(None)
        while True:
            message = cursor.read_message()
            if message is None:
                self._outlet.wait(0)
                confirmed = self._outlet.confirmed()
                if confirmed:
                    cursor.send_feedback(flush_lsn=confirmed)
                self._look()
                select.select([cursor], [], [], _IDLE_S)
                continue
            try:
                committed = transactions.take(self._decoder.decode(message.payload))
            except InvalidOutput as error:
                raise SourceFailed(f"PostgreSQL: a message cannot be decoded: {error}") from None
            except Untold as error:
                if not self._outlet.is_plan:
                    self._write_mark(None)
                raise SourceFailed(f"{error}: every table is compared") from None
            if committed is not None:
                self._publish(committed)
                self._outlet.passed(committed.end_lsn)

    def _publish(self, committed: Committed) -> None:
        for put in committed.puts:
            self._outlet.put(put, committed.time_s)
        if not committed.truncated:
            return
        # What was put is acknowledged before the log is read: the last objects are in it.
        said = {put.key for put in committed.puts}
        rules = {rule.label: rule for rule in self._rules if rule.label in committed.truncated}
        for key, known in self._newest(list(rules.values())).items():
            rule = rules.get(known.source)
            if rule is not None and not known.deleted and key not in said:
                self._outlet.put(put_of(rule, key, None, committed.version, self._incarnation), committed.time_s)


def _comment(connection: Any, publication: str, mark: _Mark | None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            sql.SQL("COMMENT ON PUBLICATION {} IS {}").format(
                sql.Identifier(publication), sql.Literal(mark.text() if mark else None)
            )
        )


def _create_temporary(cursor: Any, name: str) -> tuple[int, str]:
    """Returns the place and the name of a snapshot, which lasts until the next command of this connection."""
    cursor.execute(f"CREATE_REPLICATION_SLOT {name} TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT")
    _, lsn, snapshot, _ = cursor.fetchone()
    return parse_lsn(lsn), snapshot


def _words_of_rule(rule: TableRule) -> object:
    naming = rule.naming
    texts = [naming.domain.text, naming.group.text, naming.object.text]
    return texts, dict(rule.payload), rule.description, rule.when.text if rule.when else "", rule.is_outbox
