"""Who somebody may be: rules that read domain, group and client from a certificate's names or a token's claims. Pure.

A rule is SOURCE:TEMPLATE; several are separated by spaces. The source is where a text comes from: `cn`, `san-dns` or
`san-uri` of a certificate, or a claim's name. The template says what the text looks like, with the places {domain},
{group}, {client}, {publish} (a domain that may be published to) and {service} (one of the services, for the others).
Every text that a template fits grants what it names; a place that the template lacks is anything. In the text, a place
holds a name, `*` (any), or the beginning of a name and `*`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_NAME_CHARS = "A-Za-z0-9_.-"
_CLIENT_PLACES = ("domain", "group", "client")
_PLACES = (*_CLIENT_PLACES, "publish", "service")
_PLACE = re.compile(r"\{([a-z]*)\}")


class InvalidRule(ValueError):
    """Text that is no rule."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What somebody may be and do."""

    name: str
    """Whose certificate or token it is: for logs."""
    clients: tuple[tuple[str, str, str], ...] = ()
    """Patterns of domain, group and client."""
    publishes: tuple[str, ...] = ()
    """Patterns of domains."""
    services: tuple[str, ...] = ()
    """Names of services that it is one of."""
    expires_at_s: float = float("inf")
    """Unix time, in seconds, from which on it holds no longer."""
    proofs: tuple[str, ...] = ()
    """All that was shown and could be revoked, as a list of what is names it."""

    def may_be(self, domain: str, group: str, client: str) -> bool:
        """Whether this is that client."""
        if self is ANYBODY:  # asked at every Hello
            return True
        return any(_fits(d, domain) and _fits(g, group) and _fits(c, client) for d, g, c in self.clients)

    def may_publish(self, domain: str) -> bool:
        """Whether it may publish objects of this domain."""
        return any(_fits(pattern, domain) for pattern in self.publishes)

    @property
    def who(self) -> "tuple[str, tuple[tuple[str, str, str], ...], tuple[str, ...]] | None":
        """By what shares are counted: a token that was renewed is the same one. None: nobody was asked."""
        return None if self is ANYBODY else (self.name, self.clients, self.publishes)

    @property
    def is_service(self) -> bool:
        """Whether it is one of the services."""
        return bool(self.services)

    @property
    def is_operator(self) -> bool:
        """Whether it may publish to all domains, also to those that nobody knows of here.

        Who may do that is trusted with all of the service: so it also sees what belongs to no domain, as addresses do.
        """
        return "*" in self.publishes


ANYBODY = Identity("anybody", (("*", "*", "*"),), ("*",), ("*",))
"""Where nobody is asked."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One SOURCE:TEMPLATE."""

    source: str
    expression: re.Pattern[str]


def parse_rules(text: str, sources: Sequence[str] = ()) -> tuple[Rule, ...]:
    """The rules of a setting; their sources are one of `sources`, where these are given. Raises InvalidRule."""
    rules = tuple(_parse_rule(word, sources) for word in text.split())
    if not rules:
        raise InvalidRule("is empty, SOURCE:TEMPLATE is wanted")
    return rules


def identity_of(
    name: str,
    values: Mapping[str, Iterable[str]],
    rules: Iterable[Rule],
    expires_at_s: float = float("inf"),
    proofs: tuple[str, ...] = (),
) -> Identity:
    """What the values (source -> texts) grant by the rules; nothing, where no rule fits."""
    clients: dict[tuple[str, str, str], None] = {}
    publishes: dict[str, None] = {}
    services: dict[str, None] = {}
    for rule in rules:
        for text in values.get(rule.source, ()):
            found = rule.expression.fullmatch(text)
            if found is None:
                continue
            places = found.groupdict()
            if any(place in places for place in _CLIENT_PLACES):
                clients[places.get("domain", "*"), places.get("group", "*"), places.get("client", "*")] = None
            if "publish" in places:
                publishes[places["publish"]] = None
            if "service" in places:
                services[places["service"]] = None
    return Identity(name, tuple(clients), tuple(publishes), tuple(services), expires_at_s, proofs)


def _fits(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _parse_rule(word: str, sources: Sequence[str]) -> Rule:
    source, colon, template = word.partition(":")
    if not source or not colon or not template:
        raise InvalidRule(f"{word!r} is not SOURCE:TEMPLATE")
    if sources and source not in sources:
        raise InvalidRule(f"{word!r}: the source {source!r} is none of {', '.join(sources)}")
    pieces = _PLACE.split(template)
    literals, places = pieces[::2], pieces[1::2]
    if not places or (unknown := set(places) - set(_PLACES)):
        what = f"{{{min(unknown)}}} is" if places else "there is"
        raise InvalidRule(f"{word!r}: {what} none of {', '.join(f'{{{place}}}' for place in _PLACES)}")
    if len(set(places)) < len(places):
        raise InvalidRule(f"{word!r}: a place is there twice")
    if any(not literal for literal in literals[1:-1]):
        raise InvalidRule(f"{word!r}: between two places there must be something that tells them apart")
    # What ends one place may be in none of them: or "a.b.c.d" could be read in more than one way as "{domain}.{group}".
    # A place at the end ends with the text, so its literal is empty and forbids nothing.
    ends = {literal[0] for literal in literals[1:] if literal}
    chars = "".join(re.escape(char) for char in _expand() if char not in ends)
    expression = "".join(
        re.escape(literal) + (f"(?P<{places[i]}>[{chars}]{{1,64}}|[{chars}]{{0,63}}\\*)" if i < len(places) else "")
        for i, literal in enumerate(literals)
    )
    return Rule(source, re.compile(expression))


def _expand() -> str:
    """The characters of names, one by one."""
    return "".join(char for char in map(chr, range(128)) if re.fullmatch(f"[{_NAME_CHARS}]", char))
