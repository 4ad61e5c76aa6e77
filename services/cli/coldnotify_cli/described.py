"""Descriptions on the command line: KEY=VALUE as it is typed, and as it is shown. Pure."""

import json
import re
from collections.abc import Iterable, Mapping

import click

Value = str | float | bool

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_TRUTHS = {"true": True, "false": False}


def parse_assignments(words: Iterable[str]) -> dict[str, Value]:
    """The keys and values of KEY=VALUE words. Raises click.UsageError, which names the word."""
    found: dict[str, Value] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{word!r} is not KEY=VALUE (--remove KEY removes a key)")
        if key in found:
            raise click.UsageError(f"{word!r}: {key} is given twice")
        found[key] = parse_value(value)
    return found


def parse_value(text: str) -> Value:
    """true, false, a number as JSON has it, a text in double quotes as JSON has it; all else is that very text."""
    if text in _TRUTHS:
        return _TRUTHS[text]
    if _NUMBER.fullmatch(text):
        number: float = json.loads(text)
        return number
    if text.startswith('"'):
        try:
            quoted = json.loads(text)
        except ValueError:
            return text
        return quoted if isinstance(quoted, str) else text
    return text


def show_value(value: Value) -> str:
    """Returns the value as it is typed: a text that would be read as something else is in quotes."""
    if isinstance(value, str) and parse_value(value) == value and " " not in value and value:
        return value
    return json.dumps(value, ensure_ascii=False)


def show_pairs(description: Mapping[str, Value] | None) -> str:
    """Returns a description on one line; "-" if there is none."""
    if description is None:
        return "-"
    return " ".join(f"{key}={show_value(value)}" for key, value in description.items()) or "(no keys)"
