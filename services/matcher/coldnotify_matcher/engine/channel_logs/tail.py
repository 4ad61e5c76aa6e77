"""The tail of a log in memory: its latest messages, by channel, bounded in bytes and in messages."""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from itertools import dropwhile, islice

from coldnotify_matcher.engine.channel_logs.message_records import ChannelMessage


class Tail:
    """The tail of one log."""

    def __init__(self, start: int, bytes_max: int, messages_max: int) -> None:
        self.start = start
        """It contains all messages from this offset on."""
        self.size_bytes = 0
        self._bytes_max = bytes_max
        self._messages_max = messages_max
        self._messages: deque[ChannelMessage] = deque()
        self._by_channel: dict[str, deque[ChannelMessage]] = {}
        self._high: dict[str, int] = {}
        """By channel, the offset of its last high-priority message in the tail."""

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, message: ChannelMessage) -> None:
        """Add the log's next message. The oldest ones make room."""
        self._messages.append(message)
        self._by_channel.setdefault(message.key, deque()).append(message)
        self.size_bytes += message.size_bytes
        while self._messages and (self.size_bytes > self._bytes_max or len(self._messages) > self._messages_max):
            self._drop_oldest()

    def bound(self, bytes_max: int) -> None:
        """Change its bound. The oldest messages above that are dropped."""
        self._bytes_max = bytes_max
        while self._messages and self.size_bytes > bytes_max:
            self._drop_oldest()

    def drop_below(self, offset: int) -> None:
        """Drop all messages below this offset."""
        while self._messages and self._messages[0].offset < offset:
            self._drop_oldest()
        self.start = max(self.start, offset)

    def _drop_oldest(self) -> None:
        oldest = self._messages.popleft()
        self.size_bytes -= oldest.size_bytes
        self.start = oldest.offset + 1
        if self._high.get(oldest.key) == oldest.offset:
            del self._high[oldest.key]
        of_channel = self._by_channel[oldest.key]
        of_channel.popleft()
        if not of_channel:
            del self._by_channel[oldest.key]

    def latest(self, key: str, count_max: int) -> list[ChannelMessage]:
        """Returns the channel's last messages in the tail, in their order."""
        return list(islice(reversed(self._by_channel.get(key, ())), count_max))[::-1]

    def note_high(self, message: ChannelMessage) -> None:
        """Note that the message that was added last is sent with high priority."""
        if message.offset >= self.start:
            self._high[message.key] = message.offset

    @property
    def any_high(self) -> bool:
        """True if the tail has a message that is sent with high priority."""
        return bool(self._high)

    def high_above(self, key: str, position: int) -> bool:
        """Returns true if the tail has a high-priority message of the channel above this offset."""
        return self._high.get(key, position) > position

    def channels_high_above(self, position: int) -> Iterator[str]:
        """Yields the channels with a high-priority message in the tail above this offset."""
        return (key for key, offset in self._high.items() if offset > position)

    def since(self, offset: int) -> Iterator[ChannelMessage]:
        """Yields all messages in the tail from this offset on, in their order."""
        return dropwhile(lambda message: message.offset < offset, self._messages)

    def following(self, key: str, position: int, count_max: int) -> list[ChannelMessage]:
        """Returns the channel's first messages in the tail above this offset, in their order."""
        messages = self._by_channel.get(key)
        if messages is None:
            return []
        first = bisect_right(messages, position, key=_offset_of)
        return [messages[place] for place in range(first, min(first + count_max, len(messages)))]

    def above(self, key: str, position: int) -> Iterator[ChannelMessage]:
        """Yields the channel's messages in the tail above this offset, in their order."""
        messages = self._by_channel.get(key)
        if not messages or messages[-1].offset <= position:
            return
        found: list[ChannelMessage] = []
        for message in reversed(messages):
            if message.offset <= position:
                break
            found.append(message)
        yield from reversed(found)


def _offset_of(message: ChannelMessage) -> int:
    return message.offset
