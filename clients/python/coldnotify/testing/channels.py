"""Channels in the service for tests: a log for each domain and group, and its delivery to sessions.

It reads no blocks and forgets nothing: it remembers each message that retention has removed, so a client is told that
it missed something only if it did.
"""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.interests import channel_hash, channel_of, channel_text, expression_of, pattern_name

BEGINNING = -1
"""Below the first offset."""
_SAID = (wire.SINCE_POSITION, wire.SINCE_BEGINNING)
"""If the client sends the position, the service has nothing to find out."""


def registered_text(said: wire.Interest) -> str:
    """Returns the text that a channel or a pattern in a frame is registered by."""
    name = pattern_name(said.text) if said.kind == wire.INTEREST_PATTERN else said.text
    return channel_text(name, said.attributes)


@dataclass(slots=True)
class LoggedMessage:
    """A message in a log."""

    offset: int
    channel: str
    data: bytes
    id: str = ""
    source: str = ""
    to: tuple[str, ...] = ()
    published_ms: int = 0
    key: str = ""
    gone: int = wire.REASON_UNSAID
    """Why the log does not have it any more."""

    def is_for(self, text: str) -> bool:
        """Returns true if the registration with this text is told it."""
        name, attributes = channel_of(text)
        expression = expression_of(name)
        fits = name == self.channel if expression is None else re.search(expression, self.channel) is not None
        return fits and (not self.to or not set(self.to).isdisjoint(attributes))


@dataclass(slots=True)
class ServiceLog:
    """All messages of a domain and group, in order; the first one has offset 0."""

    messages: list[LoggedMessage] = field(default_factory=list)
    start: int = 0
    """The lowest offset that it still has."""

    @property
    def complete(self) -> int:
        """The last offset; BEGINNING if there is none."""
        return len(self.messages) - 1

    def append(self, message: LoggedMessage) -> bool:
        """Appends a message. Returns true if it is to be told, which a repeated id is not."""
        self.messages.append(message)
        return not self._is_repeat(message)

    def _is_repeat(self, message: LoggedMessage) -> bool:
        return bool(message.id) and any(
            one.channel == message.channel and one.id == message.id for one in self.messages[: message.offset]
        )

    def retain(self, start: int) -> None:
        """Removes messages below this offset."""
        self.start = max(self.start, min(start, len(self.messages)))
        for message in self.messages[: self.start]:
            message.gone = wire.RETENTION

    def lacking(self, text: str, position: int) -> list[LoggedMessage]:
        """Returns the messages after a position for the registration with this text, including removed ones."""
        return [one for one in self.messages[position + 1 :] if one.is_for(text) and not self._is_repeat(one)]

    def resolve(self, text: str, said: wire.Interest) -> int:
        """Returns the position at which a subscription begins."""
        if said.since == wire.SINCE_BEGINNING:
            return BEGINNING
        if said.since == wire.SINCE_POSITION:
            return min(said.at, self.complete)
        if said.since == wire.SINCE_OLDEST:
            return self.start - 1
        if said.since == wire.SINCE_TIME:
            return next((one.offset for one in self.messages if one.published_ms >= said.at), self.complete + 1) - 1
        if said.since == wire.SINCE_NEWEST:
            offsets = [one.offset for one in self.lacking(text, self.start - 1)]
            return offsets[-1] - 1 if offsets else self.complete
        return self.complete


@dataclass(slots=True)
class Registered:
    """A client's registration of one channel."""

    text: str
    since: int
    at: int
    position: int
    """The position at which it began."""


class ServiceChannels:
    """The channels that one client is registered for, by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, Registered] = {}

    @property
    def texts(self) -> list[str]:
        """The texts that are registered."""
        return [one.text for one in self.by_name.values()]

    @property
    def hashes(self) -> list[int]:
        """The registrations' hashes on the wire."""
        return [channel_hash(text) for text in self.texts]

    def register(self, log: ServiceLog, said: wire.Interest) -> Registered:
        """A client registers, perhaps again: the same request has the same result."""
        text = registered_text(said)
        name = channel_of(text)[0]
        old = self.by_name.get(name)
        if (
            old is not None
            and old.text == text
            and (said.since in _SAID or (old.since, old.at) == (said.since, said.at))
        ):
            return old
        new = Registered(text, said.since, said.at, log.resolve(text, said))
        self.by_name[name] = new
        return new

    def unregister(self, hashes: Collection[int]) -> None:
        """It wants these no more."""
        self.by_name = {name: one for name, one in self.by_name.items() if channel_hash(one.text) not in hashes}


class Feeds:
    """The channels of one session, and the position of each."""

    def __init__(
        self, registrations: ServiceChannels, log: ServiceLog, page_messages: int, send: Callable[..., None]
    ) -> None:
        self.registrations = registrations
        self.log = log
        self.live = False
        self.page = 0
        self.loses = 0
        """So many messages get lost in transit. After one, nothing is reported to be complete until the next one of its
        channel, because that would hide the loss.
        """
        self.lost_of: str | None = None
        """The text of that channel."""
        self.repeats = False
        """True if each message is sent twice."""
        self._page_messages = page_messages
        self._send = send
        self._told: dict[str, int] = {}
        """By text."""
        self._cursor: int | None = None
        self._lost: set[str] = set()
        """Texts of channels that must still be told that the log is another one."""

    def begin(self, cursor: int | None, *, void: bool) -> None:
        """A session begins with this cursor of channels. `void`: it is of another log."""
        self._cursor = None if void else cursor
        for one in self.registrations.by_name.values():
            if void:
                self._told[one.text] = BEGINNING
                self._lost.add(one.text)
            else:
                self._told[one.text] = one.position if cursor is None else cursor

    def register(self, channels: Iterable[wire.Interest], *, void: bool = False) -> list[wire.Position]:
        """The client registers for these, or sends their positions. Returns where each begins. `void`: its positions
        are of another log.
        """
        positions = []
        for said in channels:
            known = channel_of(registered_text(said))[0] in self.registrations.by_name
            one = self.registrations.register(self.log, said)
            if void and known and said.since in _SAID:
                continue
            position = self.log.resolve(one.text, said) if said.since in _SAID else one.position
            self._told[one.text] = position
            self._lost.discard(one.text)
            self.lost_of = None if self.lost_of == one.text else self.lost_of
            place = wire.Position(interest=channel_hash(one.text))
            if position != BEGINNING:
                place.position = position
            positions.append(place)
        return positions

    def forget(self) -> None:
        """Stops telling what is no longer registered."""
        texts = set(self.registrations.texts)
        self._told = {text: told for text, told in self._told.items() if text in texts}
        self._lost &= texts

    def _lacking(self) -> list[tuple[float, str, LoggedMessage | None]]:
        """Returns (offset, text, message) in the order of the log. A message of None means that the
        log is another one.
        """
        lacking: list[tuple[float, str, LoggedMessage | None]] = [
            (self.log.start - 0.5, text, None) for text in self._lost
        ]
        for text, told in self._told.items():
            lacking += [(one.offset, text, one) for one in self.log.lacking(text, told)]
        return sorted(lacking, key=lambda entry: entry[:2])

    @property
    def lacks(self) -> bool:
        """True if anything is to be told."""
        return bool(self._lacking())

    def catch_up(self) -> None:
        """Tell what lacks, in pages."""
        self.live = False
        self.next_page()

    def next_page(self) -> None:
        """The client has the page before."""
        lacking = self._lacking()
        reached = BEGINNING
        for place, text, message in lacking[: self._page_messages]:
            if message is None:
                self._lost.discard(text)
                self._say_missed(text, self.log.start, wire.LOST, after=False, paged=True)
            else:
                self._say(text, message, paged=True)
            reached = int(place)
        self.page += 1
        end = wire.PageEnd(page=self.page, stream=1)
        if len(lacking) <= self._page_messages:
            self.go_live()
            end.last = True
            if self.log.complete != BEGINNING:
                end.complete = self.log.complete
        elif reached >= (0 if self._cursor is None else self._cursor):
            end.complete = self._cursor = reached
        if self.lost_of is None:
            self._send(page_end=end)

    def go_live(self) -> None:
        """Nothing lacks."""
        self.live = True
        self._told = dict.fromkeys(self._told, self.log.complete)

    def fan_out(self, message: LoggedMessage) -> None:
        """A message was sent."""
        if self.live:
            *others, last = [text for text in self._told if message.is_for(text)] or [""]
            for text in others:
                self._say(text, message, paged=True)
            if last:
                self._say(last, message, paged=False)

    def _say(self, text: str, message: LoggedMessage, *, paged: bool) -> None:
        if message.gone:
            before = self.log.start if message.gone == wire.RETENTION else message.offset + 1
            self._say_missed(text, before, message.gone, after=True, paged=paged)
            return
        back = message.offset - self._told[text]
        self._told[text] = message.offset
        if self.loses and self.lost_of in (None, text):
            self.loses -= 1
            self.lost_of = text
            return
        if self.lost_of == text:
            self.lost_of = None
        said = wire.Message(
            channel=channel_hash(text),
            offset=message.offset,
            back=back,
            payload=message.data,
            id=message.id,
            source=message.source,
            published_ms=message.published_ms,
            paged=paged,
            name=message.channel if expression_of(text) is not None else "",
        )
        for _ in range(2 if self.repeats else 1):
            self._tell(said)

    def _say_missed(self, text: str, before: int, reason: int, *, after: bool, paged: bool) -> None:
        told = self._told[text]
        if before - 1 <= told and reason != wire.LOST:
            return  # said with one before
        missed = wire.Missed(channel=channel_hash(text), before=before, reason=wire.Reason.Name(reason), paged=paged)
        if after and told != BEGINNING:
            missed.after = told
        self._told[text] = max(told, before - 1)
        self._tell(missed)

    def _tell(self, said: wire.Message | wire.Missed) -> None:
        said.paged = said.paged or self.lost_of is not None
        if isinstance(said, wire.Message):
            self._send(message=said)
        else:
            self._send(missed=said)
