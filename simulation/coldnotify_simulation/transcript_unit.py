"""One client and all that it needs, recorded: what the scripts of `schemas/transcripts/` are written with."""

from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from random import Random

from coldnotify._core.document.document import ClientIdentity, Document, decode
from coldnotify._core.driver import (
    AnyJob,
    AskDirectory,
    CallbackJob,
    CallCallbacks,
    Close,
    Connect,
    End,
    EndSending,
    MembersJob,
    Save,
    SendBytes,
)
from coldnotify._core.interests.interests import ChannelInterest
from coldnotify._core.interests.since import OLDEST, Since
from coldnotify._core.session.reconnect import Address, Gateways
from coldnotify._core.settings import ClientSettings
from coldnotify.errors import StateError
from coldnotify.testing import Service, Session
from coldnotify_schemas.frames import FrameBuffer, encode, parse_client_frame
from coldnotify_schemas.protocol import AGE_UNKNOWN_S, CLIENT_FRAME_BYTES_MAX
from coldnotify_schemas.wire_pb2 import Close as CloseFrame
from coldnotify_schemas.wire_pb2 import GatewayFrame, Pong

from coldnotify_simulation.recorder import RecordedDriver

ME = ClientIdentity("animal.observer", "region-1", "observer-1")
DOMAIN, GROUP = ME.domain, ME.group
KEY = DOMAIN, GROUP, ME.client
SETTINGS = ClientSettings(tries_max=3)
SUBSCRIBER = 1
MISSED_SUBSCRIBER = 2


class Unit:
    """A client with all its surroundings, in which only what is waited for takes time."""

    def __init__(
        self,
        service: Service | None = None,
        disk: bytes | None = None,
        now_s: float = 0.0,
        *,
        say_unsettled: bool = False,
        gateways: Gateways | None = None,
        settings: ClientSettings = SETTINGS,
    ) -> None:
        self.service = service or Service()
        self.now_s = now_s
        self.disk = disk
        document = Document(identity=ME) if disk is None else decode(disk, ME)
        self.driver = RecordedDriver(
            document, gateways or [Address("gateway", 1)], settings, Random(), now_s, say_unsettled=say_unsettled
        )
        self._sessions: dict[int, Session] = {}
        """By the driver's number of the connection."""
        self._addresses: dict[int, str] = {}
        self.dead: set[str] = set()
        """Gateways that nobody can connect to."""
        self.cut_off: set[str] = set()
        """Gateways without Kafka: they answer Pings, and nothing else."""
        self._held: list[tuple[Session, bytes]] = []
        """Frames that these gateways would have passed on."""
        self.full: dict[str, CloseFrame] = {}
        """Gateways that answer a Hello with this."""
        self.directory: Address | None = None
        """The gateway that the directory names."""
        self.fails: set[str] = set()
        """Callbacks of these objects and channels raise."""
        self.holds = False
        """Callbacks do not return."""
        self.disk_is_full = False
        self.mute = False
        """True if the gateway neither hears nor sends anything."""
        self.ended = False
        self._answers: deque[Callable[[], None]] = deque()
        """Answers to the driver's requests."""
        self._call: CallCallbacks | None = None

    @property
    def session(self) -> Session | None:
        """The session, as the service sees it."""
        return self._sessions.get(self.driver.main_link)

    @property
    def address(self) -> str:
        """The gateway that has the session."""
        return self._addresses[self.driver.main_link]

    def want(self, *names: str) -> None:
        """Register and subscribe."""
        for name in names:
            self.driver.application.subscribe(name, SUBSCRIBER)
            self.driver.application.register(name)
        self.go()

    def want_channel(self, channel: ChannelInterest, since: Since = OLDEST) -> None:
        """Subscribes to its messages, and to its missed ones."""
        self.driver.application.subscribe(channel, SUBSCRIBER)
        self.driver.application.subscribe_missed(channel, MISSED_SUBSCRIBER)
        self.driver.application.register_channel(channel, since)

    def send(self, *channels: str, to: Collection[str] = ()) -> None:
        """A back-end sends a message to each."""
        for channel in channels:
            self.service.send(DOMAIN, GROUP, channel, {"of": channel}, to=to)
        if self.session is not None:
            self.go()

    def publish(self, *names: str) -> None:
        """A back-end publishes the next version of each."""
        for name in names:
            self.service.publish(DOMAIN, GROUP, name, {"of": name})
        if self.session is not None:
            self.go()

    def go(self, seconds: float = 0.0) -> None:
        """Let so much time pass, waking up when the driver wants to."""
        until_s = self.now_s + seconds
        while not self.ended:
            self._settle()
            next_s = max(self.now_s, min(self.driver.deadline(), self.driver.next_call_at()))
            if next_s > until_s:
                break
            self.now_s = next_s
        self.now_s = until_s

    def sleep(self, seconds: float) -> None:
        """The machine sleeps, and wakes."""
        self.now_s += seconds
        self.driver.doubt(self.now_s, seconds)
        self.go()

    def cut(self) -> None:
        """The connection breaks."""
        if self.session is not None:
            self._disconnected(self.driver.main_link)
            self.go()

    def say(self, frame: GatewayFrame) -> None:
        """The gateway says this, whatever the service does."""
        self.driver.received(encode(frame), self.now_s, self.driver.main_link)
        self.go()

    def stop(self, *, abandon: bool = False) -> None:
        """The application disconnects."""
        self.driver.stop(abandon=abandon)
        self.go()

    def returns(self) -> None:
        """The callback that is held returns."""
        self.holds = False
        self.go()

    def _settle(self) -> None:
        """Runs until no event causes another."""
        while True:
            self._drain()
            if self._call is not None and not self.holds:
                self._called(self._call.job)
            elif self._answers:
                self._answers.popleft()()
            elif not any(self._hear(number) for number in list(self._sessions)):
                return

    def _drain(self) -> None:
        driver, answers = self.driver, self._answers
        while (action := driver.next(self.now_s)) is not None and not isinstance(action, End):
            match action:
                case Save():
                    answers.append(partial(self._saved, action))
                case Connect(address, number):
                    answers.append(partial(self._connected, str(address), number))
                case AskDirectory():
                    answers.append(self._ask)
                case SendBytes(data, number):
                    if not self.mute:
                        self._send(data, number)
                    driver.sent(number)
                case EndSending(number) | Close(link=number):
                    answers.append(partial(self._disconnected, number))
        self.ended = isinstance(action, End)
        while (call := driver.next_call(self.now_s)) is not None:
            if isinstance(call, CallCallbacks):
                self._call = call

    def _called(self, job: AnyJob) -> None:
        assert not isinstance(job, MembersJob), "no transcript has queries"
        self._call = None
        of = job.notification.object_id if isinstance(job, CallbackJob) else job.message.channel
        failed: dict[int, BaseException] = {}
        if of in self.fails:
            failed = {subscriber: RuntimeError("no") for subscriber in job.subscribers}
        self.driver.called(job, failed, self.now_s)

    def _saved(self, save: Save) -> None:
        if self.disk_is_full:
            self.driver.save_failed(save, StateError("disk full"), self.now_s)
        else:
            self.disk = save.data
            self.driver.saved(save, self.now_s)

    def _ask(self) -> None:
        if self.directory is None:
            self.driver.unnamed("nobody", self.now_s, 20.0)
        else:
            self.driver.named(self.directory, self.now_s)

    def _connected(self, address: str, number: int) -> None:
        if address in self.dead:
            self.driver.link_down("nobody is there", self.now_s, number)
            return
        self._sessions[number], self._addresses[number] = self.service.open(), address
        self.driver.link_up(self.now_s, "a token", number)

    def _disconnected(self, number: int) -> None:
        session = self._sessions.pop(number, None)
        if session is not None:
            session.drop()
        self.driver.link_down("closed", self.now_s, number)

    def _send(self, data: bytes, number: int) -> None:
        session, address = self._sessions.get(number), self._addresses[number]
        for body in FrameBuffer(CLIENT_FRAME_BYTES_MAX).feed(data):
            frame = parse_client_frame(body)
            if session is None:
                return
            if frame.HasField("hello") and address in self.full:
                answer = GatewayFrame(close=self.full[address])
                self._answers.append(partial(self._refuse, answer, number))
            elif address not in self.cut_off:
                session.receive(encode(frame))
            elif frame.HasField("ping"):
                pong = encode(GatewayFrame(pong=Pong(age_s=AGE_UNKNOWN_S)))
                self._answers.append(partial(self._pong, pong, number))
            else:
                self._held.append((session, encode(frame)))

    def name(self, gateway: Address) -> None:
        """The directory names this gateway from now on."""
        self.directory = gateway

    def heal(self) -> None:
        """Gateways have Kafka again: what they hold goes on."""
        self.cut_off.clear()
        for session, frame in self._held:
            session.receive(frame)
        self._held.clear()
        self.go()

    def _pong(self, pong: bytes, number: int) -> None:
        self.driver.received(pong, self.now_s, number)

    def _refuse(self, answer: GatewayFrame, number: int) -> None:
        self.driver.received(encode(answer), self.now_s, number)
        self._disconnected(number)

    def _hear(self, number: int) -> bool:
        session = self._sessions.get(number)
        if session is None or self.mute or self._addresses[number] in self.cut_off:
            return False
        said = session.take()
        if said:
            self.driver.received(said, self.now_s, number)
        elif session.closed:
            self._disconnected(number)
        else:
            return False
        return True
