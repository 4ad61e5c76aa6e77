"""What an operator can tell the engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from coldnotify_schemas.names import InvalidName, check_name

CONFLATION_MS_MAX = 60_000
"""Cursors stay below what is held back: with more, a unit that wakes for a moment would hear of it again and again."""
_ALL_OTHERS = "*"


@dataclass(frozen=True, slots=True)
class Intervals:
    """By domain, how long after a publish of an object left the next ones of it are held and merged (ms; 0: never)."""

    by_domain: Mapping[str, int] = field(default_factory=dict)
    others_ms: int = 0

    def of(self, domain: str) -> int:
        """The domain's interval (ms)."""
        return self.by_domain.get(domain, self.others_ms)

    @property
    def longest_ms(self) -> int:
        """0: nothing is ever held."""
        return max((self.others_ms, *self.by_domain.values()))


def parse_intervals(text: str) -> Intervals:
    """ "domain=200,other=1000,*=0" in ms; `*` is every other domain, 0 if it is not there. Raises ValueError."""
    found: dict[str, int] = {}
    for entry in filter(None, (entry.strip() for entry in text.split(","))):
        domain, equals, value = (part.strip() for part in entry.partition("="))
        if not equals:
            raise ValueError(f"{entry!r} is not domain=milliseconds")
        if domain != _ALL_OTHERS:
            try:
                check_name("domain", domain)
            except InvalidName as error:
                raise ValueError(f"{entry!r}: {error}") from None
        if domain in found:
            raise ValueError(f"{entry!r}: {domain} is there twice")
        if not (value.isascii() and value.isdigit() and len(value) < 10 and int(value) <= CONFLATION_MS_MAX):
            raise ValueError(f"{entry!r}: {value!r} is not a whole number of ms from 0 to {CONFLATION_MS_MAX}")
        found[domain] = int(value)
    others_ms = found.pop(_ALL_OTHERS, 0)
    return Intervals(found, others_ms)


@dataclass(frozen=True, slots=True)
class Rules:
    """The same for all partitions of a matcher."""

    forgotten_after_ms: int = 0
    """An offline client that was not seen for so long is unregistered and forgotten; 0: never."""
    conflation: Intervals = field(default_factory=Intervals)
