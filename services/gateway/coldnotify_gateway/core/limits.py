"""The core's configurable limits and intervals."""

from dataclasses import dataclass

from coldnotify_common.addresses import Network
from coldnotify_schemas.internal_protocol import BEAT_S, GATEWAY_SILENCE_S, UNHEARD_S
from coldnotify_schemas.protocol import (
    ANSWER_S,
    CLIENT_FRAME_BYTES_MAX,
    HELLO_S,
    KEEPALIVE_S,
    KEEPALIVE_S_MAX,
    SYNC_CHUNKS_MAX,
)
from coldnotify_schemas.records import PAYLOAD_BYTES_MAX

ASK_AGAIN_DOUBLINGS_MAX = 3
"""The interval between repeated questions doubles up to 8 times its length, because questions to an absent matcher pile
up in Kafka."""
WORKED_ON_FACTOR = 12
"""A question that the matcher has not reached yet, or is working on, is repeated only after so many intervals. If it
answered every repetition, a matcher that is behind would fall further behind. Two minutes are longer than the matcher
needs for the first question of all clients."""
CATCH_UPS_BEFORE_OPEN = 2
"""After so many unanswered CatchUps the session is announced again, because the matcher may have forgotten it."""
_PACKET_BESIDE_BYTES = 4096
"""A topic, 2 KiB of properties, and what frames them."""
TICK_S = 0.25
"""The interval at which a shell has the core look at what is due."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Times in seconds, sizes in bytes."""

    handshake_s: float = HELLO_S
    """Time from connecting to a complete Hello."""
    frame_bytes_max: int = CLIENT_FRAME_BYTES_MAX
    high_water_bytes: int = 64 * 1024
    """A session with more bytes than this waiting to be written is slow. On a link measured as slow, the limit is
    lower."""
    payload_bytes_max: int = PAYLOAD_BYTES_MAX
    """Largest payload of a version that a client publishes."""
    before_hello_bytes_max: int = 4096
    """Largest total size of frames of unknown kinds before the Hello."""
    connections_max: int = 19_000
    connections_per_address_max: int = 0
    """0: no limit. For IPv6, a /64 counts as one address, because one subscriber has a /64."""
    connections_share_max: int = 0
    """The same limit, but loopback addresses are exempt."""
    addresses_exempt: tuple[Network, ...] = ()
    """Networks without a limit on connections: proxies, and gateways to other networks."""
    unidentified_max: int = 2_000
    """Most connections without a Hello. One more closes the oldest connection of the address that has the most."""
    unidentified_share_max: int = 0
    """Most connections without a Hello from one address; one more closes its oldest. Loopback and exempt addresses have
    no limit. 0: no limit."""
    hellos_per_s: float = 0
    """Hellos above this pace wait. 0: no limit."""
    keepalive_default_s: int = KEEPALIVE_S
    keepalive_max_s: int = KEEPALIVE_S_MAX
    """Longest keepalive; a higher value in a Hello is reduced to this one."""
    mqtt_keepalive_max_s: int = 3600
    """Longest keepalive of MQTT 5.0, and that of a client that says none."""
    mqtt_retained_both: bool = False
    """True: a retained message of an MQTT device is a message of a channel, too."""
    ask_again_s: float = 10.0
    """Time after which an unanswered Open, CatchUp or CheckDigest is sent again."""
    wait_after_s: float = 3.0
    """Time without an Opened after which a client gets a Wait, and a new matcher is asked at once."""
    wait_s: int = 30
    """The seconds that a Wait carries."""
    is_there_s: float = 5.0
    """A publish of an object that may exceed the agreed number is admitted if no matcher has answered within this time
    whether the object exists. In a working service the answer takes a few hundredths of it."""
    describe_s: float = 10.0
    """A publish with a patch of its object's description is refused for now if no matcher has merged it within this
    time: it is away, or of release 0.1.0, which knows no patches."""
    acks_s: float = 1.0
    """Time for which Acks are collected into one request."""
    beat_s: float = BEAT_S - TICK_S
    """A Beat leaves at the tick behind this. More than BEAT_S apart, ages above AGE_UNSAID_S would be said at rest."""
    beat_answer_s: float = GATEWAY_SILENCE_S
    """Time without a BeatAnswer after which the partition's matcher counts as absent."""
    unheard_s: float = UNHEARD_S
    """Time without a BeatAnswer, or of standing still itself, after which the gateway assumes that the matcher may have
    declared it dead."""
    requests_unanswered_max: int = 64
    """Most unanswered Register and Unregister requests of one session; further ones are dropped (its client sends them
    again)."""
    requests_forgotten_s: float = ANSWER_S
    """Time since a session's last request after which its unanswered ones no longer count, because the client then
    sends them again."""
    sync_chunks_max: int = SYNC_CHUNKS_MAX
    """Most SyncChunks of one session that are forwarded within `sync_chunks_s`. Further ones are dropped, and a set
    that needs more is refused."""
    sync_chunks_s: float = ANSWER_S
    """Time after which a client without an answer restarts its reg-sync."""

    @property
    def worked_on_s(self) -> float:
        """Returns the time before a question is repeated that the matcher has not reached yet or is working on."""
        return self.ask_again_s * WORKED_ON_FACTOR

    @property
    def packet_bytes_max(self) -> int:
        """Returns the size of an MQTT packet that is taken: also one with the largest payload and its properties."""
        return max(self.frame_bytes_max, self.payload_bytes_max + _PACKET_BESIDE_BYTES)
