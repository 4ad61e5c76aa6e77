"""Limits deliveries by tenant: an `Allowance` holds the deliveries and bytes a second of one tenant at one matcher.

All partitions of a matcher share a tenant's allowance. Every delivery is taken from it, including those that are sent
at once whatever the allowance says (a takeover, objects that enter and leave queries): then the tenant is in debt, and
deliveries that may wait do so until the debt is paid. Times are Unix times in ms.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from math import ceil
from typing import NamedTuple

from coldnotify_matcher.engine.tenants.of_tenants import OfTenants

WAIT_MS_MAX = 60_000
"""Longest wait of a newest version, whatever was agreed: meanwhile all cursors of its partition stay below it, so units
that wake receive again all that came since. Equal to the longest conflation that an operator may set
(CONFLATION_MS_MAX)."""
_ROUNDING = 1e-6
"""Part of a delivery: a caller that asks at the time it was given must not have to wait for the last digit of a sum."""


class OutAgreement(NamedTuple):
    """This matcher's part of a tenant's agreement: the deliveries of its publishes. None: no limit."""

    tenant: str
    per_s: float | None
    bytes_per_s: float | None
    burst_s: float


class _Account:
    """A rate a second, with a burst after a quiet time. Unlike a token bucket it may be overdrawn at any time."""

    __slots__ = ("_at_ms", "_level", "_per_s", "capacity")

    def __init__(self, per_s: float, burst_s: float, now_ms: int) -> None:
        self._at_ms = now_ms
        self._per_s = per_s
        self.capacity = self._level = max(1.0, per_s * burst_s)

    def change(self, per_s: float, burst_s: float, now_ms: int) -> None:
        self.level(now_ms)
        self._per_s, self.capacity = per_s, max(1.0, per_s * burst_s)
        self._level = min(self._level, self.capacity)
        self._bound_debt()

    def level(self, now_ms: int) -> float:
        # A clock that was set back fills nothing.
        self._level = min(self.capacity, self._level + max(0, now_ms - self._at_ms) * self._per_s / 1000)
        self._at_ms = now_ms
        return self._level

    def take(self, number: float) -> None:
        self._level -= number
        self._bound_debt()

    def free_at_ms(self) -> int:
        return self._at_ms + max(0, ceil((-self._level - _ROUNDING) * 1000 / self._per_s))

    def _bound_debt(self) -> None:
        # No delivery waits longer, so a larger debt would be reported and never paid.
        self._level = max(self._level, -self._per_s * WAIT_MS_MAX / 1000)


class Allowance:
    """Limits one tenant at this matcher. The longest wait is served first, in whatever partition."""

    __slots__ = ("_accounts", "_refused")

    def __init__(self) -> None:
        self._accounts: list[_Account | None] = [None, None]
        self._refused: dict[Hashable, int] = {}
        """By waiting caller: the time since which it waits."""

    def agree(self, agreement: OutAgreement | None, now_ms: int) -> None:
        """Apply this agreement from now on; None removes the limit."""
        limits = (None, None) if agreement is None else (agreement.per_s, agreement.bytes_per_s)
        burst_s = 0.0 if agreement is None else agreement.burst_s
        for number, per_s in enumerate(limits):
            account = self._accounts[number]
            if per_s is None:
                self._accounts[number] = None
            elif account is None:
                self._accounts[number] = _Account(per_s, burst_s, now_ms)
            else:
                account.change(per_s, burst_s, now_ms)

    def take(self, deliveries: int, out_bytes: int) -> None:
        """Subtract deliveries that were made."""
        for account, number in zip(self._accounts, (deliveries, out_bytes), strict=True):
            if account is not None:
                account.take(number)

    def passes(self, now_ms: int) -> bool:
        """Returns true if a new delivery may be made at once: there is no debt, and nothing waits."""
        return not self._refused and self._is_free(now_ms)

    def may_tell(self, who: Hashable, since_ms: int, now_ms: int) -> bool:
        """Returns true if `who`, which has waited since `since_ms`, may make one delivery now.

        Otherwise it asks again at `free_at_ms`.
        """
        if not self._is_free(now_ms):
            self._refused[who] = since_ms
            return False
        first = min(self._refused, key=self._refused.__getitem__, default=who)
        if first != who and self._refused[first] < since_ms:
            # This caller waits for the first one only once: if the first is gone (another matcher has its partition),
            # this one is next.
            del self._refused[first]
            self._refused[who] = since_ms
            return False
        self._refused.pop(who, None)
        return True

    @property
    def at_once(self) -> int | None:
        """Number of deliveries that may be made at once without long waits for others: a burst; None: any number."""
        account = self._accounts[0]
        return None if account is None else max(1, int(account.capacity))

    def leave(self, who: Hashable) -> None:
        """Forget `who`: none of its deliveries waits any more."""
        self._refused.pop(who, None)

    def free_at_ms(self) -> int:
        """Returns the earliest time to ask again; a time in the past means now."""
        return max((account.free_at_ms() for account in self._accounts if account is not None), default=0)

    def _is_free(self, now_ms: int) -> bool:
        # Update each account: `free_at_ms` counts from the time of the last update.
        levels = [account.level(now_ms) for account in self._accounts if account is not None]
        return all(level >= -_ROUNDING for level in levels)


class Allowances:
    """Holds the allowances of all tenants with a limit. A matcher's partitions share one object, which is changed in
    place."""

    def __init__(self, tenant_of: Callable[[str], str] | None = None) -> None:
        """`tenant_of`: the name of the tenant that a domain belongs to; None: domains are tenants."""
        self._tenants: OfTenants[Allowance] = OfTenants(tenant_of)

    def agree(self, agreements: Iterable[OutAgreement], now_ms: int) -> None:
        """Replace all agreements with these. Deliveries that wait for an ended allowance may be made at once."""
        wanted = {one.tenant: one for one in agreements}
        for ended in self._tenants.keep_only(wanted):
            ended.agree(None, now_ms)
        for tenant, agreement in wanted.items():
            self._tenants.get(tenant, Allowance).agree(agreement, now_ms)

    @property
    def any(self) -> bool:
        """True if at least one tenant is limited."""
        return bool(self._tenants)

    def of(self, domain: str) -> Allowance | None:
        """Returns the allowance of the domain's tenant; None: it has no limit."""
        return self._tenants.of(domain)
