"""A log of messages, each of a channel drawn at random: who lacks how many of them. Pure."""

import random
from array import array
from bisect import bisect_right
from collections.abc import Sequence


class DrawnLog:
    """A log whose messages are each of a channel drawn at random."""

    def __init__(self, messages: int, channels: int, seed: int = 1) -> None:
        self._chance = random.Random(seed)
        self.channel_at = array("I", self._chance.choices(range(channels), k=messages))
        """By offset."""
        self._by_channel = [array("I") for _ in range(channels)]
        for offset, channel in enumerate(self.channel_at):
            self._by_channel[channel].append(offset)

    def __len__(self) -> int:
        return len(self.channel_at)

    def draw_channels(self, count: int) -> list[int]:
        """So many different ones that somebody wants."""
        return self._chance.sample(range(len(self._by_channel)), count)

    def draw_behind(self, lag: int) -> int:
        """Returns how many messages a client is behind that was away so long: half of them to all, fewer than the log
        has.
        """
        return min(self._chance.randint((lag + 1) // 2, lag), len(self) - 1)

    def above(self, channels: Sequence[int], offset: int) -> int:
        """Returns how many messages these channels have above it."""
        found = (self._by_channel[channel] for channel in channels)
        return sum(len(offsets) - bisect_right(offsets, offset) for offsets in found)
