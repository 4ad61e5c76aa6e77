"""The tail of a log in memory: its latest messages, by channel, within a bound of bytes and of messages."""

from collections import deque
from collections.abc import Iterator
from itertools import dropwhile, islice

from coldnotify_matcher.engine.channel_logs.message_records import ChannelMessage


class Tail:
    """That of one log."""

    def __init__(self, start: int, bytes_max: int, messages_max: int) -> None:
        self.start = start
        """All messages from this offset on are in here."""
        self.size_bytes = 0
        self._bytes_max = bytes_max
        self._messages_max = messages_max
        self._messages: deque[ChannelMessage] = deque()
        self._by_channel: dict[str, deque[ChannelMessage]] = {}
        self._high: dict[str, int] = {}
        """By channel, the offset of its last message that is told as one of high priority and is in here."""

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, message: ChannelMessage) -> None:
        """The log's next message. The oldest ones make room."""
        self._messages.append(message)
        self._by_channel.setdefault(message.key, deque()).append(message)
        self.size_bytes += message.size_bytes
        while self._messages and (self.size_bytes > self._bytes_max or len(self._messages) > self._messages_max):
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
        """The channel's last messages that are in here, in their order."""
        return list(islice(reversed(self._by_channel.get(key, ())), count_max))[::-1]

    def note_high(self, message: ChannelMessage) -> None:
        """The message that was added last is told as one of high priority."""
        if message.offset >= self.start:
            self._high[message.key] = message.offset

    @property
    def any_high(self) -> bool:
        """Whether any message in here is told as one of high priority."""
        return bool(self._high)

    def high_above(self, key: str, position: int) -> bool:
        """Whether a message of the channel above this offset that is in here is told as one of high priority."""
        return self._high.get(key, position) > position

    def since(self, offset: int) -> Iterator[ChannelMessage]:
        """All messages from this offset on that are in here, in their order."""
        return dropwhile(lambda message: message.offset < offset, self._messages)

    def above(self, key: str, position: int) -> Iterator[ChannelMessage]:
        """The channel's messages above this offset that are in here, in their order."""
        messages = self._by_channel.get(key)
        if not messages or messages[-1].offset <= position:
            return
        found: list[ChannelMessage] = []
        for message in reversed(messages):
            if message.offset <= position:
                break
            found.append(message)
        yield from reversed(found)
