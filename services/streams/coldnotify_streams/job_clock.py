"""The clocks of a job's process: its wall clock, the time that passes, and what Kafka and other nodes say.

`coldnotify_common.clocks` says what follows from them. One for a process, whatever its runs; used by one thread.
"""

import time
from collections.abc import Mapping

import structlog
from coldnotify_common.clocks import KAFKA_EVERY_S, Clocks
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message

log = structlog.get_logger()

STAMP_EVERY_S = 1.0
"""How often Kafka's stamp on a record of ours is looked at; of most records it is not."""
WARNED_EVERY_S = 600.0


def steady_s() -> float:
    """Seconds that pass whatever the wall clock is set to, also while the machine sleeps."""
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_time is None else time.clock_gettime(boot_time)


class JobClock:
    """Looks at the clocks, and warns where they are apart."""

    def __init__(self) -> None:
        self.trust = Clocks(self._on_apart)
        self._wants_stamp = False
        self._stamped_s = float("-inf")
        self._asked_s = float("-inf")
        self._warned_s = 0.0

    def now_ms(self) -> int:
        """What time it is for this process (Unix): it never jumps while a run lasts."""
        now_s = steady_s()
        now_ms = self.trust.look(time.time_ns() / 1e6, now_s)
        self._wants_stamp = now_s - self._stamped_s >= STAMP_EVERY_S
        if self.trust.apart and now_s - self._warned_s >= WARNED_EVERY_S:
            self._on_apart(self.trust.apart)
        return now_ms

    def stamp_ms(self) -> int:
        """The time of a record that is written now: Kafka takes none that is far ahead of its own clock."""
        return self.trust.now_ms + self.trust.earliest_ahead_ms

    def on_delivered(self, message: Message) -> None:
        """Kafka has taken this record; in topics with its own time it says what time it is there."""
        if not self._wants_stamp:
            return
        kind, stamp_ms = message.timestamp()
        if kind == TIMESTAMP_LOG_APPEND_TIME:
            self.now_ms()
            self.trust.on_kafka(stamp_ms, max(0.0, message.latency() or 0.0))
            self._wants_stamp, self._stamped_s = False, steady_s()

    def take_ask(self) -> bool:
        """Whether a record is to be written only to have Kafka's stamp; then not again for a while."""
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
