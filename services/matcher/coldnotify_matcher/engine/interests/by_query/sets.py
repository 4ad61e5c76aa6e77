"""The sets of queries: the matching objects, kept in step with every change, for as long as a client wants them.

A query has a set while it has subscribers, and for KEPT_MS after them. A new one is computed in short turns that do not
disturb others: a pass over the group's objects, for all sets that wait for one. Changes are applied meanwhile. An
object may be evaluated twice, so it does not matter which part of a set was computed before a change.

A registered query is never refused a set: its room was checked when it was registered (`query_places`). Only a set that
no client had registered before may turn out to have too many members.
"""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from coldnotify_schemas.descriptions import Description
from coldnotify_schemas.digest import MODULUS, object_digest
from coldnotify_streams.core.partition_turns import Spent, never

from coldnotify_matcher.engine.interests.by_query.query import CanonicalQuery
from coldnotify_matcher.engine.interests.by_query.query_index import QueryIndex, size_bytes_of
from coldnotify_matcher.engine.interests.by_query.query_places import share_of
from coldnotify_matcher.engine.objects.description_store import same

IDLE_MAX = 10_000
IDLE_BYTES_MAX = 64 * 2**20
"""Maximum size of unwanted sets, as far as the wanted ones leave room for them."""
MEMBERS_MAX = 10_000_000
"""Maximum for a partition's sets together: some 1.2 GB. A domain above its share gets no sets for new registrations."""
KEPT_MS = 300_000
"""A set is kept for so long after its last subscriber: units that come back soon cost no pass."""
CHANGES_KEPT = 1000
"""Changes of a set that are kept. Clients that missed no more receive the difference, others compare digests."""
CHANGES_MAX = 1_000_000
"""Maximum for the partition's sets together, the latest are kept: some 100 MB."""
DEAR_US = 2_000
"""If all queries of a group together take longer for one object, a change is evaluated ahead of its turn."""
CHEAP_US = 20
"""Evaluations that take so much together share one check whether the turn is over."""
PASSES_MAX = 16
"""Passes under way in a partition, for as many groups: each has the names of its group's objects."""
FEW = 16
"""Up to so many sets of a pass are evaluated one by one. For more, the index finds those that may have the object."""


SWEPT_AT_ONCE = 64
"""Members of a dropped set that are removed at once, some 30 us."""


class SetObjects(Protocol):
    """The objects as sets see them: those of a group that are published or described, and not removed."""

    def names(self, group: str) -> list[str]:
        """Returns the names of all objects at present."""

    def description(self, group: str, name: str) -> Description | None:
        """Returns the description of one of them, empty if it has none; None: there is no such object."""


class SetChange(NamedTuple):
    """A change of one object's membership in a set."""

    offset: int
    name: str
    entered: bool


class Difference(NamedTuple):
    """The net changes above a cursor: by name, the offset of the last change.

    Applied to the set as it was at the cursor, or at any place since, it results in the set as it is now.
    """

    entered: dict[str, int]
    left: dict[str, int]


class QuerySet:
    """The objects of one group that fit one query."""

    __slots__ = (
        "changes", "digest", "group", "idle_since_ms", "is_new", "logged", "members", "query", "ready", "refused",
        "since", "size_bytes", "subscribers",
    )  # fmt: skip

    def __init__(self, group: str, query: CanonicalQuery) -> None:
        self.group = group
        self.query = query
        self.ready = False
        """True if its members are computed, and it has not been dropped."""
        self.refused = ""
        """The reason why it will never be ready; "": it will."""
        self.is_new = True
        """True if no present subscriber had registered it before: then it is refused if it has too many members."""
        self.size_bytes = size_bytes_of(query)
        self.members: set[str] = set()
        self.digest = 0
        """The sum of the members' hashes."""
        self.subscribers = 0
        self.idle_since_ms: int | None = None
        self.changes: deque[SetChange] = deque()
        """The latest changes, in the order of offsets."""
        self.since = 0
        """A cursor from which on no change is missing."""
        self.logged = 0
        """Number of the partition's latest changes that belong to this set."""

    def difference(self, cursor: int) -> Difference | None:
        """Returns the changes since `cursor`; None: they are not known any more."""
        if cursor < self.since:
            return None
        entered: dict[str, int] = {}
        left: dict[str, int] = {}
        for change in reversed(self.changes):
            if change.offset <= cursor:
                break
            if change.name not in entered and change.name not in left:
                (entered if change.entered else left)[change.name] = change.offset
        return Difference(entered, left)


class _Group:
    """The sets of one group's queries."""

    def __init__(self) -> None:
        self.index = QueryIndex()
        self.sets: dict[CanonicalQuery, QuerySet] = {}
        self.by_text: dict[str, QuerySet] = {}
        self.by_member: dict[str, dict[QuerySet, int]] = {}
        """By name, the sets that have it: since the change at this offset, or one before it."""
        self.evaluation_us_max = 0.0
        """Total of all queries, for one object."""
        self.version = 0
        """Changes whenever queries come or go."""


class _Pass:
    """Computes some sets of one group."""

    def __init__(self, group: str, names: list[str], sets: dict[QuerySet, None]) -> None:
        self.group = group
        self.names = names
        """Names that are still to come."""
        self.sets = sets
        self.name = ""
        self.left: list[QuerySet] = []
        """Sets that the object of this name is still to be evaluated for."""


@dataclass(slots=True)
class _Ahead:
    """The queries that a coming change concerns, and their results so far."""

    group: str
    name: str
    before: Description | None
    after: Description
    version: int
    concerned: list[CanonicalQuery]
    fits: dict[CanonicalQuery, bool]

    def is_of(self, group: str, name: str, before: Description | None, after: Description | None) -> bool:
        """Returns true if it belongs to this change."""
        return (
            (group, name) == (self.group, self.name)
            and before is self.before
            and after is not None
            and same(after, self.after)
        )


class QuerySets:
    """The sets of one partition."""

    def __init__(
        self,
        objects: SetObjects,
        *,
        idle_max: int = IDLE_MAX,
        idle_bytes_max: int = IDLE_BYTES_MAX,
        members_max: int = MEMBERS_MAX,
        kept_ms: int = KEPT_MS,
    ) -> None:
        self._objects = objects
        self._idle_max = idle_max
        self._idle_bytes_max = idle_bytes_max
        self._idle_bytes = 0
        self._members_max = members_max
        self._members_of: Counter[str] = Counter()
        """By domain."""
        self._ahead: _Ahead | None = None
        self._dear: set[str] = set()
        """Groups whose queries take long together."""
        self._kept_ms = kept_ms
        self._groups: dict[str, _Group] = {}
        self._idle: dict[QuerySet, None] = {}
        """In the order in which their last subscribers went."""
        self._waiting: dict[str, dict[QuerySet, None]] = {}
        """By group: sets for the next pass."""
        self._passes: dict[str, _Pass] = {}
        """By group: passes under way; the first one has the next turn."""
        self._dropped: deque[QuerySet] = deque()
        """Sets whose members are still in `by_member`."""
        self._latest: deque[QuerySet] = deque()
        """The sets of the partition's latest changes."""
        self.queries = 0
        self.members = 0
        self._evaluated = 0

    def subscribe(self, group: str, query: CanonicalQuery, *, new: bool = False) -> QuerySet:
        """Add a subscriber to the set of this query, which may not be ready yet. `new`: it had not registered it
        before."""
        found = self._groups.get(group)
        set_ = None if found is None else found.by_text.get(query.text)
        if set_ is None:
            set_ = self._make(group, query)
        set_.is_new &= new
        set_.subscribers += 1
        set_.idle_since_ms = None
        self._wanted_again(set_)
        return set_

    def why_no_members(self, group: str) -> str:
        """Returns the reason why a query of this group's domain gets no new set; "": it gets one."""
        domain = group.partition("/")[0]
        own = self._members_of[domain]
        others = self.members - own
        most = share_of(self._members_max, others)
        if own < most:
            return ""
        return (
            f"query: {domain}'s queries have {own} members in its partition "
            f"(at most {most} are allowed, while others have {others})"
        )

    def unsubscribe(self, set_: QuerySet) -> None:
        """Remove a subscriber."""
        set_.subscribers -= 1
        if set_.subscribers or set_.refused:
            return
        if not set_.ready:
            self._drop(set_)
            return
        self._idle[set_] = None
        self._idle_bytes += set_.size_bytes
        while len(self._idle) > self._idle_max or self._idle_bytes > self._idle_bytes_max:
            self._drop(next(iter(self._idle)))

    def forget_idle(self, now_ms: int) -> None:
        """Drop sets that had no subscriber for long: since the first call that found them so.

        A clock that is set back makes them stay for longer.
        """
        for set_ in reversed(self._idle):
            if set_.idle_since_ms is not None:
                break
            set_.idle_since_ms = now_ms
        for set_ in list(self._idle):
            if set_.idle_since_ms is None or set_.idle_since_ms > now_ms - self._kept_ms:
                return
            self._drop(set_)

    def has(self, group: str) -> bool:
        """Returns true if a query of this group has a set, or a dropped one that is not swept yet."""
        return group in self._groups

    def has_set(self, group: str, query: CanonicalQuery) -> bool:
        """Returns true if this query has a set, ready or not."""
        found = self._groups.get(group)
        return found is not None and query.text in found.by_text

    def sets_of(self, group: str, name: str) -> Iterator[QuerySet]:
        """Yields the ready sets that have this object."""
        found = self._groups.get(group)
        if found is not None:
            yield from (set_ for set_ in found.by_member.get(name, ()) if set_.ready)

    def member_since(self, set_: QuerySet, name: str) -> int:
        """Returns the offset of the change by which this member entered; for one that was there before, a later one."""
        return self._groups[set_.group].by_member[name][set_]

    def on_change(
        self, group: str, name: str, before: Description | None, after: Description | None, offset: int
    ) -> list[tuple[QuerySet, SetChange]]:
        """Apply the change of an object at `offset`. Returns the changes of ready sets.

        `before`, `after`: its description, empty if it has none; None: there is no such object.
        """
        found = self._groups.get(group)
        if found is None:
            return []
        entered, left = SetChange(offset, name, True), SetChange(offset, name, False)
        changes = []
        ahead, self._ahead = self._ahead, None
        known: dict[CanonicalQuery, bool] = {}
        if ahead is not None and ahead.is_of(group, name, before, after):
            known = ahead.fits
        if known and ahead is not None and ahead.version == found.version:
            concerned = ahead.concerned
        else:
            concerned = found.index.concerned(name, before, after)
        self._evaluated += len(concerned)
        for query in concerned:
            set_ = found.sets[query]
            fits = after is not None and (known[query] if query in known else query.matches(name, after))
            if fits is (name in set_.members):
                continue
            if fits:
                self._enter(found, set_, name, offset)
            else:
                self._leave(found, set_, name)
            if set_.ready:
                change = entered if fits else left
                self._log(set_, change)
                changes.append((set_, change))
        return changes

    @property
    def any_dear(self) -> bool:
        """True if any group is dear. Each record asks."""
        return bool(self._dear)

    def is_dear(self, group: str) -> bool:
        """Returns true if all queries of this group may take long for one object."""
        return group in self._dear

    def evaluate_ahead(
        self, group: str, name: str, before: Description | None, after: Description, spent: Spent
    ) -> bool:
        """Evaluate the queries that a coming change concerns for the object after it, until the turn is `spent`.

        Returns true if all are evaluated. `before`, `after`: as in `on_change`. Nothing is changed.
        """
        found = self._groups.get(group)
        if found is None:
            return True
        ahead = self._ahead
        if ahead is None or not ahead.is_of(group, name, before, after):
            ahead = _Ahead(group, name, before, after, -1, [], {})
            self._ahead = ahead
        if ahead.version != found.version:
            ahead.version, ahead.concerned = found.version, found.index.concerned(name, before, after)
        asked = _Asked(spent)
        for query in ahead.concerned:
            if query in ahead.fits:
                continue
            if asked.is_over(query):
                return False
            ahead.fits[query] = query.matches(name, ahead.after)
        return True

    def take_evaluated(self) -> int:
        """Returns the number of queries evaluated for changes since the last call."""
        evaluated, self._evaluated = self._evaluated, 0
        return evaluated

    def compute(self, position: int, spent: Spent = never) -> list[QuerySet]:
        """Go on with sets that wait or were dropped, until the turn is `spent`.

        Returns the sets that have become ready by it, or have been refused. `position`: the next offset of the log;
        every change before it has been applied.
        """
        settled: list[QuerySet] = []
        while self._dropped:
            self._sweep()
            if spent():
                return settled
        while (current := self._next_pass()) is not None:
            if current.sets and (current.left or current.names):
                self._evaluate(current, position, spent, settled)
                if spent():
                    # If two groups share a partition, the one with dear queries does not keep the other waiting.
                    self._passes[current.group] = self._passes.pop(current.group)
                    break
                continue
            del self._passes[current.group]
            for set_ in current.sets:
                set_.ready = True
                set_.since = position - 1
                settled.append(set_)
        return settled

    @property
    def computing(self) -> bool:
        """True if `compute` has something to do."""
        return bool(self._passes or self._waiting or self._dropped)

    # --- sets come and go

    def _make(self, group: str, query: CanonicalQuery) -> QuerySet:
        found = self._groups.setdefault(group, _Group())
        set_ = found.sets[query] = found.by_text[query.text] = QuerySet(group, query)
        found.index.add(query)
        self._note_work(group, found, query.evaluation_us_max)
        self.queries += 1
        self._waiting.setdefault(group, {})[set_] = None
        return set_

    def _drop(self, set_: QuerySet) -> None:
        found = self._groups[set_.group]
        found.index.remove(set_.query)
        self._note_work(set_.group, found, -set_.query.evaluation_us_max)
        del found.sets[set_.query], found.by_text[set_.query.text]
        self.queries -= 1
        set_.ready = False
        set_.changes.clear()
        self._wanted_again(set_)
        self._dropped.append(set_)
        self._waiting.get(set_.group, {}).pop(set_, None)
        if set_.group in self._passes:
            self._passes[set_.group].sets.pop(set_, None)
        if not self._waiting.get(set_.group, True):
            del self._waiting[set_.group]

    def _note_work(self, group: str, found: _Group, more_us: float) -> None:
        found.version += 1
        found.evaluation_us_max += more_us
        (self._dear.add if found.evaluation_us_max > DEAR_US else self._dear.discard)(group)

    def _wanted_again(self, set_: QuerySet) -> None:
        """Remove it from the idle ones."""
        if set_ in self._idle:
            del self._idle[set_]
            self._idle_bytes -= set_.size_bytes

    def _sweep(self) -> None:
        """Remove some members of a dropped set."""
        set_ = self._dropped[0]
        found = self._groups[set_.group]
        for _ in range(min(SWEPT_AT_ONCE, len(set_.members))):
            self._forget_member(found, set_, set_.members.pop())
        if set_.members:
            return
        self._dropped.popleft()
        if not found.sets and not found.by_member and not any(other.group == set_.group for other in self._dropped):
            del self._groups[set_.group]

    # --- computing

    def _next_pass(self) -> _Pass | None:
        if self._waiting and len(self._passes) < PASSES_MAX:
            group = next((group for group in self._waiting if group not in self._passes), None)
            if group is not None:
                self._passes[group] = _Pass(group, self._objects.names(group), self._waiting.pop(group))
        return next(iter(self._passes.values()), None)

    def _evaluate(self, current: _Pass, position: int, spent: Spent, settled: list[QuerySet]) -> None:
        """Put one object into the matching sets of a pass; the next one, or go on with the last."""
        found = self._groups[current.group]
        name = current.name if current.left else current.names.pop()
        # As it is now: later changes have put it into all sets that it fits because of them.
        description = self._objects.description(current.group, name)
        if description is None:
            current.left = []
            return
        if not current.left:
            current.name = name
            if len(current.sets) <= FEW:
                current.left = list(current.sets)
            else:
                candidates = (found.sets[query] for query in found.index.candidates(name, description))
                current.left = [set_ for set_ in candidates if set_ in current.sets]
        asked = _Asked(spent)
        while current.left and not asked.is_over(current.left[-1].query):
            set_ = current.left.pop()
            if set_ not in current.sets or name in set_.members or not set_.query.matches(name, description):
                continue
            if set_.is_new and (reason := self.why_no_members(current.group)):
                set_.refused = reason
                self._drop(set_)
                settled.append(set_)
                continue
            self._enter(found, set_, name, position - 1)

    # --- members and changes

    def _enter(self, found: _Group, set_: QuerySet, name: str, offset: int) -> None:
        set_.members.add(name)
        set_.digest = (set_.digest + object_digest(name)) % MODULUS
        found.by_member.setdefault(name, {})[set_] = offset
        self.members += 1
        self._members_of[set_.group.partition("/")[0]] += 1

    def _leave(self, found: _Group, set_: QuerySet, name: str) -> None:
        set_.members.remove(name)
        set_.digest = (set_.digest - object_digest(name)) % MODULUS
        self._forget_member(found, set_, name)

    def _forget_member(self, found: _Group, set_: QuerySet, name: str) -> None:
        sets = found.by_member[name]
        del sets[set_]
        if not sets:
            del found.by_member[name]
        self.members -= 1
        domain = set_.group.partition("/")[0]
        self._members_of[domain] -= 1
        if not self._members_of[domain]:
            del self._members_of[domain]

    def _log(self, set_: QuerySet, change: SetChange) -> None:
        set_.changes.append(change)
        set_.logged += 1
        self._latest.append(set_)
        if len(set_.changes) > CHANGES_KEPT:
            set_.since = set_.changes.popleft().offset
        if len(self._latest) > CHANGES_MAX:
            oldest = self._latest.popleft()
            oldest.logged -= 1
            if len(oldest.changes) > oldest.logged:
                oldest.since = oldest.changes.popleft().offset


class _Asked:
    """Checks if a turn is over, but not for each cheap evaluation: checking would take a tenth of it."""

    __slots__ = ("_spent", "_unasked_us")

    def __init__(self, spent: Spent) -> None:
        self._spent = spent
        self._unasked_us = 0.0

    def is_over(self, query: CanonicalQuery) -> bool:
        """Returns true if the turn is over before this evaluation. The first one is always made: so each turn makes
        progress."""
        if self._unasked_us < CHEAP_US:
            self._unasked_us += query.evaluation_us_max
            return False
        self._unasked_us = query.evaluation_us_max
        return self._spent()
