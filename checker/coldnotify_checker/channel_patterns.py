"""Patterns of channels: a subscription to one is judged as that to a channel which holds the messages of all that it
fits.

All channels of a group are in one partition of one log, so their offsets have one order. An expression that the checker
does not understand is not judged.
"""

import re
from collections.abc import Iterable, Iterator

from coldnotify_schemas.interests import BETWEEN
from msgspec.structs import replace

from coldnotify_checker.histories import Event, MessageTold, MissedTold, Record, Send, Subscribe, Unsubscribe

OfSubscriber = Subscribe | Unsubscribe | MessageTold | MissedTold


def is_pattern(channel: str) -> bool:
    """Returns true if the channel stands for a pattern."""
    return BETWEEN in channel


def _id(channel: str, message: str) -> str:
    """Returns an id of a message among those of several channels."""
    return f"{message} of {channel.split('/', 2)[2]}"


class ChannelPatterns:
    """The patterns in a history."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._expressions: dict[str, dict[str, re.Pattern[str]]] = {}
        """By domain/group, those that are subscribed to."""
        self._of_subscribers: dict[int, OfSubscriber] = {}
        """By the event's identity, what it says of the channel that stands for its pattern."""
        self._told: dict[int, str] = {}
        """By the identity of what says that a message was told: the message's own channel."""
        for event in events:
            if isinstance(event, Subscribe) and event.pattern is not None:
                try:
                    expression = re.compile(event.pattern)
                except re.error:
                    continue
                self._expressions.setdefault(_group(event.client), {})[event.pattern] = expression

    def of_subscriber(self, event: OfSubscriber) -> OfSubscriber:
        """Returns what the event says of a channel; the same for the same event."""
        if event.pattern is None:
            return event
        found = self._of_subscribers.get(id(event))
        if found is None:
            found = replace(event, channel=f"{_group(event.client)}/{BETWEEN}{event.pattern}")
            if isinstance(event, MessageTold) and isinstance(found, MessageTold):
                if event.message is not None:
                    found = replace(found, message=_id(event.channel, event.message))
                self._told[id(found)] = event.channel
            self._of_subscribers[id(event)] = found
        return found

    def channel_of(self, event: MessageTold) -> str:
        """Returns the message's own channel."""
        return self._told.get(id(event), event.channel)

    def all(self, events: Iterable[Event]) -> Iterator[Event]:
        """Yields the events, and the messages of each channel that stands for a pattern."""
        for event in events:
            if isinstance(event, OfSubscriber):
                yield self.of_subscriber(event)
                continue
            yield event
            if isinstance(event, Send):
                for channel in self._fitting(event.channel):
                    yield replace(event, channel=channel, message=_id(event.channel, event.message))
            elif isinstance(event, Record) and event.key is not None and event.key.count("/") >= 2:
                for channel in self._fitting(event.key):
                    headers = dict(event.headers)
                    if "id" in headers:
                        headers["id"] = _id(event.key, headers["id"])
                    yield replace(event, key=channel, headers=headers)

    def _fitting(self, channel: str) -> Iterator[str]:
        domain, group, name = channel.split("/", 2)
        for text, expression in self._expressions.get(f"{domain}/{group}", {}).items():
            if expression.search(name):
                yield f"{domain}/{group}/{BETWEEN}{text}"


def _group(client: str) -> str:
    return client.rpartition("/")[0]
