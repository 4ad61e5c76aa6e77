"""The table of tenants: maps a domain to its tenant and the agreement with it. Pure."""

from coldnotify_schemas.tenants import DEFAULT_TENANT, Tenant

TENANTS_MAX = 20_000
"""Maximum number of tenants. A service holds all of them in memory: about 2 KB each with some domains."""
DOMAINS_IN_ALL_MAX = 500_000


class TableFull(ValueError):
    """Another tenant, or its domains, would exceed the bounds of the table; the message says which."""


class TenantTable:
    """All tenants. One object, changed in place as records arrive.

    A domain that two tenants claim belongs to the one whose name comes first in byte order. So all services agree, in
    whatever order they have read the records. Tools that write agreements reject such a claim; it happens if two of
    them write at the same time, or somebody else writes to the topic.
    """

    def __init__(self) -> None:
        self._tenants: dict[str, Tenant] = {}
        self._claimants: dict[str, tuple[str, ...]] = {}
        """Domain -> names of the tenants that claim it, in order; one name unless there is a conflict."""
        self._default = Tenant(DEFAULT_TENANT)
        self._conflicts: set[str] = set()
        self._limited_out: dict[str, Tenant] = {}
        self._limited_held: dict[str, Tenant] = {}

    def __len__(self) -> int:
        return len(self._tenants)

    def of(self, domain: str) -> Tenant:
        """Returns the tenant of a domain; `default` if no tenant claims it."""
        claimants = self._claimants.get(domain)
        return self._default if claimants is None else self._tenants[claimants[0]]

    def get(self, name: str) -> Tenant | None:
        """Returns the tenant of this name, or None. `default` is in the table only if somebody has written it."""
        return self._tenants.get(name)

    def all(self) -> list[Tenant]:
        """Returns every tenant in the table, by name."""
        return [self._tenants[name] for name in sorted(self._tenants)]

    def limited_out(self) -> list[Tenant]:
        """Returns the tenants with a limit on outgoing deliveries."""
        return list(self._limited_out.values())

    def limited_held(self) -> list[Tenant]:
        """Returns the tenants with a limit on clients or registrations."""
        return list(self._limited_held.values())

    def put(self, tenant: Tenant) -> None:
        """Adds a tenant, or replaces the one of its name. Raises TableFull, and then changes nothing."""
        before = self._tenants.get(tenant.name)
        if before is None and len(self._tenants) >= TENANTS_MAX:
            raise TableFull(f"tenants: there are {TENANTS_MAX} already")
        more = sum(domain not in self._claimants for domain in tenant.domains)
        if more and len(self._claimants) + more > DOMAINS_IN_ALL_MAX:
            raise TableFull(f"domains: those of all tenants together would be more than {DOMAINS_IN_ALL_MAX}")
        if before is not None:
            self._unclaim(before)
        self._tenants[tenant.name] = tenant
        self._limited_out.pop(tenant.name, None)
        if tenant.agreement.out_per_s is not None or tenant.agreement.out_bytes_per_s is not None:
            self._limited_out[tenant.name] = tenant
        self._limited_held.pop(tenant.name, None)
        if tenant.agreement.clients_max is not None or tenant.agreement.registrations_max is not None:
            self._limited_held[tenant.name] = tenant
        for domain in tenant.domains:
            names = tuple(sorted((*self._claimants.get(domain, ()), tenant.name)))
            self._claimants[domain] = names
            if len(names) > 1:
                self._conflicts.add(domain)
        if tenant.name == DEFAULT_TENANT:
            self._default = tenant

    def remove(self, name: str) -> bool:
        """Removes a tenant. Returns false if it did not exist."""
        tenant = self._tenants.pop(name, None)
        if tenant is None:
            return False
        self._limited_out.pop(name, None)
        self._limited_held.pop(name, None)
        self._unclaim(tenant)
        if name == DEFAULT_TENANT:
            self._default = Tenant(DEFAULT_TENANT)
        return True

    def clashes(self, tenant: Tenant) -> str | None:
        """Returns the reason why this tenant conflicts with the others: the field and the other tenant; None if it does
        not."""
        for domain in tenant.domains:
            for other in self._claimants.get(domain, ()):
                if other != tenant.name:
                    return f"domains: {domain} belongs to tenant {other}"
        if tenant.principal is not None:
            for one in self._tenants.values():
                if one.principal == tenant.principal and one.name != tenant.name:
                    return f"principal: {tenant.principal} is that of tenant {one.name}"
        return None

    def conflicts(self) -> dict[str, tuple[str, ...]]:
        """Returns the domains that several tenants claim, with the tenants' names; a domain belongs to the first."""
        return {domain: self._claimants[domain] for domain in sorted(self._conflicts)}

    def _unclaim(self, tenant: Tenant) -> None:
        for domain in tenant.domains:
            names = tuple(name for name in self._claimants.get(domain, ()) if name != tenant.name)
            if names:
                self._claimants[domain] = names
            else:
                self._claimants.pop(domain, None)
            if len(names) < 2:
                self._conflicts.discard(domain)
