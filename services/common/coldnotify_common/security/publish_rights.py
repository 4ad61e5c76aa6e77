"""PublishRight decides to which names of a group an identity may publish, and as which client. Pure.

The grant `own` is for names below a template, such as `units/{client}/`. A client owns the names below its own
beginning, here those below `units/unit-7/` for unit-7, and no two clients own the same name.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from coldnotify_schemas.protocol import NAME_LENGTH_MAX, OBJECT_BYTES_MAX

NAME_CHARS = "A-Za-z0-9_.-"
PLACE = "{client}"
_SHOWN_MAX = 4
"""Beginnings that an error lists."""
_NAME_CHARS_SHOWN = 80


class InvalidTemplate(ValueError):
    """The template would not give each client names of its own."""


class NotGranted(ValueError):
    """The right does not cover this publish; the message names the field, and says what it covers."""


class Owned(NamedTuple):
    """One grant of `own` in a group."""

    client: str
    """Pattern of the clients as which the identity may publish."""
    template: str


class PublishRight(NamedTuple):
    """The right of an identity to publish in one group."""

    every: bool
    """It covers all names, as any client or none."""
    owned: tuple[Owned, ...] = ()

    @property
    def nothing(self) -> bool:
        """True if it covers no name."""
        return not self.every and not self.owned

    def publisher(self, field: str, name: str, said: str | None) -> str | None:
        """Returns the client as which a publish to this name is written: `said`, or else the owner of the name.

        Every way to publish, send or describe asks this. Raises NotGranted. `field`: names the name in its message.
        """
        if self.every:
            return said
        for client, template in self.owned:
            owner = _owner(template, name)
            if owner is not None and fits(client, owner) and said in (None, owner):
                return owner
        raise NotGranted(self._words(field, name, said))

    def _words(self, field: str, name: str, said: str | None) -> str:
        owned = [one for one in self.owned if said is None or fits(one.client, said)]
        if said is not None and not owned:
            clients = _listed(one.client for one in self.owned)
            return f"source: {said!r} may not publish here{clients and f': it has to be {clients}'}"
        if not owned:
            return f"{field}: there is no right to publish here"
        beginnings = _listed(one.template.replace(PLACE, said or one.client) for one in owned)
        return f"{field}: {name[:_NAME_CHARS_SHOWN]!r} is not below {beginnings}, where alone this client may publish"


EVERY_NAME = PublishRight(every=True)
NO_NAME = PublishRight(every=False)


def fits(pattern: str, name: str) -> bool:
    """Returns true if the pattern, a name, `*`, or the beginning of a name and `*`, fits the name."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def check_template(template: str) -> str:
    """Returns the template, if each client owns names below it that no other owns. Raises InvalidTemplate."""
    if not template.endswith("/"):
        raise InvalidTemplate(f"{template!r} does not end in /")
    if PLACE not in template:
        raise InvalidTemplate(f"{template!r} has no {PLACE}: clients would share the names below it")
    rest = template.replace(PLACE, "")
    if "{" in rest or "}" in rest:
        raise InvalidTemplate(f"{template!r} has another place than {PLACE}")
    if not rest.isprintable():
        raise InvalidTemplate(f"{template!r} has a character that cannot be printed")
    length = len(rest.encode()) + template.count(PLACE) * NAME_LENGTH_MAX
    if length >= OBJECT_BYTES_MAX:
        raise InvalidTemplate(f"{template!r} takes up to {length} bytes, a name has at most {OBJECT_BYTES_MAX}")
    return template


def check_apart(templates: Iterable[str]) -> None:
    """Checks that by these templates no name can have two owners. Raises InvalidTemplate."""
    different = sorted(set(templates))
    for place, one in enumerate(different):
        for other in different[:place]:
            if _may_meet(one, other):
                raise InvalidTemplate(f"{other!r} and {one!r}: two clients could own the same name")


def _may_meet(one: str, other: str) -> bool:
    for ours, theirs in zip(one.split("/")[:-1], other.split("/")[:-1], strict=False):
        if ours == theirs and PLACE in ours:
            return False  # the same level of a name has the same client
        if ours != theirs and PLACE not in ours + theirs:
            return False
    return True


@lru_cache(maxsize=64)
def _owner(template: str, name: str) -> str | None:
    """Returns the client that owns the name by this template."""
    found = _expression(template).match(name)
    return None if found is None else found["client"]


@lru_cache(maxsize=64)
def _expression(template: str) -> re.Pattern[str]:
    before, *between = map(re.escape, template.split(PLACE))
    client = f"(?P<client>[{NAME_CHARS}]{{1,{NAME_LENGTH_MAX}}})"
    # A client's name has no slash, and the template ends in one: so a name can be read in one way only.
    return re.compile(before + client + "(?P=client)".join(between) + ".", re.DOTALL)


def _listed(texts: Iterable[str]) -> str:
    different = list(dict.fromkeys(texts))
    return " or ".join(different[:_SHOWN_MAX]) + (" ..." if len(different) > _SHOWN_MAX else "")
