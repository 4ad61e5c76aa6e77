"""Reads what a registered channel, or a pattern of channels, has in a log: in the tail, in a block, in summaries."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import merge

from coldnotify_matcher.engine.channel_logs.channel_log import ChannelLog
from coldnotify_matcher.engine.channel_logs.kept_blocks import KeptMessages
from coldnotify_matcher.engine.channel_logs.message_records import ChannelMessage
from coldnotify_matcher.engine.interests.by_channel import ClientChannel

MANY = 64
"""If more channels lack something, messages are searched, and not channels."""


def marks_of(log: ChannelLog, channels: Collection[ClientChannel]) -> Collection[int]:
    """Returns the marks of all channels that these are, or fit."""
    if len(channels) == 1:
        (one,) = channels
        return (one.mark,) if one.expression is None else log.set_of(one).marks
    found = {one.mark for one in channels if one.expression is None}
    return found.union(*(log.set_of(one).marks for one in channels if one.expression is not None))


def high_above(log: ChannelLog, channel: ClientChannel, position: int) -> bool:
    """Returns true if the tail has a high-priority message of it above this offset."""
    if channel.expression is None:
        return log.tail.high_above(channel.key, position)
    found = log.set_of(channel)
    return any(key in found for key in log.tail.channels_high_above(position))


def in_tail(log: ChannelLog, channel: ClientChannel, position: int) -> Iterable[ChannelMessage]:
    """Returns its messages in the tail above this offset, in their order, for these attributes."""
    found: Iterable[ChannelMessage]
    if channel.expression is None:
        found = log.tail.above(channel.key, position)
    else:
        of_pattern = log.set_of(channel)
        keys = list(of_pattern.above(position))
        if len(keys) > MANY:
            found = (message for message in log.tail.since(position + 1) if message.key in of_pattern)
        else:
            found = merge(*(log.tail.above(key, position) for key in keys), key=_offset_of)
    return (message for message in found if message.is_for(channel.attributes))


def in_block(log: ChannelLog, kept: KeptMessages, channel: ClientChannel, position: int) -> Iterable[ChannelMessage]:
    """Returns the same of a block."""
    if channel.expression is None:
        rows: Iterable[ChannelMessage] = kept.by_channel.get(channel.key, ())
    else:
        of_pattern, there = log.set_of(channel), kept.by_channel
        keys = of_pattern if len(of_pattern) < len(there) else there
        rows = (message for key in keys if key in of_pattern for message in there.get(key, ()))
    found = [one for one in rows if one.offset > position and one.is_for(channel.attributes)]
    if channel.expression is not None:
        found.sort(key=_offset_of)
    return found


def registered_for(log: ChannelLog, by_key: Mapping[str, ClientChannel], key: str) -> Iterator[ClientChannel]:
    """Yields the registrations of a client by which it is told messages of the channel of this key."""
    channel = by_key.get(key)
    if channel is not None:
        yield channel
    for pattern in log.names.patterns_of(key):
        channel = by_key.get(pattern)
        if channel is not None:
            yield channel


def _offset_of(message: ChannelMessage) -> int:
    return message.offset
