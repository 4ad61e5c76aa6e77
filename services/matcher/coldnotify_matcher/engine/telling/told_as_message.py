"""Versions that are messages of their object's channel, too: sessions with filters are told these by the channel alone.

The message is written first, and the version's record names its place. A filter that was registered between the two has
neither the message, because that was sent before, nor an answer with the version: it is told the version. So is a
session for which retention has removed the message. Answers to filters have such versions as all others, but not one
whose message is not read yet (`awaited_messages`): that follows, behind older ones.

A header can say anything. It counts only where the log has a message of the object's channel, there or above.
"""

from collections.abc import Iterable

from coldnotify_matcher.engine.channel_logs.channel_log import ChannelLog
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.interests.by_filter import RegisteredFilter
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.engine.partition_state import PartitionState


def told_as_message(
    state: PartitionState,
    client: RegisteredClient,
    session: EngineSession | None,
    fitting: Iterable[RegisteredFilter],
    obj: Obj,
) -> bool:
    """Returns true if the client is told the object's newest version as a message. `fitting`: its filters that fit it.
    `session`: its own, if that is told; None: it sleeps."""
    found = _place_of(state, obj)
    if found is None:
        return False
    log, offset = found
    if all(one.channels_position >= offset for one in fitting):
        return False
    if offset >= _kept_from(log):
        return True
    stream = None if session is None else session.channels
    if stream is None:
        return offset <= client.filters.channels_cursor
    return stream.live or offset <= stream.cursor


def follows_as_message(state: PartitionState, obj: Obj) -> bool:
    """Returns true if the message that the object's newest version is, too, is not read yet."""
    found = _place_of(state, obj)
    return found is not None and obj in state.awaited_messages


def is_told_to_nobody(state: PartitionState, obj: Obj) -> bool:
    """Returns true if it is certain that `is_told_live` says no for all sessions."""
    found = _place_of(state, obj)
    return found is not None and found[1] >= _kept_from(found[0]) and found[1] > state.filtered.channels_from(obj)


def is_told_live(state: PartitionState, key: str, obj: Obj) -> bool:
    """Returns true if a live session of the client of this key is told the object's newest version as a version."""
    client = state.clients[key]
    return not told_as_message(state, client, client.session, client.filters.fitting(obj.name), obj)


def _kept_from(log: ChannelLog) -> int:
    """Returns the offset from which all messages can still be told."""
    return min(log.log_start, log.tail.start)


def log_of(state: PartitionState, obj: Obj) -> ChannelLog | None:
    """Returns the log of the message; None: it is none that its group's clients can be told."""
    if obj.message is None:
        return None
    log = state.channel_logs.get(obj.message.log)
    return log if log is not None and log.retention is state.rules.retentions.of(obj.domain) else None


def has_message(state: PartitionState, obj: Obj) -> bool:
    """Returns true if the message that the object's newest version names, which was read just now, is there."""
    found = _place_of(state, obj)
    return found is not None and found[1] >= found[0].log_start


def _place_of(state: PartitionState, obj: Obj) -> tuple[ChannelLog, int] | None:
    """Returns the log and the offset of the message; None: there is none."""
    log = log_of(state, obj)
    if log is None or obj.message is None:
        return None
    offset = log.repeats.first_of(obj.message.offset)
    if offset >= log.log_start and log.last.of(obj.key) < offset and obj not in state.awaited_messages:
        return None
    return log, offset
