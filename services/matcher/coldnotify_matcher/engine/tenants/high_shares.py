"""Limits the part of a tenant's publishes that is of high priority: `HighShare`, a credit that its publishes earn.

All partitions of a matcher share a tenant's credit. It counts publishes and no time: of each hundred that this matcher
reads, `high_priority_share` times a hundred may be of high priority, in any order.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from coldnotify_matcher.engine.tenants.of_tenants import OfTenants

CREDIT_MAX = 10.0
"""Number that may come in a row: an alarm seldom comes alone, and the share of few publishes would be less than one. A
tenant begins with it."""


class HighAgreement(NamedTuple):
    """A tenant's agreement: the part of its publishes that may be of high priority, 0 to 1."""

    tenant: str
    share: float


class HighShare:
    """The credit of one tenant."""

    __slots__ = ("_credit", "_share")

    def __init__(self, share: float) -> None:
        self._share = share
        self._credit = CREDIT_MAX

    def change(self, share: float) -> None:
        """Apply this share from now on."""
        self._share = share

    def earn(self) -> None:
        """Earn credit for one publish."""
        self._credit = min(CREDIT_MAX, self._credit + self._share)

    def take(self) -> bool:
        """Returns true if one publish may be of high priority, and takes it from the credit."""
        if self._credit < 1 or not self._share:
            return False
        self._credit -= 1
        return True


class HighShares:
    """Holds the shares of all tenants with an agreement. A matcher's partitions share one object, which is changed in
    place."""

    def __init__(self, tenant_of: Callable[[str], str] | None = None) -> None:
        """`tenant_of`: the name of the tenant that a domain belongs to; None: domains are tenants."""
        self._tenants: OfTenants[HighShare] = OfTenants(tenant_of)

    def agree(self, agreements: Iterable[HighAgreement]) -> None:
        """Replace all agreements with these."""
        wanted = {one.tenant: one.share for one in agreements}
        self._tenants.keep_only(wanted)
        for tenant, share in wanted.items():
            self._tenants.get(tenant, partial(HighShare, share)).change(share)

    def may_be_high(self, domain: str, *, high: bool) -> bool:
        """Count one publish of this domain; `high`: it asks for high priority. Returns true if it gets it."""
        share = self._tenants.of(domain)
        if share is None:
            return high
        share.earn()
        return high and share.take()
