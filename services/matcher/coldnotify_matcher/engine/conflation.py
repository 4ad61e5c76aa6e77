"""Conflation: publishes of one object that follow each other closely leave as one, the newest.

The first leaves at once. What comes within the interval after that is held, and leaves as one at its end; with that the
next interval begins. While a publish is held no `complete` may reach the offset of the first one that is: a client that
believed it would not be told after a loss, and its cursor would hide it at the next wake. That floor is one number for
the whole partition. It holds back the cursors of others for a moment too, and they catch up with the next frame; a
floor of its own for each session would cost a pass over its objects for each publish.

A page needs none of this: it is computed from the newest versions, held or not.
"""

from collections import OrderedDict
from heapq import heappop, heappush

from coldnotify_matcher.engine.index import Index
from coldnotify_matcher.engine.objects import Obj
from coldnotify_matcher.engine.state import State


class Conflation:
    """Stands between the objects' publishes and the index."""

    def __init__(self, state: State, index: Index) -> None:
        self._state = state
        self._index = index
        self._until_ms: dict[Obj, int] = {}
        """Of objects that were fanned out lately: the end of their interval."""
        self._held: OrderedDict[Obj, int] = OrderedDict()
        """What is held, by the offset of the first publish that is: so in the order of these offsets."""
        self._due: list[tuple[int, int, Obj]] = []
        """A heap of what is held: (when it is due, offset of the first publish held, object)."""

    @property
    def floor(self) -> int:
        """The lowest offset that is held back; the position if none is. What lies below has been fanned out."""
        return next(iter(self._held.values())) if self._held else self._state.position

    def held_since(self, obj: Obj) -> int | None:
        """The offset of the first publish of this object that is held back now; None: none is."""
        return self._held.get(obj)

    def publish(self, obj: Obj, offset: int, now_ms: int) -> None:
        """The object has a newer version, at `offset`: it is fanned out now or later."""
        if not obj.subscribers:
            return  # whoever comes to want it gets it in a page, or as an answer
        if obj in self._held:
            self._state.count("conflated")
            return
        interval_ms = self._state.rules.conflation.of(obj.domain)
        until_ms = self._until_ms.get(obj, 0)
        # An end that is further away than the interval is one that a clock put there which has since been set back.
        if interval_ms and 0 < until_ms - now_ms <= interval_ms:
            self._held[obj] = offset
            heappush(self._due, (until_ms, offset, obj))
            return
        self._fan_out(obj, now_ms, interval_ms)

    def fan_out(self, obj: Obj, now_ms: int) -> None:
        """At once, whatever left before: a takeover must not wait."""
        self._fan_out(obj, now_ms, self._state.rules.conflation.of(obj.domain))

    def flush(self, now_ms: int) -> None:
        """Fan out what is due."""
        longest_ms = self._state.rules.conflation.longest_ms
        while self._due and not 0 < self._due[0][0] - now_ms <= longest_ms:
            _, _, obj = heappop(self._due)
            del self._held[obj]
            self._fan_out(obj, now_ms, self._state.rules.conflation.of(obj.domain))

    def next_due_ms(self) -> int | None:
        """When `flush` has something to do; None: never, as things are."""
        return self._due[0][0] if self._due else None

    def on_tick(self, now_ms: int) -> None:
        """Forget the intervals that are over."""
        self._until_ms = {obj: until_ms for obj, until_ms in self._until_ms.items() if until_ms > now_ms}

    def _fan_out(self, obj: Obj, now_ms: int, interval_ms: int) -> None:
        if interval_ms:
            self._until_ms[obj] = now_ms + interval_ms
        self._index.fan_out(obj, now_ms, complete=min(obj.offset, self.floor - 1))
