"""The canonical form: one for what means the same, with a text that leads back to it."""

from random import Random

import pytest
from coldnotify_matcher.engine.interests.by_query.canonical import canonical, text_of
from coldnotify_matcher.engine.interests.by_query.language import parse
from coldnotify_matcher.engine.interests.by_query.tree import And, Not, Or, Tree
from coldnotify_schemas.descriptions import Description
from coldnotify_testkit.queries import DESCRIPTIONS, NAMES, PATIENT, TREES, naive
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("b = 2 AND a = 1", "a = 1 AND b = 2"),
        ("a=1 and (b=2 and (c=3 and a=1))", "a = 1 AND b = 2 AND c = 3"),
        ("a = 1 or a = 1", "a = 1"),
        ("not (a = 1 and not b = 2)", "a != 1 OR b = 2"),
        ("not (has a or has b) or c = x", 'NOT HAS a AND NOT HAS b OR c = "x"'),
        ("(a = 1 or b = 2) and c = 3", "(a = 1 OR b = 2) AND c = 3"),
        ("not not has a", "HAS a"),
        ("not a < 5.0", "NOT a < 5"),
        ("a >= -0 and a < 1e3 and b < .5", "a < 1000 AND a >= 0 AND b < 0.5"),
        ("a = lamp", 'a = "lamp"'),
        ("a in (2, 1)", "a = 1 OR a = 2"),
        ("not a in (2, 1)", "a != 1 AND a != 2"),
        ("a = 1.0 or a = 1", "a = 1 OR a = 1.0"),
        ("a = true", "a = TRUE"),
        ("`IN` = 'say \"x\" \\\\'", '`IN` = "say \\"x\\" \\\\"'),
        ("`kind` = 1", "kind = 1"),
        ("name like 'x' and name starts with 'y' and not name = 'z' and name between 'a' and 'b'",
         'NAME BETWEEN "a" AND "b" AND NAME LIKE "x" AND NAME STARTS WITH "y" AND NOT NAME = "z"'),
    ],
)  # fmt: skip
def test_the_form_of_a_query(text: str, form: str) -> None:
    assert text_of(canonical(parse(text))) == form


def test_a_number_keeps_its_text() -> None:
    assert text_of(canonical(parse("a = 410"))) != text_of(canonical(parse("a = 410.0")))
    assert text_of(canonical(parse("a = 410"))) != text_of(canonical(parse("a = '410'")))


@PATIENT
@given(TREES, NAMES, DESCRIPTIONS)
def test_it_means_the_same(tree: Tree, name: str, description: Description) -> None:
    assert naive(canonical(tree), name, description) == naive(tree, name, description)


@PATIENT
@given(TREES)
def test_its_text_leads_back_to_it(tree: Tree) -> None:
    form = canonical(tree)
    assert canonical(parse(text_of(form), bounded=False)) == form
    assert canonical(form) == form


@PATIENT
@given(TREES, TREES)
def test_other_trees_have_other_texts(one: Tree, other: Tree) -> None:
    assert (text_of(canonical(one)) == text_of(canonical(other))) == (canonical(one) == canonical(other))


@PATIENT
@given(TREES, st.randoms())
def test_the_order_of_operands_does_not_count(tree: Tree, random: Random) -> None:
    assert canonical(_shuffled(tree, random)) == canonical(tree)


def _shuffled(tree: Tree, random: Random) -> Tree:
    if isinstance(tree, Not):
        return Not(_shuffled(tree.operand, random))
    if not isinstance(tree, And | Or):
        return tree
    operands = [_shuffled(operand, random) for operand in tree.operands]
    random.shuffle(operands)
    return type(tree)((*operands, operands[0]))
