"""The canonical form of a query's tree: queries with the same meaning in other words have the same form, and the same
text.

NOTs apply to single conditions (De Morgan). ANDs within ANDs are one chain, and ORs within ORs. A chain's operands are
in the order of their texts, each once. Literals are written one way. Contradictions are not searched for.
"""

from coldnotify_matcher.engine.interests.by_query.language import KEYWORDS, number_of
from coldnotify_matcher.engine.interests.by_query.tree import (
    And,
    Compare,
    Condition,
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

_WHOLE_MAX = 1 << 53


def canonical(tree: Tree) -> Tree:
    """Returns its canonical form, which has the same meaning; the canonical form of that is the same again."""
    return _form(tree, negated=False)


def text_of(tree: Tree) -> str:
    """Returns the text of a canonical tree. No other tree has it, and its tree's canonical form is this one."""
    match tree:
        case And(operands):
            return " AND ".join(f"({text_of(part)})" if isinstance(part, Or) else text_of(part) for part in operands)
        case Or(operands):
            return " OR ".join(map(text_of, operands))
        case Not(Equal(key, literal)):
            return f"{_key(key)} != {_literal(literal)}"
        case Not(operand):
            return f"NOT {text_of(operand)}"
        case _:
            return _condition(tree)


def _form(tree: Tree, *, negated: bool) -> Tree:
    if isinstance(tree, Not):
        return _form(tree.operand, negated=not negated)
    if not isinstance(tree, And | Or):
        condition = _normalised(tree)
        return Not(condition) if negated else condition
    joined = And if isinstance(tree, And) is not negated else Or
    parts: dict[str, Tree] = {}
    for operand in tree.operands:
        form = _form(operand, negated=negated)
        for part in form.operands if isinstance(form, joined) else (form,):
            parts[text_of(part)] = part
    if len(parts) == 1:
        return next(iter(parts.values()))
    return joined(tuple(parts[text] for text in sorted(parts)))


def _normalised(condition: Condition) -> Condition:
    if isinstance(condition, Equal) and isinstance(condition.literal, Word):
        # A number keeps its text: `1.0` equals the text "1.0", and not "1".
        word = condition.literal.text
        return condition if number_of(word) is not None else Equal(condition.key, Text(word))
    return condition


def _condition(condition: Condition) -> str:
    match condition:
        case Has(key):
            return f"HAS {_key(key)}"
        case Equal(key, literal):
            return f"{_key(key)} = {_literal(literal)}"
        case Compare(key, operator, number):
            return f"{_key(key)} {operator} {_number(number)}"
        case Like(key, pattern):
            return f"{_key(key)} LIKE {_quoted(pattern)}"
        case NameEqual(name):
            return f"NAME = {_quoted(name)}"
        case NameLike(pattern):
            return f"NAME LIKE {_quoted(pattern)}"
        case NameStartsWith(prefix):
            return f"NAME STARTS WITH {_quoted(prefix)}"
        case NameBetween(first, behind):
            return f"NAME BETWEEN {_quoted(first)} AND {_quoted(behind)}"


def _key(key: str) -> str:
    return f"`{key}`" if key.upper() in KEYWORDS else key


def _literal(literal: Literal) -> str:
    if isinstance(literal, Text):
        return _quoted(literal.text)
    if isinstance(literal, Word):
        return literal.text
    return "TRUE" if literal.truth else "FALSE"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _number(number: float) -> str:
    return str(int(number)) if number.is_integer() and abs(number) < _WHOLE_MAX else repr(number)
