"""Thinning: objects whose tenant is above its agreement wait for their turn, and leave with the version newest then.

Each object waits once, however many publishes of it come meanwhile, and the one that has waited longest leaves first.
So an object of a tenant that goes on publishing too much is told after an interval that grows with what is published,
and its newest version is told at last: after WAIT_MS_MAX, whatever was agreed.
"""

from collections import OrderedDict
from collections.abc import Iterator

from coldnotify_matcher.engine.allowances import WAIT_MS_MAX, Allowance
from coldnotify_matcher.engine.objects import Obj
from coldnotify_matcher.engine.partition_state import PartitionState


class Thinning:
    """What waits in one partition, by allowance."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state
        self._waiting: dict[Allowance, OrderedDict[Obj, int]] = {}
        """Objects, and since when they wait; the first has waited longest."""
        self._allowance_of: dict[Obj, Allowance] = {}
        self._who = ("objects", state.partition)

    def __contains__(self, obj: Obj) -> bool:
        return obj in self._allowance_of

    @property
    def any(self) -> bool:
        """Whether anything waits."""
        return bool(self._waiting)

    def holds(self, obj: Obj, now_ms: int) -> bool:
        """Whether this object has to wait: it does from now on, if so."""
        allowance = self._state.rules.allowances.of(obj.domain)
        if allowance is None or (allowance not in self._waiting and allowance.passes(now_ms)):
            return False
        self._waiting.setdefault(allowance, OrderedDict())[obj] = now_ms
        self._allowance_of[obj] = allowance
        return True

    def forget(self, obj: Obj) -> None:
        """It waits no more."""
        allowance = self._allowance_of.pop(obj, None)
        if allowance is None:
            return
        waiting = self._waiting[allowance]
        del waiting[obj]
        if not waiting:
            del self._waiting[allowance]
            allowance.leave(self._who)

    def take_due(self, now_ms: int) -> Iterator[Obj]:
        """Those whose turn it is, one after the other: each is told before the next one is asked for."""
        for allowance, waiting in list(self._waiting.items()):
            while waiting:
                obj, since_ms = next(iter(waiting.items()))
                # Behind a clock that was set back nobody knows how long it has waited.
                overdue = not 0 <= now_ms - since_ms < WAIT_MS_MAX
                if not allowance.may_tell(self._who, since_ms, now_ms) and not overdue:
                    break
                self.forget(obj)
                yield obj

    def next_due_ms(self) -> int | None:
        """When `take_due` may have something; None: nothing waits."""
        return min(
            (
                min(allowance.free_at_ms(), next(iter(waiting.values())) + WAIT_MS_MAX)
                for allowance, waiting in self._waiting.items()
            ),
            default=None,
        )
