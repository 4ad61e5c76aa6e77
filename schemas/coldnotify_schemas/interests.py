"""Interests: what a client registers for, as a value. There is one kind so far, an object by its name."""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from coldnotify_schemas.digest import MODULUS, object_digest
from coldnotify_schemas.names import check_object


class Kind(Enum):
    """What an interest's text is."""

    NAME = "name"
    """An object's name: the newest version of that object."""


class Interest(NamedTuple):
    """One registration of a client. Two are the same if kind and text are."""

    kind: Kind
    text: str
    """As it was registered."""

    @property
    def hash(self) -> int:
        """What it adds to the digest of a set of interests."""
        return _HASHES[self.kind](self.text)


_HASHES = {Kind.NAME: object_digest}


def by_name(text: str) -> Interest:
    """The interest in the object of this name. Raises InvalidName."""
    return Interest(Kind.NAME, check_object(text))


def digest_of(interests: Iterable[Interest]) -> int:
    """The digest of a set of interests. Of names alone it is `digest.digest` of the names."""
    return sum(interest.hash for interest in interests) % MODULUS
