"""Settings with a value for each domain: "domain=value,other=value,*=value"."""

from collections.abc import Iterator
from typing import NamedTuple

from coldnotify_schemas.names import InvalidName, check_name

ALL_OTHERS = "*"
"""Stands for all domains that are not named."""


class DomainEntry(NamedTuple):
    """The entry of one domain."""

    text: str
    """The whole entry, for error messages."""
    domain: str
    value: str


def entries_by_domain(text: str, value: str) -> Iterator[DomainEntry]:
    """Each entry; a domain is there once. `value`: what a value is, for the error. Raises ValueError."""
    seen: set[str] = set()
    for entry in filter(None, (entry.strip() for entry in text.split(","))):
        domain, equals, said = (part.strip() for part in entry.partition("="))
        if not equals:
            raise ValueError(f"{entry!r} is not domain={value}")
        if domain != ALL_OTHERS:
            try:
                check_name("domain", domain)
            except InvalidName as error:
                raise ValueError(f"{entry!r}: {error}") from None
        if domain in seen:
            raise ValueError(f"{entry!r}: {domain} is there twice")
        seen.add(domain)
        yield DomainEntry(entry, domain, said)
