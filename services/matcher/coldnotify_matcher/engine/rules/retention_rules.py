"""Retention periods of objects that are neither published nor described any more, as an operator sets them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from coldnotify_schemas.by_domain import ALL_OTHERS, entries_by_domain

RETENTION_S_MIN = 10
"""Longer than a client that is awake needs to receive a version, even over a takeover."""
RETENTION_S_MAX = 100 * 365 * 86_400
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_PERIOD = re.compile(r"(\d{1,10})([smhd])", re.ASCII)
_NEVER = "never"


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """By domain, the time after its last publish or description at which an object is removed (ms; 0: never)."""

    by_domain: Mapping[str, int] = field(default_factory=dict)
    others_ms: int = 0
    deleted_ms: int = 0
    """The same for objects that were published as deleted, in all domains."""
    removes: bool = field(init=False)
    """True if anything is ever removed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "removes", any((self.others_ms, self.deleted_ms, *self.by_domain.values())))

    def of(self, domain: str, *, deleted: bool) -> int:
        """Returns the time that such an object is kept (ms); 0: for ever."""
        period_ms = self.by_domain.get(domain, self.others_ms)
        if deleted and self.deleted_ms:
            return min(period_ms or self.deleted_ms, self.deleted_ms)
        return period_ms


def parse_retention(text: str, *, deleted_ms: int = 0) -> RetentionRules:
    """Parses "domain=30d,other=12h,*=never"; `*` is every other domain, never if it is absent. Raises ValueError."""
    found: dict[str, int] = {}
    for entry, domain, value in entries_by_domain(text, "period"):
        found[domain] = _period_ms(entry, value)
    others_ms = found.pop(ALL_OTHERS, 0)
    return RetentionRules(found, others_ms, deleted_ms)


def _period_ms(entry: str, value: str) -> int:
    if value == _NEVER:
        return 0
    said = _PERIOD.fullmatch(value)
    seconds = int(said[1]) * _UNITS_S[said[2]] if said else 0
    if not RETENTION_S_MIN <= seconds <= RETENTION_S_MAX:
        words = f"is neither {_NEVER} nor a whole number with s, m, h or d, from {RETENTION_S_MIN}s to 100 years"
        raise ValueError(f"{entry!r}: {value!r} {words}")
    return seconds * 1000
