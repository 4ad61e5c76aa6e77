"""What may be told of a tenant's publishes: `Allowance`, deliveries and bytes a second for one tenant at one matcher.

All partitions of a matcher share a tenant's allowance. What is told is taken from it, also where it is told at once
whatever the allowance says (a takeover, what enters and leaves queries): then the tenant is in debt, and what may wait
does so until the debt is paid. Times are Unix times in ms.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from math import ceil
from typing import NamedTuple

from coldnotify_matcher.engine.of_tenants import OfTenants

WAIT_MS_MAX = 60_000
"""A newest version waits no longer, whatever was agreed: all cursors of its partition stay below it meanwhile, so units
that wake are told again what came since. As long as an operator may hold publishes back (CONFLATION_MS_MAX)."""
_ROUNDING = 1e-6
"""Of a delivery: who asks when it was told to is not told to wait for the last digit of a sum."""


class OutAgreement(NamedTuple):
    """What this matcher may tell of a tenant's publishes: its part of the agreement. None: no limit."""

    tenant: str
    per_s: float | None
    bytes_per_s: float | None
    burst_s: float


class _Account:
    """So much a second, and some at once after a quiet time. Unlike a token bucket it may be overdrawn at any time."""

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
        # Nothing waits longer, so a larger debt would only be told of, never paid.
        self._level = max(self._level, -self._per_s * WAIT_MS_MAX / 1000)


class Allowance:
    """Of one tenant at this matcher. Who has waited longest comes first, in whatever partition it waits."""

    __slots__ = ("_accounts", "_refused")

    def __init__(self) -> None:
        self._accounts: list[_Account | None] = [None, None]
        self._refused: dict[Hashable, int] = {}
        """Who was told to wait, and since when it waits."""

    def agree(self, agreement: OutAgreement | None, now_ms: int) -> None:
        """From now on; None: there is no limit any more."""
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
        """So much was told."""
        for account, number in zip(self._accounts, (deliveries, out_bytes), strict=True):
            if account is not None:
                account.take(number)

    def passes(self, now_ms: int) -> bool:
        """Whether something new may be told at once: there is no debt, and nothing waits."""
        return not self._refused and self._is_free(now_ms)

    def may_tell(self, who: Hashable, since_ms: int, now_ms: int) -> bool:
        """Whether `who`, which has waited since then, may tell one thing now. Else it asks again at `free_at_ms`."""
        if not self._is_free(now_ms):
            self._refused[who] = since_ms
            return False
        first = min(self._refused, key=self._refused.__getitem__, default=who)
        if first != who and self._refused[first] < since_ms:
            # It is waited for once: should it be gone (a partition that another matcher has now), this one is next.
            del self._refused[first]
            self._refused[who] = since_ms
            return False
        self._refused.pop(who, None)
        return True

    @property
    def at_once(self) -> int | None:
        """How many deliveries may be told at once without keeping others waiting long: a burst; None: any number."""
        account = self._accounts[0]
        return None if account is None else max(1, int(account.capacity))

    def leave(self, who: Hashable) -> None:
        """`who` has nothing any more that waits."""
        self._refused.pop(who, None)

    def free_at_ms(self) -> int:
        """When it is worth while to ask again; a time that is past: now."""
        return max((account.free_at_ms() for account in self._accounts if account is not None), default=0)

    def _is_free(self, now_ms: int) -> bool:
        # Each is asked: what it says of the time to come counts from the time that it was asked last.
        levels = [account.level(now_ms) for account in self._accounts if account is not None]
        return all(level >= -_ROUNDING for level in levels)


class Allowances:
    """Those of all tenants with a limit. One object for all partitions of a matcher, changed in place."""

    def __init__(self, tenant_of: Callable[[str], str] | None = None) -> None:
        """`tenant_of`: the name of the tenant that a domain belongs to; None: domains are tenants."""
        self._tenants: OfTenants[Allowance] = OfTenants(tenant_of)

    def agree(self, agreements: Iterable[OutAgreement], now_ms: int) -> None:
        """These are all that there are now. What waits for an allowance that has ended may be told at once."""
        wanted = {one.tenant: one for one in agreements}
        for ended in self._tenants.keep_only(wanted):
            ended.agree(None, now_ms)
        for tenant, agreement in wanted.items():
            self._tenants.get(tenant, Allowance).agree(agreement, now_ms)

    @property
    def any(self) -> bool:
        """Whether a tenant is limited at all."""
        return bool(self._tenants)

    def of(self, domain: str) -> Allowance | None:
        """The allowance of the domain's tenant; None: it is not limited."""
        return self._tenants.of(domain)
