"""Conflation: publishes of one object in close succession leave as one, the newest.

The first leaves at once. Publishes within the interval after that are held, and leave as one at its end; then the next
interval begins. While a publish is held no `complete` may reach the offset of the first held one: a client that
received such a `complete` would not get the publish after a loss, and its cursor would hide it at the next wake. That
floor is one number for the whole partition. It holds back the cursors of others for a moment too, and they catch up
with the next frame; a floor for each session would cost a pass over its objects for each publish.

A page needs none of this: it is computed from the newest versions, held or not.

A domain's interval is fixed or tunes itself (`tuning.Tuning`), by the lag of the gateways that the domain's publishes
went to. A held publish leaves when its interval ends, even if the domain's interval has changed since.

A publish that may leave by its interval may have to wait longer, because its tenant is above its agreement
(`thinning.Thinning`), or because it names a message that is not read yet (`awaited_messages.AwaitedMessages`).
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from coldnotify_matcher.engine.clients.memberships import Changes
from coldnotify_matcher.engine.gateways.gateways import GatewayView
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.rules.tuning import Tuning
from coldnotify_matcher.engine.telling.awaited_messages import AwaitedMessages
from coldnotify_matcher.engine.telling.index import Index
from coldnotify_matcher.engine.telling.thinning import Thinning


class NewerMember(NamedTuple):
    """A member of a set that has become newer."""

    obj: Obj
    changes: Changes | None
    """The changes of sets of queries that it leads to; None: nobody has registered a query in its group."""


class Tuned:
    """The interval of a domain that tunes itself."""

    def __init__(self, tuning: Tuning) -> None:
        self.tuning = tuning
        self.told: set[GatewayView] = set()
        """Gateways that were sent a publish of the domain since their last Beat: the lag of others does not concern
        it."""


class Conflation:
    """Holds objects' publishes back, or hands them to the index."""

    def __init__(self, state: PartitionState, index: Index) -> None:
        self._state = state
        self._index = index
        self._until_ms: dict[Obj, int] = {}
        """By object that was fanned out lately: the end of its interval."""
        self._held: OrderedDict[Obj, int] = OrderedDict()
        """By held object: the offset of its first held publish. Ordered by these offsets."""
        self._held_of: dict[str, OrderedDict[Obj, int]] = {}
        """The same, by domain."""
        self._due: list[tuple[int, int, Obj]] = []
        """A heap of held publishes: (due time, offset of the first held publish, object)."""
        self._tuned: dict[str, Tuned] = {}
        """By domain as the rules name it; made at the domain's first fan-out."""
        self._thinning = Thinning(state)
        self._awaited = AwaitedMessages(state)

    @property
    def floor(self) -> int:
        """The lowest offset that is held back; the position if none is. Everything below has been fanned out."""
        return next(iter(self._held.values())) if self._held else self._state.position

    def held_since(self, obj: Obj) -> int | None:
        """Returns the offset of the object's first publish that is held back now; None: none is held."""
        return self._held.get(obj)

    def held_domains(self) -> Iterator[tuple[str, int]]:
        """Yields the domains of held objects, each with the offset of its first held publish."""
        for domain, held in self._held_of.items():
            yield domain, next(iter(held.values()))

    def publish(
        self, obj: Obj, offset: int, now_ms: int, changes: Changes | None = None, *, urgent: bool = False
    ) -> None:
        """Fan out the object's newer version, at `offset`, now or later.

        `changes`: the changes of sets that it leads to. No session may hear of these without the version, so it is not
        held. `urgent`: it is of high priority, so it is not held either, whatever its domain's interval and its
        tenant's agreement are; but where it names a message that is not read yet, it leaves again with that. A held
        publish of the object is older, and not needed any more.
        """
        self._awaited.begin(obj, now_ms)
        if changes or urgent:
            self._release_all(obj)
            if obj in self._awaited:
                self._hold(obj, offset)
            self._fan_out(obj, now_ms, *self._interval_of(obj, now_ms), changes, urgent=urgent)
            return
        if not obj.subscribers and not self._index.heard(obj):
            return  # later subscribers get it in a page, or as an answer
        rules = self._state.rules
        if not (self._held or rules.conflation.holds or rules.allowances.any or obj in self._awaited):
            self._index.fan_out(obj, now_ms, complete=obj.offset)
            return
        if obj in self._held:
            self._state.count("conflated")
            if obj in self._thinning:
                self._state.use_of(obj.domain).thin(self._index.hearing(obj))
            return
        interval_ms, tuned = self._interval_of(obj, now_ms)
        until_ms = self._until_ms.get(obj, 0)
        # An end that is further away than the interval comes from a clock that was set back since, or from a time when
        # the interval was longer.
        if interval_ms and 0 < until_ms - now_ms <= interval_ms:
            self._hold(obj, offset)
            heappush(self._due, (until_ms, offset, obj))
        elif self._thinning.holds(obj, now_ms) or obj in self._awaited:
            self._hold(obj, offset)
        else:
            self._fan_out(obj, now_ms, interval_ms, tuned)

    def publish_set(self, members: Sequence[NewerMember], offset: int, now_ms: int) -> None:
        """Fan out the members of a set, at `offset`, at once: none may be told without the others. Held publishes of
        these objects are older. Of a single one it is a publish like any other."""
        if len(members) == 1:
            ((obj, changes),) = members
            self.publish(obj, offset, now_ms, changes)
            return
        for obj, _ in members:
            self._awaited.begin(obj, now_ms)
            self._release_all(obj)
            self._note_fan_out(obj, now_ms, *self._interval_of(obj, now_ms))
        complete = min(offset, self.floor - 1)
        self._index.fan_out_set([(obj, changes) for obj, changes in members], now_ms, complete=complete)

    def described(self, group: str, name: str, offset: int, now_ms: int, changes: Changes) -> None:
        """Send the changes of sets that the object's new description, at `offset`, leads to."""
        if changes or self._state.members.describes:
            self._index.tell(group, name, now_ms, changes, offset=offset, complete=min(offset, self.floor - 1))

    def fan_out(self, objects: Sequence[Obj], now_ms: int) -> None:
        """Fan out at once, whatever left before: a takeover must not wait. `objects`: those whose newest versions have
        one offset, as members of a set have."""
        for obj in objects:
            self._note_fan_out(obj, now_ms, *self._interval_of(obj, now_ms))
        complete = min(objects[0].offset, self.floor - 1)
        self._index.fan_out_set([(obj, None) for obj in objects], now_ms, complete=complete)

    def forget(self, obj: Obj) -> None:
        """Drop held publishes of the object, which is removed."""
        self._awaited.forget(obj)
        self._release_all(obj)

    @property
    def due_at_once(self) -> bool:
        """True if a version waits for a message that is read by now."""
        return self._awaited.due

    def flush(self, now_ms: int) -> None:
        """Fan out publishes that are due."""
        longest_ms = self._state.rules.conflation.longest_ms if self._due else 0
        while self._due and not 0 < self._due[0][0] - now_ms <= longest_ms:
            _, offset, obj = heappop(self._due)
            if self._held.get(obj) != offset or obj in self._thinning or obj in self._awaited:
                continue  # it is not held any more, or is held longer
            if not self._thinning.holds(obj, now_ms):
                self._leave(obj, now_ms)
        if self._thinning.any:
            for obj in self._thinning.take_due(now_ms):
                if obj not in self._awaited:
                    self._leave(obj, now_ms)
        for obj in self._awaited.take_due(now_ms):
            if obj in self._held and obj not in self._thinning:
                self._leave(obj, now_ms)

    def next_due_ms(self) -> int | None:
        """Returns the time at which `flush` has something to do; None: never, at present."""
        due_ms = self._due[0][0] if self._due else None
        if not self._thinning.any:
            return due_ms
        turn_ms = self._thinning.next_due_ms()
        return turn_ms if due_ms is None or (turn_ms is not None and turn_ms < due_ms) else due_ms

    def interval_ms(self, entry: str) -> int:
        """Returns the present interval of a domain, or of `*`, as the rules name it."""
        rules = self._state.rules.conflation
        if entry not in rules.auto:
            return rules.of(entry)
        return self._tuned[entry].tuning.interval_ms if entry in self._tuned else rules.bounds.shortest_ms

    def on_beat(self, gateway: GatewayView, number: int, now_ms: int) -> None:
        """Note that the gateway has handled its inbox up to this record."""
        before_ms = gateway.lag.lag_ms
        lag_ms = gateway.lag.read(number, gateway.number, now_ms)
        for tuned in self._tuned.values():
            if gateway in tuned.told:
                tuned.told.discard(gateway)
                tuned.tuning.on_lag(lag_ms, before_ms, now_ms)

    def on_tick(self, now_ms: int) -> None:
        """Forget the intervals that are over, and the gateways; those that keep up let intervals shrink."""
        self._until_ms = {obj: until_ms for obj, until_ms in self._until_ms.items() if until_ms > now_ms}
        for tuned in self._tuned.values():
            tuned.told = {gateway for gateway in tuned.told if gateway.sessions}
            tuned.tuning.on_tick(now_ms)

    def _interval_of(self, obj: Obj, now_ms: int) -> tuple[int, Tuned | None]:
        """Returns (ms, the `Tuned` that sets it, if any)."""
        rules = self._state.rules.conflation
        entry = rules.tuned_as(obj.domain) if rules.auto else None
        if entry is None:
            return rules.of(obj.domain), None
        tuned = self._tuned.get(entry)
        if tuned is None:
            tuned = self._tuned[entry] = Tuned(Tuning(rules.bounds, now_ms))
        return tuned.tuning.interval_ms, tuned

    def _leave(self, obj: Obj, now_ms: int) -> None:
        self._release(obj)
        self._fan_out(obj, now_ms, *self._interval_of(obj, now_ms))

    def _release_all(self, obj: Obj) -> None:
        if obj in self._held:
            self._release(obj)
        self._thinning.forget(obj)

    def _hold(self, obj: Obj, offset: int) -> None:
        self._held[obj] = offset
        self._held_of.setdefault(obj.domain, OrderedDict())[obj] = offset

    def _release(self, obj: Obj) -> None:
        del self._held[obj]
        held = self._held_of[obj.domain]
        del held[obj]
        if not held:
            del self._held_of[obj.domain]

    def _fan_out(
        self,
        obj: Obj,
        now_ms: int,
        interval_ms: int,
        tuned: Tuned | None,
        changes: Changes | None = None,
        *,
        urgent: bool = False,
    ) -> None:
        self._note_fan_out(obj, now_ms, interval_ms, tuned)
        complete = min(obj.offset, self.floor - 1)
        self._index.fan_out(obj, now_ms, complete=complete, changes=changes, urgent=urgent)

    def _note_fan_out(self, obj: Obj, now_ms: int, interval_ms: int, tuned: Tuned | None) -> None:
        if interval_ms:
            self._until_ms[obj] = now_ms + interval_ms
        if tuned is not None:
            tuned.told.update(self._index.gateways(obj))
