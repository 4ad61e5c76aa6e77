"""One channel: its position, and the messages that have come and are not told yet. Nothing here waits for anything.

All offsets are of one log. -1 is below its first one.
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from coldnotify_schemas import wire_pb2 as wire

from coldnotify._core.interests.interests import ChannelInterest
from coldnotify._core.interests.since import NOW, Since
from coldnotify._core.streams.payloads import said_by
from coldnotify.message import Message, Missed, MissedReason

BEGINNING = -1
"""Nothing of the log is known."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ITEM_BYTES = 512
"""Approximate memory of an item beside its payload."""
REASONS = {
    wire.RETENTION: MissedReason.RETENTION,
    wire.EXPIRED: MissedReason.EXPIRED,
    wire.LOST: MissedReason.LOST,
    wire.UNREADABLE: MissedReason.UNREADABLE,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptChannel:
    """The state of a channel in the document."""

    since: Since | None = None
    """Its beginning, until the service has sent the position."""
    position: int | None = None
    """The offset up to which everything is known; the cursor does not apply to this channel. Only for a pending
    registration.
    """
    told: int | None = None
    """The offset last told. It reveals repeats."""
    lost: bool = False
    """True if the loss of its log must be reported before anything else."""


@dataclass(slots=True, eq=False)
class Item:
    """A message, or a report of missed ones, that is to be told."""

    said: wire.Message | wire.Missed
    limit: int
    """The cursor may be at most this until it is told: everything up to there was known when it came."""
    held: bool = False
    """It holds the cursor."""
    told_to: set[int] = field(default_factory=set)
    """Subscribers whose callback has returned: a retry leaves them out."""

    @property
    def end(self) -> int:
        """The offset up to which the channel is told, once this item is."""
        return self.said.before - 1 if isinstance(self.said, wire.Missed) else self.said.offset

    @property
    def size_bytes(self) -> int:
        """Its size in memory."""
        return _ITEM_BYTES + (len(self.said.payload) if isinstance(self.said, wire.Message) else 0)

    @property
    def is_lost(self) -> bool:
        """True if it reports that the log is another one."""
        return isinstance(self.said, wire.Missed) and self.said.reason == wire.LOST


@dataclass(frozen=True, slots=True, eq=False)
class ChannelJob:
    """Run the callbacks of these subscribers with this message or report, then call `CallbackTurns.done`."""

    feed: "Feed"
    item: Item
    subscribers: tuple[int, ...]
    message: Message | Missed

    @property
    def arguments(self) -> tuple[Message | Missed]:
        """For a callback."""
        return (self.message,)


class Feed:
    """The state of one channel."""

    __slots__ = (
        "asked_from",
        "channel",
        "deaf",
        "failures",
        "items",
        "live",
        "lost",
        "parked",
        "position",
        "received",
        "retry_at",
        "running",
        "since",
        "size_bytes",
        "told",
    )

    def __init__(self, channel: ChannelInterest, kept: KeptChannel | None = None) -> None:
        kept = KeptChannel(since=NOW) if kept is None else kept
        self.channel = channel
        # As in the document
        self.since = kept.since
        self.position = kept.position
        self.told = kept.told
        self.lost = kept.lost
        # What has come
        self.received = max(known for known in (BEGINNING, kept.position, kept.told) if known is not None)
        """The offset up to which everything is told or in `items`."""
        self.asked_from = BEGINNING
        """The value of `received` at the last request to the service, which sends what follows it."""
        self.items: deque[Item] = deque()
        """In order; the first one is being told if `running` is set."""
        self.size_bytes = 0
        self.live = False
        """True if the service sends it live: what a frame reports as complete applies to this channel, too."""
        self.deaf = False
        """True if its messages are not kept: they will be requested again."""
        self.running: ChannelJob | None = None
        self.failures = 0
        self.retry_at: float | None = None
        self.parked = False
        """Its callbacks failed too often."""

    @property
    def kept(self) -> KeptChannel:
        """For the document."""
        return KeptChannel(since=self.since, position=self.position, told=self.told, lost=self.lost)

    @property
    def registered(self) -> wire.Interest:
        """Returns the registration for a frame: the service must send what follows the last received offset."""
        since, at = wire.SINCE_POSITION, self.received
        if self.since is not None:
            since, at = self.since.number, self.since.at
        elif self.received == BEGINNING:
            since, at = wire.SINCE_BEGINNING, 0
        expression, attributes = self.channel.expression, self.channel.attributes
        if expression is not None:
            return wire.Interest(kind=wire.INTEREST_PATTERN, text=expression, attributes=attributes, since=since, at=at)
        return wire.Interest(
            kind=wire.INTEREST_CHANNEL, text=self.channel.name, attributes=attributes, since=since, at=at
        )

    def applied(self, cursor: int | None) -> int:
        """Returns the offset up to which everything is told. `cursor`: applies if it has no pending registration."""
        known = (BEGINNING, self.told, self.position, cursor if self.position is None else None)
        return max(one for one in known if one is not None)

    @property
    def tells_loss(self) -> bool:
        """True if a waiting item reports that the log is another one, or if that need not be reported."""
        return not self.lost or any(item.is_lost for item in self.items)

    # What comes

    def put(self, item: Item) -> None:
        """Appends an item."""
        self.items.append(item)
        self.size_bytes += item.size_bytes
        self.received = max(self.received, item.end)

    def cut(self, bytes_max: int) -> list[Item]:
        """Keeps about so much of what waits, and at least what is being told. Returns the rest, to
        be requested again.
        """
        kept: deque[Item] = deque()
        size = 0
        for item in self.items:
            if kept and size + item.size_bytes > bytes_max:
                break
            kept.append(item)
            size += item.size_bytes
        dropped = list(self.items)[len(kept) :]
        if dropped:
            self.items, self.size_bytes, self.received = kept, size, dropped[0].limit
        return dropped

    def drop(self) -> Collection[Item]:
        """Nothing waits any more: all of it is to be asked for again."""
        dropped, self.items, self.size_bytes = self.items, deque(), 0
        self.running = None
        if dropped:
            self.received = dropped[0].limit
        return dropped

    def pop(self) -> Item:
        """Removes the first item, which is told."""
        item = self.items.popleft()
        self.size_bytes -= item.size_bytes
        self.running = None
        if item.end > BEGINNING and (self.told is None or item.end > self.told):
            self.told = item.end
        self.lost = self.lost and not item.is_lost
        return item

    # What is told

    def message(self, item: Item, epoch: int) -> Message | Missed:
        """Returns the item in the form for callbacks."""
        said = item.said
        if isinstance(said, wire.Missed):
            after = said.after if said.HasField("after") else self.told
            reason = REASONS.get(said.reason, MissedReason.UNSAID)
            return Missed(self.channel.title, after, said.before, reason)
        return Message(
            channel=self.channel.name if self.channel.expression is None else said.name,
            payload=said_by(said.payload),
            offset=said.offset,
            previous=self.told,
            data=said.payload,
            id=said.id or None,
            source=said.source or None,
            published_at=time_of(said.published_ms),
            epoch=epoch,
        )


def time_of(unix_ms: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(milliseconds=unix_ms) if unix_ms else None
    except OverflowError:
        return None  # no time that a calendar knows
