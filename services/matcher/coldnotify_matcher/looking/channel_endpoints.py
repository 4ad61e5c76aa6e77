"""A group's channels, for the HTTP views: last offsets, subscribers, messages they lack, the last messages, shares."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.list_pages import page_request
from coldnotify_common.http.web import error_response
from coldnotify_schemas.names import check_object
from coldnotify_schemas.share_names import check_share

from coldnotify_matcher.engine.channel_logs.channel_log import ChannelLog
from coldnotify_matcher.engine.channel_logs.message_records import ChannelMessage
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.interests.by_channel import ClientChannel
from coldnotify_matcher.engine.shares.one_share import KnownShare
from coldnotify_matcher.looking.channel_standing import behind, show_subscriber
from coldnotify_matcher.looking.state_endpoints import HasWorker, Look, first_of, in_a_thread
from coldnotify_matcher.matcher_partition import MatcherPartition

MESSAGES_SHOWN_MAX = 20
"""Messages shown for one channel."""
HAND_OUTS_SHOWN_MAX = 100
"""Hand-outs shown for one share, those of the lowest offsets: what stands in the way is among them."""
PAYLOAD_SHOWN_BYTES_MAX = 200
"""Bytes shown of one message: enough to recognise it, and little enough for 20 on a screen."""

_Subscribers = dict[str, list[tuple[RegisteredClient, ClientChannel]]]


def routes(current: HasWorker) -> list[web.AbstractRouteDef]:
    """Routes GET .../channels, .../channels/{channel}, and .../channels/{channel}/shares/{share}."""
    channels = ChannelEndpoints(current)
    group = "/v1/domains/{domain}/groups/{group}"
    return [
        web.get(f"{group}/channels", in_a_thread(channels.channels)),
        web.get(f"{group}/channels/{{channel:(?s:.+)}}/shares/{{share}}", in_a_thread(channels.share)),
        web.get(f"{group}/channels/{{channel:(?s:.+)}}", in_a_thread(channels.channel)),
    ]


class ChannelEndpoints:
    """The handlers; they run in a thread."""

    def __init__(self, current: HasWorker) -> None:
        self._look = Look(current)

    def channels(self, request: web.Request) -> web.Response:
        """GET .../channels?limit&after: channels that have messages, or subscribers."""
        asked = page_request(request.query)
        with self._look.served(request) as (prefix, partition):
            log = _log(partition, prefix)
            keys = [] if log is None else list(log.last.keys(prefix))
        subscribers = self._subscribers(partition, prefix)
        part, next_ = first_of((key.removeprefix(prefix) for key in {*keys, *subscribers}), asked)
        items = [self._show(partition, prefix, name, subscribers.get(prefix + name, []), log) for name in part]
        return json_answer({"items": items, "next": next_})

    def channel(self, request: web.Request) -> web.Response:
        """GET .../channels/{channel}?limit&after: its subscribers paged, its last messages, and its shares."""
        name = check_object(request.match_info["channel"], "channel")
        asked = page_request(request.query)
        with self._look.served(request) as (prefix, partition):
            key, log = prefix + name, _log(partition, prefix)
            last = None if log is None else log.last.known(key)
            messages = [] if log is None else list(map(show_message, log.tail.latest(key, MESSAGES_SHOWN_MAX)))
            known = partition.engine.state.shares.of_channel(key)
            shares = [_show_share(partition, share, log) for share in sorted(known, key=lambda one: one.name)]
        subscribers = self._subscribers(partition, prefix, key).get(key, [])
        if not subscribers and not shares and last is None:
            return error_response(404, f"channel: {key} has no messages and no subscribers")
        by_name = {client.name: (client, channel) for client, channel in subscribers}
        shown = {
            **self._show(partition, prefix, name, subscribers, log),
            "retention": None if log is None else log.retention.value,
            "subscriptions": self._look.page(
                partition, by_name, asked, lambda one: show_subscriber(*by_name[one], log)
            ),
            "messages": messages,
            "shares": shares,
        }
        return json_answer(shown)

    def share(self, request: web.Request) -> web.Response:
        """GET .../channels/{channel}/shares/{share}?limit&after: a share, and its members paged."""
        name = check_object(request.match_info["channel"], "channel")
        wanted = check_share(request.match_info["share"], name)
        asked = page_request(request.query)
        with self._look.served(request) as (prefix, partition):
            log = _log(partition, prefix)
            known = partition.engine.state.shares.of_channel(prefix + name)
            share = next((one for one in known if one.name == wanted), None)
            if share is None:
                return error_response(404, f"share: {prefix}{name} has no share {wanted}")
            names, next_ = first_of(share.members, asked)
            members = {"items": [_show_member(share, one) for one in names], "next": next_}
            last = None if log is None else log.last.known(prefix + name)
            shown = {"channel": name, **_show_share(partition, share, log), "last": last}
        return json_answer({**shown, "members_page": members})

    def _subscribers(self, partition: MatcherPartition, prefix: str, only: str | None = None) -> _Subscribers:
        """Returns subscribers by the channels' keys; `only`: for this one."""
        with self._look.lock():
            clients = list(partition.engine.state.clients.items())
        by_key: _Subscribers = {}
        for client in self._look.each(partition, [one for key, one in clients if key.startswith(prefix)]):
            found = client.channels.values() if only is None else filter(None, [client.channels.by_key.get(only)])
            for channel in found:
                by_key.setdefault(channel.key, []).append((client, channel))
        return by_key

    def _show(
        self,
        partition: MatcherPartition,
        prefix: str,
        name: str,
        subscribers: list[tuple[RegisteredClient, ClientChannel]],
        log: ChannelLog | None,
    ) -> dict[str, Any]:
        """Returns one channel. `last` is null if its log has no message of it any more."""
        online = waiting = 0
        for client, channel in self._look.each(partition, subscribers):
            online += client.session is not None
            waiting += bool(behind(client, channel, log))
        return {
            "channel": name,
            "last": None if log is None else log.last.known(prefix + name),
            "subscribers": len(subscribers),
            "online": online,
            "behind": waiting,
        }


def _log(partition: MatcherPartition, prefix: str) -> ChannelLog | None:
    """Returns the log of the domain's channels; None if Kafka has no topics for them."""
    state = partition.engine.state
    return state.channel_logs.get(state.rules.retentions.of(prefix.partition("/")[0]))


def show_message(message: ChannelMessage) -> dict[str, Any]:
    """Returns one message; of a long payload only the beginning, as text."""
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


def _show_member(share: KnownShare, name: str) -> dict[str, Any]:
    """Returns one member of a share."""
    present = share.present.get(name)
    return {
        "client": name,
        "present": present is not None,
        "prefetch": None if present is None else present.prefetch,
        "lease_s": None if present is None else present.lease_s,
        "held": share.rule.count_in_hand(name),
    }


def _show_share(partition: MatcherPartition, share: KnownShare, log: ChannelLog | None) -> dict[str, Any]:
    """Returns one share of a channel: who holds what, for how long, and what waits."""
    rule, steady_ms = share.rule, partition.engine.state.steady_ms
    return {
        "share": share.name,
        "attributes": sorted(share.attributes),
        "members": len(share.members),
        "present": len(share.present),
        "settled": rule.base,
        "held": rule.held,
        "waiting": rule.waiting,
        "waiting_more": log is not None and rule.read + 1 < log.position,
        "oldest_ms": rule.oldest_ms,
        "full": rule.is_full or rule.is_blocked,
        "hand_outs": [
            {
                "offset": one.offset,
                "client": one.member or None,
                "state": one.state.name.lower(),
                "attempts": one.attempts,
                "hand_out": one.number,
                "held_s": None if one.lent_ms is None else max(0, (steady_ms - one.lent_ms) // 1000),
                "left_s": max(0, (one.ends_ms - steady_ms) // 1000),
            }
            for one in rule.holdings(HAND_OUTS_SHOWN_MAX)
        ],
    }
