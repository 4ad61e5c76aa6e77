"""Bounds of the memory for logs of channels: of all logs of a matcher together, and of each."""

from collections.abc import Sequence
from dataclasses import dataclass

MATCHER_BYTES_MAX = 448 * 1024 * 1024
"""The memory of eight logs that use their bounds in full."""
LOGS_AT_FIRST = 128
"""A log has this part of a matcher's memory until it is known how much each uses: some hundred may begin at once."""
_FIXED = 4
"""A quarter of the memory is divided evenly, whoever uses it. So each log reaches an even part of all of it: as long as
it uses its part in full, the next one is larger."""


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
        """Returns the bounds of a log with so many bytes: a seventh for its latest messages, two each for the rest."""
        tail = bytes_max // 7
        return cls(
            tail_bytes_max=tail, blocks_bytes_max=2 * tail, summaries_bytes_max=2 * tail, pages_bytes_max=2 * tail
        )


def divided(bytes_max: int, used: Sequence[int]) -> list[int]:
    """Returns each log's part of a matcher's memory, by what each uses now. The parts are `bytes_max` at most."""
    if not used:
        return []
    fixed = bytes_max // (_FIXED * len(used))
    rest, total = bytes_max - fixed * len(used), sum(used)
    if not total:
        return [bytes_max // len(used)] * len(used)
    return [fixed + rest * one // total for one in used]
