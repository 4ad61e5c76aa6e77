"""For tests: queries and descriptions at random over few keys and values, and what the checker reads in a query."""

from coldnotify_checker.queries import read_query
from coldnotify_matcher.engine.interests.by_query.language import KEYWORDS
from coldnotify_matcher.engine.interests.by_query.tree import (
    And,
    Compare,
    Constant,
    Equal,
    Has,
    Like,
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
from coldnotify_schemas.descriptions import Description
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For a machine that others use, too."""

KEYS = st.sampled_from(["a", "b", "Location/Room", "in", "TRUE"])
TEXTS = st.sampled_from(["", "x", "y", "xy", "1", "1.0", "01", "true", 'say "x"', "\\", "it's", "é\n", "xa"])
WORDS = st.sampled_from(["x", "xy", "1", "1.0", "01", "-1", "2e0", "+0", ".5", "1.", "1e999", "e1", "x:y", "-", "2"])
NUMBERS = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 1e300, 0.1])
PATTERNS = st.sampled_from(["x", "^x", "y$", "", "x|1", "[0-9]+", "\\\\", "\\.", "é"])
NAMES = st.sampled_from(["x", "xa", "xab", "xb", "y", "ya", "é", "z", "xa/b"])
PREFIXES = st.sampled_from(["", "x", "xa", "xab", "y", "é"])

CONDITIONS = st.one_of(
    st.builds(Has, KEYS),
    st.builds(Equal, KEYS, st.builds(Text, TEXTS) | st.builds(Word, WORDS) | st.builds(Constant, st.booleans())),
    st.builds(Compare, KEYS, st.sampled_from(["<", "<=", ">", ">="]), NUMBERS),
    st.builds(Like, KEYS, PATTERNS),
    st.builds(NameEqual, NAMES),
    st.builds(NameLike, PATTERNS),
    st.builds(NameStartsWith, PREFIXES),
    st.builds(NameBetween, NAMES, NAMES),
)
TREES: st.SearchStrategy[Tree] = st.recursive(
    CONDITIONS,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, min_size=2, max_size=4).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=4).map(tuple)),
    ),
    max_leaves=8,
)
DESCRIPTIONS: st.SearchStrategy[Description] = st.dictionaries(KEYS, TEXTS | NUMBERS | st.booleans(), max_size=4)


def naive(tree: Tree, name: str, description: Description) -> bool:
    """Returns true if the query matches the object, according to the checker's own reading of its text."""
    return read_query(spelled(tree))(name, description)


def spelled(tree: Tree) -> str:
    """A text whose tree this is, with all parentheses there can be."""
    if isinstance(tree, And | Or):
        return "(" + (" AND " if isinstance(tree, And) else " or ").join(map(spelled, tree.operands)) + ")"
    if isinstance(tree, Not):
        return f"not {spelled(tree.operand)}"
    if isinstance(tree, NameEqual):
        return f"name = {_quoted(tree.name)}"
    if isinstance(tree, NameLike):
        return f"NAME like {_quoted(tree.pattern)}"
    if isinstance(tree, NameStartsWith):
        return f"NAME starts  with{_quoted(tree.prefix)}"
    if isinstance(tree, NameBetween):
        return f"NAME BETWEEN {_quoted(tree.first)} and {_quoted(tree.behind)}"
    key = f"`{tree.key}`" if tree.key.upper() in KEYWORDS else tree.key
    if isinstance(tree, Has):
        return f"has {key}"
    if isinstance(tree, Compare):
        return f"{key}{tree.operator}{tree.number!r}"
    if isinstance(tree, Like):
        return f"{key} LIKE {_quoted(tree.pattern)}"
    literal = tree.literal
    if isinstance(literal, Constant):
        return f"{key} = {str(literal.truth).lower()}"
    return f"{key}={literal.text if isinstance(literal, Word) else _quoted(literal.text)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
