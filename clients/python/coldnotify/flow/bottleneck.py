"""Bottleneck: the limit is the throughput times the smallest time to acknowledgement, times a gain.

This is how BBR (Cardwell et al. 2016) bounds what TCP has in flight. In equilibrium the time to acknowledgement is the
gain times the smallest. The smallest is that of an idle server only if it is measured while little is in flight, so
that is what the limit is for, now and then: a drain. Without drains the smallest time is that of the queue which the
limit itself makes, and the limit grows by the gain each time. Several producers of one server measure each other's
queues unless they drain together: so drains are by the clock.
"""

from collections import deque

from coldnotify.flow.windows import Window

GAIN_SHARP = 1.25
"""For a server with a fixed concurrency and service time: its knee is sharp, and this is just above it."""
GAIN_SHARED = 13.0
"""For a server that processes together what waits: with T = M / (a + b M), 90 % of its throughput needs a time to
acknowledgement of 10 times the smallest, and drains take some of it. What a drain finds is up to twice the smallest.
"""
GAIN_BATCHES = 30.0
"""For Kafka: the same, for 97 %. Its smallest time is so short that 30 times as much is not a noticeable queue."""
DRAIN = 2.0
"""A drain begins with the limit that is held, divided by the gain and by this, and divides by this again while
that shortens the time."""
SHORTENED = 0.75
"""Below this share of the time at the limit before, less in flight has shortened it."""
DRAIN_EVERY, DRAIN_FOR = 120.0, 2.0
"""In durations of a window: from the beginning of a drain to that of the next, and the least duration of one. The
second must be above 1: windows of several producers do not end at the same time.
"""
MEMORY = 250.0
"""For so long, in durations of a window, the smallest time is remembered: two drains."""
DAMPING = 0.5
"""The exponent by which the limit moves to where it should be: one window is noise."""
STEP_MAX = 1.5


class Bottleneck:
    """Remembers the times to acknowledgement of the last two drains."""

    def __init__(self, gain: float, window_s: float, unix_s: float = 0.0) -> None:
        """`window_s`: the duration of a window. `unix_s`: added to the clock of windows, it gives the same time for all
        producers.
        """
        self._gain = gain
        self._window_s = window_s
        self._unix_s = unix_s
        self._waits: deque[tuple[float, float]] = deque()
        """Ascending times to acknowledgement, each with its time: only these can become the smallest."""
        self._held = 0.0
        self._drain: float | None = None
        """The limit of the present drain, if there is one."""
        self._drain_wait_s = 0.0
        self._drained = False

    def next_limit(self, window: Window) -> float:
        """See Controller."""
        self._remember(window)
        due = (window.ended_s + self._unix_s) / self._window_s % DRAIN_EVERY < DRAIN_FOR
        if self._drain is None:
            self._held = float(window.limit)
            if self._drained and window.wait_s:
                factor = (self._gain * self._waits[0][1] / window.wait_s) ** DAMPING
                self._held *= min(max(factor, 1 / STEP_MAX), STEP_MAX)
            if self._drained and not due:  # the first drain is at once: until then nothing is known
                return self._held
            self._drain, self._drain_wait_s = max(1.0, self._held / (self._gain * DRAIN)), window.wait_s
            return self._drain
        if window.wait_s < SHORTENED * self._drain_wait_s and self._drain > 1:
            self._drain, self._drain_wait_s = max(1.0, self._drain / DRAIN), window.wait_s
            return self._drain
        self._drained = True
        if not due or self._drain <= 1:
            self._drain = None
            return self._held
        return self._drain

    def _remember(self, window: Window) -> None:
        while self._waits and self._waits[-1][1] >= window.wait_s:
            self._waits.pop()
        self._waits.append((window.ended_s, window.wait_s))
        while self._waits[0][0] < window.ended_s - MEMORY * self._window_s:
            self._waits.popleft()
