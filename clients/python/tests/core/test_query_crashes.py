"""Frames, callbacks, writes of the state, crashes and restarts in any order: once it is caught up, an application was
told the service's sets, and of each member the newest version while it was one.

Stands for: telling, membership, query_service
"""

from collections.abc import Collection
from dataclasses import replace
from random import Random

import pytest
from coldnotify._core import client
from coldnotify._core.delivery import Delivery
from coldnotify._core.document import Document, decode
from coldnotify._core.driver import (
    Call,
    Close,
    Connect,
    Driver,
    End,
    EndSending,
    MembersJob,
    Report,
    Save,
    Send,
    Tell,
)
from coldnotify._core.interests import Query
from coldnotify._core.journal import Journal
from coldnotify._core.membership import Membership
from coldnotify._core.queries import Queries
from coldnotify._core.reconnect import Address
from coldnotify._core.session import Identity
from coldnotify._core.session import Session as Session_
from coldnotify._core.settings import Settings
from coldnotify._core.telling import MembersCallbacks
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_testkit.query_service import Service, Session

ME = Identity("d", "g", "c")
SETTINGS = Settings(
    tries_max=3,
    retry_min_s=0.2,
    retry_max_s=1.0,
    save_interval_s=0.5,
    request_timeout_s=8.0,
    backoff_min_s=0.1,
    backoff_max_s=1.0,
    keepalive_s=10,
)
QUERIES = [Query("lamp"), Query("room"), Query("any")]
NAMES = [f"{letter}{digit}" for letter in "abc" for digit in range(4)]
BY_NAME = ["a0", "b1"]


class World:
    """A client, its application, its disk, and a service. One thing happens at a time."""

    def __init__(self, seed: int, *, steps: int = 150) -> None:
        self.random = Random(seed)
        self.now = 1000.0
        self.service = Service(self.random)
        self.disk: bytes | None = None
        self.told: dict[str, set[str]] = {query.text: set() for query in QUERIES}
        """By query: what the application makes of all that its members callbacks were told."""
        self.versions: dict[str, dict[str, int]] = {query.text: {} for query in QUERIES}
        """By query: the version that it was told of each member, while that is one."""
        self.by_name: dict[str, int | None] = {}
        self.with_members = {query.text: self.random.random() < 0.8 for query in QUERIES}
        self.with_values = {query.text: self.random.random() < 0.8 for query in QUERIES}
        self.wish: set[str] = set()
        self.failing = self.random.choice([0.0, 0.2])
        self.fails = self.failing > 0
        """A members callback that fails too often lets the versions pass."""
        self.takeovers_happen = self.random.random() < 0.5
        """They make a client find out what it holds wrongly."""
        self.crashes_happen = self.random.random() < 0.8
        self.log: list[str] = []
        for _ in range(self.random.randrange(15)):
            self.change()
        self.start()
        for _ in range(steps):
            self.step()
        self.settle()

    # The client

    def start(self) -> None:
        document = Document(identity=ME) if self.disk is None else decode(self.disk, ME)
        self.log.append(f"START {self.disk!r}")
        self.driver = Driver(document, [Address("h", 1)], SETTINGS, self.random, self.now)
        self.session: Session | None = None
        self.saving: Save | None = None
        self.call: Call | None = None
        self.deaf: set[str] = set()
        """What was unregistered while the call was out: what it says of that, nobody heeds."""
        for number, query in enumerate(QUERIES):
            if self.with_values[query.text]:
                self.driver.subscribe(query, 10 + number)
            if self.with_members[query.text]:
                self.driver.subscribe_members(query, 20 + number)
        for name in BY_NAME:
            self.driver.subscribe(name, 1)
        # An application whose last wish was not saved says it again.
        for query in self.driver.queries - {Query(text) for text in self.wish}:
            self.driver.unregister(query)
        for name in self.driver.wanted - self.wish:
            self.driver.unregister(name)
        for text in sorted(self.wish):
            self.driver.register(Query(text) if text in self.told else text)

    def crash(self) -> None:
        self.log.append("CRASH")
        if self.saving is not None and self.random.random() < 0.5:
            self.disk = self.saving.data
        if self.call is not None and self.random.random() < 0.5:
            self.hear(self.call)
        self.drop()
        self.start()

    def drop(self) -> None:
        if self.service.session is self.session:
            self.service.session = None
        self.session = None

    def hear(self, call: Call, failed: Collection[int] = ()) -> None:
        """The application takes in what it is told."""
        job = call.job
        self.log.append(f"HEARS {job}")
        if isinstance(job, MembersJob):
            if job.query.text in self.deaf or failed:
                return
            told = self.told[job.query.text]
            told |= job.added
            told -= job.removed
            for name in job.removed:
                self.versions[job.query.text].pop(name, None)
            return
        note = job.notification
        for number in job.subscribers:
            if number in failed or (note.object_id if number == 1 else QUERIES[number - 10].text) in self.deaf:
                continue
            if number == 1:
                self.by_name[note.object_id] = note.version
                continue
            text = QUERIES[number - 10].text
            assert note.version is not None
            if self.with_members[text] and not self.fails:
                assert note.object_id in self.told[text], f"{note} before it entered {text}"
            self.versions[text][note.object_id] = note.version

    # What happens

    def change(self) -> None:
        name, query, other = self.random.choice(NAMES), self.random.choice(QUERIES), self.random.choice(QUERIES)
        match self.random.randrange(12):
            case 0 | 1 | 2:
                self.service.publish(name)
            case 3:
                self.service.publish(name, deleted=True)
            case 4 | 5 | 6 | 7:
                self.service.enter(query.text, name)
            case 8 | 9:
                self.service.leave(query.text, name)
            case 10 | 11:
                self.service.move(name, query.text, other.text)

    def wishes(self) -> None:
        text = self.random.choice([query.text for query in QUERIES] + BY_NAME)
        interest = Query(text) if text in self.told else text
        self.log.append(f"WISH {text} {text not in self.wish}")
        if text not in self.wish:
            self.wish.add(text)
            self.driver.register(interest)
        elif self.random.random() < 0.3:
            self.wish.discard(text)
            self.driver.unregister(interest)
            self.deaf.add(text)
            # An application that unregisters forgets; here, once that is durable.
            journal = self.driver._client._journal
            while not journal.is_durable(journal.urgent):
                self.io()
                self.disk_done()
            if isinstance(interest, Query):
                self.told[text], self.versions[text] = set(), {}
            else:
                self.by_name.pop(text, None)

    def step(self) -> None:
        self.now += self.random.choice([0.0, 0.001, 0.1, 0.5])
        what = self.random.random()
        if what < 0.20:
            self.change()
        elif what < 0.24:
            self.wishes()
        elif what < 0.26:
            self.log.append("DROP")
            if self.session is not None:
                self.drop()
                self.driver.link_down("dropped", self.now)
        elif what < 0.275 and self.crashes_happen:
            self.crash()
        elif what < 0.29 and self.takeovers_happen:
            self.log.append("TAKEOVER")
            self.service.take_over()
            if self.session is not None and not self.session.live:
                self.drop()
                self.driver.link_down("whoever caught it up has gone", self.now)
        elif 0.29 <= what < 0.293 and self.takeovers_happen:
            self.log.append("EPOCH")
            self.service.new_epoch()
            if self.session is not None:
                self.drop()
                self.driver.link_down("epoch", self.now)
        elif what < 0.55:
            self.io()
        elif what < 0.65:
            self.disk_done()
        elif what < 0.85:
            self.application()
        else:
            self.deliver(self.random.choice([1, 20, 60, 300]))

    def io(self) -> bool:
        action = self.driver.next(self.now)
        match action:
            case Save():
                assert self.saving is None
                self.saving = action
            case Connect():
                self.session = self.service.open()
                self.driver.link_up(self.now)
            case Send(data):
                assert self.session is not None
                if self.session is self.service.session:
                    self.session.receive(data)
                    for frame in self.session.received:
                        self.log.append(f"SENT {frame}".replace("\n", " "))
                    self.session.received.clear()
                self.driver.sent()
            case Close() | EndSending():
                self.drop()
                self.driver.link_down("closed", self.now)
            case End():
                raise AssertionError("nobody stops it")
            case Report(error):
                self.log.append(f"REPORT {error}")
        return action is not None

    def disk_done(self) -> bool:
        save, self.saving = self.saving, None
        if save is None:
            return False
        self.disk = save.data
        self.driver.saved(save, self.now)
        return True

    def application(self) -> bool:
        if self.call is not None:
            call, self.call = self.call, None
            failed: dict[int, BaseException] = {}
            if self.random.random() < self.failing:
                failed = {number: RuntimeError("no") for number in call.job.subscribers if self.random.random() < 0.8}
                self.log.append(f"FAILS {failed}")
            self.hear(call, failed)
            self.driver.called(call.job, failed, self.now)
            return True
        match self.driver.next_call(self.now):
            case Call() as call:
                self.call, self.deaf = call, set()
                return True
            case Report() | Tell():
                return True
        return False

    def deliver(self, limit: int | None = None) -> bool:
        if self.session is None:
            return False
        data = self.session.take(limit)
        if data:
            self.driver.received(data, self.now)
        return bool(data)

    # The end

    def settle(self) -> None:
        """Nothing fails any more: the client catches up."""
        self.failing = 0.0
        self.log.append("SETTLE")
        if self.session is not None:
            self.drop()
            self.driver.link_down("the last one", self.now)
        quiet = 0
        for _ in range(5000):
            busy = self.io() | self.disk_done() | self.application() | self.deliver()
            if not busy:
                quiet += 1
                if self.driver.caught_up and quiet > 3:
                    break
                self.now += 0.1
        else:
            raise AssertionError(f"does not catch up: {self.driver.status(self.now)}")
        assert self.driver.queries == {Query(text) for text in self.wish if text in self.told}
        for text in self.wish & set(self.told):
            members = self.service.members(text)
            assert self.driver.members(Query(text)) == members, (text, self.driver.members(Query(text)), members)
            if self.with_members[text]:
                assert self.told[text] == members, text
            if self.with_values[text]:
                newest = {name: self.service.objects[name].version for name in members if name in self.service.objects}
                told = {name: version for name, version in self.versions[text].items() if name in members}
                assert told == newest, (text, told, newest)
        members = {name for text in self.wish & set(self.told) for name in self.service.members(text)}
        floors = self.driver._client._document().applied
        assert set(floors) <= members | self.wish, "floors of objects that are neither registered nor members"
        for name in self.wish & set(BY_NAME):
            known = self.service.objects.get(name)
            assert self.by_name[name] == (None if known is None else known.version), name


@pytest.mark.parametrize("seed", range(40))
def test_any_order(seed: int) -> None:
    for one in range(seed * 10, seed * 10 + 10):
        world = World(one)
        assert world.disk is not None or not world.wish


class _CursorFirst(Session_):
    """The digest of the sets is compared when the next bytes come: the cursor has passed by then."""

    _late: list[wire.CaughtUp]

    def receive(self, data: bytes, now: float) -> None:
        for caught_up in self.__dict__.pop("_late", []):
            self._queries.compare(caught_up.sets_digest)
        super().receive(data, now)

    def _on_caught_up(self, caught_up: wire.CaughtUp, now: float) -> None:
        if caught_up.HasField("sets_digest"):
            late = wire.CaughtUp()
            late.CopyFrom(caught_up)
            self.__dict__.setdefault("_late", []).append(late)
            caught_up.ClearField("sets_digest")
        super()._on_caught_up(caught_up, now)


def _without(field: str, value: object) -> property:
    kept = Membership.__dict__["kept"].fget
    return property(lambda self: replace(kept(self), **{field: value}))


def _nothing(*_: object, **__: object) -> None:
    """Does nothing."""


BUGS: dict[str, tuple[object, str, object]] = {
    "members are in the document before they are told": (Membership, "kept", _without("telling", None)),
    "an answer is merged, not put in place": (Membership, "end_answer", lambda self: self.forget_answer() or set()),
    "who leaves keeps its floor": (Queries, "gone", _nothing),
    "who enters is not told a version that others know": (Delivery, "_tell_also", _nothing),
    "the digest is compared once the cursor has passed": (client, "Session", _CursorFirst),
    "the digest is not compared": (Queries, "compare", _nothing),
    "nobody asks where sets are unknown": (Queries, "ask_all", _nothing),
    "changes hold no cursor": (MembersCallbacks, "touch", lambda self, one: self._touched.setdefault(one)),
    "what is told need not be durable": (Journal, "may_rest_on", lambda *_: True),
    "a registration is settled before versions are told": (Queries, "await_version", _nothing),
    "an answer goes on behind what was not told": (
        Queries,
        "_reach",
        lambda self, one: setattr(one, "reached", one.candidate[0]),
    ),
    "a version does not wait for its object to enter": (Queries, "is_blocked", lambda *_: False),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BUGS[bug])
    with pytest.raises((AssertionError, KeyError)):
        _play(range(5000))


def _play(seeds: range) -> None:
    for seed in seeds:
        World(seed)
