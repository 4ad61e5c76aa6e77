r"""The language of queries: from a text to its tree, or to an error that says where, and what was expected.

query   = or            or  = and { OR and }         and = not { AND not }        not = NOT not | primary
primary = "(" or ")" | HAS key | key ("=" | "!=") literal | key ("<" | "<=" | ">" | ">=") number | key LIKE text
        | key IN "(" literal { "," literal } ")" | NAME ("=" | LIKE | STARTS WITH) text | NAME BETWEEN text AND text
literal = text | word | TRUE | FALSE        text = "..." or '...' with \" \' \\        key = word | `word`
word    = [A-Za-z0-9_.:+-]+, of a key [A-Za-z_][A-Za-z0-9_/.-]*

A function of the parser stands for each rule, and is named after it.
"""

import math
import re
from typing import NamedTuple, NoReturn, get_args

from coldnotify_schemas.descriptions import is_description_name
from coldnotify_schemas.protocol import QUERY_BYTES_MAX

from coldnotify_matcher.engine.interests.by_query.expressions import InvalidExpression, check_expression
from coldnotify_matcher.engine.interests.by_query.tree import (
    And,
    Compare,
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
    Operator,
    Or,
    Text,
    Tree,
    Word,
)

NODES_MAX = 256
"""Maximum of conditions, literals of an IN, NOTs, and chains of AND or of OR."""
DEPTH_MAX = 32
"""Maximum of parentheses and NOTs within each other."""
STEPS_MAX = 2000
"""Maximum of a query's regular expressions together, as RE2 counts: some two for a letter, 1,200 for any letter there
is (`\\pL`). A query that has so many can take 7 ms for one object."""
KEYWORDS = frozenset(
    ("AND", "OR", "NOT", "HAS", "LIKE", "IN", "NAME", "STARTS", "WITH", "BETWEEN", "TRUE", "FALSE")
)  # fmt: skip
"""In any case. A key equal to one of them is written in backquotes, a text in quotes."""

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
      | (?P<word>[A-Za-z0-9_.:+/-]+)
      | (?P<symbol>[<>!]=|[=<>(),])
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<key>`[^`]*`)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_BARE_WORD = re.compile(r"[A-Za-z0-9_.:+-]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_COMPARISONS: frozenset[str] = frozenset(get_args(Operator))
_SHOWN_CHARS_MAX = 40
_A_CONDITION = "a condition: a key, HAS, NAME, NOT or '('"
_AN_OPERATOR = "=, !=, <, <=, >, >=, LIKE or IN"
_A_LITERAL = "a text in quotes, a word, a number, TRUE or FALSE"
_A_TEXT = "a text in quotes"


class InvalidQuery(ValueError):
    """A text that is not a valid query. The message has line and column, both from 1, and the expected input there."""

    def __init__(self, line: int, column: int, reason: str) -> None:
        super().__init__(f"line {line}, column {column}: {reason}")
        self.line = line
        self.column = column
        """In characters."""
        self.reason = reason


def parse(text: str, *, bounded: bool = True) -> Tree:
    """Returns the tree of a query's text. Raises InvalidQuery.

    `bounded=False`: for a text that was made from a tree, and may have some more nodes than a client's query.
    """
    return _Parser(text, bounded).query()


def number_of(word: str) -> float | None:
    """Returns the finite number that a word represents; None: it is not a number."""
    number = float(word) if _NUMBER.fullmatch(word) else math.inf
    return (number or 0.0) if math.isfinite(number) else None


class _Token(NamedTuple):
    kind: str
    """word, keyword (then the text is in capitals), symbol, text, key, or end."""
    text: str
    at: int


class _Parser:
    def __init__(self, text: str, bounded: bool) -> None:
        self._text = text
        self._bounded = bounded
        self._nodes = 0
        self._depth = 0
        self._steps = 0
        self._check_bytes()
        self._tokens = self._read()
        self._token = self._tokens[0]
        self._next = 1

    # --- the grammar's rules

    def query(self) -> Tree:
        tree = self._or()
        if self._token.kind != "end":
            self._expected("AND, OR or the end of the query")
        return tree

    def _or(self) -> Tree:
        return self._chain("OR")

    def _and(self) -> Tree:
        return self._chain("AND")

    def _chain(self, keyword: str) -> Tree:
        joined, within = (Or, self._and) if keyword == "OR" else (And, self._not)
        operands = [within()]
        at = self._token.at
        while self._takes("keyword", keyword):
            operands.append(within())
        if len(operands) == 1:
            return operands[0]
        self._count(at)
        return joined(tuple(operands))

    def _not(self) -> Tree:
        at = self._token.at
        if not self._takes("keyword", "NOT"):
            return self._primary()
        self._count(at)
        self._deeper(at)
        operand = self._not()
        self._depth -= 1
        return Not(operand)

    def _primary(self) -> Tree:
        token = self._token
        if self._takes("symbol", "("):
            self._deeper(token.at)
            tree = self._or()
            if not self._takes("symbol", ")"):
                self._expected("AND, OR or ')'")
            self._depth -= 1
            return tree
        self._count(token.at)
        if self._takes("keyword", "HAS"):
            return Has(self._key("a key behind HAS"))
        if self._takes("keyword", "NAME"):
            return self._name()
        return self._on_key(self._key(_A_CONDITION))

    def _on_key(self, key: str) -> Tree:
        token = self._token
        if token.kind == "symbol" and token.text in ("=", "!="):
            self._advance()
            equal = Equal(key, self._literal())
            return equal if token.text == "=" else Not(equal)
        if token.kind == "symbol" and token.text in _COMPARISONS:
            self._advance()
            operator: Operator = token.text  # type: ignore[assignment]  # it is one of them
            return Compare(key, operator, self._number(token.text))
        if self._takes("keyword", "LIKE"):
            return Like(key, self._pattern())
        if self._takes("keyword", "IN"):
            return self._in(key)
        return self._expected(f"{_AN_OPERATOR} behind the key {key!r}")

    def _in(self, key: str) -> Tree:
        if not self._takes("symbol", "("):
            self._expected("'(' behind IN")
        equals: list[Tree] = []
        while True:
            self._count(self._token.at)
            equals.append(Equal(key, self._literal()))
            if self._takes("symbol", ")"):
                return equals[0] if len(equals) == 1 else Or(tuple(equals))
            if not self._takes("symbol", ","):
                self._expected("',' or ')'")

    def _name(self) -> Tree:
        if self._takes("symbol", "="):
            return NameEqual(self._quoted())
        if self._takes("keyword", "LIKE"):
            return NameLike(self._pattern())
        if self._takes("keyword", "STARTS"):
            if not self._takes("keyword", "WITH"):
                self._expected("WITH behind STARTS")
            return NameStartsWith(self._quoted())
        if self._takes("keyword", "BETWEEN"):
            first = self._quoted()
            if not self._takes("keyword", "AND"):
                self._expected("AND, and the text before which names end")
            return NameBetween(first, self._quoted())
        return self._expected("=, LIKE, STARTS WITH or BETWEEN behind NAME (a key of this name stands in backquotes)")

    def _key(self, expected: str) -> str:
        token = self._token
        if token.kind not in ("word", "key"):
            self._expected(expected)
        if not is_description_name(token.text):
            what = "1 to 128 of A-Z a-z 0-9 _ / . -, the first a letter or _"
            self._wrong(token.at, f"expected a key ({what}), found {_shown(token.text)}")
        self._advance()
        return token.text

    def _literal(self) -> Literal:
        token = self._token
        if token.kind == "text":
            return Text(self._quoted())
        if token.kind == "keyword" and token.text in ("TRUE", "FALSE"):
            self._advance()
            return Constant(token.text == "TRUE")
        if token.kind != "word":
            self._expected(_A_LITERAL)
        if not _BARE_WORD.fullmatch(token.text):
            self._wrong(
                token.at, f"expected {_A_LITERAL}, found {_shown(token.text)}: a text with '/' stands in quotes"
            )
        self._advance()
        return Word(token.text)

    def _number(self, operator: str) -> float:
        token = self._token
        number = number_of(token.text) if token.kind == "word" else None
        if number is None:
            self._expected(f"a number behind {operator}")
        self._advance()
        return number

    def _pattern(self) -> str:
        at = self._token.at
        pattern = self._quoted()
        try:
            self._steps += check_expression(pattern)
        except InvalidExpression as error:
            self._wrong(at, f"expected a regular expression as RE2 has it, found {_shown(pattern)}: {error}")
        if self._bounded and self._steps > STEPS_MAX:
            self._wrong(at, f"expected regular expressions of at most {STEPS_MAX} steps together, found more")
        return pattern

    def _quoted(self) -> str:
        token = self._token
        if token.kind != "text":
            self._expected(_A_TEXT)
        self._advance()
        return token.text

    # --- tokens

    def _takes(self, kind: str, text: str) -> bool:
        """Returns true if the token is this one, and then goes on to the next."""
        if self._token.kind != kind or self._token.text != text:
            return False
        self._advance()
        return True

    def _advance(self) -> None:
        self._token = self._tokens[self._next]
        self._next += 1

    def _read(self) -> list[_Token]:
        tokens, at = [], 0
        while at < len(self._text):
            match = _TOKEN.match(self._text, at)
            if match is None:
                self._no_token(at)
            kind, text = match.lastgroup or "", match.group()
            if kind == "text":
                tokens.append(_Token(kind, self._unescaped(text, at), at))
            elif kind == "key":
                tokens.append(_Token(kind, text[1:-1], at))
            elif kind == "word" and text.upper() in KEYWORDS:
                tokens.append(_Token("keyword", text.upper(), at))
            elif kind != "space":
                tokens.append(_Token(kind, text, at))
            at = match.end()
        tokens.append(_Token("end", "", at))
        return tokens

    def _unescaped(self, quoted: str, at: int) -> str:
        for escape in _ESCAPE.finditer(quoted):
            if escape[1] not in "\"'\\":
                words = f"""expected \\", \\' or \\\\ in a text, found {_shown(escape[0])}: a \\ is written \\\\"""
                self._wrong(at + escape.start(), words)
        return _ESCAPE.sub(r"\1", quoted[1:-1])

    def _no_token(self, at: int) -> NoReturn:
        character = self._text[at]
        if character in "\"'`":
            self._wrong(at, f"expected {character} at the end of what begins here, found the end of the query")
        self._wrong(at, f"expected a key, a literal, an operator or a parenthesis, found {_shown(character)}")

    # --- limits and errors

    def _check_bytes(self) -> None:
        try:
            size = len(self._text.encode())
        except UnicodeEncodeError as error:
            self._wrong(error.start, "expected text, found what is not valid UTF-8")
        if self._bounded and size > QUERY_BYTES_MAX:
            fits = len(self._text.encode()[:QUERY_BYTES_MAX].decode(errors="ignore"))
            self._wrong(fits, f"expected the end: the query has {size} bytes (at most {QUERY_BYTES_MAX} are allowed)")

    def _count(self, at: int) -> None:
        self._nodes += 1
        if self._bounded and self._nodes > NODES_MAX:
            words = (
                f"expected at most {NODES_MAX} conditions, literals of an IN, NOTs and chains of AND or OR, found more"
            )
            self._wrong(at, words)

    def _deeper(self, at: int) -> None:
        self._depth += 1
        if self._bounded and self._depth > DEPTH_MAX:
            self._wrong(at, f"expected at most {DEPTH_MAX} parentheses and NOTs within each other, found more")

    def _expected(self, what: str) -> NoReturn:
        token = self._token
        if token.kind == "end":
            found = "the end of the query"
        elif token.kind == "keyword":
            found = f"the keyword {token.text}"
            if what is _A_CONDITION or what == "a key behind HAS":
                found += " (a key of this name stands in backquotes)"
            elif what is _A_LITERAL:
                found += " (a text of this kind stands in quotes)"
        else:
            end = self._tokens[self._next].at if self._next < len(self._tokens) else len(self._text)
            found = _shown(self._text[token.at : end].rstrip())
        self._wrong(token.at, f"expected {what}, found {found}")

    def _wrong(self, at: int, reason: str) -> NoReturn:
        before = self._text[:at]
        raise InvalidQuery(before.count("\n") + 1, at - before.rfind("\n"), reason)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARS_MAX else f"{text[:_SHOWN_CHARS_MAX]}...")
