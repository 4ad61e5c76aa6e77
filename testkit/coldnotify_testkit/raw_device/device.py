"""The device's core: bytes from a gateway in, bytes for it out, and what the application wants. No I/O, no clock.

It holds one session after another, from Hello to its end. What has to be on disk before a frame leaves is there:
`bytes_to_send` writes the state first. With `saves_each_frame` the state is also written after each received frame, so
that a crash at any moment leaves what the document demands of that moment.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.frames import FrameBuffer, FrameError, encode, parse_gateway_frame

from coldnotify_testkit.raw_device.application import DeviceApplication
from coldnotify_testkit.raw_device.channels import NotFollowing, RawChannels
from coldnotify_testkit.raw_device.hashes import MODULUS, channel_hash, crc, name_hash, query_hash
from coldnotify_testkit.raw_device.objects import RawObjects
from coldnotify_testkit.raw_device.operations import REGISTER, UNREGISTER, Operations, RawStage
from coldnotify_testkit.raw_device.publishes import RawPublishes
from coldnotify_testkit.raw_device.state import Disk, RawInterest, RawState, channel, decode, object_, query
from coldnotify_testkit.raw_device.state import encode as encode_state

TAKEN_BYTES_MAX = 256 * 1024
IN_FRAME_MAX = 64
TEXTS_BYTES_MAX = 16 * 1024
"""Size of all names and texts in a frame. The document allows twice as many bytes, half of them texts of queries."""
REQUESTS_MAX = 4


class Names(NamedTuple):
    """The names that identify the client."""

    domain: str
    group: str
    client: str


@dataclass(frozen=True)
class Timing:
    """All in seconds. The document's, unless a test is in a hurry."""

    welcome_s: float = 30.0
    answer_s: float = 30.0
    ack_delay_s: float = 1.0
    keepalive_s: int = 60
    silence_extra_s: float = 10.0


@dataclass(slots=True)
class _Request:
    """Operations, or settled registrations, that wait for an answer."""

    operations: Mapping[RawInterest, int]
    settled: frozenset[RawInterest]
    said_s: float


class RawDevice:
    """The client's side. `over` holds the reason why a session has to end; its connection has to be closed then."""

    def __init__(
        self,
        names: Names,
        disk: Disk,
        application: DeviceApplication,
        timing: Timing = Timing(),
        *,
        saves_each_frame: bool = True,
        in_frame_max: int = IN_FRAME_MAX,
    ) -> None:
        """`in_frame_max`: the most interests in a frame; fewer than the document allows make more frames."""
        self._names = names
        self._disk = disk
        self._timing = timing
        self._saves_each_frame = saves_each_frame
        self._in_frame_max = in_frame_max
        kept = disk.read()
        self._saved = kept
        self.state = RawState() if kept is None else decode(kept)
        self.operations = Operations(self.state)
        self.objects = RawObjects(self.state, self.operations, application)
        self.channels = RawChannels(self.state, self.operations, application)
        self.publishes = RawPublishes(application)
        self._application = application
        self._out = bytearray()
        self._frames = FrameBuffer(TAKEN_BYTES_MAX)
        self.connected = False
        self.over: str | None = None
        self.code: int | None = None
        """The code of the received Close."""
        self.caught_up = False
        """A CaughtUp has come in this session."""
        self._begin(0.0)

    def _begin(self, now: float) -> None:
        self._out.clear()
        self._frames = FrameBuffer(TAKEN_BYTES_MAX)
        self.over = self.code = None
        self.caught_up = self._welcomed = self._in_sync = False
        self._begun_s = self._sent_s = self._heard_s = now
        self._pinged_s: float | None = None
        self._wait_until_s = now
        self._synced_s: float | None = None
        self._said: Mapping[RawInterest, int] = {}
        """Operations that the next Welcome confirms."""
        self._requests: dict[int, _Request] = {}
        self._request = 0
        self._confirmed_s: dict[RawInterest, float] = {}
        """Objects, since when they wait for their Notification."""
        self._says_all = False
        self._page = self._channels_page = 0
        self._acked = self.state.cursor
        self._channels_acked = self.state.channels_cursor
        self._ack_due_s: float | None = None
        self._used: dict[int, str] = {}
        self._by_names = False
        self._asked_kinds = self._asked_descriptions = False
        self.operations.begin_session()
        self.objects.begin_session()
        self.channels.begin_session()
        self.publishes.begin_session()

    # What the application wants

    def register(self, name: str) -> None:
        """Registers an object by its name. A new registration delivers it even if it was delivered for another reason
        before.
        """
        if name not in self.state.objects:
            self.state.objects.add(name)
            self.state.again.add(name)
            self.operations.ask(object_(name))

    def unregister(self, name: str) -> None:
        """It is not wanted any more."""
        if name in self.state.objects:
            self.state.objects.discard(name)
            self.state.again.discard(name)
            self.operations.ask(object_(name), UNREGISTER)
            self.objects.forget([name])

    def register_query(self, text: str, *, described: bool = False) -> None:
        """All objects that fit."""
        if text not in self.state.queries:
            self.objects.want(text, described=described)
            self.operations.ask(query(text))
            if described and self.connected and not self._asked_descriptions:
                self._end("the next session asks for descriptions")

    def unregister_query(self, text: str) -> None:
        """They are not wanted any more."""
        if text in self.state.queries:
            self.objects.want_no_more(text)
            self.operations.ask(query(text), UNREGISTER)

    def subscribe(self, name: str, attributes: Iterable[str] = (), since: str = "now", at: int = 0) -> None:
        """A channel."""
        self.channels.want(name, attributes, since, at)

    def unsubscribe(self, name: str) -> None:
        """It is not wanted any more."""
        text = self.channels.of(name)
        if text is not None:
            self.channels.want_no_more(text)

    @property
    def settled(self) -> bool:
        """Caught up, and nothing is pending."""
        live = self.channels.live or not self.state.channels
        return self.connected and self.caught_up and live and not self._lacks

    @property
    def _lacks(self) -> bool:
        """True if something still has to arrive."""
        return not self.state.pending.keys() <= self.channels.waiting

    # A connection

    def connect(self, now: float) -> None:
        """Begins a session over a new connection: sends Hello."""
        self._begin(now)
        self.connected = True
        self._say_hello(now)

    def disconnect(self) -> None:
        """It is gone."""
        self.connected = False

    def say_bye(self, now: float) -> None:
        """Sends Bye, and ends the session."""
        if self.connected and self.over is None and self._welcomed:
            self._send_ack(now, hurry=True)
            self._send(wire.ClientFrame(bye=wire.Bye()), now)
        self._end("bye")

    def bytes_to_send(self, now: float) -> bytes:
        """Returns the bytes to send now. The state is on disk before."""
        if self.connected and self.over is None and self._in_sync:
            self._send_requests(now)
            self._send_settled(now)
            while (publish := self.publishes.next(now)) is not None:
                self._send(wire.ClientFrame(publish=publish), now)
        if self.connected and self.over is None:
            self._send_ack(now)
        self.save()
        data = bytes(self._out)
        self._out.clear()
        return data

    def save(self) -> None:
        """The state is on disk."""
        data = encode_state(self.state)
        if data != self._saved:
            self._disk.write(data)
            self._saved = data

    def receive(self, data: bytes, now: float) -> bool:
        """Handles received bytes. Returns true if the session continues."""
        self._heard_s, self._pinged_s = now, None
        try:
            for body in self._frames.feed(data):
                if self.over is not None or not self.connected:
                    break
                self._on_frame(parse_gateway_frame(body), now)
                if self._saves_each_frame:
                    self.save()
        except (FrameError, NotFollowing) as error:
            self._end(str(error))
        return self.over is None

    def tick(self, now: float) -> None:
        """Does what is due: asks again, or gives up."""
        if not self.connected or self.over is not None:
            return
        timing = self._timing
        if not self._welcomed:
            if now >= max(self._begun_s, self._wait_until_s) + timing.welcome_s:
                self._end("no Welcome")
            return
        again_s = now - timing.answer_s
        if now >= self._wait_until_s:
            for number, request in list(self._requests.items()):
                if request.said_s <= again_s:
                    del self._requests[number]
                    self._ask_again(request)
            if self._synced_s is not None and self._synced_s <= again_s:
                self._sync(now)
            for interest, since_s in list(self._confirmed_s.items()):
                if self.operations.stage(interest) is not RawStage.CONFIRMED:
                    del self._confirmed_s[interest]
                elif since_s <= again_s:
                    del self._confirmed_s[interest]
                    self.operations.put([interest], RawStage.UNSENT)
        if self._pinged_s is not None:
            if now >= self._pinged_s + 1.5 * timing.keepalive_s + timing.silence_extra_s:
                self._end("silence")
        elif now >= min(self._sent_s, self._heard_s) + timing.keepalive_s:
            agreed = self._in_sync and self.operations.all_confirmed
            self._send(wire.ClientFrame(ping=wire.Ping(digest=self._digest() if agreed else None)), now)
            self._pinged_s = self._heard_s = now

    @property
    def syncing(self) -> bool:
        """True while the whole set, which this session has sent, is not confirmed."""
        return self._synced_s is not None

    # Hello and Welcome

    def _say_hello(self, now: float) -> None:
        state = self.state
        pending = self.operations.at(RawStage.UNSENT)
        fits = len(pending) <= self._in_frame_max and sum(_size(one) for one in pending) <= TEXTS_BYTES_MAX
        said = pending if fits else []
        self._said = self.operations.put(said, RawStage.SENT)
        queries = any(one.kind == "query" for one in pending) or bool(state.queries)
        self._asked_kinds = queries or any(one.kind == "channel" for one in pending)
        self._asked_descriptions = any(one.described for one in state.queries.values())
        capabilities: int = wire.CAPABILITY_NONE
        if self._asked_kinds or not self._use([*state.objects, *(one.text for one in pending if one.kind == "object")]):
            self._by_names = True
            capabilities |= wire.CAPABILITY_NAMES
        if self._asked_kinds:
            capabilities |= wire.CAPABILITY_QUERIES
        if self._asked_descriptions:
            capabilities |= wire.CAPABILITY_DESCRIPTIONS
        registers = self.operations.at(*RawStage, operation=REGISTER)
        state.unsettled |= bool(registers)
        if state.unsettled and fits:
            capabilities |= wire.CAPABILITY_UNSETTLED
            self.operations.held.update(registers)
        self._says_all = state.unsettled and not fits
        register, unregister = _split(said, state.pending)
        hello = wire.Hello(
            protocol=1,
            capabilities=capabilities,
            domain=self._names.domain,
            group=self._names.group,
            client=self._names.client,
            digest=self._digest(),
            register=_names(register),
            unregister=_names(unregister),
            epoch=state.epoch,
            cursor=state.cursor,
            keepalive_s=self._timing.keepalive_s,
            interests=self._interests(register),
            unregister_interests=_hashes(unregister),
        )
        if state.channels and state.channels_cursor is not None and state.channels_epoch is not None:
            hello.streams.add(epoch=state.channels_epoch, complete=state.channels_cursor)
        self._send(wire.ClientFrame(hello=hello), now)

    def _on_welcome(self, said: wire.Welcome, now: float) -> None:
        self._welcomed = True
        if said.HasField("epoch"):
            self.state.epoch, self.state.cursor, self._acked = said.epoch, None, None
            self.objects.void()
        stream = _first(said.streams)
        if stream.HasField("epoch"):
            self.channels.epoch(stream.epoch)
            self._channels_acked = None
        if self._asked_descriptions:
            self.objects.welcomed(told_descriptions=bool(said.kinds & wire.KINDS_DESCRIPTIONS))
        self._refuse(said.refused)
        answered = self._answered(self._said)
        self.channels.positions(stream.positions, answered)
        self._said = {}
        self._in_sync, self._synced_s = said.in_sync, None
        if not said.in_sync:
            self._sync(now)
        self._note_unsettled()

    def _sync(self, now: float) -> None:
        """Sends the whole set, from the beginning."""
        state = self.state
        self._requests.clear()
        self._confirmed_s.clear()
        self.caught_up = False
        self.channels.leave_all()
        for interest, operation in list(state.pending.items()):
            if operation == UNREGISTER:
                self.operations.settle(interest)
        wanted = [*map(object_, sorted(state.objects)), *map(query, sorted(state.queries))]
        wanted += map(channel, sorted(state.channels))
        for interest in wanted:
            self.operations.ask(interest)
        for one in state.queries.values():
            one.in_doubt, one.reached = False, ""
        self._said = self.operations.put(wanted, RawStage.SENT)
        self.operations.held.update(wanted)
        state.unsettled = True
        chunks = _frames_of(wanted, self._in_frame_max)
        for index, chunk in enumerate(chunks):
            self._use_or_ask(chunk, now)
            sync = wire.SyncChunk(
                index=index,
                last=index == len(chunks) - 1,
                objects=_names(chunk),
                interests=self._interests(chunk),
            )
            self._send(wire.ClientFrame(sync=sync), now)
        self._synced_s = now

    # Frames

    def _on_frame(self, frame: wire.GatewayFrame, now: float) -> None:
        kind = frame.WhichOneof("frame")
        if kind == "close":
            self.code = frame.close.code
            self._end(f"Close {frame.close.code}: {frame.close.reason}")
        elif kind == "wait":
            self._wait_until_s = now + frame.wait.seconds
        elif kind == "welcome":
            self._on_welcome(frame.welcome, now)
        elif not self._welcomed:
            pass
        elif kind == "notification":
            self._on_notification(frame.notification)
        elif kind == "caught_up":
            self._on_caught_up(frame.caught_up)
        elif kind == "page_end":
            self._on_page_end(frame.page_end)
        elif kind == "pong":
            self._complete(frame.pong)
            stream = _first(frame.pong.streams)
            if stream.HasField("complete"):
                self.channels.complete(stream.complete)
        elif kind == "registered":
            self._on_registered(frame.registered, now)
        elif kind == "unregistered":
            request = self._requests.pop(frame.unregistered.request, None)
            if request is not None:
                self._answered(request.operations)
        elif kind == "message":
            self.channels.message(frame.message)
        elif kind == "missed":
            self.channels.missed(frame.missed)
        elif kind == "published":
            self.publishes.published(frame.published)
        elif kind == "not_published":
            self.publishes.not_published(frame.not_published, now)

    def _on_notification(self, said: wire.Notification) -> None:
        name = said.name or self._used.get(said.crc)
        if name is not None:
            self.objects.notification(name, said)
        if not said.answer and said.offset >= said.behind:
            self._move(said.offset - said.behind)

    def _on_caught_up(self, said: wire.CaughtUp) -> None:
        self.objects.caught_up(said)
        self._complete(said)
        stream = _first(said.streams)
        if stream.HasField("complete"):
            self.channels.caught_up(stream.complete)
        for interest in self.operations.at(RawStage.CONFIRMED):
            if interest.kind == "object":
                self.operations.put([interest], RawStage.UNSENT)  # what was to be told of it was lost
        self.caught_up = True

    def _on_page_end(self, said: wire.PageEnd) -> None:
        if said.stream == 0:
            self._page = said.page
            self.objects.page_end(said)
        elif said.stream == 1:
            self._on_channels_page_end(said)

    def _on_channels_page_end(self, said: wire.PageEnd) -> None:
        self._channels_page = said.page
        complete = said.complete if said.HasField("complete") else None
        if said.last:
            self.channels.caught_up(complete)
        elif complete is not None:
            self.channels.complete(complete)

    def _on_registered(self, said: wire.Registered, now: float) -> None:
        stream = _first(said.streams)
        if stream.HasField("epoch") and stream.epoch != self.state.channels_epoch:
            self.channels.epoch(stream.epoch)
        self._refuse(said.refused)
        request = self._requests.pop(said.request, None)
        if request is not None:
            answered = self._answered(request.operations)
            self._confirmed_s |= {one: now for one in answered if one.kind == "object"}
            self.channels.positions(stream.positions, answered)
            self.operations.settled -= request.settled
            self._note_unsettled()
        self.objects.begun(said.begun)
        self.objects.answered(said.answered)
        self.objects.unchanged(said.unchanged)

    def _answered(self, numbers: Mapping[RawInterest, int]) -> list[RawInterest]:
        answered = self.operations.answered(numbers)
        for interest in answered:
            if interest.kind == "query" and interest.text in self.state.queries:
                self.objects.confirmed(interest.text)
        return answered

    def _refuse(self, refusals: Iterable[wire.Refusal]) -> None:
        state = self.state
        by_hash = {query_hash(text): query(text) for text in state.queries}
        by_hash |= {channel_hash(text): channel(text) for text in state.channels}
        for refusal in refusals:
            interest = object_(refusal.object) if refusal.object else by_hash.get(refusal.interest)
            if interest is None or state.pending.get(interest) != REGISTER:
                continue
            if interest.kind == "object":
                state.objects.discard(interest.text)
                self.objects.forget([interest.text])
            elif interest.kind == "query":
                self.objects.want_no_more(interest.text)
            else:
                self.channels.want_no_more(interest.text)
            self.operations.settle(interest)
            self._application.refused(interest.kind, interest.text, refusal.reason)

    def _complete(self, said: wire.CaughtUp | wire.Pong) -> None:
        if said.HasField("complete"):
            self._move(said.complete)

    def _move(self, complete: int) -> None:
        state = self.state
        if state.cursor is None or complete > state.cursor:
            state.cursor = complete

    # Requests

    def _send_requests(self, now: float) -> None:
        for operation in (UNREGISTER, REGISTER):
            asked = self.operations.at(RawStage.UNSENT, operation=operation)
            for part in _frames_of(asked, self._in_frame_max) if asked else ():
                if len(self._requests) >= REQUESTS_MAX:
                    return
                numbers = self.operations.put(part, RawStage.SENT)
                self._request += 1
                self._use_or_ask(part, now)
                if operation == REGISTER:
                    self.operations.held.update(part)
                    self.state.unsettled = True
                    register = wire.Register(
                        request=self._request,
                        objects=_names(part),
                        interests=self._interests(part),
                    )
                    frame = wire.ClientFrame(register=register)
                else:
                    unregister = wire.Unregister(
                        request=self._request,
                        objects=_names(part),
                        interests=_hashes(part),
                    )
                    frame = wire.ClientFrame(unregister=unregister)
                self._send(frame, now)
                self._requests[self._request] = _Request(numbers, frozenset(), now)

    def _send_settled(self, now: float) -> None:
        """Reports to the service what is settled, so that it need not count as unsettled any more."""
        operations = self.operations
        if self._says_all and self.caught_up and len(self._requests) < REQUESTS_MAX:
            self._say_all(now)
        under_way = {one for request in self._requests.values() for one in request.settled}
        settled = sorted(operations.settled - under_way)[: self._in_frame_max]
        if not settled or len(self._requests) >= REQUESTS_MAX:
            return
        self._say_unsettled(wire.Unsettled(settled=_names(settled), settled_hashes=_hashes(settled)), settled, now)

    def _note_unsettled(self) -> None:
        """Notes that the service knows that nothing is unsettled, if that is so."""
        if not self._lacks and not self.operations.settled and not self._says_all:
            self.state.unsettled = False

    def _say_all(self, now: float) -> None:
        pending = self.operations.at(*RawStage, operation=REGISTER)
        self.operations.held.update(pending)
        self._says_all = False
        most = self._in_frame_max
        parts = [pending[at : at + most] for at in range(0, len(pending), most)] or [[]]
        for part in parts:
            entries = [
                wire.UnsettledEntry(name=one.text) if one.kind == "object" else wire.UnsettledEntry(hash=_hash(one))
                for one in part
            ]
            self._say_unsettled(wire.Unsettled(entries=entries, all=part is parts[0]), (), now)

    def _say_unsettled(self, said: wire.Unsettled, settled: Iterable[RawInterest], now: float) -> None:
        self._request += 1
        said.request = self._request
        self._send(wire.ClientFrame(unsettled=said), now)
        self._requests[self._request] = _Request({}, frozenset(settled), now)

    def _ask_again(self, request: _Request) -> None:
        """It was not answered."""
        still = [one for one, number in request.operations.items() if self.operations.is_(one, number)]
        self.operations.put(still, RawStage.UNSENT)
        if not request.operations:
            self._says_all = True
            self.operations.settled -= request.settled

    def _send_ack(self, now: float, *, hurry: bool = False) -> None:
        state = self.state
        ack, stream = wire.Ack(page=self._page), wire.Stream(page=self._channels_page)
        unsaid = self.operations.at(RawStage.UNSENT, operation=REGISTER)
        news = state.cursor != self._acked or state.channels_cursor != self._channels_acked
        if news and not unsaid:
            if self._ack_due_s is None:
                self._ack_due_s = now + self._timing.ack_delay_s
            if hurry or self._page or self._channels_page or now >= self._ack_due_s:
                if state.cursor is not None and state.cursor != self._acked:
                    ack.complete = state.cursor
                if state.channels_cursor is not None and state.channels_cursor != self._channels_acked:
                    stream.complete = state.channels_cursor
                self._acked, self._channels_acked, self._ack_due_s = state.cursor, state.channels_cursor, None
        self._page = self._channels_page = 0
        if stream.ByteSize():
            ack.streams.append(stream)
        if ack.ByteSize():
            self._send(wire.ClientFrame(ack=ack), now)

    # One frame

    def _use(self, names: Iterable[str]) -> bool:
        """These names are used in this session from here on. False: two of all that are share a CRC-32."""
        return all(self._used.setdefault(crc(name), name) == name for name in names)

    def _use_or_ask(self, interests: Iterable[RawInterest], now: float) -> None:
        interests = list(interests)
        fits = self._use(_names(interests))
        if not self._by_names and (not fits or any(one.kind == "query" for one in interests)):
            self._by_names = True
            self._send(wire.ClientFrame(use_names=wire.UseNames()), now)

    def _interests(self, interests: Iterable[RawInterest]) -> list[wire.Interest]:
        said = {"query": self.objects.said, "channel": self.channels.said}
        return [said[one.kind](one.text) for one in interests if one.kind in said]

    def _digest(self) -> int:
        state = self.state
        names, texts = map(name_hash, state.objects), map(query_hash, state.queries)
        return (sum(names) + sum(texts) + sum(map(channel_hash, state.channels))) % MODULUS

    def _send(self, frame: wire.ClientFrame, now: float) -> None:
        self._out += encode(frame)
        self._sent_s = now

    def _end(self, why: str) -> None:
        self.over = self.over or why


def _first(streams: Sequence[wire.Stream]) -> wire.Stream:
    """Returns the first of a frame's streams, the log of channels."""
    return streams[0] if streams else wire.Stream()


def _hash(interest: RawInterest) -> int:
    return query_hash(interest.text) if interest.kind == "query" else channel_hash(interest.text)


def _hashes(interests: Iterable[RawInterest]) -> list[int]:
    return [_hash(one) for one in interests if one.kind in ("query", "channel")]


def _names(interests: Iterable[RawInterest]) -> list[str]:
    return [one.text for one in interests if one.kind == "object"]


def _size(interest: RawInterest) -> int:
    return len(interest.text.encode())


def _split(
    interests: Iterable[RawInterest], pending: Mapping[RawInterest, str]
) -> tuple[list[RawInterest], list[RawInterest]]:
    """(those that are registered, those that are unregistered)."""
    interests = list(interests)
    return [one for one in interests if pending[one] == REGISTER], [
        one for one in interests if pending[one] != REGISTER
    ]


def _frames_of(interests: Iterable[RawInterest], in_frame_max: int) -> list[list[RawInterest]]:
    """Splits interests into the contents of one frame each; returns at least one."""
    frames: list[list[RawInterest]] = [[]]
    size = 0
    for interest in interests:
        if len(frames[-1]) == in_frame_max or size + _size(interest) > TEXTS_BYTES_MAX:
            frames.append([])
            size = 0
        frames[-1].append(interest)
        size += _size(interest)
    return frames
