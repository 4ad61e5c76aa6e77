"""Judges a tenant's usage: `Judge` compares it with the agreement and makes its verdict."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from coldnotify_schemas.tenant_usage import COUNT_MAX, CUMULATIVE, GAUGES, VERDICT_S, Rates, TenantCounters, Verdict
from coldnotify_schemas.tenants import HELD, UNLIMITED, Agreement

from coldnotify_usage.core.highs import Counts, above
from coldnotify_usage.core.sharing_out import share_out

POINT_EVERY_MS = 10_000
"""The last minute is measured from points so far apart: it is 60 to 70 s long."""
MINUTE_MS = 60_000
DEBT_OF_BURSTS_MAX = 2.0
"""An excess beyond so many bursts is forgotten, so that the verdict ends soon after the excess."""

_RATED = ("in_per_s", "in_bytes_per_s", "out_per_s", "out_bytes_per_s")
_ADMITTED, _ADMITTED_BYTES, _REFUSED = (CUMULATIVE.index(f) for f in ("admitted", "admitted_bytes", "refused"))
_PUBLISHES, _BYTES = CUMULATIVE.index("publishes"), CUMULATIVE.index("bytes")
_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Measured:
    """A tenant at one moment, over all nodes."""

    risen: Counts
    """The counts since the job took the partition over."""
    per_s: tuple[float, ...]
    gauges: tuple[int, ...]
    doors: Mapping[str, tuple[float, ...]]
    """Per second, by each of the nodes that let its publishes in, also where that was nothing."""
    tellers: Mapping[str, tuple[float, ...]]
    """The same by each of the matchers that tell others of its publishes."""
    held: Mapping[str, tuple[int, ...]]
    """`gauges` by each of the partitions that have some."""


class Judge:
    """The verdicts of one tenant, one after the other."""

    def __init__(self, at_ms: int, risen: Counts) -> None:
        """Counting begins at this time, from these counts."""
        self._points: deque[tuple[int, Counts]] = deque([(at_ms, risen)])
        self._last = (at_ms, risen)
        self._debts = [0.0] * len(_RATED)

    def judge(self, at_ms: int, measured: Measured, agreement: Agreement = UNLIMITED) -> Verdict:
        """The verdict of now. `at_ms` never goes back."""
        at_ms = max(at_ms, self._last[0])
        exceeded = [*self._overdrawn(at_ms, measured.risen, agreement)]
        exceeded += [
            limit
            for limit, there_are in zip(HELD, measured.gauges, strict=True)
            if (most := getattr(agreement, limit)) is not None and there_are > most
        ]
        return Verdict(
            at_ms=at_ms,
            until_ms=at_ms + VERDICT_S * 1000,
            per_s=_rates(measured.per_s),
            per_min=_rates(self._last_minute(at_ms, measured.risen)),
            gauges=TenantCounters(**{name: min(n, COUNT_MAX) for name, n in zip(GAUGES, measured.gauges, strict=True)}),
            shares=_shares(measured.doors, agreement),
            out_shares=_out_shares(measured.tellers, agreement),
            exceeded=tuple(exceeded),
            held=_held(measured.held, agreement),
        )

    def _overdrawn(self, at_ms: int, risen: Counts, agreement: Agreement) -> list[str]:
        """The rates' limits that are exceeded: by more than the burst, since it was last within."""
        last_ms, last = self._last
        self._last = (at_ms, risen)
        passed_s = (at_ms - last_ms) / 1000
        risen_by = above(risen, last)
        wanted = Rates(**dict(zip(CUMULATIVE, map(float, risen_by), strict=True)))
        # Matchers hold what goes out to the agreement. Who is above it is who asks for more.
        used = (risen_by[_PUBLISHES], risen_by[_BYTES], wanted.deliveries_wanted, wanted.out_bytes_wanted)
        found = []
        for number, limit in enumerate(_RATED):
            per_s = getattr(agreement, limit)
            if per_s is None:
                self._debts[number] = 0.0
                continue
            burst = per_s * agreement.burst_s
            debt = max(self._debts[number] + used[number] - per_s * passed_s, 0.0)
            if debt > burst:
                found.append(limit)
            self._debts[number] = min(debt, DEBT_OF_BURSTS_MAX * burst)
        return found

    def _last_minute(self, at_ms: int, risen: Counts) -> tuple[float, ...]:
        points = self._points
        if at_ms - points[-1][0] >= POINT_EVERY_MS:
            points.append((at_ms, risen))
        while len(points) > 1 and at_ms - points[1][0] >= MINUTE_MS:
            points.popleft()
        first_ms, first = points[0]
        # Less than a minute is known at the beginning: that is told as it is, and not drawn out to a minute.
        scale = MINUTE_MS / max(at_ms - first_ms, MINUTE_MS)
        return tuple(scale * one for one in above(risen, first))


def _shares(doors: Mapping[str, tuple[float, ...]], agreement: Agreement) -> dict[str, float]:
    """Returns shares by node; none if the agreement does not limit incoming publishes."""
    limits_out = agreement.out_per_s is not None or agreement.out_bytes_per_s is not None
    if agreement.in_per_s is None and agreement.in_bytes_per_s is None:
        if agreement.over != "refuse" or not limits_out:
            return {}
        # What goes out is held down by what is let in: each node lets in what it is asked for, if all of it fits.
        asked = {node: rate[_ADMITTED] + rate[_REFUSED] for node, rate in doors.items()}
        whole = sum(asked.values()) or 1.0
        return _floored(share_out({node: one / whole for node, one in asked.items()}))
    return _floored(share_out({node: _demand(rate, agreement) for node, rate in doors.items()}))


def _out_shares(tellers: Mapping[str, tuple[float, ...]], agreement: Agreement) -> dict[str, float]:
    """Returns shares by matcher; none if the agreement does not limit deliveries."""
    if agreement.out_per_s is None and agreement.out_bytes_per_s is None:
        return {}
    return _floored(share_out({node: _out_demand(rate, agreement) for node, rate in tellers.items()}))


def _held(held: Mapping[str, tuple[int, ...]], agreement: Agreement) -> dict[str, tuple[int, int, int]]:
    """Returns counts by partition; none if the agreement does not limit what exists."""
    if all(getattr(agreement, limit) is None for limit in HELD):
        return {}
    return {node: (min(a, COUNT_MAX), min(b, COUNT_MAX), min(c, COUNT_MAX)) for node, (a, b, c) in held.items()}


def _out_demand(rate: tuple[float, ...], agreement: Agreement) -> float:
    """Returns the deliveries that a matcher would have to make, as a part of the agreement."""
    rates = Rates(**dict(zip(CUMULATIVE, rate, strict=True)))
    parts = [0.0]
    if agreement.out_per_s is not None:
        parts.append(rates.deliveries_wanted / agreement.out_per_s)
    if agreement.out_bytes_per_s is not None:
        parts.append(rates.out_bytes_wanted / agreement.out_bytes_per_s)
    return max(parts)


def _demand(rate: tuple[float, ...], agreement: Agreement) -> float:
    """Returns a node's demand as a part of the agreement; the bytes of refused publishes are not known."""
    admitted, refused = rate[_ADMITTED], rate[_REFUSED]
    parts = [0.0]
    if agreement.in_per_s is not None:
        parts.append((admitted + refused) / agreement.in_per_s)
    if agreement.in_bytes_per_s is not None:
        more = (admitted + refused) / admitted if admitted else 1.0
        parts.append(rate[_ADMITTED_BYTES] * more / agreement.in_bytes_per_s)
    return max(parts)


def _rates(numbers: tuple[float, ...]) -> Rates:
    """Converts rates; those that are 0 are left out of the record, because nobody sets them."""
    return Rates(**{name: round(one, _DIGITS) for name, one in zip(CUMULATIVE, numbers, strict=True) if one})


def _floored(shares: Mapping[str, float]) -> dict[str, float]:
    """Rounded down: together they are never more than the whole."""
    return {node: int(share * 10_000) / 10_000 for node, share in shares.items()}
