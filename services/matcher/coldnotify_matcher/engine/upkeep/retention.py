"""Retention: objects that were neither published nor described for long are removed, by a null under their key.

All objects are checked in turn, a bounded number a tick, so that a tick's cost has a bound whatever their number;
publishes cost nothing more. If an object was never made, only its record's timestamp is checked. The nulls of a tick
have a bound, too, and so have those that are under way: while a matcher is behind with reading, no more are written.

Writing the null changes nothing here. It is read back like any record, in the order of the log, and only then does it
remove the object, or not (`removal_intake`). So every reader of the log sees the same outcome, and a null that was
written and not committed, or was written by two, needs no care. By a clock that others contradict no null is written,
and few at once unless the clock is known to be right (`removal_brake`).

The object's null comes before its description's: in between, the object is described and was never published, and no
query gains it as a member. For a deleted object it comes after that: the object is not a member of anything, and
without its version it would be. If a crash comes between the two, the next owner finds the rest, and removes it.
"""

from coldnotify_schemas.descriptions import KEY_PREFIX
from coldnotify_schemas.protocol import CLOCK_SET_S
from coldnotify_schemas.removals import removes_header

from coldnotify_matcher.engine.objects.description_store import StoredDescription
from coldnotify_matcher.engine.outputs import ProducedRecord
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.upkeep.removal_brake import RemovalBrake
from coldnotify_matcher.engine.writing.outbox import EngineOutbox

LOOKED_AT_A_TICK_MAX = 1_000
"""Takes a millisecond; a million objects of one partition are checked within 17 minutes, and periods are in days."""
NULLS_A_TICK_MAX = 100
"""For one partition: a hundredth of what it handles in a second."""
UNDER_WAY_MAX = 200
"""Nulls that were written and not read back yet: if there are more the matcher is behind, and publishes come first."""
LOST_AFTER_MS = 600_000
"""A null that was not read back for so long counts as lost: a transaction holds the topic open for 15 minutes at most,
and one more null costs nothing."""
PLAUSIBLE_MS = CLOCK_SET_S * 1000
"""A record with an earlier timestamp comes from a clock that was never set."""


class RetentionTurns:
    """Checks objects in turn, and writes the nulls of those whose time has come."""

    def __init__(self, state: PartitionState, outbox: EngineOutbox) -> None:
        self._state = state
        self._outbox = outbox
        self.brake = RemovalBrake()
        self._all = 0
        """Number of objects in this round."""
        self._keys: list[str] = []
        """Keys of objects that this round has still to check."""
        self._groups: list[str] = []
        """Groups whose descriptions are to be checked after that."""
        self._live_since_ms = 0
        self._under_way: dict[str, int] = {}
        """By key: the time at which its null was written."""

    def start(self, now_ms: int) -> None:
        """Begin after a takeover of the partition."""
        self._live_since_ms = now_ms
        self._keys, self._groups = [], []
        self.brake.clear()
        self._under_way.clear()

    def settled(self, key: str) -> None:
        """Note that a null of this key was read, whatever its effect."""
        self._under_way.pop(key, None)

    def on_tick(self, now_ms: int) -> None:
        """Check the next ones."""
        state = self._state
        if not state.rules.retention.removes:
            return
        state.at = None
        if not self._keys and not self._groups:
            self._begin_round(now_ms)
        written = 0
        for _ in range(LOOKED_AT_A_TICK_MAX):
            if written >= NULLS_A_TICK_MAX or len(self._under_way) >= UNDER_WAY_MAX:
                return
            if self.brake.going:
                written += self._look(self.brake.going.pop(), now_ms, may_go=True)
                continue
            while not self._keys and self._groups:
                group = self._groups.pop()
                self._keys = [f"{group}/{name}" for name in state.descriptions.of_group(group)]
                self._all += sum(key not in state.objects for key in self._keys)
            if not self._keys:
                return
            written += self._look(self._keys.pop(), now_ms)

    def _begin_round(self, now_ms: int) -> None:
        self.brake.end_round(self._all, now_ms)
        self._keys = list(self._state.objects)
        self._all = len(self._keys)
        self._groups = self._state.descriptions.groups()
        for key in [key for key, written_ms in self._under_way.items() if now_ms - written_ms > LOST_AFTER_MS]:
            del self._under_way[key]

    def _look(self, key: str, now_ms: int, *, may_go: bool = False) -> int:
        """Check one object. Returns the number of nulls that this writes."""
        state = self._state
        domain, _, rest = key.partition("/")
        published_ms, deleted = state.objects.age_of(key)
        period_ms = state.rules.retention.of(domain, deleted=deleted)
        if not period_ms or key in self._under_way:
            return 0
        due_ms = 0 if published_ms is None else self._since(published_ms, now_ms) + period_ms
        described = None
        if due_ms <= now_ms:
            group, _, name = rest.partition("/")
            described = state.descriptions.of(f"{domain}/{group}", name)
            if described is not None:
                due_ms = max(due_ms, self._since(described.version, now_ms) + period_ms)
            elif published_ms is None:
                return 0  # only a registration keeps it
        if due_ms > now_ms:
            return 0
        clocks = state.rules.clocks
        if not clocks.allows(period_ms):
            return 0
        if not may_go and not self.brake.is_open(clocks, period_ms, now_ms):
            self.brake.found(key)
            return 0
        if may_go:
            self.brake.removed(now_ms)
        return self._remove(key, described, now_ms, published=published_ms is not None)

    def _since(self, timestamp_ms: int, now_ms: int) -> int:
        """Returns the time of a record with this timestamp. If a wrong clock wrote it: the time at which this matcher
        has loaded it."""
        return timestamp_ms if PLAUSIBLE_MS <= timestamp_ms <= now_ms else self._live_since_ms

    def _remove(self, key: str, described: StoredDescription | None, now_ms: int, *, published: bool) -> int:
        state = self._state
        obj = state.objects[key] if published else None
        if (obj is not None and obj.needs_repair) or (described is not None and described.needs_repair):
            return 0  # the record in force is about to be written again
        nulls = []
        read_to = max(one.last_offset for one in (obj, described) if one is not None)
        if obj is not None:
            nulls.append(self._null(key, obj.incarnation, obj.version, read_to))
        if described is not None:
            null = self._null(f"{KEY_PREFIX}{key}", 0, described.version, read_to)
            nulls.insert(0 if obj is not None and obj.deleted else len(nulls), null)
        for null in nulls:
            self._outbox.write(null)
        self._under_way[key] = now_ms
        return len(nulls)

    def _null(self, key: str, incarnation: int, version: int, read_to: int) -> ProducedRecord:
        header = removes_header(incarnation, version, self._state.epoch, read_to)
        return ProducedRecord(self._state.rules.topics.objects, self._state.partition, key.encode(), None, (header,))
