"""How much of a log of channels is kept in memory."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChannelBounds:
    """Upper bounds of what is kept in memory of one log in one partition."""

    tail_bytes_max: int = 8 * 1024 * 1024
    """Messages of a minute at 500 a second, of 250 bytes: who wakes within that time needs no block."""
    tail_messages_max: int = 20_000
    """Each costs half a microsecond to put in and take out; above this the memory goes for places, not for payloads."""
    blocks_bytes_max: int = 16 * 1024 * 1024
    """Some dozens of blocks: sessions that are about as far share what is read, also if they do not wait at once."""
    summaries_bytes_max: int = 16 * 1024 * 1024
    """A summary has 4 bytes for each channel of a block: those of 10 million records of 1,000 channels fit twice."""
    pages_bytes_max: int = 16 * 1024 * 1024
    """Of pages that are being put together from several blocks. Above it each leaves as soon as it has anything."""
