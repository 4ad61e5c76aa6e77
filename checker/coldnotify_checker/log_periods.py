"""The periods of a channel's log: each loss of its topic begins a new one, whose offsets start again."""

from bisect import bisect_right
from collections.abc import Iterable

from coldnotify_schemas.topics import TopicNames

from coldnotify_checker.histories import Event, TopicLost


class LogPeriods:
    """The periods of all channels, by domain: a domain's channels are in one topic."""

    def __init__(self, events: Iterable[Event], names: TopicNames) -> None:
        self._lost = [event for event in events if isinstance(event, TopicLost) and event.topic in names.channels]
        self._by_domain: dict[str, tuple[list[int], list[int]]] = {}

    def _of(self, channel: str) -> tuple[list[int], list[int]]:
        domain = channel.partition("/")[0]
        found = self._by_domain.get(domain)
        if found is None:
            concern = sorted(
                (event.t, event.t if event.begun is None else event.begun)
                for event in self._lost
                if not event.domains or domain in event.domains
            )
            found = self._by_domain[domain] = [t for t, _ in concern], [begun for _, begun in concern]
        return found

    def at(self, channel: str, t: int) -> int:
        """The number of the period at a time. While its loss goes on, one is not over yet."""
        return bisect_right(self._of(channel)[0], t)

    def last(self, channel: str) -> int:
        """The number of the last one."""
        return len(self._of(channel)[0])

    def begun(self, channel: str, period: int) -> int:
        """Returns when the period had surely begun; 0 for the first one."""
        return self._of(channel)[0][period - 1] if period else 0

    def ends(self, channel: str, period: int) -> int | None:
        """Returns when its loss began; None for the last one."""
        begun = self._of(channel)[1]
        return begun[period] if period < len(begun) else None

    def within(self, channel: str, period: int, since: int, until: int) -> bool:
        """Returns true if all of this time surely belongs to this period."""
        ends = self.ends(channel, period)
        return since >= self.begun(channel, period) and (ends is None or until < ends)

    def any_before(self, channel: str, t: int) -> bool:
        """Returns true if a loss had begun by then."""
        return any(begun <= t for begun in self._of(channel)[1])
