"""Bounds of the memory for a log of channels."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChannelBounds:
    """Upper bounds of the memory for one log in one partition."""

    tail_bytes_max: int = 8 * 1024 * 1024
    """Holds the messages of a minute at 500 a second, of 250 bytes: a session that wakes within that time needs no
    block."""
    tail_messages_max: int = 20_000
    """Each costs half a microsecond to put in and take out; above this, places take the memory, and not payloads."""
    blocks_bytes_max: int = 16 * 1024 * 1024
    """Some dozens of blocks: sessions at about the same place share what is read, even if they do not wait at once."""
    summaries_bytes_max: int = 16 * 1024 * 1024
    """A summary has 4 bytes for each channel of a block: the summaries of 10 million records of 1,000 channels fit
    twice."""
    pages_bytes_max: int = 16 * 1024 * 1024
    """Total of pages that are being assembled from several blocks. Above it each page leaves as soon as it has an
    entry."""

    @classmethod
    def of(cls, bytes_max: int) -> "ChannelBounds":
        """Returns the bounds with so many bytes for messages: a third for the latest, the rest for older ones."""
        tail = bytes_max // 3
        return cls(tail_bytes_max=tail, blocks_bytes_max=bytes_max - tail)
