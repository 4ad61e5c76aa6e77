"""Explains why an object is a member of a query's set, or not: the conditions of the query that decide it, in words."""

from coldnotify_schemas.descriptions import Description, encode_description

from coldnotify_matcher.engine.interests.by_query.canonical import text_of
from coldnotify_matcher.engine.interests.by_query.query import CanonicalQuery, predicate_of
from coldnotify_matcher.engine.interests.by_query.tree import (
    And,
    Compare,
    Equal,
    Has,
    Like,
    NameBetween,
    NameEqual,
    NameLike,
    NameStartsWith,
    Not,
    Or,
    Tree,
)

SHOWN_MAX = 8
"""Number of conditions that one answer names."""


def deciding(query: CanonicalQuery, name: str, description: Description) -> tuple[bool, str]:
    """Returns whether it fits, and the true or false conditions that decide it, in words. Each is evaluated once."""
    truths: dict[int, bool] = {}
    truth = _evaluate(query.tree, name, description, truths)
    conditions = list(dict.fromkeys(_deciding(query.tree, truths)))
    shown = [_words(condition, truths[id(condition)], description) for condition in conditions[:SHOWN_MAX]]
    if len(conditions) > SHOWN_MAX:
        shown.append(f"and {len(conditions) - SHOWN_MAX} more")
    return truth, "; ".join(shown)


def _evaluate(tree: Tree, name: str, description: Description, truths: dict[int, bool]) -> bool:
    """Evaluate the tree, and note the truth of each part by its id."""
    if isinstance(tree, Not):
        truth = not _evaluate(tree.operand, name, description, truths)
    elif isinstance(tree, And | Or):
        of_operands = [_evaluate(operand, name, description, truths) for operand in tree.operands]
        truth = all(of_operands) if isinstance(tree, And) else any(of_operands)
    else:
        truth = predicate_of(tree)(name, description)
    truths[id(tree)] = truth
    return truth


def _deciding(tree: Tree, truths: dict[int, bool]) -> list[Tree]:
    """Returns the conditions that decide the tree's truth. One operand is enough if it decides alone."""
    truth = truths[id(tree)]
    if isinstance(tree, Not):
        return _deciding(tree.operand, truths)
    if isinstance(tree, And | Or):
        deciders = [one for one in tree.operands if truths[id(one)] is truth]
        if isinstance(tree, And) is truth:
            return [found for one in deciders for found in _deciding(one, truths)]
        return _deciding(deciders[0], truths)
    return [tree]


def _words(condition: Tree, truth: bool, description: Description) -> str:
    words = f"{text_of(condition)} is {'true' if truth else 'false'}"
    if isinstance(condition, NameBetween | NameEqual | NameLike | NameStartsWith):
        return words
    assert isinstance(condition, Compare | Equal | Has | Like)
    value = description.get(condition.key)
    if value is None:
        return f"{words}, there is no {condition.key}"
    return f"{words}, it is {encode_description({'': value}).decode()[4:-1]}"
