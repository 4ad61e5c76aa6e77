"""A client: the real driver, an application with callbacks, and a state file that survives as on a disk.

The driver decides what is done, in which order. Here its actions are executed, in virtual time.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Protocol

from coldnotify._core.document.document import ClientIdentity, Document, decode
from coldnotify._core.driver import (
    AnyJob,
    AskDirectory,
    CallbackJob,
    CallCallbacks,
    CallLost,
    ChannelJob,
    Close,
    Connect,
    Driver,
    End,
    EndSending,
    MembersJob,
    Report,
    Save,
    SendBytes,
    ShareJob,
    Tell,
)
from coldnotify._core.interests.interests import QueryInterest, channel_by, channels_by
from coldnotify._core.interests.since import Since
from coldnotify._core.publishing.publications import Publications
from coldnotify._core.session.reconnect import Address, Gateways
from coldnotify._core.session.standstill import LOOK_S, Standstill
from coldnotify._core.settings import ClientSettings, MoveTimes
from coldnotify_schemas.interests import expression_of

from coldnotify_simulation.clock import Clock, SimulatedProcess
from coldnotify_simulation.link import SimulatedLink
from coldnotify_simulation.trace import Trace

SETTINGS = ClientSettings(
    connect_timeout_s=3.0,
    keepalive_s=10,
    silence_grace_s=5.0,
    request_timeout_s=8.0,
    ack_delay_s=0.5,
    save_interval_s=0.2,
    backoff_min_s=0.5,
    backoff_max_s=8.0,
    address_rest_s=5.0,
    displaced_min_s=4.0,
    displaced_max_s=20.0,
    retry_min_s=0.2,
    retry_max_s=2.0,
    move_times=MoveTimes(
        home_first_s=2.0, home_longest_s=20.0, stale_first_s=3.0, stale_longest_s=30.0, stale_patience=0.0
    ),
)
"""Shorter than by default: a schedule is a few minutes."""
_SUBSCRIBER = 1
_MISSED_SUBSCRIBER = 2
"""The subscriber of a channel's missed messages."""


class Surroundings(Protocol):
    """The world as a client sees it."""

    def connect(self, client: "SimulatedClient", address: Address, number: int) -> None:
        """Try to connect; `link_up` or `not_made` follows, or nothing at all."""

    def on_moves(self, client: "SimulatedClient", link: SimulatedLink) -> None:
        """This connection, which was made beside its session, has the session from now on."""

    def ask_directory(self, client: "SimulatedClient") -> None:
        """Ask for a gateway; `directory_says` follows."""

    def on_received(self, client: "SimulatedClient", link: SimulatedLink, data: bytes) -> None:
        """It has taken in these bytes, whole frames all of them."""

    def on_told(self, client: "SimulatedClient", job: CallbackJob, *, failed: bool) -> None:
        """A callback is entered."""

    def on_returned(self, client: "SimulatedClient", job: CallbackJob) -> None:
        """A callback has returned."""

    def on_told_members(self, client: "SimulatedClient", job: MembersJob, *, failed: bool) -> None:
        """A members callback is entered."""

    def on_told_message(self, client: "SimulatedClient", job: ChannelJob, *, failed: bool) -> None:
        """A callback of a channel is entered."""

    def on_starts(self, client: "SimulatedClient", document: Document) -> None:
        """Its process begins with this document."""

    def on_registers(self, client: "SimulatedClient", name: str) -> None:
        """Its application asks for the object."""

    def on_registers_query(self, client: "SimulatedClient", text: str) -> None:
        """Its application asks for a query that it did not want before."""

    def on_subscribes(self, client: "SimulatedClient", name: str) -> None:
        """Its application subscribes to the channel."""

    def on_saved(self, client: "SimulatedClient", document: Document, written_s: float) -> None:
        """A document is durable, which its driver began to write then."""

    def on_stopped(self, client: "SimulatedClient") -> None:
        """It has disconnected in order."""

    def on_caught_up(self, client: "SimulatedClient", since: int) -> None:
        """The library reports that it is complete."""

    def on_wakes(self, client: "SimulatedClient", slept_s: float) -> None:
        """Its machine was asleep for so long."""

    def on_rest(self, client: "SimulatedClient") -> None:
        """It has done what there was to do."""


class SimulatedClient(SimulatedProcess):
    """One application on one unit. Whenever it starts, it registers for `wish` and `wish_queries`."""

    def __init__(
        self, name: str, group: str, clock: Clock, random: Random, trace: Trace, world: Surroundings, gateways: int
    ) -> None:
        super().__init__(clock, name)
        self.identity = ClientIdentity("animal.observer", group, name)
        self.key = f"{self.identity.domain}/{group}/{name}"
        self.random = random
        self.trace = trace
        self.world = world
        self.addresses = [Address("127.0.0.1", port) for port in range(gateways)]
        self.home: Address | None = None
        self.directory = False
        self.wish: set[str] = set()
        self.wish_queries: set[str] = set()
        self.described: set[str] = set()
        """Queries for which it also asks for their members' descriptions."""
        self.wish_channels: dict[str, tuple[tuple[str, ...], Since]] = {}
        """By name: attributes, and the beginning."""
        self.broken_channels: set[str] = set()
        """Channels whose callbacks raise."""
        self.broken_queries: set[str] = set()
        """Queries whose members callbacks raise."""
        self._numbers: dict[str, int] = {}
        """The numbers of queries' subscribers."""
        self.callback_s = 0.01
        self.failing = 0.0
        """The probability that a callback raises."""
        self.driver: Driver | None = None
        self.publications = Publications()
        """Its publishes, which outlive its lives as those of an outbox do."""
        self.driver_type: Callable[..., Driver] = Driver
        self.links: dict[int, SimulatedLink] = {}
        """The connection of its session, and the one beside it, by the driver's numbers."""
        self._pending: dict[int, int] = {}
        """By number: the attempt to connect that is under way."""
        self._main = 0
        self._kept: list[bytes] = []
        """The bytes of the connection beside its session."""
        self._beside_since: int | None = None
        self.disk: bytes | None = None
        self.attempts = 0
        self.lives = 1
        """One more each time the state file is lost."""
        self.wakes = 0
        self.moves = 0
        self._writing: bytes | None = None
        self._wake_at_s = float("inf")
        self._standstill = Standstill(clock.now_s)
        self._asleep_since_s = 0.0
        self._since: int | None = None
        self._said_caught_up = True
        self._failed_in_a_row = 0
        self._mended = False
        """Callbacks that are entered from here on do not raise."""

    def know(self, addresses: list[Address], home: Address | None = None, *, directory: bool = False) -> None:
        """Sets the gateways that it knows when it starts."""
        self.addresses, self.home, self.directory = addresses, home, directory

    @property
    def link(self) -> SimulatedLink | None:
        """The connection that has its session, or is to have it."""
        return self.links.get(self._main)

    @property
    def main_link(self) -> int:
        """The driver's number of that connection."""
        return self._main

    # ---- its life

    def start(self, *, only: bool = False) -> None:
        """Starts the application: it registers for what it wants, and subscribes."""
        if self.alive:
            return
        self._born()
        self.wakes += 1
        self.trace.event("started", client=self.key, life=self.lives, together=True)
        self.trace(self.name, "starts, life", self.lives, "" if self.disk is None else self.disk.decode().strip())
        document = Document(identity=self.identity) if self.disk is None else decode(self.disk, self.identity)
        self.world.on_starts(self, document)
        gateways = Gateways([(address, 1) for address in self.addresses], self.home, self.directory)
        self.driver = self.driver_type(
            document, gateways, SETTINGS, self.random, self.clock.now_s, publications=self.publications
        )
        self._main = 0
        self._wake_at_s = float("inf")
        self._standstill = Standstill(self.clock.now_s)
        self.later(LOOK_S, self._look_now_and_then)
        self._said_caught_up = True
        if only:
            self.driver.application.register_only(self.wish)
        for name in sorted(self.driver.application.wanted - self.wish):
            # Or it was refused, and had not saved that: then it had not unregistered.
            self.trace.retract("unregister", "refused", client=self.key, object=self.key_of(name))
        for name in sorted(self.wish | self.driver.application.wanted):
            self.driver.application.subscribe(name, _SUBSCRIBER)
            if name in self.wish:
                self.driver.application.register(name)
        self.wish = set(self.driver.application.wanted)
        for name in sorted(self.wish):
            self.trace.event("register", client=self.key, object=self.key_of(name))
        for text in sorted(self.queries - self.wish_queries):
            self.trace.retract("unregister_query", client=self.key, query=text)
        self.wish_queries |= self.queries
        for text in sorted(self.wish_queries):
            self._register_query(self.driver, text)
        for channel, kept in document.channels.items():
            self.wish_channels.setdefault(channel.name, (channel.attributes, kept.since or Since("now")))
        for name in sorted(self.wish_channels):
            self._register_channel(self.driver, name)
        self.drive()

    def stop(self) -> None:
        """Its machine sleeps."""
        if self.alive and not self.stopped:
            self._asleep_since_s = self.clock.now_s
        super().stop()

    def go_on(self) -> None:
        """It wakes."""
        if self.alive and self.stopped:
            self.world.on_wakes(self, self.clock.now_s - self._asleep_since_s)
        super().go_on()

    def power_loss(self) -> None:
        """Loses everything except the state file; a write in progress may be on disk or not."""
        if not self.alive:
            return
        self.trace.event("killed", client=self.key)
        self.trace(self.name, "loses power")
        if self._writing is not None and self.random.random() < 0.5:
            self.disk = self._writing
        self._gone()

    def wipe(self) -> None:
        """A new SD card."""
        self.power_loss()
        self.trace(self.name, "is wiped")
        self.disk = None
        self.lives += 1

    def shut_down(self) -> None:
        """The application disconnects, in order."""
        if self.driver is not None and self.alive:
            self.trace(self.name, "disconnects")
            self.driver.stop()
            self.drive()

    def mend(self) -> None:
        """Makes its callbacks quick and successful from now on. What is parked by then, or by a callback that is
        running, is retried at one further contact.
        """
        self.failing, self.callback_s = 0.0, 0.01
        self.broken_channels.clear()
        self.broken_queries.clear()
        self._mended = True
        self.go_on()
        self._contact_if_parked()

    def _contact_if_parked(self) -> None:
        if self.driver is not None and self.link is not None and self.driver.status(self.clock.now_s).parked:
            self.link.cut("to have a contact")

    def _gone(self) -> None:
        self._writing = None
        links, self.links, self.driver = list(self.links.values()), {}, None
        self._pending.clear()
        self._died()
        for link in links:
            link.cut("the client is gone", gateway_notices_s=self.random.choice([0.0, 3.0, float("inf")]))

    # ---- what the application asks for

    def key_of(self, name: str) -> str:
        """An object's key."""
        return f"{self.identity.domain}/{self.identity.group}/{name}"

    def register(self, *names: str) -> None:
        """It wants more."""
        if self.driver is None:
            return
        for name in names:
            self.wish.add(name)
            self.trace(self.name, "registers for", name)
            self.trace.event("register", client=self.key, object=self.key_of(name))
            self.world.on_registers(self, name)
            self.driver.application.subscribe(name, _SUBSCRIBER)
            self.driver.application.register(name)
        self.drive()

    def unregister(self, *names: str) -> None:
        """It wants less."""
        if self.driver is None:
            return
        for name in names:
            self.wish.discard(name)
            self.trace(self.name, "unregisters", name)
            self.trace.event("unregister", client=self.key, object=self.key_of(name))
            self.driver.application.unregister(name)
        self.drive()

    def register_only(self, names: Iterable[str]) -> None:
        """It wants exactly these."""
        wanted = set(names)
        self.unregister(*sorted(self.wish - wanted))
        self.register(*sorted(wanted - self.wish))

    def register_query(self, text: str) -> None:
        """It wants a query's members."""
        if self.driver is not None:
            self.wish_queries.add(text)
            self.trace(self.name, "registers for", text)
            self._register_query(self.driver, text)
            self.drive()

    def _register_query(self, driver: Driver, text: str) -> None:
        more = {"descriptions": True} if text in self.described else {}
        self.trace.event("register_query", client=self.key, query=text, **more)
        query = QueryInterest(text)
        if query not in driver.application.queries:
            self.world.on_registers_query(self, text)
        # Each call to subscribe has a number of its own.
        number = self._numbers.setdefault(text, _SUBSCRIBER + 1 + 2 * len(self._numbers))
        driver.application.subscribe_members(query, number)
        driver.application.subscribe(query, number + 1)
        driver.application.register(query)
        driver.application.ask_descriptions(query, wanted=text in self.described)

    def unregister_query(self, text: str) -> None:
        """It wants them no more."""
        if self.driver is not None:
            self.wish_queries.discard(text)
            self.trace(self.name, "unregisters", text)
            self.trace.event("unregister_query", client=self.key, query=text)
            self.driver.application.unregister(QueryInterest(text))
            self.drive()

    def register_channel(self, name: str, attributes: tuple[str, ...], since: Since) -> None:
        """It wants a channel's messages."""
        if self.driver is not None:
            self.wish_channels[name] = attributes, since
            self.trace(self.name, "subscribes to", name, attributes, since)
            self._register_channel(self.driver, name)
            self.drive()

    def _register_channel(self, driver: Driver, name: str) -> None:
        attributes, since = self.wish_channels[name]
        self.world.on_subscribes(self, name)
        expression = expression_of(name)
        channel = channel_by(name, attributes) if expression is None else channels_by("", expression, attributes)
        driver.application.subscribe(channel, _SUBSCRIBER)
        driver.application.subscribe_missed(channel, _MISSED_SUBSCRIBER)
        driver.application.register_channel(channel, since)

    def unregister_channel(self, name: str) -> None:
        """It wants them no more."""
        if self.driver is not None:
            del self.wish_channels[name]
            self.trace(self.name, "unsubscribes from", name)
            self.driver.application.unregister_channel(name)
            self.drive()

    @property
    def queries(self) -> set[str]:
        """Their texts, as the library has them."""
        return set() if self.driver is None else {query.text for query in self.driver.application.queries}

    @property
    def wanted(self) -> set[str]:
        """The library's wanted set."""
        return set() if self.driver is None else set(self.driver.application.wanted)

    @property
    def disconnects(self) -> bool:
        """True if the application has asked it to disconnect."""
        return self.driver is None or self.driver.status(self.clock.now_s).phase == "stopping"

    @property
    def caught_up(self) -> bool:
        """True if the library reports that it is caught up."""
        if self.driver is None:
            return False
        if not self.stopped:
            self._look()
        return self.driver.caught_up(self.clock.now_s)

    # ---- the connection

    def is_pending(self, number: int, attempt: int) -> bool:
        """Returns true if this attempt may still lead to a connection."""
        return self._pending.get(number) == attempt

    def link_up(self, link: SimulatedLink, number: int) -> None:
        """The connection is established."""
        assert self.driver is not None
        self._pending.pop(number, None)
        self.links[number] = link
        if number == self._main:
            self._since = self.trace.event("connecting", client=self.key)
            self._said_caught_up = False
        else:
            self._beside_since = self.trace.event("connecting", client=self.key)
            self._kept.clear()
        self.driver.link_up(self.clock.now_s, "", number)
        self.drive()

    def not_made(self, number: int, reason: str) -> None:
        """The connection could not be made."""
        self._pending.pop(number, None)
        if self.driver is not None:
            self.driver.link_down(reason, self.clock.now_s, number)
            self._look_for_move()
            self.drive()

    def directory_says(self, address: Address | None) -> None:
        """The directory has answered."""
        if self.driver is None:
            return
        if address is None:
            self.driver.unnamed("nobody", self.clock.now_s)
        else:
            self.driver.named(address, self.clock.now_s)
        self.drive()

    def on_bytes(self, link: SimulatedLink, data: bytes) -> None:
        """Bytes came."""
        number = self._number_of(link)
        if number is None or self.driver is None:
            return
        self._look()
        is_main = number == self._main
        if not is_main:
            self._kept.append(data)
        self.driver.received(data, self.clock.now_s, number)
        if is_main:
            self.world.on_received(self, link, data)
        self._look_for_move()
        self.drive()

    def on_broken(self, link: SimulatedLink, reason: str) -> None:
        """It broke."""
        number = self._number_of(link)
        if self.driver is not None and number is not None:
            del self.links[number]
            self.trace(self.name, "has no connection:", reason)
            self.driver.link_down(reason, self.clock.now_s, number)
            self._look_for_move()
            self.drive()

    def _number_of(self, link: SimulatedLink) -> int | None:
        return next((number for number, one in self.links.items() if one is link), None)

    def _look_for_move(self) -> None:
        """The driver may have let the session go on over the connection beside it."""
        if self.driver is None or self.driver.main_link == self._main:
            return
        self._main = self.driver.main_link
        self._since, self._beside_since = self._beside_since, None
        link = self.links[self._main]
        self.trace(self.name, "moves to", link.gateway.name)
        self.moves += 1
        self.world.on_moves(self, link)
        for data in self._kept:
            self.world.on_received(self, link, data)
        self._kept.clear()

    # ---- the shell's two hands

    def drive(self) -> None:
        """Execute all actions, and come back when the next one is due."""
        driver = self.driver
        if driver is None or not self.alive or self.stopped:
            return
        self._look()
        while (action := driver.next(self.clock.now_s)) is not None:
            self._look_for_move()
            match action:
                case Save():
                    self._save(driver, action)
                case Connect(address, number):
                    self.attempts += 1
                    self._pending[number] = self.attempts
                    self.world.connect(self, address, number)
                case AskDirectory():
                    self.world.ask_directory(self)
                case SendBytes(data, number):
                    self.links[number].up(data)
                    driver.sent(number)
                case EndSending(number):
                    self.links[number].end_sending()
                case Close(reason, number):
                    self._close(driver, reason, number)
                case Report():
                    pass
                case CallLost(lost):
                    self._call_lost(lost)
                case End():
                    self.trace.event("stopped", client=self.key)
                    self.world.on_stopped(self)
                    self._gone()
                    return
        self._look_for_move()
        while (call := driver.next_call(self.clock.now_s)) is not None:
            match call:
                case CallCallbacks(job):
                    self._call(driver, job)
                case Report() | Tell():
                    pass
                case End():
                    return
        self.world.on_rest(self)
        if driver.caught_up(self.clock.now_s) and not self._said_caught_up and self._since is not None:
            self._said_caught_up = True
            self.world.on_caught_up(self, self._since)
        self._sleep(min(driver.deadline(), driver.next_call_at()))

    def _look(self) -> None:
        stood_still_s = self._standstill.look(self.clock.now_s)
        if stood_still_s and self.driver is not None:
            self.trace(self.name, "finds that it stood still for", round(stood_still_s, 1))
            self.driver.doubt(self.clock.now_s, stood_still_s)

    def _look_now_and_then(self) -> None:
        self._look()
        if self.driver is not None and self.driver.deadline() <= self.clock.now_s:
            self.drive()
        self.later(LOOK_S, self._look_now_and_then)

    def _sleep(self, until_s: float) -> None:
        # A timer may come a little early; at the very instant that it is asked for, it would be asked for for ever.
        until_s = max(until_s, self.clock.now_s + 0.001)
        if until_s < self._wake_at_s and until_s != float("inf"):
            self._wake_at_s = until_s
            self.later(until_s - self.clock.now_s, lambda: self._wake(until_s))

    def _wake(self, at_s: float) -> None:
        if self._wake_at_s == at_s:
            self._wake_at_s = float("inf")
            self.drive()

    def _close(self, driver: Driver, reason: str, number: int) -> None:
        link = self.links.pop(number, None)
        self._pending.pop(number, None)
        if link is not None:
            # What was sent arrives first.
            self.clock.later(0.5, lambda: link.cut("closed by the client", client_notices_s=float("inf")))

        def down() -> None:
            driver.link_down(reason, self.clock.now_s, number)
            self._look_for_move()
            self.drive()

        self.later(0.0, down)

    def _save(self, driver: Driver, save: Save) -> None:
        self._writing, written_s = save.data, self.clock.now_s

        def saved() -> None:
            self.disk, self._writing = save.data, None
            self.world.on_saved(self, decode(save.data, self.identity), written_s)
            driver.saved(save, self.clock.now_s)
            self.drive()

        self.later(self.random.uniform(0.001, 0.05), saved)

    def _call_lost(self, job: ShareJob) -> None:
        """For a member of shares."""

    def _call(self, driver: Driver, job: AnyJob) -> None:
        # Not as often as the library tries: it would park the object. Where others are told in between it may happen.
        fails = self._failed_in_a_row < 3 and self.failing > 0 and self.random.random() < self.failing
        self._failed_in_a_row = self._failed_in_a_row + 1 if fails else 0
        if isinstance(job, MembersJob):
            fails = fails or job.query.text in self.broken_queries
            self.world.on_told_members(self, job, failed=fails)
        elif isinstance(job, ChannelJob):
            fails = fails or job.feed.channel.name in self.broken_channels
            self.world.on_told_message(self, job, failed=fails)
        elif isinstance(job, CallbackJob):
            self.world.on_told(self, job, failed=fails)
        failed = {number: RuntimeError("the callback raised") for number in job.subscribers} if fails else {}

        def done() -> None:
            if isinstance(job, CallbackJob) and not fails:
                self.world.on_returned(self, job)
            driver.called(job, failed, self.clock.now_s)
            self.drive()
            if fails and self._mended:
                self._contact_if_parked()

        self.later(self.random.uniform(0.0, self.callback_s), done)
