"""The whole core against a model of the service, with time, network, disk and callbacks in the test's hands."""

from __future__ import annotations

from random import Random

import pytest
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.close_codes import CloseCode
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coldnotify._core.client import Client, Save
from coldnotify._core.delivery import Job
from coldnotify._core.document import Document, decode
from coldnotify._core.reconnect import Address
from coldnotify._core.registrations import Kind
from coldnotify._core.session import Identity
from coldnotify._core.settings import Settings
from coldnotify.errors import ObjectParked, RegistrationRefused, ServiceRefused, StateError
from coldnotify.testing import Service, Session

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
        self.told_here: dict[str, tuple[int, int]] = {}
        self.history: list[tuple[str, int | None]] = []
        self.exempt: set[str] = set()
        self.reports: list[Exception] = []
        self.boot()

    # The process

    def boot(self) -> None:
        document = Document(identity=ME) if self.disk is None else decode(self.disk, ME)
        self.client = Client(document, [Address("gateway", 1)], self.settings, self.random, self.now)
        self.session: Session | None = None
        self.save: Save | None = None
        self.job: Job | None = None
        self.told_here = {}
        for name in self.subscribed:
            self.client.subscribe(name, NAMES.index(name) if name in NAMES else 99)

    def crash(self) -> None:
        if self.session is not None:
            self.session.drop()
        self.boot()
        self.client.register_only(self.wanted)

    # The application

    def register(self, name: str) -> None:
        self.wanted.add(name)
        self.client.register(name)

    def unregister(self, name: str) -> None:
        self.wanted.discard(name)
        self.client.unregister(name)
        self.told.pop(name, None)
        self.told_here.pop(name, None)

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

    def end_save(self, error: bool = False) -> None:
        if self.save is None:
            return
        save, self.save = self.save, None
        if error:
            self.client.save_failed(save, StateError("disk full"), self.now)
            return
        self.disk = save.data
        self.saves.append(save.data)
        self.check_sentence(decode(save.data, ME))
        self.client.saved(save, self.now)

    def begin_job(self) -> None:
        if self.job is not None:
            return
        job = self.client.next_job(self.now)
        if job is None:
            return
        self.job = job
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
            if name in self.wanted and job.update.version is not None:
                self.told[name] = self.told_here[name] = max(job.update.floor, self.told_here.get(name, (-1, -1)))
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

    # What must hold

    def check_sentence(self, document: Document) -> None:
        """The sentence that the package's docstring builds on, of a document that is on disk."""
        self.exempt -= document.pending.keys() | (self.exempt - document.wanted)
        for name, floor in document.applied.items():
            assert floor <= self.told.get(name, (-1, -1)) or name not in self.wanted
        if document.epoch != self.service.epoch or document.cursor is None:
            return
        for name in document.wanted - self.exempt:
            newest = self.service.newest(DOMAIN, GROUP, name)
            if newest is None or newest.offset > document.cursor or name not in self.wanted:
                continue
            is_told = self.told.get(name, (-1, -1)) >= (newest.incarnation, newest.version)
            assert is_told or document.pending.get(name) is Kind.REGISTER, f"{name} would be lost"

    def run(self, until=lambda world: world.client.caught_up, steps: int = 3000) -> None:
        """Everything works: go on until it is so."""
        for _ in range(steps):
            self.end_save()
            self.begin_save()
            self.end_save()
            self.end_job()
            self.begin_job()
            self.end_job()
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


names = st.sampled_from(NAMES)


class EverythingIsTold(RuleBasedStateMachine):
    """Whatever happens in whatever order: the sentence holds in every document, and in the end everything is told."""

    @initialize(seed=st.integers(0, 99), page=st.integers(1, 3), most=st.sampled_from([4, 100]))
    def begin(self, seed, page, most):
        self.world = World(Service(page_objects=page, registrations_max=100), seed=seed)

    @rule(name=names)
    def register(self, name):
        self.world.register(name)

    @rule(name=names)
    def unregister(self, name):
        self.world.unregister(name)

    @rule(only=st.sets(names))
    def register_only(self, only):
        for name in self.world.wanted - only:
            self.world.unregister(name)
        self.world.wanted = set(only)
        self.world.client.register_only(only)

    @rule(name=names)
    def subscribe(self, name):
        self.world.subscribe(name)

    @rule(name=names)
    def unsubscribe(self, name):
        if self.world.job is None:
            self.world.unsubscribe(name)

    @rule(name=names, incarnation=st.sampled_from([None, None, None, 1]), hold=st.booleans())
    def publish(self, name, incarnation, hold):
        old = self.world.service.newest(DOMAIN, GROUP, name)
        if incarnation is not None and old is not None:
            incarnation += old.incarnation
        self.world.service.publish(DOMAIN, GROUP, name, {"n": 1}, incarnation=incarnation, hold=hold)

    @rule(name=names)
    def release(self, name):
        self.world.service.release(DOMAIN, GROUP, name)

    @rule(n=st.integers(1, 6), out=st.sampled_from([None, None, 5, 40]), back=st.sampled_from([None, None, 3, 30]))
    def network(self, n, out, back):
        for _ in range(n):
            self.world.network(out, back)

    @rule()
    def begin_save(self):
        self.world.begin_save()

    @rule(error=st.sampled_from([False, False, False, True]))
    def end_save(self, error):
        self.world.end_save(error)

    @rule()
    def begin_job(self):
        self.world.begin_job()

    @rule(fails=st.booleans())
    def end_job(self, fails):
        self.world.end_job(fails)

    @rule(seconds=st.sampled_from([0.1, 1, 1, 10, 61, 200]))
    def time_passes(self, seconds):
        self.world.now += seconds

    @rule()
    def connection_breaks(self):
        self.world.cut()

    @rule()
    def power_cut(self):
        self.world.crash()

    @rule()
    def matcher_away(self):
        self.world.service.away = True

    @rule()
    def matcher_back(self):
        self.world.service.come_back()

    @rule()
    def service_forgets(self):
        self.world.service.registered.pop(KEY, None)
        self.world.exempt |= self.world.wanted

    @rule()
    def new_epoch(self):
        self.world.service.new_epoch()

    @rule(code=st.sampled_from([1, 2, 5, 6, 17]))
    def closed(self, code):
        self.world.service.close_all(code)

    @rule()
    def everything_works_for_a_while(self):
        if not self.world.service.away:
            self.world.run(lambda world: world.client.caught_up or world.client.status(world.now).parked)

    @invariant()
    def counts_agree(self):
        if hasattr(self, "world"):
            registrations = self.world.client._registrations
            stages = [operation.stage for operation in registrations.pending.values()]
            assert all(registrations._stages[stage] == stages.count(stage) for stage in registrations._stages)
            status = self.world.client.status(self.world.now)
            note(str(status))

    def teardown(self):
        if hasattr(self, "world"):
            self.world.settle()


EverythingIsTold.TestCase.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestEverythingIsTold = EverythingIsTold.TestCase
