"""Queries: a canonical form, and its truth for an object."""

from collections.abc import Callable
from functools import lru_cache

from coldnotify_schemas.descriptions import Description, Value

from coldnotify_matcher.engine.interests.by_query.canonical import canonical, text_of
from coldnotify_matcher.engine.interests.by_query.expressions import check_expression, found_in
from coldnotify_matcher.engine.interests.by_query.language import number_of, parse
from coldnotify_matcher.engine.interests.by_query.tree import (
    And,
    Compare,
    Condition,
    Constant,
    Equal,
    Has,
    Like,
    Literal,
    NameBetween,
    NameEqual,
    NameLike,
    NameStartsWith,
    Not,
    Or,
    Text,
    Tree,
    Word,
)

Predicate = Callable[[str, Description], bool]
"""Takes an object's name and description; the description is empty if it has none."""


NODE_US = 0.5
STEP_US_MAX = 3.5
"""One step of a regular expression over a text of 256 bytes, where RE2 has to follow all of them: 7 to 14 ns a byte.
Usual expressions take a hundredth."""


SHORT_CHARS_MAX = 256
"""Bound of queries that are remembered by the thousand: they have at most 50 KB each. Longer ones have up to 200 KB."""


class CanonicalQuery:
    """One canonical form. Two that mean the same in other words have the same `text`."""

    __slots__ = ("matches", "nodes", "steps", "text", "tree")

    def __init__(self, tree: Tree) -> None:
        self.tree = canonical(tree)
        self.text = text_of(self.tree)
        self.nodes, self.steps = _size_of(self.tree)
        """Number of conditions, NOTs and chains; total steps of its regular expressions, as RE2 counts."""
        self.matches: Predicate = predicate_of(self.tree)
        """Returns true if an object of this name and description fits. The result is always the same."""

    def __repr__(self) -> str:
        return f"Query({self.text})"

    @property
    def evaluation_us_max(self) -> float:
        """Approximate maximum of one evaluation in us, for an object with the longest allowed texts."""
        return NODE_US * self.nodes + STEP_US_MAX * self.steps


def query_of(text: str) -> CanonicalQuery:
    """Returns the query of a client's text. Raises InvalidQuery. Thousands of clients may have one query."""
    return _short(text) if len(text) <= SHORT_CHARS_MAX else _long(text)


@lru_cache(maxsize=1024)
def _short(text: str) -> CanonicalQuery:
    return CanonicalQuery(parse(text))


@lru_cache(maxsize=64)
def _long(text: str) -> CanonicalQuery:
    return CanonicalQuery(parse(text))


def predicate_of(tree: Tree) -> Predicate:
    """Returns the tree as functions: they take a third of the time of a walk over it, and each change calls some."""
    match tree:
        case And(operands):
            all_of = [predicate_of(operand) for operand in operands]

            def conjunction(name: str, description: Description) -> bool:
                for predicate in all_of:  # noqa: SIM110 -- all() over a generator takes twice as long
                    if not predicate(name, description):
                        return False
                return True

            return conjunction
        case Or(operands):
            one_of = [predicate_of(operand) for operand in operands]

            def disjunction(name: str, description: Description) -> bool:
                for predicate in one_of:  # noqa: SIM110
                    if predicate(name, description):
                        return True
                return False

            return disjunction
        case Not(operand):
            negated = predicate_of(operand)
            return lambda name, description: not negated(name, description)
        case _:
            return _condition(tree)


def _condition(condition: Condition) -> Predicate:
    match condition:
        case Has(key):
            return lambda _, description: key in description
        case Equal(key, literal):
            is_literal = _is_literal(literal)
            return lambda _, description: is_literal(description.get(key))
        case Compare(key, operator, number):
            lies = _COMPARISONS[operator]
            return lambda _, description: type(value := description.get(key)) is float and lies(value, number)
        case Like(key, pattern):
            return lambda _, description: type(value := description.get(key)) is str and found_in(pattern, value)
        case NameEqual(only):
            return lambda name, _: name == only
        case NameLike(pattern):
            return lambda name, _: found_in(pattern, name)
        case NameStartsWith(prefix):
            return lambda name, _: name.startswith(prefix)
        case NameBetween(first, behind):
            # Code points have the order of their bytes in UTF-8.
            return lambda name, _: first <= name < behind


def _size_of(tree: Tree) -> tuple[int, int]:
    """Returns (nodes, steps)."""
    if isinstance(tree, Not):
        nodes, steps = _size_of(tree.operand)
        return nodes + 1, steps
    if isinstance(tree, And | Or):
        sizes = [_size_of(operand) for operand in tree.operands]
        return 1 + sum(nodes for nodes, _ in sizes), sum(steps for _, steps in sizes)
    return 1, check_expression(tree.pattern) if isinstance(tree, Like | NameLike) else 0


_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": float.__lt__,
    "<=": float.__le__,
    ">": float.__gt__,
    ">=": float.__ge__,
}


def _is_literal(literal: Literal) -> Callable[[Value | None], bool]:
    match literal:
        case Constant(truth):
            return lambda value: value is truth
        case Text(text):
            return lambda value: value == text
        case Word(word):
            number = number_of(word)
            # For Python true is 1, and no text is a number.
            return lambda value: value == word or (value == number and type(value) is float)
