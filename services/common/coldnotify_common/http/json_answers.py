"""Answers in JSON. A whole number above 2^53 stands there as a text, too: `version_text` beside `version`.

JSON.parse makes a double of every number, and of two versions that differ by one the same above 2^53. Versions that are
times in ns are that large.
"""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from aiohttp import web

EXACT_MAX = 2**53 - 1
"""Up to here each whole number is a double of its own."""
_FROM_PUBLISHERS = frozenset(("payload", "description"))
"""What stands under these names is as somebody has published it."""
_SUFFIX = "_text"
_LONG = re.compile(r"\d{16}")
"""In a text without so many digits in a row there is no such number."""


def text_of(name: str) -> str:
    """The name of the field that holds the same as a text."""
    return name + _SUFFIX


def is_text(name: str, names: Collection[str]) -> bool:
    """Whether a field of an object with these holds the same as another one, as a text."""
    return name.endswith(_SUFFIX) and name.removesuffix(_SUFFIX) in names


def with_texts(said: Any) -> Any:
    """The same, with a text beside each field that holds a whole number above 2^53."""
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
    """What is said as JSON, in one line."""
    text = json.dumps(said)
    return json.dumps(with_texts(said)) if _LONG.search(text) else text


def json_answer(said: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer in JSON."""
    return web.json_response(text=encoded(said), status=status, headers=headers)  # noqa: TID251  with texts
