"""How far a client is in a channel that it is registered for, as the matcher knows it, for those who look in."""

from __future__ import annotations

from typing import Any

from coldnotify_schemas.interests import channel_of

from coldnotify_matcher.engine.channel_logs.channel_log import ChannelLog
from coldnotify_matcher.engine.clients import Client
from coldnotify_matcher.engine.interests.by_channel import NO_CURSOR, RegisteredChannel

ASLEEP, CATCHING_UP, LIVE = "asleep", "catching up", "live"


def is_behind(client: Client, channel: RegisteredChannel, log: ChannelLog | None) -> bool:
    """Whether messages of the channel are there that the client has not acknowledged, as far as is known.

    A message that is for other attributes does not count, if it is among the latest, which are in memory.
    """
    last = None if log is None else log.last.known(channel.key)
    if log is None or last is None:
        return False
    known = _known(client, channel, log)
    if last <= known:
        return False
    if log.tail.start > known + 1:
        return True
    return any(message.is_for(channel.attributes) for message in log.tail.above(channel.key, known))


def _known(client: Client, channel: RegisteredChannel, log: ChannelLog) -> int:
    """All of the channel up to there is told; the cursor says nothing of a channel that is pending."""
    session = client.session
    if session is not None and session.channels is not None and channel.hash in session.channels.pending:
        return session.channels.pending[channel.hash]
    began = channel.position if channel.epoch == log.epoch else NO_CURSOR
    return max(began, client.channels.cursor if client.channels.epoch == log.epoch else NO_CURSOR)


def state_of(client: Client, channel: RegisteredChannel) -> str:
    """asleep, catching up or live."""
    session = client.session
    if session is None:
        return ASLEEP
    return LIVE if session.channels is not None and channel.hash in session.channels.joined else CATCHING_UP


def show_subscriber(client: Client, channel: RegisteredChannel, log: ChannelLog | None) -> dict[str, Any]:
    """One client of a channel."""
    return {"client": client.name, **_standing(client, channel, log), "cursor": cursor_of(client)}


def show_channel(client: Client, channel: RegisteredChannel, log: ChannelLog | None) -> dict[str, Any]:
    """One channel of a client."""
    return {"channel": channel_of(channel.text)[0], **_standing(client, channel, log)}


def cursor_of(client: Client) -> int | None:
    """How far it is in the log, by its own word; of channels that are not pending."""
    return client.channels.cursor if client.channels.cursor != NO_CURSOR else None


def _standing(client: Client, channel: RegisteredChannel, log: ChannelLog | None) -> dict[str, Any]:
    return {
        "attributes": sorted(channel.attributes),
        "state": state_of(client, channel),
        "behind": is_behind(client, channel, log),
    }
