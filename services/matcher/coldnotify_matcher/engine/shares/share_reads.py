"""Reads of a share's messages: from its base on, in the tail of the channel's log, or in blocks."""

from coldnotify_schemas.wire_pb2 import UNREADABLE
from coldnotify_streams.core.partition_turns import Spent

from coldnotify_matcher.engine.channel_logs.channel_log import ChannelLog
from coldnotify_matcher.engine.channel_logs.message_records import ChannelMessage
from coldnotify_matcher.engine.shares.one_share import KnownShare
from coldnotify_matcher.engine.shares.share_values import SharedMessage

AT_ONCE = 128
"""Messages that are looked up in the tail at once."""


def is_ready(log: ChannelLog) -> bool:
    """Returns true if all of the log is read that is before the place from which it is followed."""
    return log.read >= log.position


def read_on(share: KnownShare, log: ChannelLog, spent: Spent) -> int | None:
    """Tell the share's rule of further messages. Returns the offset whose block has to be read first; None: none."""
    rule, end = share.rule, log.position
    while rule.wants_more and rule.read + 1 < end:
        if log.last.of_marked(share.channel, share.mark) <= rule.read:
            rule.read_to(end - 1)
            return None
        low = rule.read + 1
        if low < log.log_start:
            rule.on_log_start(log.log_start)
            continue
        if low >= log.tail.start:
            found = log.tail.following(share.channel, rule.read, AT_ONCE)
            _take(share, found)
            if len(found) < AT_ONCE and rule.wants_more:
                rule.read_to(end - 1)
            continue
        kept = log.blocks.kept_at(low)
        if kept is not None:
            last = min(kept.next, log.tail.start) - 1
            if kept.unreadable:
                rule.lose(last, UNREADABLE)
                continue
            _take(share, [one for one in kept.by_channel.get(share.channel, ()) if low <= one.offset <= last])
            if rule.wants_more:
                rule.read_to(last)
            continue
        nothing_before = log.blocks.nothing_of((share.mark,), low, spent)
        if nothing_before == low:
            return low
        rule.read_to(min(nothing_before, end) - 1)
    if rule.read + 1 < log.log_start:
        if log.last.of_marked(share.channel, share.mark) <= rule.read:
            rule.read_to(log.log_start - 1)
        else:
            rule.on_log_start(log.log_start)
    return None


def _take(share: KnownShare, messages: list[ChannelMessage]) -> None:
    rule = share.rule
    for message in messages:
        if not rule.wants_more:
            return
        if message.is_for(share.attributes):
            rule.take(SharedMessage(message.offset, message.order_key, message.expires_at, message.published_ms))
        else:
            rule.read_to(message.offset)


class NotThere(Exception):
    """The log does not have the message any more, or nobody can read it."""


def message_at(share: KnownShare, log: ChannelLog, offset: int) -> ChannelMessage | None:
    """Returns the share's message at this offset; None: its block has to be read first. Raises NotThere."""
    if offset >= log.tail.start:
        found = log.tail.following(share.channel, offset - 1, 1)
        if not found or found[0].offset != offset:
            raise NotThere
        return found[0]
    if offset < log.log_start:
        raise NotThere
    kept = log.blocks.kept_at(offset)
    if kept is None:
        return None
    message = next((one for one in kept.by_channel.get(share.channel, ()) if one.offset == offset), None)
    if message is None:
        raise NotThere
    return message
