"""The offset of each channel's last message, in buckets as the topic channels_state keeps it.

A channel without messages after retention is forgotten. One number for each bucket says up to which offset channels
that are not in it may have had messages.
"""

from collections.abc import Iterator
from zlib import crc32

from coldnotify_schemas.matcher_state import CHANNEL_BUCKETS

NONE = -1


class _Bucket:
    __slots__ = ("forgotten", "last")

    def __init__(self, forgotten: int) -> None:
        self.last: dict[str, int] = {}
        self.forgotten = forgotten


class LastOffsets:
    """The last offsets of one log."""

    def __init__(self) -> None:
        self._buckets: dict[int, _Bucket] = {}
        self._forgotten = NONE
        """`forgotten` of buckets that are absent."""
        self.changed: dict[int, None] = {}
        """Buckets that must be written."""

    def __len__(self) -> int:
        return sum(len(bucket.last) for bucket in self._buckets.values())

    def knows(self, key: str) -> bool:
        """Returns true if a message of this channel is known. `key` may contain bytes that are no text, as
        surrogates."""
        bucket = self._buckets.get(crc32(key.encode(errors="surrogateescape")) % CHANNEL_BUCKETS)
        return bucket is not None and key in bucket.last

    def known(self, key: str) -> int | None:
        """Returns the offset of the channel's last message; None: none is known."""
        bucket = self._buckets.get(crc32(key.encode()) % CHANNEL_BUCKETS)
        return None if bucket is None else bucket.last.get(key)

    def keys(self, prefix: str) -> Iterator[str]:
        """Yields the channels whose last message is known and whose keys begin with this prefix."""
        for bucket in self._buckets.values():
            yield from (key for key in bucket.last if key.startswith(prefix))

    def offsets(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yields the same channels, and the offsets of their last messages."""
        for bucket in self._buckets.values():
            yield from (item for item in bucket.last.items() if item[0].startswith(prefix))

    @property
    def forgotten(self) -> int:
        """The offset up to which channels that are not known any more may have had messages."""
        of_absent = self._forgotten if len(self._buckets) < CHANNEL_BUCKETS else NONE
        return max(of_absent, max((bucket.forgotten for bucket in self._buckets.values()), default=NONE))

    def of(self, key: str) -> int:
        """Returns the offset above which the channel has no message; -1: it never had one."""
        return self.of_marked(key, crc32(key.encode()))

    def of_marked(self, key: str, mark: int) -> int:
        """Returns the same for a known `channel_mark`: a client with thousands of channels asks for all of them."""
        bucket = self._buckets.get(mark % CHANNEL_BUCKETS)
        return self._forgotten if bucket is None else bucket.last.get(key, bucket.forgotten)

    def note(self, key: str, offset: int) -> None:
        """Note that the channel has a message at this offset."""
        index = crc32(key.encode()) % CHANNEL_BUCKETS
        bucket = self._buckets.get(index)
        if bucket is None:
            bucket = self._buckets[index] = _Bucket(self._forgotten)
        if offset > bucket.last.get(key, NONE):
            bucket.last[key] = offset
            self.changed[index] = None

    def load(self, index: int, last: dict[str, int], forgotten: int) -> None:
        """Load a bucket as it was written."""
        bucket = self._buckets[index] = _Bucket(forgotten)
        bucket.last.update(last)

    def know_nothing_below(self, offset: int) -> None:
        """Forget everything, because what was written is lost: any channel may have had messages below this offset."""
        self._forgotten = offset - 1
        self._buckets.clear()
        self.changed = dict.fromkeys(range(CHANNEL_BUCKETS))

    def forget_below(self, log_start: int, index: int) -> list[tuple[str, int]]:
        """Forget this bucket's channels without messages in the log. Returns them, and their last offsets."""
        bucket = self._buckets.get(index)
        if bucket is None:
            return []
        gone = [(key, offset) for key, offset in bucket.last.items() if offset < log_start]
        for key, offset in gone:
            del bucket.last[key]
            bucket.forgotten = max(bucket.forgotten, offset)
        if gone:
            self.changed[index] = None
        return gone

    def take_changed(self) -> list[int]:
        """Returns the buckets that must be written, and forgets them."""
        changed, self.changed = self.changed, {}
        return list(changed)

    def bucket(self, index: int) -> tuple[dict[str, int], int]:
        """Returns a bucket's last offsets by channel, and the offset up to which others may have had messages."""
        bucket = self._buckets.get(index)
        return ({}, self._forgotten) if bucket is None else (bucket.last, bucket.forgotten)
