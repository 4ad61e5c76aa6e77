"""The fields for queries in the document, if there are any:

     "queries": {text: {"members": [...],                   members told, once `telling` is told
                        "telling": {"added": [...], "removed": [...]},
                        "followed": true, "dropped": true, "entering": [...],
                        "answer": {"members": [...], "reached": name, "reached_at": offset},
                        "descriptions": {name: JSON as text, "" for none}}},    if they are requested; as told
     "pending_queries": {text: "register"}

A missing field has its default.
"""

from collections.abc import Mapping

from coldnotify_schemas.interests import check_query

from coldnotify._core.delivery.membership import KeptQuery, MembersChange, Reached
from coldnotify._core.document.stored_fields import (
    U64_MAX,
    Fields,
    checked_object,
    is_number,
    operations_of,
    table,
)
from coldnotify._core.interests.registrations import OperationKind
from coldnotify.errors import StateDamaged


def encode_queries(queries: Mapping[str, KeptQuery], pending: Mapping[str, OperationKind]) -> Fields:
    """Returns the document's fields."""
    return {
        "queries": {text: _encode_kept(queries[text]) for text in sorted(queries)},
        "pending_queries": {text: kind.value for text, kind in pending.items()},
    }


def decode_queries(fields: Fields) -> tuple[dict[str, KeptQuery], dict[str, OperationKind]]:
    """Parses the document's fields: the queries and the pending operations. Raises StateDamaged."""
    queries = {text: _decode_kept(entry) for text, entry in table(fields, "queries", check_query)}
    operations = table(fields, "pending_queries", check_query)
    return queries, operations_of("pending_queries", operations, queries, "queries")


def _encode_kept(kept: KeptQuery) -> dict[str, object]:
    """Returns a query's entry; fields with default values are left out."""
    entry: dict[str, object] = {"members": sorted(kept.members)}
    if kept.telling is not None:
        entry["telling"] = {"added": sorted(kept.telling.added), "removed": sorted(kept.telling.removed)}
    if kept.followed:
        entry["followed"] = True
    if kept.dropped:
        entry["dropped"] = True
    if kept.entering:
        entry["entering"] = sorted(kept.entering)
    if kept.answer is not None and kept.reached is not None:
        entry["answer"] = {
            "members": sorted(kept.answer),
            "reached": kept.reached.name,
            "reached_at": kept.reached.offset,
        }
    if kept.descriptions is not None:
        entry["descriptions"] = {name: kept.descriptions[name].decode() for name in sorted(kept.descriptions)}
    return entry


def _decode_kept(entry: object) -> KeptQuery:
    if not isinstance(entry, dict):
        raise StateDamaged("queries: has an entry that is not an object")
    telling = answer = reached = None
    if "telling" in entry:
        told = _part(entry, "telling")
        telling = MembersChange(_names(told, "telling.added", "added"), _names(told, "telling.removed", "removed"))
    if "answer" in entry:
        came = _part(entry, "answer")
        answer = _names(came, "answer.members", "members")
        offset = came.get("reached_at")
        if offset is None or not is_number(offset, U64_MAX):
            raise StateDamaged(f"queries: answer.reached_at is not a number from 0 to {U64_MAX}")
        reached = Reached(checked_object("queries", came.get("reached")), offset)
    descriptions: dict[str, bytes] | None = None
    if "descriptions" in entry:
        texts = _part(entry, "descriptions")
        if not all(isinstance(text, str) for text in texts.values()):
            raise StateDamaged("queries: descriptions has an entry that is not a text")
        descriptions = {checked_object("queries", name): text.encode() for name, text in texts.items()}
    flags = {}
    for name in ("followed", "dropped"):
        flags[name] = entry.get(name, False)
        if not isinstance(flags[name], bool):
            raise StateDamaged(f"queries: {name} is not true or false")
    return KeptQuery(
        members=_names(entry, "members", "members"),
        telling=telling,
        entering=_names(entry, "entering", "entering") if "entering" in entry else frozenset(),
        answer=answer,
        reached=reached,
        descriptions=descriptions,
        **flags,
    )


def _part(entry: Fields, name: str) -> Fields:
    part = entry[name]
    if not isinstance(part, dict):
        raise StateDamaged(f"queries: {name} is not an object")
    return part


def _names(fields: Fields, what: str, name: str) -> frozenset[str]:
    names = fields.get(name)
    if not isinstance(names, list):
        raise StateDamaged(f"queries: {what} is not a list")
    return frozenset(checked_object("queries", one) for one in names)
