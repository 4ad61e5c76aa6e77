"""Subscriptions to channels and patterns: live sessions, by channel or pattern, by attributes, by gateway.

A session may be told one message several times, by a channel and by patterns that fit it. Only the last of these frames
says that all up to the message is told; the others are marked as parts of a page.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence

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

    __slots__ = ("attributes", "hash", "pattern", "size_max", "subscribers", "told")

    def __init__(self, channel: ClientChannel, told: int) -> None:
        self.hash = channel.hash
        self.attributes = channel.attributes
        self.pattern = channel.expression is not None
        """True if it is a pattern's: its messages say their channel."""
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

    def has(self, key: str) -> bool:
        """Returns true if a channel, or a pattern, with this key has subscribers."""
        return key in self._by_channel

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

    def tell(self, message: ChannelMessage, now_ms: int, patterns: Sequence[str] = ()) -> tuple[int, int]:
        """Send a message to its subscribers. Returns the numbers of sessions that receive it, and that hear of its
        expiry. `patterns`: keys of patterns that fit its channel."""
        told, missed, expired = 0, 0, message.expired(now_ms)
        heard = [one for key in (message.key, *patterns) for one in self._hearing(key, message)]
        again = _heard_again(heard) if len(heard) > 1 else {}
        for subscription in heard:
            for gateway, subscribers in subscription.subscribers.items():
                numbers = subscribers.numbers
                if expired:
                    missed += len(numbers)
                else:
                    told += len(numbers)
                parts = [(numbers, False)]
                if gateway in again:
                    parts = _parts(numbers, again[gateway])
                for part, paged in parts:
                    if expired:
                        _tell_expired(gateway, subscription, message, part, paged=paged)
                    else:
                        _tell(gateway, subscription, message, part, paged=paged)
            subscription.told = message.offset
        return told, missed

    def _hearing(self, key: str, message: ChannelMessage) -> list[_Subscription]:
        """Returns the subscriptions of a channel, or of a pattern that fits it, that this message is for."""
        by_text = self._by_channel.get(key)
        if by_text is None:
            return []
        found = []
        for text, subscription in list(by_text.items()):
            if message.is_for(subscription.attributes):
                if subscription.clean():
                    found.append(subscription)
                else:
                    del by_text[text]
        if not by_text:
            del self._by_channel[key]
        return found

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


def _heard_again(heard: Sequence[_Subscription]) -> dict[GatewayView, Counter[int]]:
    """Returns how often each session of these subscriptions is in them, by gateways, where one is twice."""
    counted: dict[GatewayView, Counter[int]] = {}
    for subscription in heard:
        for gateway, subscribers in subscription.subscribers.items():
            counted.setdefault(gateway, Counter()).update(subscribers.numbers)
    return {gateway: counts for gateway, counts in counted.items() if counts.total() > len(counts)}


def _parts(numbers: array[int], left: Counter[int]) -> list[tuple[array[int], bool]]:
    """Returns sessions that are told a message by another subscription, too, and (true) those of them that are told it
    again: only what is told last may say that all up to the message is told. `left`: how often each is still told."""
    last, again = array("I"), array("I")
    for number in numbers:
        (again if left[number] > 1 else last).append(number)
        left[number] -= 1
    return [(part, paged) for part, paged in ((again, True), (last, False)) if part]


def _tell(
    gateway: GatewayView, subscription: _Subscription, message: ChannelMessage, numbers: array[int], *, paged: bool
) -> None:
    sessions = numbers.tobytes()
    pattern = subscription.pattern
    size_max = message_bytes_max(message, sessions, message.key if pattern else "")
    fan_out = gateway.new_item(size_max).stream_fan_out
    said = fan_out.entry.message
    message.fill_in(said, subscription.hash, subscription.told, named=pattern)
    if paged:
        said.paged = True
    fan_out.sessions = sessions
    if message.high:
        fan_out.urgent = True


def _tell_expired(
    gateway: GatewayView, subscription: _Subscription, message: ChannelMessage, numbers: array[int], *, paged: bool
) -> None:
    sessions = numbers.tobytes()
    fan_out = gateway.new_item(_FIXED_BYTES_MAX + len(sessions)).stream_fan_out
    if paged:
        fan_out.entry.missed.paged = True
    missed_between(fan_out.entry.missed, subscription.hash, message.offset - 1, message.offset + 1, wire_pb2.EXPIRED)
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
