"""For tests: a client core with its disk, application, network and service; one step of one of them at a time."""

from collections.abc import Callable
from random import Random

from coldnotify._core.client import Client, Save
from coldnotify._core.delivery.slot import CallbackJob
from coldnotify._core.document.document import ClientIdentity, Document, decode
from coldnotify._core.interests.registrations import OperationKind
from coldnotify._core.session.reconnect import Address
from coldnotify._core.settings import ClientSettings
from coldnotify.errors import ServiceRefused, StateError
from coldnotify.testing import Service, Session

ME = ClientIdentity("animal.observer", "region-1", "observer-1")
DOMAIN, GROUP = ME.domain, ME.group
KEY = (ME.domain, ME.group, ME.client)
# The last two share a CRC-32.
NAMES = ["a", "b", "c", "d/e", "plumless", "buckeroo"]
QUICK = ClientSettings(tries_max=2)


class ClientWorld:
    """A client, its disk, its application, the network and the service.

    A step after which something does not hold that must raises AssertionError.
    """

    def __init__(self, service: Service | None = None, settings_: ClientSettings = QUICK, seed: int = 0) -> None:
        self.service = service or Service(page_objects=2)
        self.settings = settings_
        self.random = Random(seed)
        self.now = 1000.0
        self.disk: bytes | None = None
        self.saves: list[bytes] = []
        self.wanted: set[str] = set()
        self.subscribed: set[str] = set()
        self.told: dict[str, tuple[int, int]] = {}
        self.ever_told: dict[str, tuple[int, int]] = {}
        self.told_here: dict[str, tuple[int, int]] = {}
        self.history: list[tuple[str, int | None]] = []
        self.exempt: set[str] = set()
        self.reports: list[Exception] = []
        self.crash_at: int | None = None
        self.boot()

    # The process

    def boot(self) -> None:
        """Starts the process with what is on disk, and subscribes as before."""
        document = Document(identity=ME) if self.disk is None else decode(self.disk, ME)
        self.client = Client(document, [Address("gateway", 1)], self.settings, self.random, self.now)
        self.session: Session | None = None
        self.save: Save | None = None
        self.job: CallbackJob | None = None
        self.job_is_stale = False
        self.told_here = {}
        for name in self.subscribed:
            self.client.application.subscribe(name, NAMES.index(name) if name in NAMES else 99)

    def crash(self) -> None:
        """Cuts the power and restarts the client. The application registers its wanted set again."""
        if self.session is not None:
            self.session.drop()
        if self.disk is not None:
            self.check_sentence(decode(self.disk, ME), self.ever_told)
        self.boot()
        # The document may be older than an unregister and register again.
        self.told = dict(self.ever_told)
        self.client.application.register_only(self.wanted)

    # The application

    def register(self, name: str) -> None:
        """The application wants an object."""
        self.wanted.add(name)
        self.client.application.register(name)

    def unregister(self, name: str) -> None:
        """It does not any more."""
        self.wanted.discard(name)
        self.client.application.unregister(name)
        self.forget_told(name)

    def maybe_crash(self) -> None:
        """Between any two steps the power may go."""
        if self.crash_at is not None:
            self.crash_at -= 1
            if self.crash_at == 0:
                self.crash()

    def forget_told(self, name: str) -> None:
        """Forgets what the application received of an object, because a new registration receives it again."""
        self.told.pop(name, None)
        self.told_here.pop(name, None)
        self.job_is_stale = self.job_is_stale or (self.job is not None and self.job.notification.object_id == name)

    def subscribe(self, name: str) -> None:
        """It gets a callback, once."""
        if name not in self.subscribed:
            self.subscribed.add(name)
            self.client.application.subscribe(name, NAMES.index(name) if name in NAMES else 99)

    def unsubscribe(self, name: str) -> None:
        """It takes its callback back."""
        if name in self.subscribed:
            self.subscribed.discard(name)
            self.client.application.unsubscribe(name, NAMES.index(name))

    # One step each

    def begin_save(self) -> None:
        """A save that is due begins."""
        save = self.client.save_due(self.now)
        if save is not None:
            assert self.save is None
            self.save = save
            self.check_sentence(decode(save.data, ME), self.told)

    def end_save(self, error: bool = False) -> None:
        """It is on disk; or it fails."""
        if self.save is None:
            return
        save, self.save = self.save, None
        if error:
            self.client.save_failed(save, StateError("disk full"), self.now)
            return
        self.disk = save.data
        self.saves.append(save.data)
        self.client.saved(save, self.now)

    def begin_job(self) -> None:
        """A callback that is due begins."""
        if self.job is not None:
            return
        job = self.client.next_job(self.now)
        if job is None:
            return
        assert isinstance(job, CallbackJob)
        self.job, self.job_is_stale = job, False
        name, update = job.notification.object_id, job.update
        assert name in self.subscribed
        assert name in self.wanted
        if update.version is None:
            return
        told = self.told.get(name, (-1, -1))
        assert update.floor >= told, "never backwards, not across crashes either"
        assert update.floor > self.told_here.get(name, (-1, -1)), "no duplicate within the life of a process"
        newest = self.service.newest(DOMAIN, GROUP, name)
        assert newest is not None, "nothing is told that was not published"
        assert update.floor <= (newest.incarnation, newest.version)

    def end_job(self, fails: bool = False) -> None:
        """It returns; or it raises."""
        if self.job is None:
            return
        job, self.job = self.job, None
        name = job.notification.object_id
        if not fails:
            self.history.append((name, job.notification.version))
            if not self.job_is_stale and job.update.version is not None:
                self.ever_told[name] = self.told[name] = self.told_here[name] = max(
                    job.update.floor, self.told_here.get(name, (-1, -1))
                )
        failed = {number: RuntimeError("no") for number in job.subscribers} if fails else {}
        self.client.job_done(job, failed, self.now)

    def network(self, to_service: int | None = None, to_client: int | None = None) -> bool:
        """Connect if it is time, and move bytes: at most so many each way. Whether anything moved."""
        self.client.tick(self.now)
        if self.session is None:
            if self.client.connect_due(self.now) is not None:
                self.client.link_up(self.now)
                self.session = self.service.open()
                self.wire = bytearray()
                return True
            return False
        self.wire += self.client.data_to_send(self.now)
        data = bytes(self.wire[:to_service])
        del self.wire[: len(data)]
        self.session.receive(data)
        answer = self.session.take(to_client)
        if answer:
            self.client.receive(answer, self.now)
        if (self.session.closed and not answer) or not self.client.link_wanted:
            self.cut()
            return True
        return bool(data or answer)

    def cut(self) -> None:
        """The connection breaks."""
        if self.session is not None:
            self.session.drop()
            self.session = None
            self.client.link_down("cut", self.now)

    def pass_time(self, seconds: float) -> None:
        """Nothing happens for so long."""
        self.now += seconds

    # What must hold

    def forget_registrations(self) -> None:
        """Makes the service lose the client's registrations. Until the next reg-sync it owes the client nothing."""
        self.service.registered.pop(KEY, None)
        self.exempt |= self.wanted

    def check_sentence(self, document: Document, told: dict[str, tuple[int, int]]) -> None:
        """Asserts the sentence that the package's docstring builds on.

        Objects whose registration the service has lost are exempt until it learns of them again. By then the document
        has to be ready.
        """
        self.exempt -= self.service.registered.get(KEY, set())
        for name, floor in document.applied.items():
            assert floor <= told.get(name, (-1, -1)) or name not in self.wanted
        if document.epoch != self.service.epoch or document.cursor is None:
            return
        for name in document.wanted - self.exempt:
            newest = self.service.newest(DOMAIN, GROUP, name)
            if newest is None or newest.offset > document.cursor or name not in self.wanted:
                continue
            is_told = told.get(name, (-1, -1)) >= (newest.incarnation, newest.version)
            assert is_told or document.pending.get(name) is OperationKind.REGISTER, f"{name} would be lost"

    def run(
        self,
        until: "Callable[[ClientWorld], object]" = lambda world: world.client.caught_up(world.now),
        steps: int = 3000,
    ) -> None:
        """Everything works: go on until it is so."""
        for _ in range(steps):
            self.maybe_crash()
            self.begin_save()
            self.maybe_crash()
            self.end_save()
            self.maybe_crash()
            self.begin_job()
            self.maybe_crash()
            self.end_job()
            self.maybe_crash()
            moved = self.network()
            self.reports += self.client.take_reports()
            if until(self):
                return
            if not moved:
                self.now = max(self.now, min(self.client.deadline(), self.client.next_job_at(), self.now + 4000))
        raise AssertionError(f"not reached: {self.client.status(self.now)}")

    def settle(self) -> None:
        """Ends all faults, then asserts that everything wanted arrives and that the service has the client's set."""
        self.service.come_back()
        self.service.release(DOMAIN, GROUP)
        for name in self.wanted:
            self.subscribe(name)
        self.cut()
        self.run()
        if self.client.status(self.now).parked:
            self.cut()
            self.run()
        for name in self.wanted:
            newest = self.service.newest(DOMAIN, GROUP, name)
            if newest is not None:
                assert self.told.get(name) == (newest.incarnation, newest.version), name
        assert self.service.registered.get(KEY, set()) == self.wanted
        self.run(lambda world: world.client.status(world.now).pending == 0)
        assert not any(isinstance(report, ServiceRefused) for report in self.reports)


def publish(world: ClientWorld, name: str) -> None:
    """The next version of an object of the client's group."""
    world.service.publish(DOMAIN, GROUP, name, {"n": 1})
