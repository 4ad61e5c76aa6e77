"""The numbers that steer the client's core. `Connection` and `Notify` let the application set those it may want to."""

from dataclasses import dataclass

PROTOCOL_VERSION = 1
HANDSHAKE_S = 30.0
"""A gateway says Welcome or Wait within this time of the Hello, or the connection is given up: no wait without a
limit."""
UNKNOWN_SESSION_DELAY_S = 1.0
"""The upper end of the random delay after UNKNOWN_SESSION: a service that comes back is not to be hit by all at
once."""
DISPLACED_JITTER = 0.1
"""The pause after DISPLACED is up to this much longer, so that two clones do not walk in step."""
OUT_BYTES_MAX = 64 * 1024
"""While as much waits to be sent, no further chunks and requests are made: the wanted set may be megabytes."""
REQUESTS_UNANSWERED_MAX = 4
"""So says the protocol."""
SAVE_RETRY_S = (1.0, 60.0)
"""The state is written again after this long when that failed, doubling up to the second number."""
SAVE_LOAD = 4.0
"""After a write of the state that took t seconds, floors and cursor wait t times this: slow flash cards are not worn
out."""
SAVE_INTERVAL_S_MAX = 10.0
"""...but not longer than this."""
RENEW_INTERVAL_S = 1.0
"""Where each connection is one request: no more than one in this time, however often something is published."""
LINGER_S = 1.0
"""After Bye, the gateway has so long to close its side; then we do."""
REPORTS_MAX = 1000
"""Reports that wait to be told; beyond, the oldest are dropped (they are logged all the same)."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """See `Connection` and `Notify` for what each one means; all times in seconds."""

    connect_timeout_s: float = 10.0
    keepalive_s: int = 60
    silence_grace_s: float = 10.0
    request_timeout_s: float = 30.0
    ack_delay_s: float = 1.0
    save_interval_s: float = 0.5
    tries_max: int = 5
    retry_min_s: float = 1.0
    retry_max_s: float = 60.0
    backoff_min_s: float = 1.0
    backoff_max_s: float = 300.0
    address_rest_s: float = 60.0
    displaced_min_s: float = 60.0
    displaced_max_s: float = 3600.0

    @property
    def silence_s(self) -> float:
        """How long after a Ping a gateway may be silent: the same as what it grants us."""
        return 1.5 * self.keepalive_s + self.silence_grace_s
