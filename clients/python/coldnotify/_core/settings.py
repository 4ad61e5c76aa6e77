"""The numbers that steer the client's core. `Connection` and `Notify` let the application set those it may want to.

What clients in all languages and the service must agree on is in `coldnotify_schemas.protocol`.
"""

from dataclasses import dataclass
from typing import NamedTuple

from coldnotify_schemas.protocol import (
    ACK_DELAY_S,
    ANSWER_S,
    BACKOFF_MAX_S,
    BACKOFF_MIN_S,
    DISPLACED_MAX_S,
    DISPLACED_MIN_S,
    FRESH_EXTRA_S,
    FRESH_FACTOR,
    KEEPALIVE_S,
    SILENCE_EXTRA_S,
    SILENCE_FACTOR,
)

DISPLACED_JITTER = 0.1
"""The pause after DISPLACED is up to this much longer, so that two clones do not walk in step."""
OUT_BYTES_MAX = 64 * 1024
"""While as much waits to be sent, no further chunks and requests are made: the wanted set may be megabytes."""
SAVE_RETRY_S = (1.0, 60.0)
"""The state is written again after this long when that failed, doubling up to the second number."""
SAVE_LOAD = 4.0
"""After a write of the state that took t seconds, floors and cursor wait t times this: slow flash cards are not worn
out."""
SAVE_INTERVAL_S_MAX = 10.0
"""...but not longer than this."""
LINGER_S = 1.0
"""After Bye, the gateway has so long to close its side; then we do."""
OWN_HELLO_S = 120.0
"""So long after a trial has failed that had said Hello, a DISPLACED may be its doing, and not another client's."""
TRIES_APART_S = 1.0
"""An application that asks for a connection while the next attempt waits gets one now, but not so soon after the last:
it may ask all the time.
"""
CHANNELS_BACKLOG_BYTES_MAX = 4 * 1024 * 1024
"""Limit on all messages that wait for their callbacks. Above it, the last ones of the longest channel are requested
again later: a slow callback must not fill the memory of a small machine.
"""
NEWEST_BYTES_MAX = 64 * 1024
"""Limit on what is kept for `current`: the document, which contains it, is written as a whole, usually to flash."""
REPORTS_MAX = 1000
"""Limit on reports that wait to be told; beyond, the oldest are dropped (they are logged nevertheless)."""


class MoveTimes(NamedTuple):
    """Times in seconds. Only simulations have others."""

    home_first_s: float = 30.0
    home_longest_s: float = 600.0
    stale_first_s: float = 60.0
    stale_longest_s: float = 900.0
    stale_patience: float = 2.0
    """A client has been stale for so many times `fresh_s` before it looks elsewhere."""


MOVE_TIMES = MoveTimes()


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """See `Connection` and `Notify` for what each one means; all times in seconds."""

    connect_timeout_s: float = 10.0
    keepalive_s: int = KEEPALIVE_S
    silence_grace_s: float = SILENCE_EXTRA_S
    fresh_s: float | None = None
    request_timeout_s: float = ANSWER_S
    ack_delay_s: float = ACK_DELAY_S
    save_interval_s: float = 0.5
    gather_s: float = 0.0
    """Floors and cursor wait so long for those of other groups, which are written with them."""
    tries_max: int = 5
    retry_min_s: float = 1.0
    retry_max_s: float = 60.0
    backoff_min_s: float = BACKOFF_MIN_S
    backoff_max_s: float = BACKOFF_MAX_S
    address_rest_s: float = 60.0
    displaced_min_s: float = DISPLACED_MIN_S
    displaced_max_s: float = DISPLACED_MAX_S
    newest_bytes_max: int = NEWEST_BYTES_MAX
    move_times: MoveTimes = MOVE_TIMES
    say_unsettled: bool = True
    """The service is told what the application has not taken. The transcripts are of clients that leave it out."""
    say_errors: bool = True
    """The service is told the first line of callbacks' errors."""

    @property
    def stale_after_s(self) -> float:
        """Limit on the age of the last proof, for the client to count as caught up."""
        return FRESH_FACTOR * self.keepalive_s + FRESH_EXTRA_S if self.fresh_s is None else self.fresh_s

    @property
    def silence_s(self) -> float:
        """How long after a Ping a gateway may be silent: the same time that it grants clients."""
        return SILENCE_FACTOR * self.keepalive_s + self.silence_grace_s
