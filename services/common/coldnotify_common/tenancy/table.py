"""The table of tenants: which tenant a domain belongs to, and what was agreed with it. Pure."""

from coldnotify_schemas.tenants import DEFAULT_TENANT, Tenant

TENANTS_MAX = 20_000
"""A service holds all of them in memory: about 2 KB each with some domains."""
DOMAINS_IN_ALL_MAX = 500_000


class TableFull(ValueError):
    """One more tenant, or its domains, would be above the bounds of the table; the message says which."""


class TenantTable:
    """All tenants. One object, changed in place as records come.

    A domain that two tenants name belongs to the one whose name comes first in the order of bytes. So every service
    says the same, in whatever order it has read the records. Who writes agreements refuses such a thing; it happens
    when two of them write at the same time, or somebody else writes to the topic.
    """

    def __init__(self) -> None:
        self._tenants: dict[str, Tenant] = {}
        self._claimants: dict[str, tuple[str, ...]] = {}
        """Domain -> names of the tenants that name it, in order; one, unless there is a conflict."""
        self._default = Tenant(DEFAULT_TENANT)
        self._conflicts: set[str] = set()
        self._limited_out: dict[str, Tenant] = {}
        self._limited_held: dict[str, Tenant] = {}

    def __len__(self) -> int:
        return len(self._tenants)

    def of(self, domain: str) -> Tenant:
        """The tenant that a domain belongs to: `default`, where none names it."""
        claimants = self._claimants.get(domain)
        return self._default if claimants is None else self._tenants[claimants[0]]

    def get(self, name: str) -> Tenant | None:
        """The tenant of this name, if there is one. `default` is there only if somebody has set it."""
        return self._tenants.get(name)

    def all(self) -> list[Tenant]:
        """Every tenant that was set, by name."""
        return [self._tenants[name] for name in sorted(self._tenants)]

    def limited_out(self) -> list[Tenant]:
        """Those with a limit on what goes out."""
        return list(self._limited_out.values())

    def limited_held(self) -> list[Tenant]:
        """Those with a limit on clients or registrations."""
        return list(self._limited_held.values())

    def put(self, tenant: Tenant) -> None:
        """There is this tenant now, in the place of the one of its name. Raises TableFull, and changes nothing."""
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
        """There is no such tenant any more; False: there was none."""
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
        """Why this tenant may not be written beside the others: the field and the other tenant; None: it may."""
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
        """The domains that more than one tenant names, and by whom; it belongs to the first."""
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
