"""The clocks of a job's process: its wall clock, monotonic time, and the times that Kafka and other nodes report.

`coldnotify_common.clocks` draws the conclusions. A process has one, for all its runs; one thread uses it.
"""

import time
from collections.abc import Mapping

import structlog
from coldnotify_common.clocks import KAFKA_EVERY_S, Clocks
from coldnotify_common.steady import steady_s
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message

log = structlog.get_logger()

STAMP_EVERY_S = 1.0
"""How often to read Kafka's timestamp on a record of ours; on most records it is ignored."""
WARNED_EVERY_S = 600.0


class JobClock:
    """Checks the clocks, and warns if they diverge."""

    def __init__(self) -> None:
        self.trust = Clocks(self._on_apart)
        self._wants_stamp = False
        self._stamped_s = float("-inf")
        self._asked_s = float("-inf")
        self._warned_s = 0.0

    def now_ms(self) -> int:
        """Returns the time of this process (Unix ms); it never jumps during a run."""
        now_s = steady_s()
        now_ms = self.trust.look(time.time_ns() / 1e6, now_s)
        self._wants_stamp = now_s - self._stamped_s >= STAMP_EVERY_S
        if self.trust.apart and now_s - self._warned_s >= WARNED_EVERY_S:
            self._on_apart(self.trust.apart)
        return now_ms

    def stamp_ms(self) -> int:
        """Returns the timestamp for a record written now: Kafka rejects timestamps far ahead of its own clock."""
        return self.trust.now_ms + self.trust.earliest_ahead_ms

    def on_delivered(self, message: Message) -> None:
        """Notes that Kafka has stored this record; in topics with LogAppendTime its timestamp tells Kafka's time."""
        if not self._wants_stamp:
            return
        kind, stamp_ms = message.timestamp()
        if kind == TIMESTAMP_LOG_APPEND_TIME:
            self.now_ms()
            self.trust.on_kafka(stamp_ms, max(0.0, message.latency() or 0.0))
            self._wants_stamp, self._stamped_s = False, steady_s()

    def take_ask(self) -> bool:
        """Returns true if a record should be written only to get Kafka's timestamp; then false for a while."""
        now_s = steady_s()
        if not self.trust.kafka_is_due or now_s - self._asked_s < KAFKA_EVERY_S:
            return False
        self._asked_s = now_s
        return True

    def _on_apart(self, apart: Mapping[str, int]) -> None:
        if not apart:
            log.info("all clocks agree again")
            return
        self._warned_s = steady_s()
        seconds = {name: round(ahead_ms / 1000, 1) for name, ahead_ms in list(apart.items())[:10]}
        words = "clocks are apart: nothing is removed or forgotten until they agree"
        log.warning(words, ahead_of_ours_s=seconds, clocks=len(apart))
