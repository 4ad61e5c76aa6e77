"""Rules of tables: which object a row is, or which message of a channel a row of an outbox is."""

from collections.abc import Mapping
from dataclasses import dataclass

from coldnotify_schemas.names import InvalidName, check_name

from coldnotify_auto import conditions
from coldnotify_auto.cells import Row
from coldnotify_auto.changes import PutMessage, RowRejected
from coldnotify_auto.conditions import Condition
from coldnotify_auto.row_rules import Naming, description_of, payload_of, read_naming
from coldnotify_auto.templates import Template
from coldnotify_auto.yaml_sections import Section

_COLUMNS = "columns such as {fps, exposure}"
LABEL_CHARS_MAX = 64


@dataclass(frozen=True, kw_only=True)
class TableRule:
    """One rule of the file."""

    place: str
    """File, line and key, for errors about it."""
    label: str
    """The `source` of its records."""
    schema: str
    table: str
    naming: Naming
    payload: Mapping[str, str]
    """Columns by their names in the payload; empty: no payload."""
    description: Mapping[str, str] | None
    when: Condition | None
    id: Template | None = None
    """The messages' id; None: rows are objects."""

    @property
    def is_outbox(self) -> bool:
        """True if rows are messages."""
        return self.id is not None

    @property
    def name(self) -> str:
        """Returns the table's name, as in the file."""
        return f"{self.schema}.{self.table}"

    @property
    def columns(self) -> frozenset[str]:
        """Every column that it reads."""
        described = self.description.values() if self.description else ()
        condition = self.when.columns if self.when else ()
        id_ = self.id.columns if self.id else ()
        return frozenset((*self.naming.columns, *self.payload.values(), *described, *condition, *id_))

    @property
    def columns_of_the_old_row(self) -> frozenset[str]:
        """Columns whose old values it needs, for a deleted row, or one that becomes another object."""
        if self.is_outbox:
            return frozenset()
        return self.naming.columns | (self.when.compared if self.when else frozenset())

    @property
    def needs_every_old_row(self) -> bool:
        """True if it needs the old values of an update that keeps the key."""
        return self.when is not None and bool(self.when.watched)

    def payload_of(self, row: Row) -> bytes:
        """Returns the payload. Raises RowRejected."""
        return payload_of(row, self.payload) if self.payload else b""

    def description_of(self, row: Row) -> Mapping[str, str | float | bool] | None:
        """Returns the description; None: the rule does not describe. Raises RowRejected."""
        return None if self.description is None else description_of(row, self.description)

    def message(self, row: Row) -> PutMessage:
        """Returns the message that a row of an outbox is. Raises RowRejected."""
        assert self.id is not None
        key = self.naming.key(row)
        return PutMessage(
            domain=key.domain,
            group=key.group,
            channel=key.object,
            id=self.id.fill(row, "id"),
            payload=self.payload_of(row),
        )


def read_table_rule(source: str, section: Section) -> TableRule:
    """Returns a rule. Raises AutoFileError."""
    table = section.text("table", "a table, schema.name")
    schema, dot, name = table.rpartition(".")
    is_outbox = "channel" in section
    naming = read_naming(section, "channel" if is_outbox else "object")
    id_ = None
    if is_outbox:
        text = section.text("id", "the message's id with columns in braces, such as '{id}'")
        try:
            id_ = Template(text)
        except ValueError as error:
            raise section.fault("id", f"expected an id with columns in braces: {error}") from None
        if not id_.columns:
            raise section.fault("id", "expected a column in braces: all messages would have one id")
    elif not naming.object.columns:
        raise section.fault("object", "expected a column in braces: all rows would be one object")
    label_name = section.text("name", "a name for the rule", name)
    label = f"auto.{source}.{label_name}"
    try:
        check_name("name", label_name)
        if len(label_name) > LABEL_CHARS_MAX:
            raise InvalidName(f"has more than {LABEL_CHARS_MAX} characters")
    except InvalidName as error:
        raise section.fault("name", f"expected a name for the rule (letters, digits, . _ -): {error}") from None
    when = None
    if not is_outbox and "when" in section:
        try:
            when = Condition(section.text("when", conditions.EXPECTED))
        except ValueError as error:
            raise section.fault("when", f"expected {conditions.EXPECTED}: {error}") from None
    elif not is_outbox:
        section.text("when", conditions.EXPECTED, "")
    rule = TableRule(
        place=f"{section.file}:{section.line}: {section.path}",
        label=label,
        schema=schema if dot else "public",
        table=name,
        naming=naming,
        payload=section.columns("payload", _COLUMNS) or {},
        description=None if is_outbox else section.columns("description", _COLUMNS),
        when=when,
        id=id_,
    )
    section.end()
    return rule


def with_hint(error: RowRejected, table: str) -> str:
    """Returns the reason, with what helps if a value was not sent because it lies outside of the row."""
    words = str(error)
    return f"{words} (ALTER TABLE {table} REPLICA IDENTITY FULL has it sent)" if "is not known" in words else words
