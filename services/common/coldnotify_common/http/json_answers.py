"""Encodes answers as JSON. A whole number above 2^53 is repeated as a text: `version_text` beside `version`.

JSON.parse makes a double of every number, so two versions above 2^53 that differ by one become equal. Versions that are
times in ns are that large.
"""

import json
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiohttp import web

EXACT_MAX = 2**53 - 1
"""The largest integer up to which every whole number has a double of its own."""
_FROM_PUBLISHERS = frozenset(("payload", "description"))
"""Fields whose values are copied unchanged, because a publisher wrote them."""
_SUFFIX = "_text"
_LONG = re.compile(r"\d{16}")
"""A text without that many digits in a row contains no such number."""


def text_of(name: str) -> str:
    """Returns the name of the field that repeats this one as a text."""
    return name + _SUFFIX


def is_text(name: str, names: Collection[str]) -> bool:
    """Returns true if a field of an object with these names repeats another field as a text."""
    return name.endswith(_SUFFIX) and name.removesuffix(_SUFFIX) in names


def with_texts(said: Any) -> Any:
    """Returns a copy with a text beside each field that holds a whole number above 2^53."""
    if isinstance(said, dict):
        made = {name: value if name in _FROM_PUBLISHERS else with_texts(value) for name, value in said.items()}
        for name, value in said.items():
            if isinstance(value, int) and not -EXACT_MAX <= value <= EXACT_MAX:
                made[text_of(name)] = str(value)
        return made
    if isinstance(said, list | tuple):
        return [with_texts(one) for one in said]
    return said


def encoded(said: Any) -> str:
    """Returns the value as JSON, in one line."""
    text = json.dumps(said)
    return json.dumps(with_texts(said)) if _LONG.search(text) else text


def json_answer(said: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> "web.Response":
    """Returns an answer in JSON."""
    from aiohttp import web  # commands need the names of fields alone, and this takes longer than they do

    return web.json_response(text=encoded(said), status=status, headers=headers)  # noqa: TID251  with texts
