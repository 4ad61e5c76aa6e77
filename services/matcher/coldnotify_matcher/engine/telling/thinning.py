"""Thinning: objects whose tenant is above its agreement wait for their turn, and leave with their newest version then.

Each object waits once, however many publishes of it come meanwhile, and the longest wait is served first. So an object
of a tenant that goes on publishing too much is sent after an interval that grows with the publishes, and its newest
version is sent at last: after WAIT_MS_MAX, whatever was agreed.
"""

from collections import OrderedDict
from collections.abc import Iterator

from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.tenants.allowances import WAIT_MS_MAX, Allowance


class Thinning:
    """The waiting objects of one partition, by allowance."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state
        self._waiting: dict[Allowance, OrderedDict[Obj, int]] = {}
        """By object: the time since which it waits; the first has waited longest."""
        self._allowance_of: dict[Obj, Allowance] = {}
        self._who = ("objects", state.partition)

    def __contains__(self, obj: Obj) -> bool:
        return obj in self._allowance_of

    @property
    def any(self) -> bool:
        """True if any object waits."""
        return bool(self._waiting)

    def holds(self, obj: Obj, now_ms: int) -> bool:
        """Returns true if this object has to wait: if so, its wait begins."""
        allowance = self._state.rules.allowances.of(obj.domain)
        if allowance is None or (allowance not in self._waiting and allowance.passes(now_ms)):
            return False
        self._waiting.setdefault(allowance, OrderedDict())[obj] = now_ms
        self._allowance_of[obj] = allowance
        return True

    def forget(self, obj: Obj) -> None:
        """End the object's wait."""
        allowance = self._allowance_of.pop(obj, None)
        if allowance is None:
            return
        waiting = self._waiting[allowance]
        del waiting[obj]
        if not waiting:
            del self._waiting[allowance]
            allowance.leave(self._who)

    def take_due(self, now_ms: int) -> Iterator[Obj]:
        """Yields the objects whose turn it is, one by one: each is sent before the next one is asked for."""
        for allowance, waiting in list(self._waiting.items()):
            while waiting:
                obj, since_ms = next(iter(waiting.items()))
                # After the clock was set back the length of its wait is unknown.
                overdue = not 0 <= now_ms - since_ms < WAIT_MS_MAX
                if not allowance.may_tell(self._who, since_ms, now_ms) and not overdue:
                    break
                self.forget(obj)
                yield obj

    def next_due_ms(self) -> int | None:
        """Returns the time at which `take_due` may yield an object; None: none waits."""
        return min(
            (
                min(allowance.free_at_ms(), next(iter(waiting.values())) + WAIT_MS_MAX)
                for allowance, waiting in self._waiting.items()
            ),
            default=None,
        )
