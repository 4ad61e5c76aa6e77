"""The matcher's metrics of the logs of channels, as its shell knows them."""

from prometheus_client import Counter, Gauge

EVENTS = {
    "blocks_read": Counter(
        "coldnotify_matcher_blocks_read_total",
        "Blocks of channels' topics that were read once more, for sessions that are behind",
    ),
    "blocks_unreadable": Counter(
        "coldnotify_matcher_blocks_unreadable_total",
        "Blocks that could not be read, because what Kafka has there is damaged or cannot be handled; clients are "
        "told that they may have missed messages",
    ),
    "block_bytes": Counter("coldnotify_matcher_block_bytes_total", "Bytes of payloads in the blocks that were read"),
}
"""By the name of the event."""
LAG = Gauge(
    "coldnotify_matcher_lag_channels",
    "Offsets of a topic of channels not read yet, by topic and partition served; measured every 5 s",
    ("topic", "partition"),
)
FOLLOWED = Gauge(
    "coldnotify_matcher_channels_topics",
    "Topics of channels that this matcher follows; 0: they do not exist, and registrations of channels stay pending",
)
WAITING = Gauge(
    "coldnotify_matcher_blocks_wanted",
    "Blocks of channels' topics that sessions wait for, in all partitions served; they are read one after the other",
)
