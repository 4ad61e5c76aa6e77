"""Reads the matchers' counters from /metrics: `MatcherCounts` looks again and again, because they are killed."""

import threading
import urllib.request
from collections import Counter
from collections.abc import Mapping

_LOOK_EVERY_S = 0.5
_LOOK_S = 1.0
COUNTED = {
    'coldnotify_matcher_events_total{event="blocks_served"}': "served_by_blocks",
    'coldnotify_matcher_messages_told_total{way="page"}': "messages_paged",
    'coldnotify_matcher_events_total{event="evaluated"}': "evaluated",
    'coldnotify_matcher_events_total{event="queries_held"}': "asked_again",
    'coldnotify_matcher_events_total{event="sets_digests"}': "sets_digests",
}
"""A set is requested again (`queries_held`) with a digest of what the client holds: the digest may not match, or a
matcher may not know what has changed since.
"""


class MatcherCounts:
    """The counters of all matchers, over all their processes: a lower bound, as what one that is killed has counted
    since the last look is not in it."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        """`ports`: of matchers' HTTP, by their names."""
        self._ports = ports
        self._last: dict[tuple[str, str], float] = {}
        self._counts: Counter[str] = Counter()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="matcher-counts", daemon=True)
        self._thread.start()

    def close(self) -> Counter[str]:
        """Looks a last time. Returns the counts, by the names in COUNTED."""
        self._stopping.set()
        self._thread.join(4 * _LOOK_S * len(self._ports))
        self._look()
        return Counter({name: self._counts[name] for name in COUNTED.values()})

    def _work(self) -> None:
        while not self._stopping.wait(_LOOK_EVERY_S):
            self._look()

    def _look(self) -> None:
        for matcher, port in self._ports.items():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=_LOOK_S) as answer:
                    self.take(matcher, answer.read().decode())
            except (OSError, ValueError):
                continue

    def take(self, matcher: str, text: str) -> None:
        """Takes in a /metrics page. A counter below the last one is that of a new process."""
        for line in text.splitlines():
            metric, _, value = line.rpartition(" ")
            name = COUNTED.get(metric)
            if name is not None:
                before = self._last.get((matcher, name), 0.0)
                self._last[matcher, name] = now = float(value)
                self._counts[name] += round(now - before if now >= before else now)
