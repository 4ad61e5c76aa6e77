"""The operator's settings for the engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from coldnotify_common.clocks import Trust, Trusting
from coldnotify_schemas.by_domain import ALL_OTHERS, entries_by_domain
from coldnotify_schemas.channels import Retentions
from coldnotify_schemas.matcher_state import BUCKET_OBJECTS_MAX
from coldnotify_schemas.records import PAYLOAD_BYTES_MAX
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.whole_numbers import whole_number

from coldnotify_matcher.engine.interests.by_query.query_places import PlacesMax
from coldnotify_matcher.engine.rules.channel_bounds import ChannelBounds
from coldnotify_matcher.engine.rules.retention_rules import RetentionRules
from coldnotify_matcher.engine.rules.tuning import Bounds
from coldnotify_matcher.engine.tenants.allowances import Allowances
from coldnotify_matcher.engine.tenants.ceilings import Ceilings
from coldnotify_matcher.engine.tenants.high_shares import HighShares

CONFLATION_MS_MAX = 60_000
"""Cursors stay below held publishes: with a longer interval, a unit that wakes for a moment would receive them again
and again."""
_AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Intervals:
    """By domain, the time after a publish of an object during which its next ones are held and merged (ms; 0:
    never)."""

    by_domain: Mapping[str, int] = field(default_factory=dict)
    others_ms: int = 0
    auto: frozenset[str] = frozenset()
    """Domains whose interval tunes itself, each separately. `*`: one interval tunes itself for all others."""
    bounds: Bounds = field(default_factory=Bounds)
    """Bounds of the intervals that tune themselves."""
    holds: bool = field(init=False)
    """True if publishes are ever held."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "holds", self.longest_ms > 0)

    def of(self, domain: str) -> int:
        """Returns the domain's fixed interval (ms)."""
        return self.by_domain.get(domain, self.others_ms)

    def tuned_as(self, domain: str) -> str | None:
        """Returns the entry of `auto` by which the domain's interval tunes itself; None: it is fixed."""
        if domain in self.auto:
            return domain
        return ALL_OTHERS if ALL_OTHERS in self.auto and domain not in self.by_domain else None

    @property
    def entries(self) -> list[str]:
        """The entries with an interval of their own: the named domains, and `*`."""
        return sorted({ALL_OTHERS, *self.by_domain, *self.auto})

    @property
    def longest_ms(self) -> int:
        """The longest interval (ms); 0: publishes are never held."""
        return max((self.others_ms, *self.by_domain.values(), self.bounds.longest_ms if self.auto else 0))


def parse_intervals(text: str, bounds: Bounds | None = None) -> Intervals:
    """Parses "domain=200,other=auto,*=0" in ms; `*` is every other domain, 0 if it is absent. Raises ValueError."""
    found: dict[str, int | None] = {}
    for entry, domain, value in entries_by_domain(text, "milliseconds"):
        if value == _AUTO:
            found[domain] = None
            continue
        interval_ms = whole_number(value, CONFLATION_MS_MAX)
        if interval_ms is None:
            words = f"is neither a whole number of ms from 0 to {CONFLATION_MS_MAX} nor {_AUTO}"
            raise ValueError(f"{entry!r}: {value!r} {words}")
        found[domain] = interval_ms
    auto = frozenset(domain for domain, ms in found.items() if ms is None)
    fixed = {domain: ms for domain, ms in found.items() if ms is not None}
    others_ms = fixed.pop(ALL_OTHERS, 0)
    return Intervals(fixed, others_ms, auto, bounds or Bounds())


@dataclass(frozen=True, slots=True)
class Rules:
    """The same for all partitions of a matcher."""

    topics: TopicNames = field(default_factory=TopicNames)
    """The names of the topics that outputs go to."""
    forgotten_after_ms: int = 0
    """An offline client that was not seen for so long is unregistered and forgotten; 0: never."""
    conflation: Intervals = field(default_factory=Intervals)
    retention: RetentionRules = field(default_factory=RetentionRules)
    payload_bytes_max: int = PAYLOAD_BYTES_MAX
    """Maximum size of a version's payload; a record with a larger one is rejected."""
    query_places: PlacesMax = field(default_factory=PlacesMax)
    """Limits of a partition's registered queries."""
    half_sets_bytes_max: int = 32 * 1024 * 1024
    """Maximum size of the half sets of one partition: reg-syncs that are still being received."""
    bucket_objects_max: int = BUCKET_OBJECTS_MAX
    """Objects in one record of the registrations topic. Tests set fewer, so that a client has several records."""
    retentions: Retentions = field(default_factory=Retentions)
    """By domain, the retention of its channels' log."""
    channel_bounds: ChannelBounds = field(default_factory=ChannelBounds)
    """Bounds of the memory for each log of channels."""
    ceilings: Ceilings = field(default_factory=Ceilings)
    """Limits of tenants' sessions and registrations. The shell changes it as agreements and verdicts change."""
    allowances: Allowances = field(default_factory=Allowances)
    """Limits of deliveries by tenant. The shell changes it as agreements change."""
    clocks: Trust = field(default_factory=Trusting)
    """Decides whether irreversible removals are allowed. The shell reports clocks to it."""
    high_shares: HighShares = field(default_factory=HighShares)
    """Limits of tenants' publishes of high priority. The shell changes it likewise."""
