"""The numbers that steer the core."""

from dataclasses import dataclass

from coldnotify_common.addresses import Network
from coldnotify_schemas.internal_protocol import BEAT_S, GATEWAY_SILENCE_S, UNHEARD_S
from coldnotify_schemas.protocol import (
    ANSWER_S,
    CLIENT_FRAME_BYTES_MAX,
    HELLO_S,
    KEEPALIVE_S,
    KEEPALIVE_S_MAX,
    MESSAGE_BYTES_MAX,
    SYNC_CHUNKS_MAX,
)

ASK_AGAIN_DOUBLINGS_MAX = 3
"""A matcher that stays away is asked ever more rarely, up to 8 times the interval: what is asked piles up in Kafka."""
WORKED_ON_FACTOR = 12
"""What the matcher has not got to, or works on, is asked again only after so many intervals: were each asking answered,
a matcher that is behind would fall behind further. Two minutes are more than the first asking of all clients takes."""
CATCH_UPS_BEFORE_OPEN = 2
"""After so many CatchUps without an answer the session is announced anew: the matcher may have lost sight of it."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Times in seconds, sizes in bytes."""

    handshake_s: float = HELLO_S
    """From connecting to a whole Hello."""
    frame_bytes_max: int = CLIENT_FRAME_BYTES_MAX
    high_water_bytes: int = 64 * 1024
    """With more than this waiting to be written, a session is slow; on a link that was measured slow, with less."""
    message_bytes_max: int = MESSAGE_BYTES_MAX
    """Of a channel's message that a client publishes."""
    before_hello_bytes_max: int = 4096
    """Of frames that mean nothing to us, before the Hello."""
    connections_max: int = 19_000
    connections_per_address_max: int = 0
    """0: no limit. Of IPv6, a /64 is one address: that is what one subscriber has."""
    connections_share_max: int = 0
    """The same, but for loopback."""
    addresses_exempt: tuple[Network, ...] = ()
    """Of these any number is taken: proxies, and gateways to other networks."""
    unidentified_max: int = 2_000
    """Connections that have not said Hello; with one more, the oldest one of the address that has most is closed."""
    unidentified_share_max: int = 0
    """Those of one address, but for loopback and who is exempt; with one more, its oldest is closed. 0: no limit."""
    keepalive_default_s: int = KEEPALIVE_S
    keepalive_max_s: int = KEEPALIVE_S_MAX
    """A client that asks for more is taken to have said this."""
    ask_again_s: float = 10.0
    """An Open, CatchUp or CheckDigest without an answer is asked again after this."""
    wait_after_s: float = 3.0
    """Without an Opened for so long, a client is told Wait; and a new matcher is asked at once."""
    wait_s: int = 30
    """What Wait says."""
    is_there_s: float = 5.0
    """A publish of an object that may be one too many is let in if no matcher has said within this whether it is there.
    In a working service that takes some hundredths of it."""
    acks_s: float = 1.0
    """Acks are merged for so long."""
    beat_s: float = BEAT_S
    beat_answer_s: float = GATEWAY_SILENCE_S
    """Without a BeatAnswer for so long, the partition's matcher is away."""
    unheard_s: float = UNHEARD_S
    """Without a BeatAnswer for so long, or stopped for so long itself, the gateway may have been taken for dead."""
    requests_unanswered_max: int = 64
    """Register and Unregister of one session that no answer came for; more are dropped (its client asks again)."""
    requests_forgotten_s: float = ANSWER_S
    """Unanswered ones no longer count when none came for so long: the client asks again then."""
    sync_chunks_max: int = SYNC_CHUNKS_MAX
    """SyncChunks of one session that are passed on within `sync_chunks_s`; more are dropped, and a set that needs more
    is refused."""
    sync_chunks_s: float = ANSWER_S
    """A client that was not answered begins its reg-sync again after so long."""

    @property
    def worked_on_s(self) -> float:
        """How long what the matcher has not got to, or works on, is not asked again."""
        return self.ask_again_s * WORKED_ON_FACTOR
