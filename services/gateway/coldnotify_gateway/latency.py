"""How long live notifications take from the publish to the device's socket, as a histogram. Pure."""

from bisect import bisect_left

BUCKETS_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
"""From what Kafka needs on one machine to a takeover that had to load for long."""


class Latency:
    """Counts deliveries by how old what they tell was. One look-up a fan-out, however many sessions it has."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS_S) + 1)
        self.sum_s = 0.0
        """Of all that were counted."""

    def observe(self, published_ms: int, now_ms: float, deliveries: int) -> None:
        """So many notifications of a publish were written now. A publisher's clock may run ahead: never below 0."""
        age_s = max(0.0, (now_ms - published_ms) / 1000)
        self._counts[bisect_left(BUCKETS_S, age_s)] += deliveries
        self.sum_s += age_s * deliveries

    def buckets(self) -> list[tuple[str, float]]:
        """(upper bound in seconds, how many are at or below it), as Prometheus wants them."""
        total = 0
        cumulated: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), self._counts, strict=True):
            total += count
            cumulated.append((bound, total))
        return cumulated
