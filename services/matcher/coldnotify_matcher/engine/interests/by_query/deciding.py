"""Why an object is a member of a query's set, or is none: the conditions of the query that decide it, in words."""

from coldnotify_schemas.descriptions import Description, encode_description

from coldnotify_matcher.engine.interests.by_query.canonical import text_of
from coldnotify_matcher.engine.interests.by_query.query import Query, predicate_of
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
"""Conditions that one answer names."""


def deciding(query: Query, name: str, description: Description) -> str:
    """In words: which conditions are true or false, so that the whole is what it is."""
    truth = query.matches(name, description)
    conditions = list(dict.fromkeys(_deciding(query.tree, name, description, truth)))
    shown = [_words(condition, name, description) for condition in conditions[:SHOWN_MAX]]
    if len(conditions) > SHOWN_MAX:
        shown.append(f"and {len(conditions) - SHOWN_MAX} more")
    return "; ".join(shown)


def _deciding(tree: Tree, name: str, description: Description, truth: bool) -> list[Tree]:
    """The conditions of the tree that make it what it is. One operand is enough where one decides."""
    if isinstance(tree, Not):
        return _deciding(tree.operand, name, description, not truth)
    if isinstance(tree, And | Or):
        deciders = [one for one in tree.operands if _is_true(one, name, description) is truth]
        if isinstance(tree, And) is truth:
            return [found for one in deciders for found in _deciding(one, name, description, truth)]
        return _deciding(deciders[0], name, description, truth)
    return [tree]


def _is_true(tree: Tree, name: str, description: Description) -> bool:
    return predicate_of(tree)(name, description)


def _words(condition: Tree, name: str, description: Description) -> str:
    words = f"{text_of(condition)} is {'true' if _is_true(condition, name, description) else 'false'}"
    if isinstance(condition, NameBetween | NameEqual | NameLike | NameStartsWith):
        return words
    assert isinstance(condition, Compare | Equal | Has | Like)
    value = description.get(condition.key)
    if value is None:
        return f"{words}, there is no {condition.key}"
    return f"{words}, it is {encode_description({'': value}).decode()[4:-1]}"
