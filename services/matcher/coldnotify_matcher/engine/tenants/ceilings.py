"""Ceilings of sessions and registrations: a `Ceiling` holds those of one tenant as one matcher knows them.

The matcher counts its own partitions' sessions and registrations as they come and go, so these counts are exact. Counts
of other matchers are as old as the verdict that brings them. A partition that is taken over counts by what it has, and
no longer by what its former matcher said. All partitions of a matcher share a tenant's ceiling. No existing session or
registration is removed: a lowered ceiling holds up new ones until enough have left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from coldnotify_schemas.tenant_usage import partition_node

from coldnotify_matcher.engine.interests.by_query.query_places import QueryPlaces
from coldnotify_matcher.engine.tenants.of_tenants import OfTenants

CLIENTS, REGISTRATIONS = "clients_max", "registrations_max"
"""The fields of an agreement that make a matcher refuse."""
REFUSED_KNOWN_MAX = 1_000
"""Number of clients, of one partition, whose last refusal is remembered, to explain why one is not connected."""


class HeldAgreement(NamedTuple):
    """Agreement with a tenant, and its counts at all matchers, as far as this one knows. None: no limit."""

    tenant: str
    clients_max: int | None
    registrations_max: int | None
    clients: int
    registrations: int
    elsewhere: Mapping[str, tuple[int, int, int]] = MappingProxyType({})
    """Those among them that other matchers have, as objects, clients and registrations by the partition's node."""


class Ceiling:
    """Limits one tenant at this matcher."""

    __slots__ = ("_elsewhere", "clients", "clients_max", "registrations", "registrations_max", "tenant")

    def __init__(self, tenant: str) -> None:
        """Begin without a limit."""
        self.tenant = tenant
        self.clients_max: int | None = None
        self.registrations_max: int | None = None
        self.clients = self.registrations = 0
        self._elsewhere: dict[str, tuple[int, int, int]] = {}

    def agree(self, held: HeldAgreement) -> None:
        """Apply this agreement and these counts from now on."""
        self.clients_max, self.registrations_max = held.clients_max, held.registrations_max
        self.clients, self.registrations = held.clients, held.registrations
        self._elsewhere = dict(held.elsewhere)

    def take_over(self, node: str, clients: int, registrations: int) -> None:
        """Count these for a partition that is served here from now on, if it was counted as another matcher's."""
        former = self._elsewhere.pop(node, None)
        if former is not None:
            self.clients += clients - former[1]
            self.registrations += registrations - former[2]

    def why_no_client(self) -> str:
        """Returns the reason why no session may be added; "": one may."""
        return self._why_not(CLIENTS, self.clients, self.clients_max)

    def why_no_registration(self) -> str:
        """Returns the reason why no registration may be added; "": one may."""
        return self._why_not(REGISTRATIONS, self.registrations, self.registrations_max)

    def _why_not(self, limit: str, there_are: int, most: int | None) -> str:
        if most is None or there_are < most:
            return ""
        return f"tenant {self.tenant} is above its agreement: {limit} is {most}"


class Ceilings:
    """Holds the ceilings of all tenants that have one. A matcher's partitions share one object, which is changed in
    place."""

    def __init__(self, tenant_of: Callable[[str], str] | None = None) -> None:
        """`tenant_of`: the name of the tenant that a domain belongs to; None: domains are tenants."""
        self._tenants: OfTenants[Ceiling] = OfTenants(tenant_of)

    def agree(self, all_held: Iterable[HeldAgreement]) -> None:
        """Replace all agreements with these."""
        wanted = {held.tenant: held for held in all_held}
        self._tenants.keep_only(wanted)
        for tenant, held in wanted.items():
            self._tenants.get(tenant, partial(Ceiling, tenant)).agree(held)

    def take_over(self, partition: int, tallies: Mapping[str, DomainTally]) -> None:
        """Count what domains have in a partition that is served here from now on, in place of what its former matcher
        said."""
        counts = dict.fromkeys(self._tenants.all(), (0, 0))
        for domain, tally in tallies.items():
            if (ceiling := self.of(domain)) is not None:
                clients, registrations = counts[ceiling]
                counts[ceiling] = clients + tally.clients, registrations + tally.registrations
        for ceiling, has in counts.items():
            ceiling.take_over(partition_node(partition), *has)

    def of(self, domain: str) -> Ceiling | None:
        """Returns the ceiling of the domain's tenant; None: it has none."""
        return self._tenants.of(domain)


class DomainTally:
    """Counts one domain's sessions and registrations in one partition as they come and go, and how many of the
    registrations clients report as raising in their callbacks."""

    __slots__ = ("_ceiling_of", "clients", "filtered", "known", "parked", "places", "registrations")

    def __init__(
        self,
        ceiling_of: Callable[[], Ceiling | None] = lambda: None,
        places: QueryPlaces | None = None,
        filtered: dict[str, int] | None = None,
    ) -> None:
        """`ceiling_of` returns the ceiling of the domain's tenant, to which this adds; None while the partition is not
        served."""
        self._ceiling_of = ceiling_of
        self.places = QueryPlaces() if places is None else places
        """Places of the partition's queries."""
        self.filtered = {} if filtered is None else filtered
        """Numbers of filters in the partition's groups, by domain/group, without empty ones."""
        self.known = 0
        """Number of clients that refer to it; at 0 it is forgotten."""
        self.clients = 0
        self.registrations = 0
        self.parked = 0

    def add_clients(self, more: int) -> None:
        """Count sessions that began; below 0: ended."""
        self.clients += more
        ceiling = self._ceiling_of()
        if ceiling is not None:
            ceiling.clients += more

    def add_registrations(self, more: int) -> None:
        """Count registrations that came; below 0: went."""
        self.registrations += more
        ceiling = self._ceiling_of()
        if ceiling is not None:
            ceiling.registrations += more

    def add_filters(self, group: str, more: int) -> None:
        """Count filters in one of its groups (domain/group) that came; below 0: went."""
        if count := self.filtered.get(group, 0) + more:
            self.filtered[group] = count
        else:
            self.filtered.pop(group, None)


class RefusedClients:
    """Holds the last refusal of clients that may not connect, by their keys; the oldest is forgotten first."""

    def __init__(self) -> None:
        self._by_key: dict[str, tuple[int, str]] = {}

    def refuse(self, key: str, now_ms: int, reason: str) -> None:
        """Note that the client was refused."""
        self._by_key.pop(key, None)
        if len(self._by_key) >= REFUSED_KNOWN_MAX:
            del self._by_key[next(iter(self._by_key))]
        self._by_key[key] = now_ms, reason

    def let_in(self, key: str) -> None:
        """Forget the client's refusal: it may connect now."""
        if self._by_key:
            self._by_key.pop(key, None)

    def of(self, key: str) -> tuple[int, str] | None:
        """Returns (time, reason) of its last refusal; None: it was not refused, or has been admitted since."""
        return self._by_key.get(key)
