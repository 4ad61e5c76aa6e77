"""Places of registered queries: a partition has room for a number of queries, for their bytes, and for their work.

A registered query keeps its place, whether its clients are connected or not, and whichever queries come after it. New
queries are refused if there is no room. A domain has at most half of the room that the others leave: so no domain can
take all, and there is room for later ones. Loaded queries keep their place, too, even above a limit.
"""

from dataclasses import dataclass, field

from coldnotify_matcher.engine.interests.by_query.query import CanonicalQuery
from coldnotify_matcher.engine.interests.by_query.query_index import size_bytes_of

PLACES_MAX = 20_000
"""Maximum of different texts, by group: a domain alone has 10,000."""
BYTES_MAX = 256 * 2**20
"""Maximum in memory, if all of them had a set at once. A usual query takes some 6 KiB, so large ones take this much."""
STEPS_MAX = 400_000
"""Maximum for the regular expressions of all of them, as RE2 counts. A change of one object is checked against the
queries of its domain that refer to the change: in the worst case, all of a domain's steps take 0.6 s."""
_BYTES_ASSUMED, _BYTES_ASSUMED_EACH = 4096, 16
"""Assumed for a query that was loaded and not used by a session since: a base, and a part for each byte of its text."""
_KIB = 1024


def share_of(most: int, others: int) -> int:
    """Returns a domain's share of `most`, while others have `others`."""
    return max(0, most - others) // 2


@dataclass(slots=True)
class TakenPlaces:
    """The room that is taken."""

    places: int = 0
    size_bytes: int = 0
    steps: int = 0

    def add(self, other: "TakenPlaces", sign: int = 1) -> None:
        """Add another amount; `sign` -1 subtracts it."""
        self.places += sign * other.places
        self.size_bytes += sign * other.size_bytes
        self.steps += sign * other.steps


@dataclass(slots=True)
class _Place:
    taken: TakenPlaces
    registered: int = 0
    """Number of clients that registered it."""
    known: bool = False
    """True if its amounts are computed, and not assumed."""


@dataclass(frozen=True, slots=True)
class PlacesMax:
    """The limits of a partition."""

    places: int = PLACES_MAX
    size_bytes: int = BYTES_MAX
    steps: int = STEPS_MAX


@dataclass(slots=True)
class QueryPlaces:
    """The places of one partition."""

    taken: TakenPlaces = field(default_factory=TakenPlaces)
    _places: dict[tuple[str, int], _Place] = field(default_factory=dict)
    """By group (domain/group) and the query's hash."""
    _by_domain: dict[str, TakenPlaces] = field(default_factory=dict)

    def add(self, group: str, hash_: int, text: str) -> None:
        """Count one more client that is registered for it."""
        place = self._places.get((group, hash_))
        if place is None:
            assumed_bytes = _BYTES_ASSUMED + _BYTES_ASSUMED_EACH * len(text.encode(errors="replace"))
            place = self._places[group, hash_] = _Place(TakenPlaces(1, assumed_bytes))
            self._take(group, place.taken)
        place.registered += 1

    def remove(self, group: str, hash_: int) -> None:
        """Count one client less."""
        place = self._places[group, hash_]
        place.registered -= 1
        if not place.registered:
            del self._places[group, hash_]
            self._take(group, place.taken, -1)

    def price(self, group: str, hash_: int, query: CanonicalQuery) -> None:
        """Set its amounts, which can be computed now that it is registered."""
        place = self._places.get((group, hash_))
        if place is not None and not place.known:
            self._take(group, place.taken, -1)
            place.taken, place.known = _taken_by(query), True
            self._take(group, place.taken)

    def why_no_room(self, group: str, hash_: int, query: CanonicalQuery, most: PlacesMax) -> str:
        """Returns the reason why no client may newly register it; "": there is room."""
        if (group, hash_) in self._places:
            return ""
        domain = group.partition("/")[0]
        own, new = self._by_domain.get(domain, TakenPlaces()), _taken_by(query)
        of_others = TakenPlaces()
        of_others.add(self.taken)
        of_others.add(own, -1)
        for what, has, more, others, limit, unit in (
            ("different queries", own.places, new.places, of_others.places, most.places, ""),
            (
                "queries of",
                own.size_bytes // _KIB,
                -(-new.size_bytes // _KIB),
                of_others.size_bytes // _KIB,
                most.size_bytes // _KIB,
                " KiB of memory",
            ),
            ("regular expressions of", own.steps, new.steps, of_others.steps, most.steps, " steps"),
        ):
            share = share_of(limit, others)
            if more and has + more > share:
                count = f"{has} {what}" if not unit else f"{what} {has}{unit}"
                more_of_it = "" if not unit else f", this one takes {more}{unit}"
                return (
                    f"{domain} has {count} in its partition{more_of_it} "
                    f"(at most {share}{unit} are allowed, while others have {others})"
                )
        return ""

    def _take(self, group: str, taken: TakenPlaces, sign: int = 1) -> None:
        domain = group.partition("/")[0]
        own = self._by_domain.setdefault(domain, TakenPlaces())
        own.add(taken, sign)
        self.taken.add(taken, sign)
        if not own.places:
            del self._by_domain[domain]


def _taken_by(query: CanonicalQuery) -> TakenPlaces:
    return TakenPlaces(1, size_bytes_of(query), query.steps)
