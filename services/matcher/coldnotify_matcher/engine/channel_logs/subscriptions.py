"""Subscriptions to channels: live sessions, by channel, by the attributes of the subscription, by gateway."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from coldnotify_schemas import wire_pb2

from coldnotify_matcher.engine.channel_logs.message_records import ChannelMessage
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.gateways.gateways import GatewayView
from coldnotify_matcher.engine.interests.by_channel import ClientChannel
from coldnotify_matcher.engine.objects.objects import GONE_KEPT_MAX, LiveSubscribers

_FIXED_BYTES_MAX = 140
"""Bytes of an Item with a FanOut beside payload, properties, id, source and sessions: tags, lengths and numbers."""
CLEANED_A_TICK = 256
"""Subscriptions that are checked each second: in one without messages nothing else removes sessions that are gone."""


class _Subscription:
    """The sessions whose clients registered one channel with the same attributes."""

    __slots__ = ("attributes", "hash", "size_max", "subscribers", "told")

    def __init__(self, channel: ClientChannel, told: int) -> None:
        self.hash = channel.hash
        self.attributes = channel.attributes
        self.told = told
        """The subscription has no messages between this offset and the log's next record."""
        self.subscribers: dict[GatewayView, LiveSubscribers] = {}
        self.size_max = GONE_KEPT_MAX
        """With more numbers of one gateway, those of sessions that are gone are removed."""

    def clean(self) -> bool:
        """Remove sessions that are gone. Returns true if any are left."""
        for gateway, subscribers in list(self.subscribers.items()):
            subscribers.remove_gone(gateway)
            if not subscribers.numbers:
                del self.subscribers[gateway]
        return bool(self.subscribers)


class Subscriptions:
    """The subscriptions of one log."""

    def __init__(self) -> None:
        self._by_channel: dict[str, dict[str, _Subscription]] = {}
        """By the channel's key, then by the registration's text."""
        self._to_clean: list[str] = []

    def __len__(self) -> int:
        return len(self._by_channel)

    def subscribe(self, channel: ClientChannel, session: EngineSession, after: int) -> None:
        """Send this session the channel's messages from now on; the channel has none above `after`."""
        by_text = self._by_channel.setdefault(channel.key, {})
        subscription = by_text.get(channel.text)
        if subscription is None:
            subscription = by_text[channel.text] = _Subscription(channel, after)
        gateway = session.gateway
        subscribers = subscription.subscribers.get(gateway)
        if subscribers is None:
            subscribers = subscription.subscribers[gateway] = LiveSubscribers(gateway.retirements)
        elif len(subscribers.numbers) > subscription.size_max:
            subscribers.remove_gone(gateway)
            subscription.size_max = 2 * len(subscribers.numbers) + GONE_KEPT_MAX
        subscribers.numbers.append(session.number)

    def unsubscribe(self, channel: ClientChannel, session: EngineSession) -> None:
        """Stop sending it the channel's messages."""
        by_text = self._by_channel.get(channel.key, {})
        subscription = by_text.get(channel.text)
        subscribers = None if subscription is None else subscription.subscribers.get(session.gateway)
        if subscription is None or subscribers is None or session.number not in subscribers.numbers:
            return
        subscribers.numbers.remove(session.number)
        if not subscribers.numbers:
            del subscription.subscribers[session.gateway]

    def tell(self, message: ChannelMessage, now_ms: int) -> tuple[int, int]:
        """Send a message to its subscribers. Returns the numbers of sessions that receive it, and that hear of its
        expiry."""
        by_text = self._by_channel.get(message.key)
        if by_text is None:
            return 0, 0
        told, missed, expired = 0, 0, message.expired(now_ms)
        for text, subscription in list(by_text.items()):
            if not message.is_for(subscription.attributes):
                continue
            if not subscription.clean():
                del by_text[text]
                continue
            for gateway, subscribers in subscription.subscribers.items():
                if expired:
                    _tell_expired(gateway, subscription.hash, message, subscribers.numbers)
                    missed += len(subscribers.numbers)
                else:
                    _tell(gateway, subscription, message, subscribers.numbers)
                    told += len(subscribers.numbers)
            subscription.told = message.offset
        if not by_text:
            del self._by_channel[message.key]
        return told, missed

    def on_tick(self) -> None:
        """Check some of the subscriptions, as time passes."""
        if not self._to_clean:
            self._to_clean = list(self._by_channel)
        for _ in range(min(CLEANED_A_TICK, len(self._to_clean))):
            key = self._to_clean.pop()
            by_text = self._by_channel.get(key, {})
            for text in [text for text, subscription in by_text.items() if not subscription.clean()]:
                del by_text[text]
            if not by_text:
                self._by_channel.pop(key, None)

    def sessions(self, key: str) -> Iterator[tuple[GatewayView, int]]:
        """Yields the sessions that receive the channel's messages, for the HTTP views."""
        for subscription in self._by_channel.get(key, {}).values():
            for gateway, subscribers in subscription.subscribers.items():
                yield from ((gateway, number) for number in subscribers.numbers if number in gateway.sessions)


def message_bytes_max(message: ChannelMessage, sessions: bytes, name: str = "") -> int:
    """Returns the maximum size of an Item with a FanOut of this message. `name`: its channel's, if it is said."""
    texts = len(name) + len(message.id) + len(message.source)
    return _FIXED_BYTES_MAX + len(message.payload) + len(message.properties) + 4 * texts + len(sessions)


def _tell(gateway: GatewayView, subscription: _Subscription, message: ChannelMessage, numbers: array[int]) -> None:
    sessions = numbers.tobytes()
    fan_out = gateway.new_item(message_bytes_max(message, sessions)).stream_fan_out
    message.fill_in(fan_out.entry.message, subscription.hash, subscription.told)
    fan_out.sessions = sessions
    if message.high:
        fan_out.urgent = True


def _tell_expired(gateway: GatewayView, hash_: int, message: ChannelMessage, numbers: array[int]) -> None:
    sessions = numbers.tobytes()
    fan_out = gateway.new_item(_FIXED_BYTES_MAX + len(sessions)).stream_fan_out
    missed_between(fan_out.entry.missed, hash_, message.offset - 1, message.offset + 1, wire_pb2.EXPIRED)
    fan_out.sessions = sessions


def missed_between(
    missed: wire_pb2.Missed, hash_: int, after: int | None, before: int, reason: wire_pb2.Reason
) -> wire_pb2.Missed:
    """Say that between these offsets messages may be missing. `after` None, or -1: from the last one that was sent."""
    missed.channel = hash_
    if after is not None and after >= 0:
        missed.after = after
    missed.before = before
    missed.reason = reason
    return missed
