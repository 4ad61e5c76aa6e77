"""The values that one matcher keeps for each tenant, `OfTenants`: one object of a kind, for all partitions, found by a
domain."""

from collections.abc import Callable, Collection
from typing import Generic, TypeVar

K = TypeVar("K")

DOMAINS_KNOWN_MAX = 100_000
"""Domains whose tenant is looked up once. Above this number it is looked up again."""


class OfTenants(Generic[K]):
    """Holds a value for some tenants; most have none."""

    def __init__(self, tenant_of: Callable[[str], str] | None = None) -> None:
        """`tenant_of`: the name of the tenant that a domain belongs to; None: domains are tenants."""
        self._tenant_of = tenant_of
        self._by_tenant: dict[str, K] = {}
        self._by_domain: dict[str, K | None] = {}

    def __len__(self) -> int:
        return len(self._by_tenant)

    def keep_only(self, tenants: Collection[str]) -> list[K]:
        """Keep only the values of these tenants. Returns those of others. Domains are looked up again."""
        self._by_domain.clear()
        return [self._by_tenant.pop(tenant) for tenant in self._by_tenant.keys() - tenants]

    def get(self, tenant: str, make: Callable[[], K]) -> K:
        """Returns the value of a tenant, made if it has none; to be called after `keep_only`, before a domain is asked
        for."""
        if tenant not in self._by_tenant:
            self._by_tenant[tenant] = make()
        return self._by_tenant[tenant]

    def all(self) -> list[K]:
        """Returns the values of all tenants that have one."""
        return list(self._by_tenant.values())

    def of(self, domain: str) -> K | None:
        """Returns the value of the domain's tenant; None: it has none."""
        if not self._by_tenant:
            return None
        if domain not in self._by_domain:
            if len(self._by_domain) >= DOMAINS_KNOWN_MAX:
                self._by_domain.clear()
            tenant = domain if self._tenant_of is None else self._tenant_of(domain)
            self._by_domain[domain] = self._by_tenant.get(tenant)
        return self._by_domain[domain]
