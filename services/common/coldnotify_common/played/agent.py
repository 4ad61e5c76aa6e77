"""A device's part of a session, played for one that keeps no cursor itself: bytes in, bytes and findings out. Pure.

It says Hello with the set that the device wants, and resumes at the cursor that somebody has kept for it, if any. If
the service has another set, it sends the whole one. What the device has taken is acknowledged. It asks for names. See
docs/protocol.md, "A session".

An agent has no clock. It does not know what the device holds as members of its queries. So where the service does not
know all that has changed, the agent registers them again, once it is caught up, and all of them are told once more.
What is lost otherwise shows by the digest in the next session's Hello.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from coldnotify_schemas.digest import MODULUS, digest
from coldnotify_schemas.frames import FrameBuffer, encode, parse_gateway_frame
from coldnotify_schemas.interests import channel_hash, channel_text, query_hash
from coldnotify_schemas.protocol import (
    GATEWAY_FRAME_BYTES_MAX,
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
    KINDS_CHANNELS,
    KINDS_QUERIES,
    Ack,
    CaughtUp,
    Channel,
    ChannelsEnd,
    ClientFrame,
    Close,
    Hello,
    Message,
    Missed,
    Notification,
    Ping,
    Query,
    Refusal,
    Register,
    Registered,
    SyncChunk,
    Unregister,
    Welcome,
)

from coldnotify_common.played.agent_channels import NOWHERE, AgentChannels, ChannelsMark

Found = Notification | Registered | Message | Missed
"""What a device is told. A Registered says where the answers to queries begin and end."""
_KEEPALIVE_S = 3600
"""It need not ping: what carries the device has limits of its own, which come first."""
_ASKED_MAX = 3
"""So often members are asked for until it is caught up. A takeover in the middle loses an answer, and is seldom."""


@dataclass(frozen=True)
class Device:
    """Who the device is, what it wants to be registered for, and how far it has caught up."""

    domain: str
    group: str
    client: str
    registrations: Sequence[str] = ()
    """The whole set, each name once."""
    epoch: int | None = None
    cursor: int | None = None
    """Of that epoch, and said about this very set; None: everything is owed."""
    queries: Sequence[str] = ()
    """Of the set, each text once."""
    descriptions: bool = False
    """It wants to be told how the members of its queries are described."""
    channels: Mapping[int, Channel] = field(default_factory=dict)
    """The rest of the set, by hash, as they are asked for."""
    mark: ChannelsMark | None = None
    """How far it is in channels; None: nothing of them was ever told."""


@dataclass
class Agent:
    """One session. `begin`, then `receive` what comes and send what it returns, until `closed` or no more is wanted.

    Every method that returns bytes returns what is to be said to the gateway; b"" is nothing.
    """

    device: Device
    epoch: int | None = field(init=False)
    cursor: int | None = field(init=False)
    """The device is complete up to here, once it has taken what was found."""
    refused: dict[str, str] = field(init=False, default_factory=dict)
    """Objects and queries that are not registered, and why."""
    found: list[Found] = field(init=False, default_factory=list)
    """In the order in which they came; whoever uses them takes them out."""
    was_in_sync: bool | None = field(init=False, default=None)
    """Whether the service had the very set that was said first; None: it has not said so yet."""
    page_end: int = field(init=False, default=0)
    """A page of objects that waits to be acknowledged; 0: none."""
    objects_caught_up: bool = field(init=False, default=False)
    """All of what it lacks is told, but for channels."""
    channels: AgentChannels = field(init=False)
    closed: Close | None = field(init=False, default=None)
    waits: bool = field(init=False, default=False)
    """The service has said that it cannot tell yet what comes next: it is not that there is nothing."""
    stuck: bool = field(init=False, default=False)
    """Members were asked for again and again, and the answers did not come whole: another session may do better."""

    def __post_init__(self) -> None:
        self.epoch, self.cursor = self.device.epoch, self.device.cursor
        self.channels = AgentChannels(self.device.channels, self.device.mark)
        self._frames = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        self._doubted = False
        """The service does not know all that has changed in the members of queries."""
        self._anew = False
        """All members were asked for, and no answer has begun since."""
        self._owed: set[int] = set()
        """Hashes of the queries that are to be answered before the device is complete."""
        self._asked: dict[int, list[int]] = {}
        """By the number of a request that is not answered, the hashes of its queries."""
        self._confirmed: set[int] = set()
        """Hashes of queries that were asked for and are registered: their answers come before the next CaughtUp."""
        self._times_asked = self._requests = 0

    @cached_property
    def digest(self) -> int:
        """Of the set that is wanted."""
        return (digest(self.device.registrations) + sum(self.queries) + sum(self.device.channels)) % MODULUS

    @property
    def caught_up(self) -> bool:
        """All of what it lacks is told."""
        return self.objects_caught_up and self.channels.live

    @property
    def page_ended(self) -> bool:
        """A page, of objects or of channels, waits to be acknowledged."""
        return bool(self.page_end or self.channels.page_end)

    @cached_property
    def queries(self) -> dict[int, str]:
        """The wanted queries, by their hashes."""
        return {query_hash(text): text for text in self.device.queries}

    # --- what the device does

    def begin(self) -> bytes:
        """The Hello: with the device's cursor it resumes where that was."""
        device = self.device
        hello = Hello(
            protocol=PROTOCOL_VERSION,
            capabilities=CAPABILITY_NAMES
            | CAPABILITY_UNSETTLED  # what the device has applied its cursor says, and all of it
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
        )
        pending, cursor = self.channels.pending, self.channels.cursor
        if pending is None:
            # Too many to say here. By another digest the service asks for the whole set, which says where they are.
            hello.digest = (self.digest + 1) % MODULUS
        else:
            hello.channels.extend(pending)
        if cursor is not None:
            hello.channels_epoch = cursor[0]
            if cursor[1] != NOWHERE:
                hello.channels_cursor = cursor[1]
        return encode(ClientFrame(hello=hello))

    def forget(self) -> bytes:
        """The device will not come back: all that it wanted is unregistered, whatever the service has of it."""
        requests = [Unregister(request=i, objects=names) for i, names in enumerate(self._portions(), 1)]
        if self.queries:
            requests.append(Unregister(request=len(requests) + 1, queries=self.queries))
        for portion in self.channels.portions():
            hashes = [channel_hash(channel_text(one.name, one.attributes)) for one in portion]
            requests.append(Unregister(request=len(requests) + 1, channels=hashes))
        return b"".join(encode(ClientFrame(unregister=request)) for request in requests)

    def acknowledge(self) -> bytes:
        """The device has taken what was found: the next page may come."""
        page, self.page_end = self.page_end, 0
        channels_page = self.channels.take_page_end()
        return encode(ClientFrame(ack=Ack(page=page, channels_page=channels_page))) if page or channels_page else b""

    def ping(self) -> bytes:
        """Is the gateway there?"""
        return encode(ClientFrame(ping=Ping()))

    # --- what the gateway says

    def receive(self, data: bytes) -> bytes:
        """Takes what the gateway said. Raises FrameError."""
        answer = b""
        for body in self._frames.feed(data):
            frame = parse_gateway_frame(body)
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
                    self.page_end = frame.page_end.page
                    if frame.page_end.sets_unknown:
                        self._doubt()
                case "caught_up":
                    answer += self._caught_up(frame.caught_up)
                case "message":
                    self._told(frame.message)
                case "missed":
                    self._told(frame.missed)
                case "channels_end":
                    self._channels_end(frame.channels_end)
                case "wait":
                    self.waits = True
                case "close":
                    self.closed = frame.close
        return answer

    def _welcome(self, welcome: Welcome) -> bytes:
        if welcome.HasField("epoch"):
            self.epoch, self.cursor = welcome.epoch, None
        self._refuse(welcome.refused)
        if welcome.HasField("channels_epoch"):
            self.channels.begin_epoch(welcome.channels_epoch)
        self.channels.resolved(welcome.positions)
        if self.device.queries and not welcome.kinds & KINDS_QUERIES:
            self.refused |= dict.fromkeys(self.device.queries, "query: this service is older, and knows names only")
        if welcome.kinds and not welcome.kinds & KINDS_CHANNELS:
            words = "channel: this service is older, and knows no channels"
            self.refused |= dict.fromkeys((one.name for one in self.device.channels.values()), words)
            self.channels.caught_up(None)
        if self.was_in_sync is None:
            self.was_in_sync = welcome.in_sync
        return b"" if welcome.in_sync else self._whole_set()

    def _complete_with(self, notification: Notification) -> None:
        if not notification.answer and notification.offset >= notification.behind:
            self._complete(notification.offset - notification.behind)

    def _caught_up(self, caught_up: CaughtUp) -> bytes:
        if caught_up.HasField("sets_digest") and not self._owed:
            self._doubt()
        asked = b""
        if self._doubted or (self._owed and self._owed <= self._confirmed):
            asked = self._ask_for_sets()  # where nothing is doubted, an answer that should have come was lost
        if self._owed:
            return asked
        self.objects_caught_up, self.waits = True, False
        self._times_asked = 0
        if caught_up.HasField("channels_complete"):
            self.channels.caught_up(caught_up.channels_complete)
        if caught_up.HasField("complete"):
            self._complete(caught_up.complete)
        return b""

    def _complete(self, complete: int) -> None:
        self.cursor = complete if self.cursor is None else max(self.cursor, complete)

    # --- channels

    def _told(self, entry: Message | Missed) -> None:
        if entry.channel in self.device.channels:
            self.found.append(entry)
        self.channels.told(entry)

    def _channels_end(self, end: ChannelsEnd) -> None:
        if end.last:
            self.channels.caught_up(end.complete if end.HasField("complete") else None)
        else:
            self.channels.page_end = end.page

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
            if refusal.channel in self.device.channels:
                self.refused[self.device.channels[refusal.channel].name] = refusal.reason
            elif not refusal.HasField("query"):
                self.refused[refusal.object] = refusal.reason
            elif refusal.query in self.queries:
                self.refused[self.queries[refusal.query]] = refusal.reason
                self._owed.discard(refusal.query)

    def _doubt(self) -> None:
        """Members are going to be asked for, with the CaughtUp: what comes before for their sake need not be told."""
        self._doubted = True
        self.found = [one for one in self.found if not (isinstance(one, Notification) and self._comes_again(one))]

    def _comes_again(self, notification: Notification) -> bool:
        """Whether it is told for the sake of queries alone, all of which are going to be answered whole.

        Told now, a version would come before its object has entered, where that was left out.
        """
        in_an_answer = notification.answer and notification.entered
        return (self._doubted or self._anew) and not in_an_answer and notification.name not in self._names

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.device.registrations)

    def _ask_for_sets(self) -> bytes:
        """All members of all queries: which of them the device knows is not known here."""
        if self._times_asked == _ASKED_MAX:
            self.stuck = True
            return b""
        self._times_asked += 1
        self._owed = {hash_ for hash_, text in self.queries.items() if text not in self.refused}
        self._doubted, self._anew = False, bool(self._owed)
        self._confirmed.clear()
        self._asked.clear()
        said = b""
        for queries in self._portions_of_queries(self._owed):
            self._requests += 1
            self._asked[self._requests] = [query_hash(query.text) for query in queries]
            said += encode(ClientFrame(register=Register(request=self._requests, queries=queries)))
        return said

    def _portions_of_queries(self, hashes: Container[int]) -> Iterator[list[Query]]:
        """What frames can hold of those that have these hashes, each."""
        portion: list[Query] = []
        size = 0
        for hash_, text in self.queries.items():
            if hash_ not in hashes:
                continue
            text_bytes = len(text.encode())
            if portion and size + text_bytes > HELLO_QUERY_BYTES_MAX:
                yield portion
                portion, size = [], 0
            portion.append(Query(text=text))
            size += text_bytes
        if portion:
            yield portion

    # --- the set

    def _portions(self) -> list[Sequence[str]]:
        """What frames can hold of it, each."""
        names = self.device.registrations
        return [names[start : start + OBJECTS_PER_FRAME_MAX] for start in range(0, len(names), OBJECTS_PER_FRAME_MAX)]

    def _whole_set(self) -> bytes:
        chunks = [SyncChunk(objects=names) for names in self._portions()]
        chunks += [SyncChunk(queries=queries) for queries in self._portions_of_queries(self.queries)]
        chunks += [SyncChunk(channels=channels) for channels in self.channels.portions()]
        chunks = chunks or [SyncChunk()]
        for index, chunk in enumerate(chunks):
            chunk.index, chunk.last = index, index == len(chunks) - 1
        return b"".join(encode(ClientFrame(sync=chunk)) for chunk in chunks)
