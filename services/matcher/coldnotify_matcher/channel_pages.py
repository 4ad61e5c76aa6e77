"""A group's channels, for those who look in: how far each goes, who subscribes, who is behind, what was sent last."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from coldnotify_common.list_pages import page, page_request
from coldnotify_common.web import error_response
from coldnotify_schemas.names import check_object

from coldnotify_matcher.channel_standing import is_behind, show_subscriber
from coldnotify_matcher.engine.channel_logs.channel_log import ChannelLog
from coldnotify_matcher.engine.channel_logs.message_records import Message
from coldnotify_matcher.engine.clients import Client
from coldnotify_matcher.engine.interests.by_channel import RegisteredChannel
from coldnotify_matcher.matcher_partition import Partition
from coldnotify_matcher.state_pages import HasWorker, Look, in_a_thread

MESSAGES_SHOWN_MAX = 20
"""Of one channel."""
PAYLOAD_SHOWN_BYTES_MAX = 200
"""Of one message: enough to know it by, and little enough for 20 on a screen."""

_Subscribers = dict[str, list[tuple[Client, RegisteredChannel]]]


def routes(current: HasWorker) -> list[web.AbstractRouteDef]:
    """GET .../channels and .../channels/{channel}."""
    channels = Channels(current)
    group = "/v1/domains/{domain}/groups/{group}"
    return [
        web.get(f"{group}/channels", in_a_thread(channels.channels)),
        web.get(f"{group}/channels/{{channel:(?s:.+)}}", in_a_thread(channels.channel)),
    ]


class Channels:
    """The handlers; they run in a thread."""

    def __init__(self, current: HasWorker) -> None:
        self._look = Look(current)

    def channels(self, request: web.Request) -> web.Response:
        """GET .../channels?limit&after: those that have messages, or subscribers."""
        limit, after = page_request(request.query)
        with self._look.served(request) as (prefix, partition):
            log, subscribers = _log(partition, prefix), _subscribers(partition, prefix)
            keys = set(subscribers) if log is None else subscribers.keys() | log.last.keys(prefix)
            names = sorted(key.removeprefix(prefix) for key in keys)
            shown = page(names, limit, after, lambda name: _show(prefix, name, subscribers.get(prefix + name, []), log))
        return web.json_response(shown)

    def channel(self, request: web.Request) -> web.Response:
        """GET .../channels/{channel}?limit&after: its subscribers paged, and its last messages."""
        name = check_object(request.match_info["channel"], "channel")
        limit, after = page_request(request.query)
        with self._look.served(request) as (prefix, partition):
            key, log = prefix + name, _log(partition, prefix)
            subscribers = _subscribers(partition, prefix).get(key, [])
            if not subscribers and (log is None or log.last.known(key) is None):
                return error_response(404, f"channel: {key} has no messages and no subscribers")
            by_name = {client.name: (client, channel) for client, channel in subscribers}
            shown = {
                **_show(prefix, name, subscribers, log),
                "retention": None if log is None else log.retention.value,
                "subscriptions": page(sorted(by_name), limit, after, lambda one: show_subscriber(*by_name[one], log)),
                "messages": [] if log is None else list(map(show_message, log.tail.latest(key, MESSAGES_SHOWN_MAX))),
            }
        return web.json_response(shown)


def _log(partition: Partition, prefix: str) -> ChannelLog | None:
    """That of the domain's channels; None where Kafka has no topics for them."""
    state = partition.engine.state
    return state.channel_logs.get(state.rules.retentions.of(prefix.partition("/")[0]))


def _subscribers(partition: Partition, prefix: str) -> _Subscribers:
    by_key: _Subscribers = {}
    for key, client in partition.engine.clients.items():
        if client.channels and key.startswith(prefix):
            for channel in client.channels.values():
                by_key.setdefault(channel.key, []).append((client, channel))
    return by_key


def _show(
    prefix: str, name: str, subscribers: list[tuple[Client, RegisteredChannel]], log: ChannelLog | None
) -> dict[str, Any]:
    """`last` is null where the log has no message of it any more."""
    return {
        "channel": name,
        "last": None if log is None else log.last.known(prefix + name),
        "subscribers": len(subscribers),
        "online": sum(client.session is not None for client, _ in subscribers),
        "behind": sum(is_behind(client, channel, log) for client, channel in subscribers),
    }


def show_message(message: Message) -> dict[str, Any]:
    """One message; of a long payload only its begin, as text."""
    return {
        "offset": message.offset,
        "id": message.id or None,
        "source": message.source or None,
        "published_ms": message.published_ms if message.published_ms > 0 else None,
        "expires_at": message.expires_at,
        "to": list(message.to),
        "payload_bytes": len(message.payload),
        "payload_begins": message.payload[:PAYLOAD_SHOWN_BYTES_MAX].decode(errors="replace"),
    }
