"""Rules: which object a row is, and what its payload and description say."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
from coldnotify_schemas.descriptions import Value, check_description
from coldnotify_schemas.interests import channel_text
from coldnotify_schemas.names import InvalidName, ObjectKey, check_name, object_key
from coldnotify_schemas.records import InvalidRecord

from coldnotify_auto import templates
from coldnotify_auto.cells import Row, number_of
from coldnotify_auto.changes import RowRejected
from coldnotify_auto.templates import Template
from coldnotify_auto.yaml_sections import Section

_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Naming:
    """Templates of an object's, or a channel's, three names."""

    domain: Template
    group: Template
    object: Template

    @property
    def fields(self) -> tuple[tuple[str, Template], ...]:
        """Returns the keys of the file, each with its template."""
        return ("domain", self.domain), ("group", self.group), ("object", self.object)

    @property
    def columns(self) -> frozenset[str]:
        """Columns that the names contain."""
        return self.domain.columns | self.group.columns | self.object.columns

    def key(self, row: Row) -> ObjectKey:
        """Returns the object's key for a row. Raises RowRejected."""
        key = ObjectKey(self.domain.fill(row, "domain"), self.group.fill(row, "group"), self.object.fill(row, "object"))
        try:
            object_key(*key)
        except InvalidName as error:
            raise RowRejected(str(error)) from None
        return key


def read_naming(section: Section, what: str = "object") -> Naming:
    """Returns the templates of a rule; `what` is `object`, or `channel`. Raises AutoFileError."""
    found = []
    for field in ("domain", "group", what):
        text = section.text(field, templates.EXPECTED)
        try:
            template = Template(text)
            if not template.columns:
                name = text.replace("{{", "{").replace("}}", "}")
                if field == "object":
                    object_key("d", "g", name)
                elif field == "channel":
                    channel_text(name)
                else:
                    check_name(field, name)
        except ValueError as error:
            raise section.fault(field, f"expected {templates.EXPECTED}: {error}") from None
        found.append(template)
    return Naming(*found)


def refuse_unknown(section: Section, key: str, columns: Iterable[str], known: Iterable[str]) -> None:
    """Raises AutoFileError if a rule's key names a column that is not one of `known`."""
    if unknown := sorted(set(columns) - set(known)):
        raise section.fault(key, f"unknown column {unknown[0]!r}, expected one of {', '.join(sorted(known))}")


def payload_of(row: Row, columns: Mapping[str, str]) -> bytes:
    """Returns the JSON object of these columns. Raises RowRejected for a column that is not known."""
    found: dict[str, object] = {}
    for name, column in columns.items():
        if column not in row:
            raise RowRejected(f"payload: column {column} is not known")
        cell = row[column]
        found[name] = None if cell is None else cell.value
    try:
        return _encoder.encode(found)
    except (UnicodeEncodeError, ValueError) as error:
        raise RowRejected(f"payload: {error}") from None


def description_of(row: Row, columns: Mapping[str, str]) -> Mapping[str, Value]:
    """Returns the description with these columns; nulls are left out. Raises RowRejected."""
    found: dict[str, Value] = {}
    for name, column in columns.items():
        if column not in row:
            raise RowRejected(f"description: column {column} is not known")
        cell = row[column]
        if cell is None:
            continue
        if isinstance(cell.value, str | bool):
            found[name] = cell.value
        else:
            number = number_of(cell)
            found[name] = cell.text if number is None else number
    try:
        return check_description(found)
    except InvalidRecord as error:
        raise RowRejected(str(error)) from None
