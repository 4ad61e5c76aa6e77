"""The sets of queries: which objects fit, kept in step with every change, for as long as somebody wants to know.

A query has a set while it has subscribers, and for KEPT_MS after them. A new one is computed in steps that others do
not feel: a pass over the group's objects, for all sets that wait for one. Changes are applied meanwhile. Whether an
object fits may be asked twice, so it does not matter what of a set was computed before a change.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from coldnotify_schemas.descriptions import Description
from coldnotify_schemas.digest import MODULUS, object_digest

from coldnotify_matcher.engine.interests.by_query.query import Query
from coldnotify_matcher.engine.interests.by_query.query_index import QueryIndex

QUERIES_MAX = 10_000
"""Of a partition, in canonical form. Each costs what its index and its changes take, some 100 KB at the most."""
MEMBERS_MAX = 5_000_000
"""Of a partition's sets together, at which no more sets are computed: some 600 MB."""
KEPT_MS = 300_000
"""A set is kept for so long after its last subscriber: units that come back soon cost no pass."""
CHANGES_KEPT = 1000
"""Of a set. Whoever missed no more is told the difference, others compare digests."""
CHANGES_MAX = 1_000_000
"""Of the partition's sets together, the latest are kept: some 100 MB."""
EVALUATIONS_A_STEP = 2000
"""Some 2 ms: others wait for no longer than that."""
FEW = 16
"""So many sets of a pass are asked one by one. Of more, the index says which may have the object."""


class TooMany(Exception):
    """There is no room for one more set; the message says of what there are too many."""


class Objects(Protocol):
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
        "changes", "digest", "group", "idle_since_ms", "logged", "members", "query", "ready", "refused", "since",
        "subscribers",
    )  # fmt: skip

    def __init__(self, group: str, query: Query) -> None:
        self.group = group
        self.query = query
        self.ready = False
        """Its members are computed, and it has not been dropped."""
        self.refused = ""
        """Why it will never be; "": it will."""
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
        self.sets: dict[Query, QuerySet] = {}
        self.by_text: dict[str, QuerySet] = {}
        self.by_member: dict[str, dict[QuerySet, None]] = {}


class _Pass:
    """The computing of some sets of one group."""

    def __init__(self, group: str, names: list[str], sets: dict[QuerySet, None]) -> None:
        self.group = group
        self.names = names
        self.sets = sets


class Sets:
    """The sets of one partition."""

    def __init__(
        self,
        objects: Objects,
        *,
        queries_max: int = QUERIES_MAX,
        members_max: int = MEMBERS_MAX,
        kept_ms: int = KEPT_MS,
    ) -> None:
        self._objects = objects
        self._queries_max = queries_max
        self._members_max = members_max
        self._kept_ms = kept_ms
        self._groups: dict[str, _Group] = {}
        self._idle: dict[QuerySet, None] = {}
        """In the order in which their last subscribers went."""
        self._waiting: dict[str, dict[QuerySet, None]] = {}
        """By group: sets for the next pass."""
        self._pass: _Pass | None = None
        self._dropped: deque[QuerySet] = deque()
        """Sets whose members are still in `by_member`."""
        self._latest: deque[QuerySet] = deque()
        """The sets of the partition's latest changes."""
        self.queries = 0
        self.members = 0
        self._evaluated = 0

    def subscribe(self, group: str, query: Query) -> QuerySet:
        """One more who wants the set of this query, which may not be ready yet. Raises TooMany."""
        found = self._groups.get(group)
        set_ = None if found is None else found.by_text.get(query.text)
        if set_ is None:
            set_ = self._make(group, query)
        set_.subscribers += 1
        set_.idle_since_ms = None
        self._idle.pop(set_, None)
        return set_

    def unsubscribe(self, set_: QuerySet) -> None:
        """One who wanted it has gone."""
        set_.subscribers -= 1
        if set_.subscribers or set_.refused:
            return
        if set_.ready:
            self._idle[set_] = None
        else:
            self._drop(set_)

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

    def sets_of(self, group: str, name: str) -> Iterator[QuerySet]:
        """The sets that have this object, as far as they are ready."""
        found = self._groups.get(group)
        if found is not None:
            yield from (set_ for set_ in found.by_member.get(name, ()) if set_.ready)

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
        concerned = found.index.concerned(name, before, after)
        self._evaluated += len(concerned)
        for query in concerned:
            set_ = found.sets[query]
            fits = after is not None and query.matches(name, after)
            if fits is (name in set_.members):
                continue
            if fits:
                self._enter(found, set_, name)
            else:
                self._leave(found, set_, name)
            if set_.ready:
                change = entered if fits else left
                self._log(set_, change)
                changes.append((set_, change))
        return changes

    def take_evaluated(self) -> int:
        """How many queries changes have been held against since the last call."""
        evaluated, self._evaluated = self._evaluated, 0
        return evaluated

    def compute(self, position: int, evaluations: int = EVALUATIONS_A_STEP) -> list[QuerySet]:
        """Go on with what is to be done. Returns the sets that have become ready by it, or have been refused.

        `position`: the next offset of the log; every change before it has been said.
        """
        settled: list[QuerySet] = []
        while evaluations > 0 and self._dropped:
            evaluations -= self._sweep()
        while evaluations > 0:
            current = self._pass or self._next_pass()
            if current is None:
                break
            if current.names and current.sets:
                evaluations -= self._evaluate(current, current.names.pop(), settled)
                continue
            self._pass = None
            for set_ in current.sets:
                set_.ready = True
                set_.since = position - 1
                settled.append(set_)
        return settled

    @property
    def computing(self) -> bool:
        """Whether `compute` has something to do."""
        return bool(self._pass or self._waiting or self._dropped)

    # --- sets come and go

    def _make(self, group: str, query: Query) -> QuerySet:
        if self.queries >= self._queries_max and self._idle:
            self._drop(next(iter(self._idle)))
        if self.queries >= self._queries_max:
            raise TooMany(f"query: its partition has {self.queries} queries (at most {self._queries_max} are allowed)")
        if self.members >= self._members_max:
            raise TooMany(self._too_many_members())
        found = self._groups.setdefault(group, _Group())
        set_ = found.sets[query] = found.by_text[query.text] = QuerySet(group, query)
        found.index.add(query)
        self.queries += 1
        self._waiting.setdefault(group, {})[set_] = None
        return set_

    def _drop(self, set_: QuerySet) -> None:
        found = self._groups[set_.group]
        found.index.remove(set_.query)
        del found.sets[set_.query], found.by_text[set_.query.text]
        self.queries -= 1
        set_.ready = False
        set_.changes.clear()
        self._idle.pop(set_, None)
        self._dropped.append(set_)
        for computed in (self._waiting.get(set_.group), self._pass and self._pass.sets):
            if computed:
                computed.pop(set_, None)
        if not self._waiting.get(set_.group, True):
            del self._waiting[set_.group]

    def _sweep(self) -> int:
        """Take one member of a dropped set out. Returns what that costs."""
        set_ = self._dropped[0]
        found = self._groups[set_.group]
        if set_.members:
            self._forget_member(found, set_, set_.members.pop())
            return 1
        self._dropped.popleft()
        if not found.sets and not found.by_member and not any(other.group == set_.group for other in self._dropped):
            del self._groups[set_.group]
        return 1

    def _too_many_members(self) -> str:
        return f"query: its partition's queries have {self.members} members (at most {self._members_max} are allowed)"

    # --- computing

    def _next_pass(self) -> _Pass | None:
        if not self._waiting:
            return None
        group = next(iter(self._waiting))
        self._pass = _Pass(group, self._objects.names(group), self._waiting.pop(group))
        return self._pass

    def _evaluate(self, current: _Pass, name: str, settled: list[QuerySet]) -> int:
        """Put one object into the sets of a pass that it fits. Returns what that costs."""
        found = self._groups[current.group]
        description = self._objects.description(current.group, name)
        if description is None:
            return 1
        if len(current.sets) <= FEW:
            sets = list(current.sets)
        else:
            candidates = (found.sets[query] for query in found.index.candidates(name, description))
            sets = [set_ for set_ in candidates if set_ in current.sets]
        for set_ in sets:
            if name in set_.members or not set_.query.matches(name, description):
                continue
            if self.members >= self._members_max:
                set_.refused = self._too_many_members()
                self._drop(set_)
                settled.append(set_)
                continue
            self._enter(found, set_, name)
        return len(sets) or 1

    # --- members and changes

    def _enter(self, found: _Group, set_: QuerySet, name: str) -> None:
        set_.members.add(name)
        set_.digest = (set_.digest + object_digest(name)) % MODULUS
        found.by_member.setdefault(name, {})[set_] = None
        self.members += 1

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
