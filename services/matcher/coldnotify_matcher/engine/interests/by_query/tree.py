"""The tree of a query: conditions, and their connectives. Values without behaviour."""

from dataclasses import dataclass
from typing import Literal as OneOf


@dataclass(frozen=True, slots=True)
class Text:
    """A literal in quotes: equals this text alone."""

    text: str


@dataclass(frozen=True, slots=True)
class Word:
    """A literal without quotes: equals this text, and, if it is a number, this number, too."""

    text: str


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE or FALSE: equals only true or false."""

    truth: bool


Literal = Text | Word | Constant
Operator = OneOf["<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Has:
    """The description has the key."""

    key: str


@dataclass(frozen=True, slots=True)
class Equal:
    """The key's value is this literal."""

    key: str
    literal: Literal


@dataclass(frozen=True, slots=True)
class Compare:
    """The key's value is a number, and the comparison is true for it."""

    key: str
    operator: Operator
    number: float


@dataclass(frozen=True, slots=True)
class Like:
    """The key's value is a text in which the regular expression is found."""

    key: str
    pattern: str


@dataclass(frozen=True, slots=True)
class NameEqual:
    """The object has this name."""

    name: str


@dataclass(frozen=True, slots=True)
class NameLike:
    """The regular expression is found in the object's name."""

    pattern: str


@dataclass(frozen=True, slots=True)
class NameStartsWith:
    """The object's name begins with this."""

    prefix: str


@dataclass(frozen=True, slots=True)
class NameBetween:
    """The object's name is `first` or after it, and before `behind`, in the order of UTF-8 bytes."""

    first: str
    behind: str


Condition = Has | Equal | Compare | Like | NameEqual | NameLike | NameStartsWith | NameBetween


@dataclass(frozen=True, slots=True)
class Not:
    """The operand is false."""

    operand: "Tree"


@dataclass(frozen=True, slots=True)
class And:
    """All operands are true. At least two."""

    operands: tuple["Tree", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One operand is true, or several. At least two."""

    operands: tuple["Tree", ...]


Tree = Condition | Not | And | Or
