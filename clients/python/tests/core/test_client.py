"""The whole core against a model of the service, with time, network, disk and callbacks in the test's hands."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from coldnotify._core.client import Client, Save
from coldnotify._core.document import Document, decode
from coldnotify._core.reconnect import Address
from coldnotify._core.registrations import Kind
from coldnotify._core.session import Identity
from coldnotify._core.settings import Settings
from coldnotify._core.slot import Job
from coldnotify.errors import ObjectParked, RegistrationRefused, ServiceRefused, StateError
from coldnotify.testing import Service, Session
from coldnotify_schemas.close_codes import CloseCode
from hypothesis import given, settings
from hypothesis import strategies as st

ME = Identity("animal.observer", "region-1", "observer-1")
DOMAIN, GROUP = ME.domain, ME.group
KEY = (ME.domain, ME.group, ME.client)
# The last two share a CRC-32.
NAMES = ["a", "b", "c", "d/e", "plumless", "buckeroo"]
QUICK = Settings(tries_max=2)


class World:
    """A client, its disk, its application, the network and the service."""

    def __init__(self, service: Service | None = None, settings_: Settings = QUICK, seed: int = 0) -> None:
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
        document = Document(identity=ME) if self.disk is None else decode(self.disk, ME)
        self.client = Client(document, [Address("gateway", 1)], self.settings, self.random, self.now)
        self.session: Session | None = None
        self.save: Save | None = None
        self.job: Job | None = None
        self.job_is_stale = False
        self.told_here = {}
        for name in self.subscribed:
            self.client.subscribe(name, NAMES.index(name) if name in NAMES else 99)

    def crash(self) -> None:
        if self.session is not None:
            self.session.drop()
        if self.disk is not None:
            self.check_sentence(decode(self.disk, ME), self.ever_told)
        self.boot()
        # The document may be older than an unregister and register again.
        self.told = dict(self.ever_told)
        self.client.register_only(self.wanted)

    # The application

    def register(self, name: str) -> None:
        self.wanted.add(name)
        self.client.register(name)

    def unregister(self, name: str) -> None:
        self.wanted.discard(name)
        self.client.unregister(name)
        self.forget_told(name)

    def maybe_crash(self) -> None:
        """Between any two steps the power may go."""
        if self.crash_at is not None:
            self.crash_at -= 1
            if self.crash_at == 0:
                self.crash()

    def forget_told(self, name: str) -> None:
        """Who registers again is told again."""
        self.told.pop(name, None)
        self.told_here.pop(name, None)
        self.job_is_stale = self.job_is_stale or (self.job is not None and self.job.notification.object_id == name)

    def subscribe(self, name: str) -> None:
        if name not in self.subscribed:
            self.subscribed.add(name)
            self.client.subscribe(name, NAMES.index(name) if name in NAMES else 99)

    def unsubscribe(self, name: str) -> None:
        if name in self.subscribed:
            self.subscribed.discard(name)
            self.client.unsubscribe(name, NAMES.index(name))

    # One step each

    def begin_save(self) -> None:
        save = self.client.save_due(self.now)
        if save is not None:
            assert self.save is None
            self.save = save
            self.check_sentence(decode(save.data, ME), self.told)

    def end_save(self, error: bool = False) -> None:
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
        if self.job is not None:
            return
        job = self.client.next_job(self.now)
        if job is None:
            return
        assert isinstance(job, Job)
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
        if self.session is not None:
            self.session.drop()
            self.session = None
            self.client.link_down("cut", self.now)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    # What must hold

    def forget_registrations(self) -> None:
        """The service loses what it knows of us: until the next reg-sync there is nothing that we could know."""
        self.service.registered.pop(KEY, None)
        self.exempt |= self.wanted

    def check_sentence(self, document: Document, told: dict[str, tuple[int, int]]) -> None:
        """The sentence that the package's docstring builds on.

        Nobody can know what the service forgot, until it is told of the object again - by then the document has to be
        ready.
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
            assert is_told or document.pending.get(name) is Kind.REGISTER, f"{name} would be lost"

    def run(self, until=lambda world: world.client.caught_up, steps: int = 3000) -> None:
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
        """Faults stop: everything wanted must be told in the end, and the service must have our set."""
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


def publish(world: World, name: str) -> None:
    world.service.publish(DOMAIN, GROUP, name, {"n": 1})


def first_start(world: World) -> None:
    """Registrations, a catch-up in pages, live versions."""
    for name in NAMES:
        publish(world, name)
        world.subscribe(name)
        world.register(name)
    world.run()
    publish(world, "a")
    publish(world, "b")
    world.run(lambda world: world.told.get("b") == (0, 1))
    world.run(lambda world: decode(world.disk, ME).cursor == world.service.partition(DOMAIN, GROUP).end)


def reg_sync(world: World) -> None:
    """The service has forgotten us, and what is published meanwhile passes us by, until a Ping finds out."""
    for name in ("a", "b", "c"):
        world.subscribe(name)
        world.register(name)
    world.run()
    world.forget_registrations()
    publish(world, "a")
    publish(world, "b")
    world.run(lambda world: world.told.get("b") == (0, 0))


def nobody_subscribed(world: World) -> None:
    """Notifications that wait for subscribe()."""
    world.register("a")
    world.register("b")
    publish(world, "a")
    world.run()
    publish(world, "a")
    publish(world, "b")
    world.run(lambda world: world.disk is not None and decode(world.disk, ME).cursor == 3)


def re_registered(world: World) -> None:
    """Unregister, then register again."""
    world.subscribe("a")
    world.register("a")
    publish(world, "a")
    world.run()
    world.unregister("a")
    world.run(lambda world: not world.service.registered.get(KEY))
    publish(world, "b")
    world.register("a")
    world.run()


def new_epoch(world: World) -> None:
    """The service has been set up anew."""
    for name in ("a", "b"):
        world.subscribe(name)
        world.register(name)
        publish(world, name)
    world.run()
    world.service.new_epoch()
    publish(world, "b")
    world.run(lambda world: world.told.get("b") == (0, 1))


@pytest.mark.parametrize("scenario", [first_start, reg_sync, nobody_subscribed, re_registered, new_epoch])
def test_a_power_cut_between_any_two_steps_loses_nothing(scenario):
    step = 0
    while True:
        step += 1
        world = World(seed=step)
        world.crash_at = step
        scenario(world)
        passed = world.crash_at > 0
        world.crash_at = None
        world.settle()
        if passed:
            break
    assert step > 20


def test_a_hello_waits_until_its_operations_are_durable():
    world = World()
    world.client.register("a")
    world.network()
    world.network()
    assert world.session is not None
    assert world.session.received == []
    assert world.client.link_wanted
    world.begin_save()
    world.end_save()
    world.network()
    assert list(world.session.hello.register) == ["a"]


def test_nothing_is_acknowledged_that_is_not_on_disk():
    world = World()
    for name in ("a", "b"):
        world.subscribe(name)
        world.register(name)
    world.run()
    publish(world, "a")
    world.network()
    world.begin_job()
    world.end_job()
    assert world.told["a"] == (0, 0)
    for _ in range(5):
        world.now += 10
        world.network()
    assert KEY not in world.service.acknowledged
    world.begin_save()
    world.network()
    assert KEY not in world.service.acknowledged
    world.end_save()
    world.now += world.settings.ack_delay_s
    world.network()
    assert world.service.acknowledged[KEY] == 1


def test_a_state_that_cannot_be_written_is_reported_and_tried_again():
    world = World()
    world.subscribe("a")
    world.register("a")
    world.begin_save()
    world.end_save(error=True)
    assert [str(report) for report in world.client.take_reports()] == ["disk full"]
    world.begin_save()
    assert world.save is None, "not at once"
    world.run()
    assert world.disk is not None


def test_a_caught_up_client_reconnects_in_one_exchange_of_constant_size():
    sizes = []
    for n in (1, 1000):
        world = World(Service())
        world.settings = Settings()
        for i in range(n):
            world.register(f"object-{i}")
            world.subscribe(f"object-{i}")
        world.service.publish(DOMAIN, GROUP, "object-0")
        world.run()
        world.run(lambda world: world.service.acknowledged.get(KEY) == 1)
        world.cut()
        world.run()
        assert [frame.WhichOneof("frame") for frame in world.session.received] == ["hello"]
        sizes.append(world.session.received[0].ByteSize())
    assert sizes[0] == sizes[1] < 120


def test_a_callback_that_fails_holds_the_cursor_until_its_object_is_parked():
    world = World(settings_=Settings(tries_max=3, retry_min_s=1))
    for name in ("a", "b"):
        world.subscribe(name)
        world.register(name)
    world.run()
    publish(world, "a")
    publish(world, "b")
    world.network()
    times = []
    for _ in range(4):
        world.begin_job()
        if world.job.notification.object_id == "a":
            times.append(world.now)
            world.end_job(fails=True)
            assert (world.client.status(world.now).cursor or 0) == (0 if len(times) < 3 else 2)
        else:
            world.end_job()
        world.now = max(world.now, world.client.next_job_at()) if world.client.next_job_at() < 1e9 else world.now
    assert [b - a for a, b in pairwise(times)] == [1, 2]
    assert world.client.status(world.now).parked == ("a",)
    assert [type(report) for report in world.client.take_reports()][-1] is ObjectParked
    world.begin_save()
    document = decode(world.save.data, ME)
    assert (document.cursor, document.pending) == (2, {"a": Kind.REGISTER})
    world.end_save()
    world.crash()
    world.settle()


def test_a_refused_registration_leaves_the_wanted_set_and_is_reported():
    world = World(Service(registrations_max=2))
    for name in ("a", "b", "c"):
        world.subscribe(name)
        world.register(name)
    world.run()
    refused = [report for report in world.reports if isinstance(report, RegistrationRefused)]
    assert [(report.object_id, report.reason) for report in refused] == [("c", "too many objects")]
    assert world.client.wanted == {"a", "b"}


def test_displaced_waits_a_minute_then_two_up_to_an_hour():
    world = World()
    world.register("a")
    waits = []
    for _ in range(8):
        world.run()
        world.service.close_all(CloseCode.DISPLACED)
        world.run(lambda world: world.client.status(world.now).phase == "waiting")
        waits.append(world.client.status(world.now).next_connect_s)
    for wait, least in zip(waits, [60, 120, 240, 480, 960, 1920, 3600, 3600], strict=True):
        assert least <= wait <= least * 1.1


def test_a_code_from_64_on_stops_the_client_for_good():
    world = World()
    world.register("a")
    world.run()
    world.service.close_all(99, "go away")
    world.run(lambda world: world.client.refused)
    world.now += 1
    world.begin_save()
    world.end_save()
    assert world.client.deadline() > world.now + 1e6
    report = world.reports[-1]
    assert isinstance(report, ServiceRefused)
    assert (report.code, report.reason) == (99, "go away")
    assert world.client.status(world.now).phase == "refused"


def test_stopping_waits_for_the_callback_then_saves_acknowledges_and_says_bye():
    world = World()
    for name in ("a", "b"):
        world.subscribe(name)
        world.register(name)
    world.run()
    publish(world, "a")
    publish(world, "b")
    world.network()
    world.begin_job()
    world.client.stop()
    session = world.session
    world.network()
    assert not session.said_bye, "a callback still runs"
    world.end_job()
    world.begin_job()
    assert world.job is None, "no other callback begins"
    world.begin_save()
    world.end_save()
    world.network()
    world.network()
    assert session.said_bye
    assert world.service.acknowledged[KEY] == 1
    assert world.client.finished
    assert decode(world.disk, ME).cursor == 1


def test_stopping_does_not_wait_for_an_abandoned_callback():
    world = World()
    world.subscribe("a")
    world.register("a")
    publish(world, "a")
    world.run(lambda world: world.client.next_job_at() < world.now)
    world.begin_job()
    world.client.stop(abandon=True)
    world.begin_save()
    world.end_save()
    world.network()
    assert world.client.finished
    assert decode(world.disk, ME).pending == {"a": Kind.REGISTER}


def play(seed: int, steps: int) -> World:
    """A random history, the same for the same seed: mostly progress, now and then trouble; in the end, peace."""
    random = Random(seed)
    world = World(Service(page_objects=random.randint(1, 3)), Settings(tries_max=random.randint(1, 3)), seed)
    trouble = random.choice([0.02, 0.1, 0.3])
    # Some applications subscribe as they register, some take their time.
    eager = random.random() < 0.7

    def network() -> None:
        few = random.random() < 0.2
        for _ in range(random.randint(1, 4)):
            world.network(random.choice([None, 7, 50]) if few else None, random.choice([None, 7, 50]) if few else None)

    def register() -> None:
        name = random.choice(NAMES)
        world.register(name)
        if eager:
            world.subscribe(name)

    def unsubscribe() -> None:
        if world.job is None:
            world.unsubscribe(random.choice(NAMES))

    def register_only() -> None:
        only = set(random.sample(NAMES, random.randint(0, len(NAMES))))
        for name in world.wanted - only:
            world.forget_told(name)
        world.wanted = only
        world.client.register_only(only)

    def publish() -> None:
        name = random.choice(NAMES)
        old = world.service.newest(DOMAIN, GROUP, name)
        incarnation = old.incarnation + 1 if old is not None and random.random() < 0.1 else None
        world.service.publish(DOMAIN, GROUP, name, {"n": 1}, incarnation=incarnation, hold=random.random() < 0.2)

    def away() -> None:
        world.service.away = True

    progress = {
        network: 40,
        world.begin_save: 8,
        lambda: world.end_save(error=random.random() < 0.1): 10,
        world.begin_job: 10,
        lambda: world.end_job(fails=random.random() < 0.25): 10,
        publish: 10,
        lambda: world.service.release(DOMAIN, GROUP, random.choice(NAMES)): 3,
        world.service.come_back: 3,
        lambda: world.pass_time(random.choice([0.1, 0.6, 1.5, 5])): 10,
    }
    troubles = {
        register: 6,
        lambda: world.unregister(random.choice(NAMES)): 2,
        register_only: 1,
        lambda: world.subscribe(random.choice(NAMES)): 3,
        unsubscribe: 2,
        world.cut: 4,
        world.crash: 3,
        away: 1,
        world.forget_registrations: 1,
        world.service.new_epoch: 1,
        lambda: world.service.close_all(random.choice([1, 2, 5, 6, 17])): 1,
        lambda: world.pass_time(random.choice([31, 61, 400])): 2,
    }
    for _ in range(random.randint(1, 4)):
        register()
    for _ in range(steps):
        actions = troubles if random.random() < trouble else progress
        random.choices(list(actions), list(actions.values()))[0]()
    world.settle()
    return world


@pytest.mark.parametrize("block", range(20))
def test_whatever_happens_everything_is_told_in_the_end(block):
    """A failure says its seed: `play(seed, 120)` plays it again."""
    for seed in range(block * 40, block * 40 + 40):
        try:
            play(seed, 120)
        except AssertionError as error:
            raise AssertionError(f"play({seed}, 120): {error}") from error


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 32), steps=st.integers(0, 300))
def test_also_in_histories_that_nobody_has_tried(seed, steps):
    play(seed, steps)
