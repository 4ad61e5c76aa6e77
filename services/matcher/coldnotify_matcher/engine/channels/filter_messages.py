"""Messages of channels for sessions that have these by filters: live, and in pages.

All channels that a client's filters fit have one position, the session's cursor: a filter begins with what is sent from
its registration on. Each message is told once, however many filters fit, and with its channel's name.
"""

from array import array
from collections.abc import Iterable, Iterator
from heapq import merge

from coldnotify_schemas import internal_pb2
from coldnotify_schemas.filters import can_be_said, fits, is_exact

from coldnotify_matcher.engine.channel_logs.channel_log import ChannelLog
from coldnotify_matcher.engine.channel_logs.kept_blocks import KeptMessages
from coldnotify_matcher.engine.channel_logs.message_records import ChannelMessage, name_of
from coldnotify_matcher.engine.channel_logs.subscriptions import message_bytes_max
from coldnotify_matcher.engine.channels.registered_reads import MANY
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.interests.by_filter import RegisteredFilter, spare_own
from coldnotify_matcher.engine.partition_state import PartitionState

_NO_ATTRIBUTES: frozenset[str] = frozenset()


def tell_live(state: PartitionState, message: ChannelMessage, now_ms: int) -> int:
    """Send a message to live sessions that have its channel by filters. Returns their number."""
    told = 0
    if not message.is_for(_NO_ATTRIBUTES) or message.expired(now_ms):
        return told
    group = message.key[: -len(name_of(message.key)) - 1]
    sender = state.clients.get(f"{group}/{message.source}") if message.source else None
    spared = None if sender is None or not sender.kept or _may_have(sender, message) else sender.session
    for gateway, hearing in state.filtered.channel_hearers(message.key).items():
        if spared is not None and spared.gateway is gateway:
            hearing.discard(spared.number)
        if not hearing:
            continue
        sessions = array("I", sorted(hearing)).tobytes()
        fan_out = gateway.new_item(message_bytes_max(message, sessions, message.key)).stream_fan_out
        _say(message, fan_out.entry, now_ms)
        fan_out.sessions = sessions
        told += len(hearing)
    return told


def lacking(log: ChannelLog, client: RegisteredClient, cursor: int) -> list[str]:
    """Returns the keys of channels that its filters fit and that have messages above this cursor."""
    fitting = client.filters.fitting
    above = log.names.of_group(client.group_key).above(cursor)
    return [key for key in above if can_be_said(name := name_of(key)) and fitting(name)]


def forgotten_by(log: ChannelLog, client: RegisteredClient, cursor: int) -> list[int]:
    """Returns the hashes of its filters that may fit channels whose last message, above this cursor, was removed."""
    if cursor + 1 >= log.oldest:
        return []
    group = client.group_key
    of_group = log.names.of_group(group).forgotten
    return [
        one.hash
        for one in client.filters.values()
        if one.channels_position + 1 < log.oldest
        and cursor < (log.last.of(f"{group}/{one.text}") if is_exact(one.text) else of_group)
    ]


def filters_of(client: RegisteredClient, keys: Iterable[str]) -> list[int]:
    """Returns the hashes of its filters that fit any of these channels."""
    names = [name_of(key) for key in keys]
    return list({one.hash: None for name in names for one in client.filters.fitting(name)})


def told_missed(log: ChannelLog, client: RegisteredClient) -> list[RegisteredFilter]:
    """Returns the filters whose client has acknowledged a message that said what is missing before it.

    The tail shows such messages. One that has left it shows nothing: its client is told on its next connection, too.
    """
    filters = client.filters
    found: list[RegisteredFilter] = []
    if filters.channels_epoch != log.epoch:
        return found
    for one in filters.values():
        if one.missed is None:
            continue
        known = one.missed.before - 1
        keys = [key for key in lacking(log, client, known) if fits(one.text, name_of(key))]
        told = (message for message in from_tail(log, keys, known) if message.offset <= filters.channels_cursor)
        if any(_is_told_by(one, client, message) for message in told):
            found.append(one)
    return found


def from_tail(log: ChannelLog, keys: list[str], cursor: int) -> Iterable[ChannelMessage]:
    """Returns messages of these channels above the cursor, which the tail has all."""
    if len(keys) > MANY:
        wanted = set(keys)
        return (message for message in log.tail.since(cursor + 1) if message.key in wanted)
    return merge(*(log.tail.above(key, cursor) for key in keys), key=_offset_of)


def from_block(kept: KeptMessages, keys: Iterable[str], cursor: int) -> Iterable[ChannelMessage]:
    """Returns messages of these channels above the cursor in a block."""
    rows = (kept.by_channel.get(key, ()) for key in keys)
    return sorted((message for row in rows for message in row if message.offset > cursor), key=_offset_of)


def entries(
    client: RegisteredClient, messages: Iterable[ChannelMessage], now_ms: int
) -> Iterator[tuple[int, internal_pb2.Entry | None]]:
    """Yields the offset of each message, and its entry in a page; None: the client is not told it."""
    for message in messages:
        if message.expired(now_ms) or not message.is_for(_NO_ATTRIBUTES) or not _may_have(client, message):
            yield message.offset, None
            continue
        entry = internal_pb2.Entry()
        _say(message, entry, now_ms)
        yield message.offset, entry


def _say(message: ChannelMessage, entry: internal_pb2.Entry, now_ms: int) -> None:
    message.fill_in(entry.message, 0, message.offset)
    entry.message.name = name_of(message.key)
    if message.properties:
        entry.properties = message.properties
    if message.expires_at is not None:
        entry.expires_in_ms = max(0, message.expires_at - now_ms)


def _is_told_by(one: RegisteredFilter, client: RegisteredClient, message: ChannelMessage) -> bool:
    own = message.source and message.source == client.name
    return message.is_for(_NO_ATTRIBUTES) and message.expires_at is None and not (own and one.no_local)


def _may_have(client: RegisteredClient, message: ChannelMessage) -> bool:
    """Returns true unless it was sent before its filters were registered, or by itself, and it wants no such."""
    fitting = [one for one in client.filters.fitting(name_of(message.key)) if one.channels_position < message.offset]
    own = message.source and message.source == client.name
    return bool(fitting) and not (own and spare_own(fitting))


def _offset_of(message: ChannelMessage) -> int:
    return message.offset
