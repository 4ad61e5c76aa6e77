"""For tests: a matcher and a device that keep to the protocol documents, in memory and as simple as can be."""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from coldnotify_gateway.core import Finish, Gateway, Identified, Limits, Output, Produce, Send, SendAll, State
from coldnotify_gateway.core.gateway import Admit, admit_all
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.digest import digest, object_crc
from coldnotify_schemas.frames import FrameBuffer, encode, parse_gateway_frame
from coldnotify_schemas.internal_pb2 import (
    Answered,
    BeatAnswer,
    Closed,
    FanOut,
    Inbox,
    Item,
    Newest,
    Opened,
    Page,
    Request,
)
from coldnotify_schemas.protocol import GATEWAY_FRAME_BYTES_MAX
from coldnotify_schemas.wire_pb2 import (
    CAPABILITY_NAMES,
    Ack,
    Bye,
    ClientFrame,
    Close,
    GatewayFrame,
    Hello,
    Notification,
    Ping,
    Register,
    SyncChunk,
    Unregister,
    UseNames,
    Welcome,
)

NONE = -1
EPOCH = 7
LATEST_BEAT = 2**64 - 1
"""Stands for the serial of the latest Beat."""


def hello(
    client: str = "client-1",
    *,
    domain: str = "animal.observer",
    group: str = "region-1",
    wanted: tuple[str, ...] = (),
    register: tuple[str, ...] = (),
    unregister: tuple[str, ...] = (),
    cursor: int | None = None,
    protocol: int = 1,
    capabilities: int = 0,
    keepalive_s: int = 0,
    token: str = "",
) -> bytes:
    """A Hello's frame; its digest is that of `wanted`. A cursor is of the matcher's epoch."""
    message = Hello(
        protocol=protocol,
        capabilities=capabilities,
        domain=domain,
        group=group,
        client=client,
        digest=digest(wanted),
        register=register,
        unregister=unregister,
        epoch=None if cursor is None else EPOCH,
        cursor=cursor,
        keepalive_s=keepalive_s,
        token=token,
    )
    return encode(ClientFrame(hello=message))


def register(request: int, *objects: str) -> bytes:
    """A Register's frame."""
    return encode(ClientFrame(register=Register(request=request, objects=objects)))


def unregister(request: int, *objects: str) -> bytes:
    """An Unregister's frame."""
    return encode(ClientFrame(unregister=Unregister(request=request, objects=objects)))


def sync(index: int, *objects: str, last: bool = False) -> bytes:
    """A SyncChunk's frame."""
    return encode(ClientFrame(sync=SyncChunk(index=index, last=last, objects=objects)))


def ack(complete: int | None = None, page: int = 0) -> bytes:
    """An Ack's frame."""
    return encode(ClientFrame(ack=Ack(complete=complete, page=page)))


def ping(said: int | None = None) -> bytes:
    """A Ping's frame; `said`: a digest."""
    return encode(ClientFrame(ping=Ping(digest=said)))


def use_names() -> bytes:
    """A UseNames' frame."""
    return encode(ClientFrame(use_names=UseNames()))


def bye() -> bytes:
    """A Bye's frame."""
    return encode(ClientFrame(bye=Bye()))


def parse(data: bytes) -> list[GatewayFrame]:
    """The frames that a gateway wrote. Raises AssertionError if the last one is not whole."""
    frames = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
    parsed = [parse_gateway_frame(body) for body in frames.feed(data)]
    assert not len(frames), "half a frame"
    return parsed


@dataclass
class MatcherSession:
    """One client's session in the matcher's eyes."""

    gateway: int
    inbox: int
    number: int
    ask: int
    state: str = "catching"
    cursor: int = NONE
    page: int = 0
    owed: list[str] = field(default_factory=list)
    chunks: list[str] | None = None
    next_chunk: int = 0


class MatcherDouble:
    """The matcher of one partition, as docs/internal-protocol.md has it. Records come out of `take_records`.

    `page_objects`: a page holds no more. `fan_out_sessions`: nor does a fan-out hold more sessions; the rest is in
    another of the same offset. `record_items`: nor an inbox record more items.
    """

    def __init__(
        self, partition: int = 0, page_objects: int = 2, fan_out_sessions: int = 1000, record_items: int = 1000
    ) -> None:
        self.partition = partition
        self.generation = 1
        self.log: list[Newest] = []
        self.registrations: dict[str, set[str]] = {}
        self.sessions: dict[str, MatcherSession] = {}
        self._page_objects = page_objects
        self._fan_out_sessions = fan_out_sessions
        self._record_items = record_items
        self._inboxes: dict[int, int] = {}
        self._numbers: dict[int, int] = {}
        self._items: dict[int, list[Item]] = {}
        self._notices: list[tuple[int, Inbox]] = []

    # --- what a test may do

    def publish(self, name: str, version: int, payload: bytes = b"", deleted: bool = False) -> int:
        """A new version; its offset."""
        offset = len(self.log)
        self.log.append(Newest(name=name, version=version, offset=offset, payload=payload, deleted=deleted))
        self._fan_out(self.log[-1])
        return offset

    def newest(self, name: str) -> Newest | None:
        """The newest version of an object."""
        return next((one for one in reversed(self.log) if one.name == name), None)

    def take_over(self, repeat: int = 3) -> None:
        """Another matcher takes the partition: what was in memory only is gone, the last publishes are sent again."""
        self.generation += 1
        self._numbers.clear()
        self._items.clear()
        for session in self.sessions.values():
            session.state, session.page, session.owed, session.chunks = "live", 0, [], None
        for inbox in set(self._inboxes.values()):
            notice = Inbox(format=1, partition=self.partition, generation=self.generation)
            self._notices.append((inbox, notice))
        for one in self.log[max(0, len(self.log) - repeat) :]:
            if self.newest(one.name) is one:
                self._fan_out(one)

    def forget_gateways(self) -> None:
        """No gateway was heard of for too long: their sessions are offline, and their next record shows a gap."""
        self.sessions.clear()
        for gateway in self._inboxes:
            self._numbers[gateway] = self._numbers.get(gateway, 0) + 1

    def take_records(self) -> list[tuple[int, Inbox]]:
        """What is to be written since the last call: (inbox, record)."""
        records, self._notices = self._notices, []
        for gateway, items in self._items.items():
            for start in range(0, len(items), self._record_items):
                number = self._numbers[gateway] = self._numbers.get(gateway, 0) + 1
                part = items[start : start + self._record_items]
                records.append((self._inboxes[gateway], self.record(gateway, number, *part)))
        self._items = {}
        return records

    def record(self, gateway: int, number: int, *items: Item) -> Inbox:
        """An inbox record of the present generation."""
        return Inbox(
            format=1,
            partition=self.partition,
            generation=self.generation,
            gateway=gateway,
            number=number,
            items=items,
        )

    # --- requests

    def on_request(self, request: Request) -> None:
        """One request, in the order of the partition."""
        gateway = request.gateway
        self._inboxes[gateway] = request.inbox
        kind = request.WhichOneof("body")
        if kind == "beat":
            numbers = [session.number for session in self.sessions.values() if session.gateway == gateway]
            agreed = len(numbers) == request.beat.sessions and sum(numbers) == request.beat.checksum
            complete = len(self.log) - 1 if self.log else None
            self._tell(gateway, beat=BeatAnswer(agreed=agreed, complete=complete, serial=request.beat.serial))
            return
        if kind == "acks":
            return
        client = f"{request.domain}/{request.group}/{request.client}"
        if kind == "open":
            self._on_open(client, request)
            return
        session = self.sessions.get(client)
        if session is None or (session.gateway, session.number) != (gateway, request.session):
            if kind != "leave":
                self._close(gateway, request.session, CloseCode.UNKNOWN_SESSION)
            return
        registered = self.registrations.setdefault(client, set())
        match kind:
            case "register":
                registered.update(request.register.objects)
                newest = [self._answer(name) for name in request.register.objects]
                answered = Answered(session=session.number, request=request.register.request, newest=newest)
                answered.digest = digest(registered)
                self._tell(gateway, answered=answered)
            case "unregister":
                registered.difference_update(request.unregister.objects)
                answered = Answered(session=session.number, request=request.unregister.request, unregistered=True)
                answered.digest = digest(registered)
                self._tell(gateway, answered=answered)
            case "sync":
                self._on_sync(client, session, request.sync)
            case "catch_up":
                self._on_catch_up(client, session, request)
            case "check_digest":
                session.ask = request.check_digest.ask
                in_sync = request.check_digest.digest == digest(registered)
                if not in_sync:
                    session.state = "unsynced"
                self._opened(session, client, in_sync=in_sync, epoch=EPOCH)
            case "leave":
                del self.sessions[client]

    def _on_open(self, client: str, request: Request) -> None:
        body, current = request.open, self.sessions.get(client)
        same = current is not None and (current.gateway, current.number) == (request.gateway, request.session)
        if current is not None and not same:
            if body.again:
                self._close(request.gateway, request.session, CloseCode.UNKNOWN_SESSION)
                return
            self._close(current.gateway, current.number, CloseCode.DISPLACED)
        registered = self.registrations.setdefault(client, set())
        registered.difference_update(body.unregister)
        registered.update(body.register)
        session = MatcherSession(request.gateway, request.inbox, request.session, body.ask)
        self.sessions[client] = session
        counts = body.HasField("cursor") and body.epoch == EPOCH and body.cursor < len(self.log)
        in_sync = body.digest == digest(registered)
        self._opened(session, client, in_sync=in_sync, epoch=body.epoch)
        if in_sync:
            self._begin_pages(client, session, body.cursor if counts else NONE, list(body.register))
        else:
            session.state = "unsynced"

    def _on_sync(self, client: str, session: MatcherSession, chunk: SyncChunk) -> None:
        if chunk.index == 0:
            session.chunks, session.next_chunk = [], 0
        if session.chunks is None or chunk.index != session.next_chunk:
            session.chunks, session.state = None, "unsynced"
            self._opened(session, client, in_sync=False, epoch=EPOCH)
            return
        session.chunks += chunk.objects
        session.next_chunk += 1
        if chunk.last:
            self.registrations[client] = set(session.chunks)
            self._opened(session, client, in_sync=True, epoch=EPOCH)
            self._begin_pages(client, session, NONE, session.chunks)
            session.chunks = None

    def _on_catch_up(self, client: str, session: MatcherSession, request: Request) -> None:
        if session.state == "unsynced":
            return
        body = request.catch_up
        if body.page and body.ask == session.ask and body.page == session.page:
            self._send_page(client, session)
            return
        session.ask = body.ask
        counts = body.HasField("cursor") and body.cursor < len(self.log)
        self._begin_pages(client, session, body.cursor if counts else NONE, [])

    def _begin_pages(self, client: str, session: MatcherSession, cursor: int, owed: list[str]) -> None:
        session.cursor, session.page, session.owed, session.state = cursor, 0, list(owed), "catching"
        self._send_page(client, session)

    def _send_page(self, client: str, session: MatcherSession) -> None:
        session.page += 1
        page = Page(session=session.number, ask=session.ask, page=session.page)
        room = self._page_objects
        while session.owed and room:
            answer = self._answer(session.owed.pop(0))
            if not answer.HasField("version") or answer.offset <= session.cursor:
                page.newest.append(answer)
                room -= 1
        newest = filter(None, (self.newest(name) for name in self.registrations[client]))
        lacking = sorted((one for one in newest if one.offset > session.cursor), key=lambda one: one.offset)
        if not session.owed:
            page.newest.extend(lacking[:room])
            if lacking[:room]:
                session.cursor = lacking[:room][-1].offset
            if len(lacking) <= room:
                page.last = True
                session.cursor = max(session.cursor, len(self.log) - 1)
                session.state = "live"
        if session.cursor != NONE:
            page.complete = session.cursor
        self._tell(session.gateway, page=page)

    def _fan_out(self, newest: Newest) -> None:
        numbers: dict[int, list[int]] = {}
        for client, session in self.sessions.items():
            if session.state == "live" and newest.name in self.registrations[client]:
                numbers.setdefault(session.gateway, []).append(session.number)
        for gateway, of_gateway in numbers.items():
            for start in range(0, len(of_gateway), self._fan_out_sessions):
                part = of_gateway[start : start + self._fan_out_sessions]
                packed = struct.pack(f"<{len(part)}I", *part)
                self._tell(gateway, fan_out=FanOut(newest=newest, sessions=packed))

    def _answer(self, name: str) -> Newest:
        answer = Newest(name=name)
        newest = self.newest(name)
        if newest is not None:
            answer.CopyFrom(newest)
        answer.answer = True
        return answer

    def _opened(self, session: MatcherSession, client: str, *, in_sync: bool, epoch: int) -> None:
        opened = Opened(session=session.number, ask=session.ask, in_sync=in_sync)
        opened.digest = digest(self.registrations.get(client, ()))
        if epoch != EPOCH:
            opened.epoch = EPOCH
        self._tell(session.gateway, opened=opened)

    def _close(self, gateway: int, number: int, code: CloseCode) -> None:
        self._tell(gateway, closed=Closed(session=number, code=code, reason=code.name))

    def _tell(
        self,
        gateway: int,
        *,
        fan_out: FanOut | None = None,
        opened: Opened | None = None,
        answered: Answered | None = None,
        page: Page | None = None,
        closed: Closed | None = None,
        beat: BeatAnswer | None = None,
    ) -> None:
        item = Item(fan_out=fan_out, opened=opened, answered=answered, page=page, closed=closed, beat=beat)
        self._items.setdefault(gateway, []).append(item)


class DeviceDouble:
    """A device as docs/protocol.md has it, without disk or timers. What it is to send is in `to_send`."""

    SYNC_OBJECTS = 2
    """In one SyncChunk."""

    def __init__(self, client: str, *, names: bool = False) -> None:
        self.client = client
        self.names = names
        self.wanted: set[str] = set()
        self.registering: set[str] = set()
        """Not settled: not confirmed, or confirmed and not notified of yet."""
        self.unregistering: set[str] = set()
        self.confirmed: set[str] = set()
        """Of `registering`: those that were confirmed in this session."""
        self.floors: dict[str, int] = {}
        self.cursor = NONE
        self.has_epoch = False
        self.to_send = b""
        self.closed: Close | None = None
        self.caught_up = False
        self.syncing = False
        self.welcomed = False
        self.waits = 0
        self._frames = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        self._request = 0
        self._asked: dict[int, tuple[str, ...]] = {}
        self._used: dict[int, str] = {}
        self._offered: tuple[set[str], set[str]] = (set(), set())
        """What the next Welcome confirms: registrations, unregistrations."""

    def connect(self) -> None:
        """A new connection: Hello."""
        self._frames = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        self.to_send, self.closed = b"", None
        self.caught_up = self.syncing = self.welcomed = False
        self.confirmed, self._asked, self._request = set(), {}, 0
        self._used = {object_crc(name): name for name in self.wanted | self.unregistering}
        self._offered = set(self.registering), set(self.unregistering)
        self.to_send += hello(
            self.client,
            wanted=tuple(self.wanted),
            register=tuple(self.registering),
            unregister=tuple(self.unregistering),
            cursor=self.cursor if self.has_epoch and self.cursor != NONE else None,
            capabilities=CAPABILITY_NAMES if self.names else 0,
        )

    def want(self, name: str) -> None:
        """The application registers for an object."""
        self.wanted.add(name)
        self.registering.add(name)
        self.confirmed.discard(name)
        self.unregistering.discard(name)
        self._used[object_crc(name)] = name
        self.ask_pending()

    def do_not_want(self, name: str) -> None:
        """The application does not want to hear of it any more."""
        if name in self.wanted:
            self.wanted.discard(name)
            self.registering.discard(name)
            self.confirmed.discard(name)
            self.unregistering.add(name)
            self.ask_pending()

    def ask_pending(self) -> None:
        """Sends what is pending (once more: as after 30 s without an answer)."""
        if not self.welcomed or self.syncing:
            return
        for make, names in ((unregister, self.unregistering), (register, self.registering - self.confirmed)):
            if names:
                self._request += 1
                self._asked[self._request] = tuple(names)
                self.to_send += make(self._request, *names)

    def ping(self) -> None:
        """Keepalive."""
        quiet = not self.registering and not self.unregistering and self.welcomed and not self.syncing
        self.to_send += ping(digest(self.wanted) if quiet else None)

    def receive(self, data: bytes) -> None:
        """Bytes came from the gateway."""
        for body in self._frames.feed(data):
            frame = parse_gateway_frame(body)
            assert self.closed is None, "a frame after Close"
            self._on_frame(frame)

    def _on_frame(self, frame: GatewayFrame) -> None:
        match frame.WhichOneof("frame"):
            case "welcome":
                self._on_welcome(frame.welcome)
            case "notification":
                self._on_notification(frame.notification)
            case "caught_up":
                self._advance(frame.caught_up.complete if frame.caught_up.HasField("complete") else NONE)
                self.caught_up = True
                self.confirmed.clear()
                self.ask_pending()
            case "page_end":
                self.to_send += ack(page=frame.page_end.page)
            case "registered":
                names = self._asked.pop(frame.registered.request, ())
                self.confirmed |= self.registering.intersection(names)
            case "unregistered":
                self.unregistering.difference_update(self._asked.pop(frame.unregistered.request, ()))
            case "pong":
                self._advance(frame.pong.complete if frame.pong.HasField("complete") else NONE)
            case "wait":
                self.waits += 1
            case "close":
                self.closed = frame.close

    def _on_welcome(self, welcome: Welcome) -> None:
        if welcome.HasField("epoch"):
            self.cursor = NONE
        self.has_epoch = True
        self.welcomed = True
        if welcome.in_sync:
            self.syncing = False
            registered, unregistered = self._offered
            self.confirmed |= self.registering & registered
            self.unregistering -= unregistered
            self.ask_pending()
            return
        self.syncing, self.caught_up = True, False
        self._asked.clear()
        self.registering = set(self.wanted)
        self.confirmed.clear()
        self.unregistering.clear()
        self._offered = set(self.wanted), set()
        names = sorted(self.wanted)
        parts = [names[i : i + self.SYNC_OBJECTS] for i in range(0, len(names), self.SYNC_OBJECTS)] or [[]]
        for index, part in enumerate(parts):
            self.to_send += sync(index, *part, last=index == len(parts) - 1)

    def _on_notification(self, one: Notification) -> None:
        assert bool(one.name) == self.names, "a name where a CRC-32 was due, or the other way round"
        name = one.name or self._used.get(one.crc)
        if name is not None and name in self.wanted:
            if one.HasField("version"):
                self.floors[name] = max(self.floors.get(name, NONE), one.version)
            if name in self.confirmed:
                self.registering.discard(name)
                self.confirmed.discard(name)
        if not one.answer:
            self._advance(one.offset - one.behind)

    def _advance(self, complete: int) -> None:
        if complete > self.cursor:
            self.cursor = complete
            self.to_send += ack(complete)


class WireDouble:
    """A connection as the core's peer; what was written to it is kept."""

    def __init__(self) -> None:
        self.data = b""
        self.finished = False

    def send(self, data: bytes, /) -> None:
        """Keeps it."""
        self.data += data

    def finish(self) -> None:
        """Takes note."""
        self.finished = True

    def take(self) -> list[GatewayFrame]:
        """The frames since the last call."""
        data, self.data = self.data, b""
        return parse(data)

    def kinds(self) -> list[str]:
        """The kinds of the frames since the last call."""
        return [frame.WhichOneof("frame") or "" for frame in self.take()]

    def __hash__(self) -> int:
        return id(self)


class Bench:
    """The core with one partition on a bench: connections, inbox records by hand, requests and time to look at."""

    GATEWAY = 0xC01D
    INBOX = 3

    def __init__(self, limits: Limits | None = None, admit: Admit = admit_all) -> None:
        self.gateway = Gateway(self.GATEWAY, self.INBOX, 1, limits or Limits(), admit)
        self.now_s = 100.0
        self.generation = 1
        self.number = 0
        self.requests: list[Request] = []

    def do(self, outputs: Iterable[Output]) -> None:
        """Does what the core says."""
        for output in outputs:
            match output:
                case Send(peer, data):
                    peer.send(data)
                case SendAll(peers, data):
                    for peer in peers:
                        peer.send(data)
                case Produce(request=request):
                    self.requests.append(request)
                case Finish(peer):
                    peer.finish()

    def take_requests(self, *kinds: str) -> list[Request]:
        """The requests since the last call; `kinds`: which ones these must be, in order."""
        requests, self.requests = self.requests, []
        if kinds:
            assert [request.WhichOneof("body") for request in requests] == list(kinds)
        return requests

    def connect(self, address: str = "127.0.0.1") -> WireDouble:
        """A connection."""
        wire = WireDouble()
        self.do(self.gateway.on_connect(wire, address, self.now_s))
        return wire

    def say(self, wire: WireDouble, *frames: bytes) -> None:
        """Bytes from the client."""
        self.do(self.gateway.on_client_bytes(wire, b"".join(frames), self.now_s))

    def inbox(self, *items: Item, number: int | None = None) -> None:
        """An inbox record, with the next number if none is given."""
        self.number = self.number + 1 if number is None else number
        record = Inbox(
            format=1,
            partition=0,
            generation=self.generation,
            gateway=self.GATEWAY,
            number=self.number,
            items=items,
        )
        self.do(inbox_outputs(self.gateway, record, self.now_s))

    def new_matcher(self) -> None:
        """A takeover record."""
        self.generation, self.number = self.generation + 1, 0
        self.do(inbox_outputs(self.gateway, Inbox(format=1, generation=self.generation), self.now_s))

    def later(self, seconds: float) -> None:
        """Time passes, with ticks."""
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s = min(end_s, self.now_s + 0.5)
            self.do(self.gateway.on_tick(self.now_s))

    def stand_still(self, seconds: float) -> None:
        """Time passes without the gateway: its process is stopped."""
        self.now_s += seconds
        self.do(self.gateway.on_tick(self.now_s))

    def session(self, number: int) -> Identified:
        """A session by its number."""
        return next(session for session in self.gateway.sessions() if session.number == number)

    def opening(self, *frames: bytes) -> WireDouble:
        """A session that has said `frames` (by default a Hello); its Open is left in `requests`."""
        wire = self.connect()
        self.say(wire, *(frames or (hello(),)))
        return wire

    def live(self, *frames: bytes, complete: int | None = None) -> WireDouble:
        """A session that is live; nothing is left in requests or written."""
        wire = self.opening(*frames)
        number = self.gateway.sessions()[-1].number
        (opened,) = self.take_requests("open")
        self.inbox(
            Item(opened=Opened(session=number, ask=opened.open.ask, in_sync=True, digest=opened.open.digest)),
            Item(page=Page(session=number, ask=opened.open.ask, page=1, last=True, complete=complete)),
        )
        assert self.session(number).state is State.LIVE
        wire.take()
        return wire


def inbox_outputs(gateway: Gateway, record: Inbox, now_s: float) -> Iterator[Output]:
    """What the gateway makes of a record. The caller does each output before it takes the next, as the shell does."""
    intake = gateway.on_inbox(record, now_s)
    yield from intake.outputs
    for item in intake.items:
        yield from gateway.on_item(record.partition, item, now_s)


def fan_out(name: str, version: int, offset: int, *sessions: int, behind: int = 0) -> Item:
    """A FanOut to these sessions."""
    newest = Newest(name=name, version=version, offset=offset, behind=behind)
    return Item(fan_out=FanOut(newest=newest, sessions=struct.pack(f"<{len(sessions)}I", *sessions)))


def beat_answer(complete: int | None = None, *, agreed: bool = True, serial: int = LATEST_BEAT) -> Item:
    """A BeatAnswer; to the latest Beat, unless another serial is given."""
    return Item(beat=BeatAnswer(agreed=agreed, complete=complete, serial=serial))
