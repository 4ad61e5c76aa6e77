"""Finds habits of English that a reader stumbles over, in the docstrings, errors and test names of a module. Pure."""

import ast
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

_CLAUSE = re.compile(r"(What|Who|Whose|Which|Whether|Where|How)\b")
_IS_NONE = re.compile(r"\bis (no|none)\b")
_ODD = re.compile(r"\b(anew|once more|be it|of which|of whom|stands? (last|there|behind))\b")
_TEST_CLAUSE = re.compile(r"test_(what|who|whose|which|whether|where|how|of)_")


class Docstring(NamedTuple):
    """A docstring with its place."""

    line: int
    text: str
    is_field: bool
    """True for one that follows an assignment."""
    is_module: bool
    """True for the docstring of a module."""


class Fault(NamedTuple):
    """A habit found in one place."""

    line: int
    words: str


Find = Callable[[ast.Module], Iterator[Fault]]


def docstrings(tree: ast.Module) -> Iterator[Docstring]:
    """Yields the docstrings of a module, its classes, functions and assignments."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for before, one in pairwise([None, *node.body]):
            if not isinstance(one, ast.Expr) or not isinstance(one.value, ast.Constant):
                continue
            is_field = isinstance(before, ast.Assign | ast.AnnAssign)
            if isinstance(one.value.value, str) and (before is None or is_field):
                yield Docstring(
                    one.lineno, one.value.value.strip(), is_field, isinstance(node, ast.Module) and not is_field
                )


def clauses(tree: ast.Module) -> Iterator[Fault]:
    """Yields docstrings that begin with What, Who, Whose, Which, Whether, Where or How."""
    return (Fault(one.line, one.text) for one in docstrings(tree) if _CLAUSE.match(one.text))


def module_clauses(tree: ast.Module) -> Iterator[Fault]:
    """Yields the docstring of the module if it begins with such a clause."""
    return (Fault(one.line, one.text) for one in docstrings(tree) if one.is_module and _CLAUSE.match(one.text))


def of_fields(tree: ast.Module) -> Iterator[Fault]:
    """Yields docstrings of assignments that begin with Of."""
    return (Fault(one.line, one.text) for one in docstrings(tree) if one.is_field and one.text.startswith("Of "))


def odd_words(tree: ast.Module) -> Iterator[Fault]:
    """Yields docstrings with "anew", "once more", "be it", "of which", "stands behind" and the like."""
    return (Fault(one.line, one.text) for one in docstrings(tree) if _ODD.search(one.text))


def is_none(tree: ast.Module) -> Iterator[Fault]:
    """Yields the strings of `raise` statements that contain "is no" or "is none"."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            for one in ast.walk(node):
                if isinstance(one, ast.Constant) and isinstance(one.value, str) and _IS_NONE.search(one.value):
                    yield Fault(one.lineno, one.value)


def clause_tests(tree: ast.Module) -> Iterator[Fault]:
    """Yields names of tests that begin with such a clause, or with `of`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _TEST_CLAUSE.match(node.name):
            yield Fault(node.lineno, node.name)
