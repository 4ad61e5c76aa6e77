"""For tests: what a log took, and what subscribers of channels and their gateways keep, as simply as can be."""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from coldnotify_schemas import wire_pb2
from coldnotify_schemas.digest import MODULUS
from coldnotify_schemas.interests import channel_hash, channel_text, expression_of

from coldnotify_testkit.channels_bench import channel

NOWHERE = -1


class TakenMessage(NamedTuple):
    """A message as the log contains it."""

    offset: int
    channel: str
    to: tuple[str, ...]
    expires_at: int | None
    original: int | None
    """The record that it repeats."""


@dataclass
class Subscribed:
    """A channel of a device."""

    name: str
    attributes: tuple[str, ...]
    since: wire_pb2.Since
    at: int
    position: int | None = None
    """Where the channel begins, as reported by the service; None: not reported yet."""
    known: int = NOWHERE
    """Everything up to here was delivered or missed. If the channel is not pending, the device's cursor counts, too."""
    pending: bool = True
    parked: bool = False
    lost: bool = False
    """The log is another one: the next thing that the subscriber receives is that loss."""
    said: bool = False
    """True if the service has reported it in this session."""
    told: list[int] = field(default_factory=list)

    @property
    def hash(self) -> int:
        return channel_hash(channel_text(self.name, self.attributes))

    def wants(self, sent: TakenMessage) -> bool:
        expression = expression_of(self.name)
        fits = sent.channel == self.name if expression is None else re.search(expression, sent.channel)
        return bool(fits) and (not sent.to or bool(set(sent.to) & set(self.attributes)))

    def frame(self) -> wire_pb2.Interest:
        if self.position is None:
            return channel(self.name, *self.attributes, since=self.since, at=self.at)
        since = wire_pb2.SINCE_BEGINNING if self.known == NOWHERE else wire_pb2.SINCE_POSITION
        return channel(self.name, *self.attributes, since=since, at=max(self.known, 0))


@dataclass
class SubscriberDevice:
    """The state that a subscriber keeps."""

    name: str
    channels: dict[int, Subscribed] = field(default_factory=dict)
    unregistering: set[int] = field(default_factory=set)
    cursor: int = NOWHERE
    epoch: int | None = None
    session: "SubscriberSession | None" = None

    @property
    def digest(self) -> int:
        return sum(self.channels) % MODULUS


@dataclass
class SubscriberSession:
    """A connection as its gateway sees it."""

    device: SubscriberDevice
    gateway: int
    number: int
    digest: int
    channels: list[wire_pb2.Interest]
    unregister: list[int]
    cursor: int
    epoch: int | None
    state: str = "opening"
    ask: int = 0
    live: bool = False
    """Its channels are."""
    behind: bool = False
    """The client has reported that channels are behind its cursor, and has not caught up since."""
    due: bool = False
    """A page is to come."""
    page: int = 1
    """That one's number."""
    paging: int = 0
    registers: int = 0
    """Registers that are not answered."""

    @property
    def connected(self) -> bool:
        return self.device.session is self
