"""How many sessions and registrations a tenant may have: `Ceiling`, of one tenant as one matcher knows it.

What the matcher's own partitions have is counted as it comes and goes, so it is exact. What others have is as old as
the verdict that says it. All partitions of a matcher share a tenant's ceiling. Nobody is sent away who is there: a
ceiling that was lowered holds up who comes until enough have left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from coldnotify_matcher.engine.interests.by_query.query_places import QueryPlaces
from coldnotify_matcher.engine.of_tenants import OfTenants

CLIENTS, REGISTRATIONS = "clients_max", "registrations_max"
"""The fields of an agreement that a matcher refuses by."""
REFUSED_KNOWN_MAX = 1_000
"""Clients whose last refusal is remembered, of one partition: for who asks why one is not connected."""


class HeldAgreement(NamedTuple):
    """What was agreed with a tenant, and how much it has at all matchers, as far as this one knows. None: no limit."""

    tenant: str
    clients_max: int | None
    registrations_max: int | None
    clients: int
    registrations: int


class Ceiling:
    """Of one tenant at this matcher."""

    __slots__ = ("clients", "clients_max", "registrations", "registrations_max", "tenant")

    def __init__(self, tenant: str) -> None:
        """There is no limit yet."""
        self.tenant = tenant
        self.clients_max: int | None = None
        self.registrations_max: int | None = None
        self.clients = self.registrations = 0

    def agree(self, held: HeldAgreement) -> None:
        """From now on; what there is, is counted anew."""
        self.clients_max, self.registrations_max = held.clients_max, held.registrations_max
        self.clients, self.registrations = held.clients, held.registrations

    def why_no_client(self) -> str:
        """Why there may be no session more; "": there may."""
        return self._why_not(CLIENTS, self.clients, self.clients_max)

    def why_no_registration(self) -> str:
        """Why there may be no registration more; "": there may."""
        return self._why_not(REGISTRATIONS, self.registrations, self.registrations_max)

    def _why_not(self, limit: str, there_are: int, most: int | None) -> str:
        if most is None or there_are < most:
            return ""
        return f"tenant {self.tenant} is above its agreement: {limit} is {most}"


class Ceilings:
    """Those of all tenants with such a limit. One object for all partitions of a matcher, changed in place."""

    def __init__(self, tenant_of: Callable[[str], str] | None = None) -> None:
        """`tenant_of`: the name of the tenant that a domain belongs to; None: domains are tenants."""
        self._tenants: OfTenants[Ceiling] = OfTenants(tenant_of)

    def agree(self, all_held: Iterable[HeldAgreement]) -> None:
        """These are all that there are now."""
        wanted = {held.tenant: held for held in all_held}
        self._tenants.keep_only(wanted)
        for tenant, held in wanted.items():
            self._tenants.get(tenant, partial(Ceiling, tenant)).agree(held)

    def of(self, domain: str) -> Ceiling | None:
        """The ceiling of the domain's tenant; None: it has none."""
        return self._tenants.of(domain)


class DomainTally:
    """How many sessions and registrations one domain has in one partition, counted as they come and go; and of how many
    of these its clients say that their callbacks raise."""

    __slots__ = ("_ceiling_of", "clients", "known", "parked", "places", "registrations")

    def __init__(
        self, ceiling_of: Callable[[], Ceiling | None] = lambda: None, places: QueryPlaces | None = None
    ) -> None:
        """`ceiling_of`: that of the domain's tenant, to which this adds; None while the partition is not served."""
        self._ceiling_of = ceiling_of
        self.places = QueryPlaces() if places is None else places
        """Those of the partition's queries."""
        self.known = 0
        """Clients that refer to it; without any it is forgotten."""
        self.clients = 0
        self.registrations = 0
        self.parked = 0

    def add_clients(self, more: int) -> None:
        """So many sessions began; below 0: ended."""
        self.clients += more
        ceiling = self._ceiling_of()
        if ceiling is not None:
            ceiling.clients += more

    def add_registrations(self, more: int) -> None:
        """So many registrations came; below 0: went."""
        self.registrations += more
        ceiling = self._ceiling_of()
        if ceiling is not None:
            ceiling.registrations += more


class RefusedClients:
    """The last refusal of clients that may not connect, by their keys; the oldest is forgotten first."""

    def __init__(self) -> None:
        self._by_key: dict[str, tuple[int, str]] = {}

    def refuse(self, key: str, now_ms: int, reason: str) -> None:
        """It was sent away."""
        self._by_key.pop(key, None)
        if len(self._by_key) >= REFUSED_KNOWN_MAX:
            del self._by_key[next(iter(self._by_key))]
        self._by_key[key] = now_ms, reason

    def let_in(self, key: str) -> None:
        """It may connect by now."""
        if self._by_key:
            self._by_key.pop(key, None)

    def of(self, key: str) -> tuple[int, str] | None:
        """(when, why) it was sent away last; None: it was not, or has been let in since."""
        return self._by_key.get(key)
