"""Fields of the document: how they are checked when they are read."""

from collections.abc import Callable, Container
from typing import Any

from coldnotify_schemas.names import InvalidName, check_object

from coldnotify._core.interests.registrations import OperationKind
from coldnotify.errors import StateDamaged

Fields = dict[str, Any]
U64_MAX = (1 << 64) - 1


def operations_of(
    field_: str, entries: list[tuple[str, Any]], wanted: Container[str], of: str
) -> dict[str, OperationKind]:
    """Parses pending operations. Raises StateDamaged if one contradicts `wanted`, which the field `of` has."""
    pending: dict[str, OperationKind] = {}
    for name, kind in entries:
        if kind not in (OperationKind.REGISTER.value, OperationKind.UNREGISTER.value):
            raise StateDamaged(f"{field_}: {kind!r} is not an operation")
        pending[name] = OperationKind(kind)
        if (pending[name] is OperationKind.REGISTER) != (name in wanted):
            raise StateDamaged(f"{field_}: {name!r} contradicts {of}")
    return pending


def number_of(fields: Fields, name: str, maximum: int) -> int | None:
    """Parses a number, or null. Raises StateDamaged."""
    value = fields.get(name)
    if value is not None and not is_number(value, maximum):
        raise StateDamaged(f"{name}: is not a number from 0 to {maximum}")
    return value


def table(fields: Fields, name: str, check: Callable[[str], str] = check_object) -> list[tuple[str, Any]]:
    """Parses an object's entries, whose keys `check` accepts. Raises StateDamaged."""
    value = fields.get(name)
    if not isinstance(value, dict):
        raise StateDamaged(f"{name}: is not an object")
    return [(checked_object(name, key, check), entry) for key, entry in value.items()]


def checked_object(field_: str, name: object, check: Callable[[str], str] = check_object) -> str:
    """Parses a name. Raises StateDamaged."""
    try:
        return check(name if isinstance(name, str) else "")
    except InvalidName as error:
        raise StateDamaged(f"{field_}: {error}") from None


def is_number(value: object, maximum: int) -> bool:
    """Returns true for a number from 0 to `maximum`."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= maximum
