"""Messages, callbacks, writes of the state, losses, crashes and restarts in any order: an application is told every
message of its channels in order, or between which offsets some may be missing; and none twice but what a crash kept
from becoming durable.

Stands for: channel_cursor, feed
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import pytest
from coldnotify._core import settings as numbers
from coldnotify._core.document.document import decode
from coldnotify._core.driver import CallCallbacks, ChannelJob, Save
from coldnotify._core.interests.interests import ChannelInterest
from coldnotify._core.interests.registrations import Registrations
from coldnotify._core.interests.since import NOW, OLDEST, Since
from coldnotify._core.streams import channels
from coldnotify._core.streams.channel_cursor import ChannelCursor
from coldnotify._core.streams.channels import Channels
from coldnotify._core.streams.feed import Feed, Item, KeptChannel
from coldnotify.errors import StateDamaged
from coldnotify.message import Message, Missed, MissedReason
from coldnotify.testing import Service, Session
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_testkit.crashing_unit import ME, CrashingUnit
from coldnotify_testkit.examples import examples

KEY = ("d", "g", "c")
CHANNELS = {"a": ChannelInterest("a", ()), "b": ChannelInterest("b", ("x",)), "c": ChannelInterest("c", ("x", "y"))}
OBJECT = "o"


class Heard:
    """What the application was told of one channel, in one log."""

    def __init__(self, begin: int, *, lost: bool = False) -> None:
        self.begin = begin
        self.offsets: set[int] = set()
        self.missed: list[Missed] = []
        self.last = begin
        """No message at or below it may be told any more."""
        self.lost = lost
        """It is to be told that the log is another one, before anything else."""

    def has(self, offset: int) -> bool:
        return offset in self.offsets or any(
            (one.after is None or one.after < offset) and offset < one.before for one in self.missed
        )


class World(CrashingUnit[Session]):
    """A client, its application, its disk, and a service."""

    def __init__(self, seed: int, *, steps: int = 150) -> None:
        super().__init__(seed)
        self.service = Service(page_objects=self.random.choice([1, 3, 50]))
        self.service.repeats_messages = self.random.random() < 0.3
        self.wish: set[str] = set()
        self.heard: dict[str, Heard] = {}
        self.durable: dict[Heard, int] = {}
        """What may not be told again after a crash: it was told when the document that is on disk was made."""
        self.saving_durable: dict[Heard, int] = {}
        self.subscribed = {name for name in CHANNELS if self.random.random() < 0.9}
        self.failing = self.random.choice([0.0, 0.1, 0.4])
        self.crashes_happen = self.random.random() < 0.8
        self.losses_happen = self.random.random() < 0.5
        self.epochs_change = self.random.random() < 0.3
        self.parked = 0
        self.start()
        for _ in range(steps):
            self.step()
        self.settle()

    # The client

    def start(self) -> None:
        document = self.boot()
        registered = self.service.channels.get(KEY)
        for name, heard in list(self.heard.items()):
            kept = document.channels.get(CHANNELS[name])
            same = kept is not None and document.channels_epoch == self.service.channels_epoch
            if (kept is None or kept.since is not None) and (registered is None or name not in registered.by_name):
                del self.heard[name]  # nobody knows any more where it begins
            heard.lost = heard.lost and (kept is None or kept.since is None)
            heard.last = self.durable.get(heard, heard.begin) if same else heard.begin
        self.call_epoch: int | None = None
        """The client's when the call began: what is missed does not say its own."""
        self.driver.application.subscribe(OBJECT, 9)
        self.driver.application.register(OBJECT)
        for name in sorted(self.subscribed):
            self.subscribe(name)
        # An application whose last wish was not saved says it again.
        for name in sorted(self.wish):
            self.driver.application.register_channel(CHANNELS[name], self.since(name))

    def since(self, name: str) -> Since:
        return OLDEST if name != "c" else NOW

    def subscribe(self, name: str) -> None:
        self.driver.application.subscribe_missed(CHANNELS[name], 2)
        self.driver.application.subscribe(CHANNELS[name], 1)

    def drop(self) -> None:
        if self.session is not None:
            self.session.drop()
        self.session = None

    def hear(self, call: CallCallbacks, failed: Collection[int] = ()) -> None:
        """The application takes in what it is told."""
        job = call.job
        if not isinstance(job, ChannelJob) or failed:
            return
        said, name = job.message, job.message.channel
        self.log.append(f"HEARS {said}")
        heard = self.heard.get(name)
        if heard is None:
            return
        if isinstance(said, Message):
            if said.epoch != self.service.channels_epoch:
                return
            assert not heard.lost, f"{said}: nobody said that the log is another one"
            assert said.offset > heard.last, f"{said} is told again"
            self.check(name, said.offset - 1, f"before {said}")
            heard.offsets.add(said.offset)
            heard.last = said.offset
        elif self.call_epoch == self.service.channels_epoch:
            heard.lost = heard.lost and said.reason is not MissedReason.LOST
            heard.missed.append(said)
            if said.reason is not MissedReason.LOST:
                gone = [one for one in self.messages(name) if one.gone and one.offset < said.before]
                assert gone, f"{said}: nothing was missed"

    @property
    def epoch_of_client(self) -> int | None:
        return self.driver.status(self.now).channels_epoch

    def messages(self, name: str) -> list[Any]:
        """All that is for this subscription, whether the log still has it."""
        return self.service.partition("d", "g").log.lacking(CHANNELS[name].text, -1)

    def check(self, name: str, up_to: int, when: str) -> None:
        """All up to there was told, or told as missed."""
        heard = self.heard[name]
        for message in self.messages(name):
            if heard.begin < message.offset <= up_to:
                assert heard.has(message.offset), f"{name} {message.offset} {when}"

    def check_document(self, data: bytes) -> None:
        """What is at or below the cursor, or a pending channel's position, has been told."""
        document = decode(data, ME)
        if document.channels_epoch != self.service.channels_epoch:
            return
        for channel, kept in document.channels.items():
            heard = self.heard.get(channel.name)
            if heard is None or kept.since is not None:
                continue
            pending = channel in document.pending_channels
            bound = kept.position if pending else document.channels_cursor
            assert bound is not None
            self.check(channel.name, bound, f"in a document with {kept} and cursor {document.channels_cursor}")
            if kept.told is not None:
                self.check(channel.name, kept.told, f"in a document with {kept}")
            assert not heard.lost or kept.lost, "the document forgets that the log is another one"

    # What happens

    def send(self) -> None:
        name = self.random.choice([*CHANNELS, "a", "others"])
        to = self.random.choice([(), (), ("x",), ("z",)])
        id_ = self.random.choice(["", "", f"i{self.random.randrange(20)}"])
        data = b"x" * self.random.choice([1, 10, 3000])
        self.service.send("d", "g", name, data=data, to=to, id=id_)

    def wishes(self) -> None:
        name = self.random.choice(list(CHANNELS))
        self.log.append(f"WISH {name} {name not in self.wish}")
        if name not in self.wish:
            self.wish.add(name)
            self.driver.application.register_channel(CHANNELS[name], self.since(name))
        elif self.random.random() < 0.3:
            self.wish.discard(name)
            self.driver.application.unregister_channel(name)
            self.heard.pop(name, None)
            # Who registers again too soon goes on where the service has it: nothing is known of that here.
            for _ in range(2000):
                registered = self.service.channels.get(KEY)
                if registered is None or name not in registered.by_name:
                    break
                busy = self.io() | self.disk_done() | self.application() | self.deliver()
                self.now += 0.0 if busy else 0.1
            else:
                raise AssertionError("is not unregistered")
            while self.io() | self.disk_done() | self.deliver():
                pass

    def step(self) -> None:
        self.now += self.random.choice([0.0, 0.001, 0.1, 0.5])
        what = self.random.random()
        log = self.service.partition("d", "g").log
        if what < 0.25:
            self.send()
        elif what < 0.29:
            self.wishes()
        elif what < 0.31:
            self.log.append("DROP")
            self.lose("dropped")
        elif what < 0.33 and self.crashes_happen:
            self.crash()
        elif what < 0.34:
            self.service.retain("d", "g", log.start + self.random.randrange(1, 8))
        elif what < 0.35 and log.messages:
            message = self.random.choice(log.messages)
            message.gone = message.gone or wire.EXPIRED
        elif what < 0.355:
            self.service.publish("d", "g", OBJECT)
        elif what < 0.36:
            self.log.append("FORGET")
            self.service.registered.pop(KEY, None)
            self.service.channels.pop(KEY, None)
            kept = self.driver._client._channels.kept
            self.heard = {name: one for name, one in self.heard.items() if kept[CHANNELS[name]].since is None}
            self.lose("the service has lost all registrations")
        elif what < 0.365 and self.epochs_change:
            self.log.append("EPOCH")
            self.service.new_channels_epoch()
            # Who never heard where it begins has lost nothing.
            kept = self.driver._client._channels.kept
            self.heard = {name: Heard(-1, lost=kept[CHANNELS[name]].since is None) for name in self.heard}
            self.lose("another log")
        elif what < 0.38 and self.losses_happen and self.session is not None and self.session.feeds is not None:
            self.session.feeds.loses = 1
        elif what < 0.40:
            name = self.random.choice(list(CHANNELS))
            self.log.append(f"SUBSCRIBE {name}")
            if name in self.subscribed:
                self.subscribed.discard(name)
                self.driver.application.unsubscribe(CHANNELS[name], 1)
            else:
                self.subscribed.add(name)
                self.subscribe(name)
        elif what < 0.60:
            self.io()
        elif what < 0.68:
            self.disk_done()
        elif what < 0.85:
            self.application()
        else:
            self.deliver(self.random.choice([1, 20, 60, 300]))

    def on_save(self, save: Save) -> None:
        self.check_document(save.data)
        self.saving_durable = {heard: heard.last for heard in self.heard.values()}

    def keep(self, save: Save) -> None:
        super().keep(save)
        self.durable = self.saving_durable

    def open(self) -> Session:
        return self.service.open()

    def on_sent(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Where the service says that a channel begins, once it has resolved it."""
        registered = self.service.channels.get(KEY)
        for name in self.wish - set(self.heard):
            if registered is not None and name in registered.by_name:
                self.heard[name] = Heard(registered.by_name[name].position)

    def failures(self, call: CallCallbacks) -> dict[int, BaseException]:
        if isinstance(call.job, ChannelJob) and self.random.random() < self.failing:
            return {number: RuntimeError("no") for number in call.job.subscribers}
        return {}

    def on_call(self, call: CallCallbacks) -> None:
        self.call_epoch = self.epoch_of_client

    def deliver(self, limit: int | None = None) -> bool:
        busy = super().deliver(limit)
        if self.session is not None and self.session.closed and not busy:
            self.lose("the gateway closed the connection")
            return True
        return busy

    def is_done(self) -> bool:
        return not self.driver.status(self.now).pending

    # The end

    def settle(self) -> None:
        """Nothing fails any more: the client catches up."""
        self.failing = 0.0
        self.log.append("SETTLE")
        self.lose("the last one")
        for name in set(CHANNELS) - self.subscribed:
            self.subscribed.add(name)
            self.subscribe(name)
        self.service.send("d", "g", "others", data=b"")
        self.catch_up()
        status = self.driver.status(self.now)
        assert not status.parked
        end = self.service.partition("d", "g").log.complete
        if self.wish:
            assert status.channels_cursor == end
        for name in self.wish:
            assert not self.heard[name].lost
            self.check(name, end, "at the end")
        registered = self.service.channels.get(KEY)
        assert set(registered.by_name if registered is not None else ()) == self.wish


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "CHANNELS_BACKLOG_BYTES_MAX", 12_000)


@pytest.mark.parametrize("seed", range(examples(0.4)))
def test_any_order(seed: int) -> None:
    for one in range(seed * 10, seed * 10 + 10):
        World(one)


def _nothing(*_: object, **__: object) -> None:
    """Does nothing."""


def _lose_some(self: Channels, feed: Feed, item: Item) -> None:
    if item.end % 7:
        _PUT(self, feed, item)
    else:
        feed.received = max(feed.received, item.end)


def _without_told(self: Feed) -> KeptChannel:
    return KeptChannel(since=self.since, position=self.position, lost=self.lost)


def _told_by_received(self: Feed) -> KeptChannel:
    kept = _KEPT(self)
    return kept if kept.position is None else replace(kept, position=self.received)


def _settle_too_soon(self: Channels, feed: Feed) -> None:
    self._registrations.settle(feed.channel)
    feed.position = None


_PUT = Channels._put
_KEPT: Callable[[Feed], KeptChannel] = Feed.__dict__["kept"].fget
BUGS: dict[str, tuple[object, str, object]] = {
    "a message of a page is skipped": (Channels, "_put", _lose_some),
    "a gap is not noticed": (channels.Channels, "_gap", lambda *_: ""),
    "the cursor passes a channel that is not in the document": (Registrations, "owe", _nothing),
    "the cursor does not wait for callbacks": (ChannelCursor, "hold", _nothing),
    "a repeat is told": (Channels, "_known", lambda self, feed: feed.told if feed.told is not None else feed.received),
    "what was told is not in the document": (Feed, "kept", property(_without_told)),
    "a position is what came, not what was told": (Feed, "kept", property(_told_by_received)),
    "a channel is settled before it has come as far as the cursor": (
        Channels,
        "_settle",
        _settle_too_soon,
    ),
    "nobody is told that the log is another one": (Channels, "_loss_first", _nothing),
    "what is left is not asked for again": (Channels, "_refill", _nothing),
}


def test_a_message_parked_while_the_service_is_asked_survives_crashes() -> None:
    World(7298)


def test_another_log_while_callbacks_are_told_what_is_missed() -> None:
    World(7973)


def test_a_channel_that_begins_above_the_cursor() -> None:
    World(3447)


_FIRST_SEEDS = {"what was told is not in the document": 40}
"""Histories before these do not find it."""


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BUGS[bug])
    with pytest.raises((AssertionError, StateDamaged)):
        _play(range(_FIRST_SEEDS.get(bug, 0), 3000))


def _play(seeds: range) -> None:
    for seed in seeds:
        World(seed)
