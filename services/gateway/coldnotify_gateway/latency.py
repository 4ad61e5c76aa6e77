"""A histogram of live notifications' times from the publish to the device's socket. Pure."""

from bisect import bisect_left

BUCKETS_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds in seconds, from Kafka's delay on one machine to a takeover with a long load."""


class Latency:
    """Counts deliveries by the age of their publish. A fan-out costs one look-up, however many sessions it has."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS_S) + 1)
        self.sum_s = 0.0
        """Sum of the ages of all counted deliveries."""

    def observe(self, published_ms: int, now_ms: float, deliveries: int) -> None:
        """Counts notifications of a publish that were written now. If a publisher's clock is ahead, the age is 0."""
        age_s = max(0.0, (now_ms - published_ms) / 1000)
        self._counts[bisect_left(BUCKETS_S, age_s)] += deliveries
        self.sum_s += age_s * deliveries

    def buckets(self) -> list[tuple[str, float]]:
        """Returns pairs of (upper bound in seconds, number at or below it), as Prometheus expects them."""
        total = 0
        cumulated: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), self._counts, strict=True):
            total += count
            cumulated.append((bound, total))
        return cumulated
