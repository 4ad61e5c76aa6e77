"""One client and all that it needs, recorded: what the scripts of `schemas/transcripts/` are written with."""

from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from random import Random

from coldnotify._core.document.document import ClientIdentity, Document, decode
from coldnotify._core.driver import (
    AnyJob,
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
from coldnotify._core.session.reconnect import Address
from coldnotify._core.settings import ClientSettings
from coldnotify.errors import StateError
from coldnotify.testing import Service, Session

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
    ) -> None:
        self.service = service or Service()
        self.now_s = now_s
        self.disk = disk
        document = Document(identity=ME) if disk is None else decode(disk, ME)
        self.driver = RecordedDriver(
            document, [Address("gateway", 1)], SETTINGS, Random(), now_s, say_unsettled=say_unsettled
        )
        self.session: Session | None = None
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
            self.session.drop()
            self.session = None
            self.driver.link_down("cut", self.now_s)
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
            elif not self._hear():
                return

    def _drain(self) -> None:
        driver, answers = self.driver, self._answers
        while (action := driver.next(self.now_s)) is not None and not isinstance(action, End):
            match action:
                case Save():
                    answers.append(partial(self._saved, action))
                case Connect():
                    answers.append(self._connected)
                case SendBytes(data):
                    assert self.session is not None
                    if not self.mute:
                        self.session.receive(data)
                    driver.sent()
                case EndSending() | Close():
                    answers.append(self._disconnected)
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

    def _connected(self) -> None:
        self.session = self.service.open()
        self.driver.link_up(self.now_s, "a token")

    def _disconnected(self) -> None:
        if self.session is not None:
            self.session.drop()
        self.session = None
        self.driver.link_down("closed", self.now_s)

    def _hear(self) -> bool:
        session = self.session
        if session is None or self.mute:
            return False
        said = session.take()
        if said:
            self.driver.received(said, self.now_s)
        elif session.closed:
            self._disconnected()
        else:
            return False
        return True
