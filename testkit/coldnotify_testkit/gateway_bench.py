"""For tests: the gateway's core, with connections that keep what they are sent, and a matcher's records by hand."""

import struct
from collections.abc import Collection, Iterable, Iterator, Sequence

from coldnotify_gateway.core import (
    Finish,
    Frame,
    Gateway,
    Identified,
    Limits,
    Output,
    Overtake,
    Produce,
    PublishBatch,
    PublishRecord,
    Send,
    SendAll,
    SendUrgent,
    SessionState,
    Urgent,
    WaitingFrames,
)
from coldnotify_gateway.core.gateway import Admit, admit_all
from coldnotify_schemas.internal_pb2 import BeatAnswer, FanOut, Inbox, Item, Newest, Opened, Page, Request
from coldnotify_schemas.wire_pb2 import GatewayFrame

from coldnotify_testkit.device_frames import hello, parse

LATEST_BEAT = 2**64 - 1
"""Represents the serial of the latest Beat."""


class WireDouble:
    """A connection that is the core's peer. It keeps what is written to it."""

    def __init__(self) -> None:
        self.data = b""
        self.stuck = False
        """True if what is written waits, because the connection accepts nothing."""
        self.finished = False
        self._waiting = WaitingFrames()

    def send(self, frames: Sequence[Frame], /) -> None:
        """Keeps them."""
        self._waiting.add(*frames)
        self._flow()

    def send_urgent(self, urgent: Urgent, /) -> None:
        """Keeps it in front of what waits."""
        self._waiting.add_urgent(urgent)
        self._flow()

    def overtake(self, channels: Collection[int], repeats: Sequence[Frame], /) -> None:
        """Moves waiting frames of these channels to the front."""
        self._waiting.overtake(channels, repeats)
        self._flow()

    def go_on(self) -> None:
        """Lets the connection accept what waits, and what is written from now on."""
        self.stuck = False
        self._flow()

    def _flow(self) -> None:
        if not self.stuck:
            self.data += self._waiting.take(self._waiting.size_bytes)

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


class GatewayBench:
    """The core with one partition on a bench: connections, inbox records by hand, requests and time to look at."""

    GATEWAY = 0xC01D
    INBOX = 3

    def __init__(self, limits: Limits | None = None, admit: Admit = admit_all) -> None:
        self.gateway = Gateway(self.GATEWAY, self.INBOX, 1, limits or Limits(), admit)
        self.now_s = 100.0
        self.generation = 1
        self.number = 0
        self.requests: list[Request] = []
        self.publications: list[PublishRecord] = []
        self.unanswered: list[PublishRecord] = []
        """Those of `publications` that Kafka has not answered."""
        self.answers_beats = False
        """The matcher answers each Beat, as time passes: it has handled all that was asked before it."""
        self._beats: list[int] = []

    def do(self, outputs: Iterable[Output]) -> None:
        """Carries out the core's outputs."""
        for output in outputs:
            match output:
                case Send(peer, frames):
                    peer.send(frames)
                case SendAll(peers, frame):
                    for peer in peers:
                        peer.send([frame])
                case SendUrgent(peers, urgent):
                    for peer in peers:
                        peer.send_urgent(urgent)
                case Overtake(peers, channels, repeats):
                    for peer in peers:
                        peer.overtake(channels, repeats)
                case Produce(request=request):
                    self.requests.append(request)
                    if request.HasField("beat"):
                        self._beats.append(request.beat.serial)
                case PublishBatch(records):
                    self.publications.extend(records)
                    self.unanswered.extend(records)
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
            beats, self._beats = self._beats, []
            if beats and self.answers_beats:
                self.inbox(*(beat_answer(serial=serial) for serial in beats))

    def stand_still(self, seconds: float) -> None:
        """Time passes without the gateway: its process is stopped."""
        self.now_s += seconds
        self.do(self.gateway.on_tick(self.now_s))

    def session(self, number: int) -> Identified:
        """A session by its number."""
        return next(session for session in self.gateway.sessions() if session.number == number)

    def opening(self, *frames: bytes) -> WireDouble:
        """Returns a connection that has sent `frames` (by default a Hello). Its Open is left in `requests`."""
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
        assert self.session(number).state is SessionState.LIVE
        wire.take()
        return wire


def inbox_outputs(gateway: Gateway, record: Inbox, now_s: float) -> Iterator[Output]:
    """Yields the gateway's outputs for a record. The caller carries out each output before it takes the next, as the
    shell does.
    """
    intake = gateway.on_inbox(record, now_s)
    yield from intake.outputs
    for item in intake.items:
        yield from gateway.on_item(record.partition, item, now_s)


def fan_out(name: str, version: int, offset: int, *sessions: int, behind: int = 0) -> Item:
    """A FanOut to these sessions."""
    newest = Newest(name=name, version=version, offset=offset, behind=behind)
    return Item(fan_out=FanOut(newest=newest, sessions=struct.pack(f"<{len(sessions)}I", *sessions)))


def opened(number: int, ask: int, *, in_sync: bool = True, epoch: int | None = None, said: int = 0) -> Item:
    """Returns an Opened of session `number`; `said` is its digest."""
    return Item(opened=Opened(session=number, ask=ask, in_sync=in_sync, epoch=epoch, digest=said))


def page(number: int, ask: int, number_of_page: int = 1, *offsets: int, last: bool = False) -> Item:
    """A Page for session `number`, with an object for each offset."""
    newest = [Newest(name=f"object-{offset}", version=1, offset=offset) for offset in offsets]
    complete = offsets[-1] if offsets else None
    return Item(page=Page(session=number, ask=ask, page=number_of_page, newest=newest, last=last, complete=complete))


def beat_answer(complete: int | None = None, *, agreed: bool = True, serial: int = LATEST_BEAT) -> Item:
    """A BeatAnswer; to the latest Beat, unless another serial is given."""
    return Item(beat=BeatAnswer(agreed=agreed, complete=complete, serial=serial))
