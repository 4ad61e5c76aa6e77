"""Measures how long clients took to get the newest versions after a fault began or ended: a
statistic, not a promise.
"""

from collections.abc import Iterable

from coldnotify_checker.histories import Event, Fault, Healed
from coldnotify_checker.publishes import CheckedPublishes, Key
from coldnotify_checker.verdict import Statistics

Owed = dict[str, list[tuple[int, Key]]]
"""The owed versions of each object, each with the time since when it is owed; versions rise."""


class CatchUps:
    """Holds what awake clients lacked at each fault, until they are told it. Others get it at their next wake."""

    def __init__(self, publishes: CheckedPublishes, statistics: Statistics) -> None:
        self._publishes = publishes
        self._statistics = statistics
        self._owed: dict[str, Owed] = {}

    def begin(self, client: str, wanted: Iterable[str], known: dict[str, Key | None], t: int) -> None:
        """A fault came, or ended, at `t`: what of `wanted` the client lacks then is owed from now on."""
        for object_ in wanted:
            newest = self._publishes.newest(object_, t)
            if newest is None:
                continue
            key, has = newest.sure_key, known.get(object_)
            owed = self._owed.setdefault(client, {}).setdefault(object_, [])
            if (has is None or has < key) and not (owed and owed[-1][1] >= key):
                owed.append((t, key))

    def told(self, client: str, object_: str, key: Key, t: int) -> None:
        """The client knows this version of the object from `t` on."""
        owed = self._owed.get(client, {}).get(object_)
        while owed and owed[0][1] <= key:
            since, _key = owed.pop(0)
            self._statistics.catch_up_s_max = max(self._statistics.catch_up_s_max, (t - since) / 1e6)

    def forget(self, client: str, object_: str | None = None) -> None:
        """Forgets a client that left, or an object that it no longer wants: the time it takes then says nothing."""
        if object_ is None:
            self._owed.pop(client, None)
        else:
            self._owed.get(client, {}).pop(object_, None)

    def finish(self) -> None:
        """The history ends."""
        self._statistics.catch_ups_unfinished = sum(len(owed) for of in self._owed.values() for owed in of.values())


def beginnings(events: Iterable[Event]) -> set[int]:
    """Positions in the history from which catching up counts: ends of faults, and faults that never end (a kill)."""
    found: set[int] = set()
    open_: dict[tuple[str, str], int] = {}
    for position, event in enumerate(events):
        if isinstance(event, Fault):
            open_[event.kind, event.target] = position
            found.add(position)
        elif isinstance(event, Healed):
            found.discard(open_.pop((event.kind, event.target), -1))
            found.add(position)
    return found
