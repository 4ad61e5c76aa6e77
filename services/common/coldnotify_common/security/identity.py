"""Identities: rules that read domain, group and client from a certificate's names or a token's claims. Pure.

A rule is SOURCE:TEMPLATE; several are separated by spaces. The source names the origin of a text: `cn`, `san-dns` or
`san-uri` of a certificate, or a claim. The template describes the text, with the places {domain}, {group}, {client},
{publish} (a domain that may be published to) and {service} (a service that other services recognise). Every text that
matches a template grants what it names; a place missing from the template matches anything. In the text, a place
contains a name, `*` (any), or the beginning of a name and `*`.

A rule SOURCE:TEMPLATE=>own:NAMES grants `own` alone: to publish as the client that its text names, to the names of that
client's group below NAMES, such as `units/{client}/`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from coldnotify_common.security.publish_rights import (
    EVERY_NAME,
    NAME_CHARS,
    NO_NAME,
    InvalidTemplate,
    Owned,
    PublishRight,
    check_apart,
    check_template,
    fits,
)

_CLIENT_PLACES = ("domain", "group", "client")
_PLACES = (*_CLIENT_PLACES, "publish", "service")
_OWN = "=>own:"
_PLACE = re.compile(r"\{([a-z]*)\}")


class InvalidRule(ValueError):
    """The text is not a rule."""


@dataclass(frozen=True, slots=True)
class Identity:
    """An identity and its rights."""

    name: str
    """The name in the certificate or token: for logs."""
    clients: tuple[tuple[str, str, str], ...] = ()
    """Patterns of domain, group and client that it may connect as."""
    publishes: tuple[str, ...] = ()
    """Patterns of domains that it may publish to."""
    services: tuple[str, ...] = ()
    """Names of services that it belongs to."""
    owns: tuple[tuple[str, str, str, str], ...] = ()
    """Patterns of domain, group and client, and the template of the names to which it may publish as that client."""
    expires_at_s: float = float("inf")
    """The end of its validity, Unix time in seconds."""
    proofs: tuple[str, ...] = ()
    """Its certificate and token, as written in a list of revoked ones."""

    def may_be(self, domain: str, group: str, client: str) -> bool:
        """Returns true if it may connect as this client."""
        if self is ANYBODY:  # checked at every Hello
            return True
        return any(fits(d, domain) and fits(g, group) and fits(c, client) for d, g, c in self.clients)

    def may_publish(self, domain: str) -> bool:
        """Returns true if it may publish every object of this domain, and change what else it has."""
        return any(fits(pattern, domain) for pattern in self.publishes)

    def publish_right(self, domain: str, group: str, client: str | None = None) -> PublishRight:
        """Returns its right to publish in this group, as this client if one is given."""
        if self.may_publish(domain):
            return EVERY_NAME
        owned = tuple(
            Owned(c, template)
            for d, g, c, template in self.owns
            if fits(d, domain) and fits(g, group) and (client is None or fits(c, client))
        )
        return PublishRight(every=False, owned=owned) if owned else NO_NAME

    @property
    def who(self) -> tuple[object, ...] | None:
        """The key for counting shares: a renewed token has the same one. None: no identity is required."""
        return None if self is ANYBODY else (self.name, self.clients, self.publishes, self.owns)

    @property
    def is_service(self) -> bool:
        """True if it belongs to a service."""
        return bool(self.services)

    @property
    def is_operator(self) -> bool:
        """True if it may publish to all domains, also to those unknown here.

        Such an identity is trusted with the whole service: so it may also see data that belongs to no domain, such as
        addresses.
        """
        return "*" in self.publishes


ANYBODY = Identity("anybody", (("*", "*", "*"),), ("*",), ("*",))
"""The identity of every caller if none is required."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One SOURCE:TEMPLATE, or SOURCE:TEMPLATE=>own:NAMES."""

    source: str
    expression: re.Pattern[str]
    owns: str = ""
    """The template of the names that it grants. Then it grants nothing else."""


def parse_rules(text: str, sources: Sequence[str] = ()) -> tuple[Rule, ...]:
    """Parses the rules of a setting; if `sources` are given, each rule's source must be one of them. Raises
    InvalidRule."""
    rules = tuple(_parse_rule(word, sources) for word in text.split())
    if not rules:
        raise InvalidRule("is empty, expected SOURCE:TEMPLATE")
    try:
        check_apart(rule.owns for rule in rules if rule.owns)
    except InvalidTemplate as error:
        raise InvalidRule(f"own: {error}") from None
    return rules


def identity_of(
    name: str,
    values: Mapping[str, Iterable[str]],
    rules: Iterable[Rule],
    expires_at_s: float = float("inf"),
    proofs: tuple[str, ...] = (),
) -> Identity:
    """Returns the identity that the values (source -> texts) grant by the rules; without rights if no rule matches."""
    clients: dict[tuple[str, str, str], None] = {}
    publishes: dict[str, None] = {}
    services: dict[str, None] = {}
    owns: dict[tuple[str, str, str, str], None] = {}
    for rule in rules:
        for text in values.get(rule.source, ()):
            found = rule.expression.fullmatch(text)
            if found is None:
                continue
            places = found.groupdict()
            client = (places.get("domain", "*"), places.get("group", "*"), places.get("client", "*"))
            if rule.owns:
                owns[*client, rule.owns] = None
            elif any(place in places for place in _CLIENT_PLACES):
                clients[client] = None
            if "publish" in places:
                publishes[places["publish"]] = None
            if "service" in places:
                services[places["service"]] = None
    return Identity(name, tuple(clients), tuple(publishes), tuple(services), tuple(owns), expires_at_s, proofs)


def _parse_rule(word: str, sources: Sequence[str]) -> Rule:
    rule, own, names = word.partition(_OWN)
    source, colon, template = rule.partition(":")
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
    if own:
        _check_own(word, places, names)
    if any(not literal for literal in literals[1:-1]):
        raise InvalidRule(f"{word!r}: between two places there must be something that tells them apart")
    # A character that ends one place may be in none of them: otherwise "a.b.c.d" would match "{domain}.{group}" in
    # several ways. A place at the end ends with the text, so its literal is empty and forbids nothing.
    ends = {literal[0] for literal in literals[1:] if literal}
    chars = "".join(re.escape(char) for char in _expand() if char not in ends)
    expression = "".join(
        re.escape(literal) + (f"(?P<{places[i]}>[{chars}]{{1,64}}|[{chars}]{{0,63}}\\*)" if i < len(places) else "")
        for i, literal in enumerate(literals)
    )
    return Rule(source, re.compile(expression), names)


def _check_own(word: str, places: Sequence[str], names: str) -> None:
    if "client" not in places or not set(places) <= set(_CLIENT_PLACES):
        raise InvalidRule(f"{word!r}: own: needs {{client}} before =>, besides at most {{domain}} and {{group}}")
    try:
        check_template(names)
    except InvalidTemplate as error:
        raise InvalidRule(f"{word!r}: own: {error}") from None


def _expand() -> str:
    """Returns the characters allowed in names."""
    return "".join(char for char in map(chr, range(128)) if re.fullmatch(f"[{NAME_CHARS}]", char))
