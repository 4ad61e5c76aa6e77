"""A request to the HTTP port of the service for tests, and the checks that its routes share."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from coldnotify_schemas.protocol import ITEMS_PER_PAGE_MAX

from coldnotify._core.publishing.outgoing import VERSION_MAX

Answer = tuple[int, dict[str, Any]]
"""Status and JSON."""
MISSING: Any = object()
_DEFAULT_LIMIT = 100


class HttpRefused(Exception):
    """An answer with an error."""

    def __init__(self, status: int, error: str, **more: object) -> None:
        super().__init__(error)
        self.answer: Answer = status, {"error": error, **more}


class HttpAsked(NamedTuple):
    """A request."""

    domain: str
    group: str
    name: str
    """The name at the end of the path; empty: none is in it."""
    query: Mapping[str, str]
    body: bytes

    def json(self, what: str = "record") -> Any:
        """Returns the body's JSON; an empty one means {}. Raises ValueError."""
        try:
            return json.loads(self.body or b"{}")
        except ValueError as error:
            raise ValueError(f"{what}: is not JSON: {error}") from None

    def number(self, name: str, default: int | None = None, *, most: int = VERSION_MAX, least: int = 0) -> int | None:
        """Returns a whole number of the query. Raises ValueError."""
        text = self.query.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
            raise ValueError(f"{name}: {text[:80]!r} is not a whole number from {least} to {most}")
        return int(text)

    def page(self, items: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        """Returns the requested part of a list, by name. Raises ValueError."""
        limit = self.number("limit", _DEFAULT_LIMIT, most=ITEMS_PER_PAGE_MAX, least=1) or 1
        names = sorted(name for name in items if name > self.query.get("after", ""))
        next_ = names[limit - 1] if len(names) > limit else None
        return {"items": [items[name] for name in names[:limit]], "next": next_}


def text_of(field: str, value: object) -> str:
    """Returns a value that is text. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"{field}: is missing" if value is MISSING else f"{field}: {value!r} is not text")
    return value


def known_fields(said: Any, known: set[str], what: str = "record") -> dict[str, Any]:
    """Returns an object that has none but these fields. Raises ValueError."""
    if not isinstance(said, dict):
        raise ValueError(f"{what}: is not a JSON object")
    if unknown := sorted(said.keys() - known):
        raise ValueError(f"{what}: has the unknown field {unknown[0]!r}")
    return said
