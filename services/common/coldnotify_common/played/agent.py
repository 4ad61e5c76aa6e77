"""Plays a device's part of a session, for one that keeps no cursor itself: frames in, bytes and results out. Pure.

The agent sends Hello with the set that the device wants, and resumes at the cursor that its caller has kept for it, if
any. If the service has another set, the agent sends the whole one. It acknowledges what the device has taken, and
requests names. See docs/protocol.md, "A session".
An agent has no clock. It does not know which members of its queries the device holds. If the service does not know all
changes, the agent registers the queries again once it is caught up, and all members are sent again. The digest in the
next session's Hello reveals any other loss.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from coldnotify_schemas.digest import MODULUS, digest
from coldnotify_schemas.frames import encode
from coldnotify_schemas.interests import query_hash
from coldnotify_schemas.protocol import (
    AGE_UNKNOWN_S,
    AGE_UNSAID_S,
    HELLO_QUERY_BYTES_MAX,
    OBJECTS_PER_FRAME_MAX,
    PROTOCOL_VERSION,
)
from coldnotify_schemas.wire_pb2 import (
    CAPABILITY_DESCRIPTIONS,
    CAPABILITY_IN_ORDER,
    CAPABILITY_NAMES,
    CAPABILITY_QUERIES,
    CAPABILITY_UNSETTLED,
    INTEREST_QUERY,
    KINDS_CHANNELS,
    KINDS_QUERIES,
    Ack,
    CaughtUp,
    ClientFrame,
    Close,
    GatewayFrame,
    Hello,
    Interest,
    Message,
    Missed,
    Notification,
    PageEnd,
    Ping,
    Pong,
    Refusal,
    Register,
    Registered,
    Stream,
    SyncChunk,
    Unregister,
    Welcome,
)

from coldnotify_common.played.agent_channels import AgentChannels, ChannelsMark, log_of_channels
from coldnotify_common.played.agent_shares import AgentShares, WantedShare

T = TypeVar("T")
Found = Notification | Registered | Message | Missed
"""A result for the device. A Registered marks the beginning and the end of answers to queries."""
_KEEPALIVE_S = 3600
"""Keepalive of the session. The agent need not ping, because the device's transport has shorter limits of its own."""
_ASKED_MAX = 3
"""Number of requests for members until the agent is caught up. A takeover in between loses an answer, which is rare."""


@dataclass(frozen=True)
class PlayedDevice:
    """A device: its name, the set that it wants, and its position."""

    domain: str
    group: str
    client: str
    registrations: Sequence[str] = ()
    """The names in the set, each once."""
    epoch: int | None = None
    cursor: int | None = None
    """The cursor in that epoch, valid for exactly this set; None: everything is owed."""
    queries: Sequence[str] = ()
    """The queries in the set, each text once."""
    descriptions: bool = False
    """True if the device wants the descriptions of its queries' members."""
    channels: Mapping[int, Interest] = field(default_factory=dict)
    """The channels in the set, by hash, in the form of a request."""
    mark: ChannelsMark | None = None
    """Its position in channels; None if it has received nothing of them."""
    shares: Mapping[int, WantedShare] = field(default_factory=dict)
    """The shares in the set, by hash, and what the device holds of them."""


@dataclass
class Agent:
    """One session. Call `begin`, then `receive` for incoming frames, and send what it returns, until `closed` or done.

    A method that returns bytes returns frames for the gateway; b"" if there are none.
    """

    device: PlayedDevice
    epoch: int | None = field(init=False)
    cursor: int | None = field(init=False)
    """The device is complete up to this cursor, once it has taken `found`."""
    refused: dict[str, str] = field(init=False, default_factory=dict)
    """Objects and queries that were refused, with the reason."""
    found: list[Found] = field(init=False, default_factory=list)
    """Results in the order of arrival; the caller removes them."""
    was_in_sync: bool | None = field(init=False, default=None)
    """True if the service had exactly the set of the Hello; None if it has not answered yet."""
    page_end: int = field(init=False, default=0)
    """The page of objects that waits to be acknowledged; 0: none."""
    objects_caught_up: bool = field(init=False, default=False)
    """True once the device has received all that it lacked, except for channels."""
    channels: AgentChannels = field(init=False)
    shares: AgentShares = field(init=False)
    closed: Close | None = field(init=False, default=None)
    waits: bool = field(init=False, default=False)
    """True after the service has reported that it cannot tell yet what comes next, which does not mean that nothing
    comes."""
    unanswered: int = field(init=False, default=0)
    """Number of questions that are not answered yet: the Hello, and each Ping."""
    stuck: bool = field(init=False, default=False)
    """True after members were requested repeatedly without complete answers: another session may succeed."""

    def __post_init__(self) -> None:
        self.epoch, self.cursor = self.device.epoch, self.device.cursor
        self.channels = AgentChannels(self.device.channels, self.device.mark)
        self.shares = AgentShares(self.device.shares)
        self._doubted = False
        """True if the service does not know all changes of the queries' members."""
        self._anew = False
        """True after all members were requested, until an answer begins."""
        self._owed: set[int] = set()
        """Hashes of the queries that must be answered before the device is complete."""
        self._asked: dict[int, list[int]] = {}
        """Hashes of queries by the number of their unanswered request."""
        self._confirmed: set[int] = set()
        """Hashes of requested queries that are registered: their answers come before the next CaughtUp."""
        self._times_asked = self._requests = 0
        self._greeting = False
        """True until the Hello is answered."""
        self._kinds = 0
        """As the last Welcome has them."""
        self._objects_age_s: int | None = None
        self._channels_age_s: int | None = None
        """The ages in the last answer."""

    @cached_property
    def digest(self) -> int:
        """The digest of the wanted set."""
        of_names, interests = (
            digest(self.device.registrations),
            (self.queries, self.device.channels, self.device.shares),
        )
        return (of_names + sum(map(sum, interests))) % MODULUS

    @property
    def caught_up(self) -> bool:
        """True once the device has received all that it lacked."""
        return self.objects_caught_up and self.channels.live

    @property
    def age_s(self) -> int | None:
        """All that was acknowledged this long before the last answered question was asked is in `found`, or the device
        had it before; None: not known."""
        if not self.caught_up or self._owed or self._doubted:
            return None
        ages = (self._objects_age_s, self._channels_age_s if self.device.channels else 0)
        return None if None in ages else max(age_s for age_s in ages if age_s is not None)

    @property
    def page_ended(self) -> bool:
        """True if a page, of objects or of channels, waits to be acknowledged."""
        return bool(self.page_end or self.channels.page_end)

    @cached_property
    def queries(self) -> dict[int, str]:
        """The wanted queries, by their hashes."""
        return {query_hash(text): text for text in self.device.queries}

    # --- what the device does

    def begin(self) -> bytes:
        """Returns the Hello, which resumes at the device's cursor."""
        device = self.device
        hello = Hello(
            protocol=PROTOCOL_VERSION,
            capabilities=CAPABILITY_NAMES
            | CAPABILITY_UNSETTLED  # the device has applied all that its cursor covers
            | (CAPABILITY_QUERIES if device.queries else 0)
            | (CAPABILITY_DESCRIPTIONS if device.queries and device.descriptions else 0)
            | (CAPABILITY_IN_ORDER if device.channels else 0),
            domain=device.domain,
            group=device.group,
            client=device.client,
            digest=self.digest,
            epoch=device.epoch,
            cursor=device.cursor,
            keepalive_s=_KEEPALIVE_S,
            streams=self.channels.streams,
        )
        pending = self.channels.pending
        if pending is not None and self.device.shares:
            # One share has the service say whether it knows shares.
            fits = len(pending) < OBJECTS_PER_FRAME_MAX
            pending = [*pending, self.shares.interests[0]] if fits else None
        if pending is None:
            # Too many to send here. A different digest makes the service request the whole set, which contains their
            # positions.
            hello.digest = (self.digest + 1) % MODULUS
        else:
            hello.interests.extend(pending)
        self._greeting = True
        self.unanswered += 1
        return encode(ClientFrame(hello=hello))

    def forget(self) -> bytes:
        """Returns the frames that unregister the whole set, for a device that will not come back, whatever the service
        has of it."""
        requests = [Unregister(objects=names) for names in _portions(self.device.registrations)]
        hashes_of_all = [*self.queries, *self.device.channels, *self.device.shares]
        requests += [Unregister(interests=hashes) for hashes in _portions(hashes_of_all)]
        for number, request in enumerate(requests, 1):
            request.request = number
        return b"".join(encode(ClientFrame(unregister=request)) for request in requests)

    def acknowledge(self) -> bytes:
        """Acknowledges the page that the device has taken, so that the next one comes."""
        page, self.page_end = self.page_end, 0
        channels_page = self.channels.take_page_end()
        streams = [Stream(page=channels_page)] if channels_page else []
        return encode(ClientFrame(ack=Ack(page=page, streams=streams))) if page or streams else b""

    def ping(self) -> bytes:
        """Returns a ping for the gateway."""
        self.unanswered += 1
        return encode(ClientFrame(ping=Ping()))

    # --- frames of the gateway

    def receive(self, frames: Iterable[GatewayFrame]) -> bytes:
        """Takes frames of the gateway as values, which it does not change, and returns the answer."""
        answer = b""
        for frame in frames:
            match frame.WhichOneof("frame"):
                case "welcome":
                    answer += self._welcome(frame.welcome)
                case "notification":
                    if not self._comes_again(frame.notification):
                        self.found.append(frame.notification)
                    self._complete_with(frame.notification)
                case "registered":
                    self._registered(frame.registered)
                case "page_end":
                    self._page_end(frame.page_end)
                case "caught_up":
                    answer += self._caught_up(frame.caught_up)
                case "message":
                    self._told(frame.message)
                case "missed":
                    self._told(frame.missed)
                case "leases":
                    self.shares.answered(frame.leases)
                case "wait":
                    self.waits = True
                case "pong":
                    self._pong(frame.pong)
                case "close":
                    self.closed = frame.close
        return answer

    def _welcome(self, welcome: Welcome) -> bytes:
        if welcome.HasField("epoch"):
            self.epoch, self.cursor = welcome.epoch, None
        self._refuse(welcome.refused)
        stream = log_of_channels(welcome.streams)
        if stream.HasField("epoch"):
            self.channels.begin_epoch(stream.epoch)
        self.channels.resolved(stream.positions)
        if self.device.queries and not welcome.kinds & KINDS_QUERIES:
            self.refused |= dict.fromkeys(self.device.queries, "query: this service is older, and knows names only")
        if welcome.kinds and not welcome.kinds & KINDS_CHANNELS:
            words = "channel: this service is older, and knows no channels"
            self.refused |= dict.fromkeys((one.text for one in self.device.channels.values()), words)
            self.channels.caught_up(None)
        if self.was_in_sync is None:
            self.was_in_sync = welcome.in_sync
        if welcome.in_sync:
            self.shares.welcomed(welcome.kinds or self._kinds)
        self._kinds = welcome.kinds
        return b"" if welcome.in_sync else self._whole_set()

    def _page_end(self, end: PageEnd) -> None:
        if not end.stream:
            self.page_end = end.page
            if end.sets_unknown:
                self._doubt()
        elif end.last:
            self.channels.caught_up(end.complete if end.HasField("complete") else None)
            self._channels_age_s = _age_s(end)
            self._hello_answered()
        else:
            self.channels.page_end = end.page

    def _complete_with(self, notification: Notification) -> None:
        if not notification.answer and notification.offset >= notification.behind:
            self._complete(notification.offset - notification.behind)

    def _caught_up(self, caught_up: CaughtUp) -> bytes:
        if caught_up.HasField("sets_digest") and not self._owed:
            self._doubt()
        asked = b""
        if self._doubted or (self._owed and self._owed <= self._confirmed):
            asked = self._ask_for_sets()  # without a doubt, an answer that should have come was lost
        if self._owed:
            return asked
        self.objects_caught_up, self.waits = True, False
        self._times_asked = 0
        stream = log_of_channels(caught_up.streams)
        if stream.HasField("complete"):
            self.channels.caught_up(stream.complete)
            self._channels_age_s = _age_s(stream)
        if caught_up.HasField("complete"):
            self._complete(caught_up.complete)
        self._objects_age_s = _age_s(caught_up)
        self._hello_answered()
        return b""

    def _hello_answered(self) -> None:
        if self.caught_up and self._greeting:
            self._greeting = False
            self.unanswered -= 1

    def _pong(self, pong: Pong) -> None:
        self.unanswered -= 1
        self._objects_age_s = _age_s(pong)
        self._channels_age_s = _age_s(pong.streams[0]) if pong.streams else None

    def _complete(self, complete: int) -> None:
        self.cursor = complete if self.cursor is None else max(self.cursor, complete)

    # --- channels

    def _told(self, entry: Message | Missed) -> None:
        if self.shares.takes(entry.channel):
            self.shares.told(entry)
            return
        if entry.channel in self.device.channels:
            self.found.append(entry)
        self.channels.told(entry)

    # --- queries

    def _registered(self, registered: Registered) -> None:
        self._refuse(registered.refused)
        if registered.request:
            self._confirmed.update(self._asked.pop(registered.request, ()))
            return
        self._anew &= not registered.begun
        self._owed -= {*registered.answered, *registered.unchanged}
        if registered.begun or registered.answered:
            self.found.append(registered)

    def _refuse(self, refused: Iterable[Refusal]) -> None:
        for refusal in refused:
            if not refusal.HasField("interest"):
                self.refused[refusal.object] = refusal.reason
            elif refusal.interest in self.device.channels:
                self.refused[self.device.channels[refusal.interest].text] = refusal.reason
            elif self.shares.takes(refusal.interest):
                self.shares.refuse(refusal.interest, refusal.reason)
            elif refusal.interest in self.queries:
                self.refused[self.queries[refusal.interest]] = refusal.reason
                self._owed.discard(refusal.interest)

    def _doubt(self) -> None:
        """Schedules a request for members at the CaughtUp, and drops notifications that it will repeat."""
        self._doubted = True
        self.found = [one for one in self.found if not (isinstance(one, Notification) and self._comes_again(one))]

    def _comes_again(self, notification: Notification) -> bool:
        """Returns true if the notification is only for queries that will all be answered whole.

        Handed out now, a version would come before its object has entered, if the entry was left out.
        """
        in_an_answer = notification.answer and notification.entered
        return (self._doubted or self._anew) and not in_an_answer and notification.name not in self._names

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.device.registrations)

    def _ask_for_sets(self) -> bytes:
        """Requests all members of all queries, because the agent does not know which of them the device has."""
        if self._times_asked == _ASKED_MAX:
            self.stuck = True
            return b""
        self._times_asked += 1
        self._owed = {hash_ for hash_, text in self.queries.items() if text not in self.refused}
        self._doubted, self._anew = False, bool(self._owed)
        self._confirmed.clear()
        self._asked.clear()
        said = b""
        for queries in _portions_of_texts(self._queries_said(self._owed)):
            self._requests += 1
            self._asked[self._requests] = [query_hash(query.text) for query in queries]
            said += encode(ClientFrame(register=Register(request=self._requests, interests=queries)))
        return said

    def _queries_said(self, hashes: Container[int]) -> list[Interest]:
        return [Interest(kind=INTEREST_QUERY, text=text) for hash_, text in self.queries.items() if hash_ in hashes]

    # --- the set

    def _whole_set(self) -> bytes:
        interests = [*self._queries_said(self.queries), *self.channels.whole_set, *self.shares.interests]
        chunks = [SyncChunk(objects=names) for names in _portions(self.device.registrations)]
        chunks += [SyncChunk(interests=portion) for portion in _portions_of_texts(interests)]
        chunks = chunks or [SyncChunk()]
        for index, chunk in enumerate(chunks):
            chunk.index, chunk.last = index, index == len(chunks) - 1
        return b"".join(encode(ClientFrame(sync=chunk)) for chunk in chunks)


def _age_s(said: CaughtUp | PageEnd | Pong | Stream) -> int | None:
    """Returns the age in a frame, in s; None: it is not known."""
    return None if said.age_s >= AGE_UNKNOWN_S else said.age_s or AGE_UNSAID_S


def _portions(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Splits items into portions that fit into a frame."""
    for start in range(0, len(items), OBJECTS_PER_FRAME_MAX):
        yield items[start : start + OBJECTS_PER_FRAME_MAX]


def _portions_of_texts(interests: Iterable[Interest]) -> Iterator[list[Interest]]:
    """Splits interests into portions whose texts fit into a frame."""
    portion: list[Interest] = []
    size = 0
    for interest in interests:
        text_bytes = len(interest.text.encode())
        if portion and (len(portion) == OBJECTS_PER_FRAME_MAX or size + text_bytes > HELLO_QUERY_BYTES_MAX):
            yield portion
            portion, size = [], 0
        portion.append(interest)
        size += text_bytes
    if portion:
        yield portion
