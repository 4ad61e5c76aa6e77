"""The sets of queries: which objects fit, kept in step with every change, for as long as somebody wants to know.

A query has a set while it has subscribers, and for KEPT_MS after them. A new one is computed in turns that others do
not feel: a pass over the group's objects, for all sets that wait for one. Changes are applied meanwhile. Whether an
object fits may be asked twice, so it does not matter what of a set was computed before a change.

What is registered is never refused a set: whether there is room was asked when it was registered (`query_places`). Only
a set that nobody had registered before may turn out to have too many members.
"""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from coldnotify_schemas.descriptions import Description
from coldnotify_schemas.digest import MODULUS, object_digest
from coldnotify_streams.core.partition_turns import Spent, never

from coldnotify_matcher.engine.description_store import same
from coldnotify_matcher.engine.interests.by_query.query import CanonicalQuery
from coldnotify_matcher.engine.interests.by_query.query_index import QueryIndex, size_bytes_of
from coldnotify_matcher.engine.interests.by_query.query_places import share_of

IDLE_MAX = 10_000
IDLE_BYTES_MAX = 64 * 2**20
"""Of sets that nobody wants now, as far as what is wanted leaves room for them."""
MEMBERS_MAX = 10_000_000
"""Of a partition's sets together: some 1.2 GB. A domain above its share gets none for what it registers anew."""
KEPT_MS = 300_000
"""A set is kept for so long after its last subscriber: units that come back soon cost no pass."""
CHANGES_KEPT = 1000
"""Of a set. Whoever missed no more is told the difference, others compare digests."""
CHANGES_MAX = 1_000_000
"""Of the partition's sets together, the latest are kept: some 100 MB."""
DEAR_US = 2_000
"""Where all queries of a group together take longer for one object, a change is held against them ahead of its turn."""
CHEAP_US = 20
"""Evaluations of so much together are not asked about one by one whether the turn is over."""
PASSES_MAX = 16
"""Under way in a partition, of as many groups: each has the names of its group's objects."""
FEW = 16
"""So many sets of a pass are asked one by one. Of more, the index says which may have the object."""


SWEPT_AT_ONCE = 64
"""Members of a dropped set, some 30 us."""


class SetObjects(Protocol):
    """The objects as sets see them: those of a group that are published or described, and not removed."""

    def names(self, group: str) -> list[str]:
        """All there are at present."""

    def description(self, group: str, name: str) -> Description | None:
        """Of one of them, empty if it has none; None: there is no such object."""


class SetChange(NamedTuple):
    """An object has come into a set, or has left it."""

    offset: int
    name: str
    entered: bool


class Difference(NamedTuple):
    """What is so since a change above a cursor: by name, the offset of the last change.

    Whoever has the set as it was at the cursor, or at any place since, has it as it is now once it has done all of it.
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
        """Its members are computed, and it has not been dropped."""
        self.refused = ""
        """Why it will never be; "": it will."""
        self.is_new = True
        """Nobody who wants it had registered it before: it is refused, should it have too many members."""
        self.size_bytes = size_bytes_of(query)
        self.members: set[str] = set()
        self.digest = 0
        """The sum of the members' hashes."""
        self.subscribers = 0
        self.idle_since_ms: int | None = None
        self.changes: deque[SetChange] = deque()
        """The latest, in the order of offsets."""
        self.since = 0
        """A cursor from which on no change is missing."""
        self.logged = 0
        """How many of the partition's latest changes are this set's."""

    def difference(self, cursor: int) -> Difference | None:
        """What has changed since `cursor`; None: that is not known any more."""
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
        """Of all queries together, for one object."""
        self.version = 0
        """Another one, whenever queries come or go."""


class _Pass:
    """The computing of some sets of one group."""

    def __init__(self, group: str, names: list[str], sets: dict[QuerySet, None]) -> None:
        self.group = group
        self.names = names
        """Those to come."""
        self.sets = sets
        self.name = ""
        self.left: list[QuerySet] = []
        """Those that the object of this name is still to be held against."""


@dataclass(slots=True)
class _Ahead:
    """What one change will concern, and what is known of that so far."""

    group: str
    name: str
    before: Description | None
    after: Description
    version: int
    concerned: list[CanonicalQuery]
    fits: dict[CanonicalQuery, bool]

    def is_of(self, group: str, name: str, before: Description | None, after: Description | None) -> bool:
        """Whether it is this change."""
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
        """Groups."""
        self._kept_ms = kept_ms
        self._groups: dict[str, _Group] = {}
        self._idle: dict[QuerySet, None] = {}
        """In the order in which their last subscribers went."""
        self._waiting: dict[str, dict[QuerySet, None]] = {}
        """By group: sets for the next pass."""
        self._passes: dict[str, _Pass] = {}
        """By group, those that are under way; the next turn is the first one's."""
        self._dropped: deque[QuerySet] = deque()
        """Sets whose members are still in `by_member`."""
        self._latest: deque[QuerySet] = deque()
        """The sets of the partition's latest changes."""
        self.queries = 0
        self.members = 0
        self._evaluated = 0

    def subscribe(self, group: str, query: CanonicalQuery, *, new: bool = False) -> QuerySet:
        """One more who wants the set of this query, which may not be ready yet. `new`: and did not before."""
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
        """Why a query of this group's domain gets no set that there was not before; "": it does."""
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
        """One who wanted it has gone."""
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
        """Drop the sets that nobody has wanted since long before: since the first call that found them so.

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
        """Whether a query of this group has a set, or leaves one behind."""
        return group in self._groups

    def has_set(self, group: str, query: CanonicalQuery) -> bool:
        """Whether this query has a set, ready or not."""
        found = self._groups.get(group)
        return found is not None and query.text in found.by_text

    def sets_of(self, group: str, name: str) -> Iterator[QuerySet]:
        """The sets that have this object, as far as they are ready."""
        found = self._groups.get(group)
        if found is not None:
            yield from (set_ for set_ in found.by_member.get(name, ()) if set_.ready)

    def member_since(self, set_: QuerySet, name: str) -> int:
        """The offset of the change by which this member entered, or, of one that was there before, a later one."""
        return self._groups[set_.group].by_member[name][set_]

    def on_change(
        self, group: str, name: str, before: Description | None, after: Description | None, offset: int
    ) -> list[tuple[QuerySet, SetChange]]:
        """The change of an object at `offset`. Returns what it changes in sets that are ready.

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
        """Whether that is so of any group. Each record asks."""
        return bool(self._dear)

    def is_dear(self, group: str) -> bool:
        """Whether to hold all queries of this group against one object may take long."""
        return group in self._dear

    def evaluate_ahead(
        self, group: str, name: str, before: Description | None, after: Description, spent: Spent
    ) -> bool:
        """Hold the queries that a change to come concerns against what its object will be, until the turn is `spent`.

        Whether all are. `before`, `after`: as `on_change` will be told them. Nothing is changed.
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
        """How many queries changes have been held against since the last call."""
        evaluated, self._evaluated = self._evaluated, 0
        return evaluated

    def compute(self, position: int, spent: Spent = never) -> list[QuerySet]:
        """Go on with what is to be done, until the turn is `spent`.

        Returns the sets that have become ready by it, or have been refused.

        `position`: the next offset of the log; every change before it has been said.
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
                    # Of two groups in one partition, the one with dear queries does not keep the other waiting.
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
        """Whether `compute` has something to do."""
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
        """It is not among the idle ones any more."""
        if set_ in self._idle:
            del self._idle[set_]
            self._idle_bytes -= set_.size_bytes

    def _sweep(self) -> None:
        """Take some members of a dropped set out."""
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
        """Put one object into the sets of a pass that it fits; the next one, or go on with the last."""
        found = self._groups[current.group]
        name = current.name if current.left else current.names.pop()
        # As it is now: what has changed it since has put it into all sets that it fits because of that.
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
    """Asks whether a turn is over, but not for each cheap evaluation: asking would take a tenth of it."""

    __slots__ = ("_spent", "_unasked_us")

    def __init__(self, spent: Spent) -> None:
        self._spent = spent
        self._unasked_us = 0.0

    def is_over(self, query: CanonicalQuery) -> bool:
        """Before this one is evaluated. The first one always is: so each turn comes further."""
        if self._unasked_us < CHEAP_US:
            self._unasked_us += query.evaluation_us_max
            return False
        self._unasked_us = query.evaluation_us_max
        return self._spent()
