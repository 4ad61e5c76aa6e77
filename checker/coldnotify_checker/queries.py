"""Evaluates a query naively, word for word, without the service's code.

If a text is not a query, the service refuses it, and nothing is registered; here it is only not understood. Regular
expressions are Python's, which include nearly all of RE2's.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache

Value = str | float | bool
Description = Mapping[str, Value]
Matches = Callable[[str, Description], bool]
"""Returns true if an object matches, by its name and its description."""

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<key>`[^`]*`)|(?P<sign><=|>=|!=|[<>=(),])
      |(?P<word>[A-Za-z0-9_.:+/-]+))""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_WORDS = frozenset(("AND", "OR", "NOT", "HAS", "LIKE", "IN", "NAME", "STARTS", "WITH", "BETWEEN", "TRUE", "FALSE"))


class NotUnderstood(ValueError):
    """The text is not a query, as far as this reading can tell."""


@lru_cache(maxsize=4096)
def read_query(text: str) -> Matches:
    """Returns a function that tells if an object matches. Raises NotUnderstood."""
    reader = _Reader(text)
    matches = reader.any_of()
    reader.want("end")
    return matches


class _Reader:
    """Recursive descent: each rule has a method, which returns the rule's function of an object."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        """(kind, text): a keyword is its own kind."""
        at, text = 0, text.rstrip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise NotUnderstood(f"query: at character {at + 1}: {text[at : at + 20]!r}")
            at, kind = found.end(), found.lastgroup or ""
            said = found[kind]
            if kind in ("text", "key"):
                said = re.sub(r"\\(.)", r"\1", said[1:-1]) if kind == "text" else said[1:-1]
            elif kind == "sign" or said.upper() in _WORDS:
                kind = said.upper()
            self._tokens.append((kind, said))
        self._tokens.append(("end", ""))
        self._tokens.reverse()

    def takes(self, *kinds: str) -> str | None:
        """Consumes the next token and returns its text, if it has one of these kinds."""
        return self._tokens.pop()[1] if self._tokens[-1][0] in kinds else None

    def want(self, *kinds: str) -> str:
        """The same, but raises NotUnderstood if it has another kind."""
        said = self.takes(*kinds)
        if said is None:
            raise NotUnderstood(f"query: {self._tokens[-1][1]!r} where {' or '.join(kinds)} is expected")
        return said

    def any_of(self) -> Matches:
        """OR"""
        operands = [self._all_of()]
        while self.takes("OR") is not None:
            operands.append(self._all_of())
        return lambda name, of: any(one(name, of) for one in operands)

    def _all_of(self) -> Matches:
        operands = [self._one()]
        while self.takes("AND") is not None:
            operands.append(self._one())
        return lambda name, of: all(one(name, of) for one in operands)

    def _one(self) -> Matches:
        if self.takes("NOT") is not None:
            negated = self._one()
            return lambda name, of: not negated(name, of)
        if self.takes("(") is not None:
            inner = self.any_of()
            self.want(")")
            return inner
        if self.takes("NAME") is not None:
            return self._of_name()
        if self.takes("HAS") is not None:
            key = self.want("word", "key")
            return lambda name, of: key in of
        return self._of_key(self.want("word", "key"))

    def _of_name(self) -> Matches:
        if self.takes("=") is not None:
            text = self.want("text")
            return lambda name, of: name == text
        if self.takes("LIKE") is not None:
            found = self._found()
            return lambda name, of: found(name)
        if self.takes("STARTS") is not None:
            self.want("WITH")
            start = self.want("text").encode()
            return lambda name, of: name.encode().startswith(start)
        self.want("BETWEEN")
        first = self.want("text").encode()
        self.want("AND")
        behind = self.want("text").encode()
        return lambda name, of: first <= name.encode() < behind

    def _of_key(self, key: str) -> Matches:
        kind = self.want("=", "!=", "LIKE", "IN", *_COMPARISONS).upper()
        if kind in _COMPARISONS:
            compare, number = _COMPARISONS[kind], _number_of(self.want("word"))
            if number is None:
                raise NotUnderstood(f"query: no number behind {kind}")
            return lambda name, of: _is_number(of.get(key)) and compare(of[key], number)
        if kind == "LIKE":
            found = self._found()
            return lambda name, of: isinstance(value := of.get(key), str) and found(value)
        if kind == "IN":
            self.want("(")
            among = [self._equals()]
            while self.takes(",") is not None:
                among.append(self._equals())
            self.want(")")
            return lambda name, of: any(equals(of.get(key)) for equals in among)
        equals = self._equals()
        if kind == "!=":
            return lambda name, of: not equals(of.get(key))
        return lambda name, of: equals(of.get(key))

    def _found(self) -> Callable[[str], bool]:
        text = self.want("text")
        try:
            expression = re.compile(text)
        except re.error as error:
            raise NotUnderstood(f"query: {text!r}: {error}") from None
        return lambda value: expression.search(value) is not None

    def _equals(self) -> Callable[[Value | None], bool]:
        for kind, truth in (("TRUE", True), ("FALSE", False)):
            if self.takes(kind) is not None:
                return lambda value, truth=truth: value is truth  # type: ignore[misc]
        text = self.takes("text")
        if text is not None:
            return lambda value: isinstance(value, str) and value == text
        word = self.want("word")
        number = _number_of(word)
        return lambda value: value == number if _is_number(value) else isinstance(value, str) and value == word


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number_of(word: str) -> float | None:
    number = float(word) if _NUMBER.fullmatch(word) else math.inf
    return number if math.isfinite(number) else None
