"""Progress of a client in a channel that it is registered for, as the matcher knows it, for the HTTP views."""

from __future__ import annotations

from typing import Any, NamedTuple

from coldnotify_schemas.interests import channel_of

from coldnotify_matcher.engine.channel_logs.channel_log import ChannelLog
from coldnotify_matcher.engine.channels import registered_reads
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.interests.by_channel import ClientChannel
from coldnotify_matcher.engine.streams.stream import NO_CURSOR
from coldnotify_matcher.looking.showing import show_unsettled

ASLEEP, CATCHING_UP, LIVE = "asleep", "catching up", "live"


class Behind(NamedTuple):
    """Number of a channel's messages that the client's application has not taken, as far as is known."""

    messages: int = 0
    at_least: bool = False
    """True if there may be more: older ones are not in memory, or their attributes are not known."""
    since_ms: int | None = None
    """Time at which the oldest of them was sent (Unix time); None: there is none, or it is not known."""
    missed: bool = False
    """True if retention has removed a part of the log that the client had not reached: it never gets its messages
    there."""

    def __bool__(self) -> bool:
        return self.messages > 0 or self.at_least


def behind(client: RegisteredClient, channel: ClientChannel, log: ChannelLog | None) -> Behind:
    """Returns the messages that the client lacks. Of those in memory, messages for other attributes do not count."""
    last = None if log is None else _last(channel, log)
    if log is None or last is None:
        return Behind()
    known = _known(client, channel, log)
    if last <= known:
        return Behind()
    missed = NO_CURSOR < known < log.oldest - 1
    messages = list(registered_reads.in_tail(log, channel, known))
    if log.tail.start > known + 1:
        return Behind(max(1, len(messages)), at_least=True, missed=missed)
    return Behind(len(messages), since_ms=messages[0].published_ms or None, missed=missed) if messages else Behind()


def _last(channel: ClientChannel, log: ChannelLog) -> int | None:
    return log.last.known(channel.key) if channel.expression is None else log.set_of(channel).known


def _known(client: RegisteredClient, channel: ClientChannel, log: ChannelLog) -> int:
    """Returns the offset up to which the channel was taken; the cursor says nothing about a pending channel."""
    unsettled = client.unsettled.get(channel)
    if unsettled is not None and channel.epoch == log.epoch:
        return max(unsettled.position, channel.position)
    session = client.session
    if session is not None and session.channels is not None and channel.hash in session.channels.positions.pending:
        return session.channels.positions.pending[channel.hash]
    began = channel.position if channel.epoch == log.epoch else NO_CURSOR
    return max(began, client.channels.cursor if client.channels.epoch == log.epoch else NO_CURSOR)


def state_of(client: RegisteredClient, channel: ClientChannel) -> str:
    """Returns asleep, catching up or live."""
    session = client.session
    if session is None:
        return ASLEEP
    return LIVE if session.channels is not None and channel.hash in session.channels.positions.joined else CATCHING_UP


def show_subscriber(client: RegisteredClient, channel: ClientChannel, log: ChannelLog | None) -> dict[str, Any]:
    """Returns one client of a channel."""
    return {"client": client.name, **_standing(client, channel, log), "cursor": cursor_of(client)}


def show_channel(client: RegisteredClient, channel: ClientChannel, log: ChannelLog | None) -> dict[str, Any]:
    """Returns one channel of a client."""
    said = {"channel": channel_of(channel.text)[0]} if channel.expression is None else {"pattern": channel.expression}
    return {**said, **_standing(client, channel, log)}


def cursor_of(client: RegisteredClient) -> int | None:
    """Returns the cursor that is kept for it, or that it reports, which covers channels that are not pending."""
    cursor = client.filters.channels_cursor if client.kept else client.channels.cursor
    return cursor if cursor != NO_CURSOR else None


def _standing(client: RegisteredClient, channel: ClientChannel, log: ChannelLog | None) -> dict[str, Any]:
    return {
        "attributes": sorted(channel.attributes),
        "state": state_of(client, channel),
        "behind": (found := behind(client, channel, log)).messages,
        "behind_at_least": found.at_least,
        "since_ms": found.since_ms,
        "missed": found.missed,
        "callbacks": show_unsettled(client.unsettled.get(channel)),
    }
