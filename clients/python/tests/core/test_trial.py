"""Make before break: a client tries another gateway beside its session, and moves only to one that tells it what is
fresh.

Stands for: hello
"""

import itertools
from random import Random

import pytest
from coldnotify._core.document.document import ClientIdentity, Document
from coldnotify._core.driver import (
    Action,
    AskDirectory,
    CallbackJob,
    CallCallbacks,
    Close,
    Connect,
    Driver,
    End,
    EndSending,
    Save,
    SendBytes,
    Tell,
)
from coldnotify._core.session.reconnect import Address, Gateways
from coldnotify._core.settings import ClientSettings
from coldnotify.errors import ServiceStale
from coldnotify.testing import Service, Session
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.frames import FrameBuffer, encode, parse_client_frame
from coldnotify_schemas.protocol import AGE_UNKNOWN_S, CLIENT_FRAME_BYTES_MAX

ME = ClientIdentity("animal.observer", "region-1", "observer-1")
SETTINGS = ClientSettings(connect_timeout_s=3, keepalive_s=4)
FRESH_S = SETTINGS.stale_after_s
PLACE = wire.CAPABILITY_MOVES | wire.CAPABILITY_AT_HOME
A, B, HOME = (Address(host, 1) for host in ("a", "b", "home"))


class Half(Random):
    def random(self) -> float:
        return 0.5


class Unit:
    """A client, one service, and several gateways that lead to it, as long as they are not cut off."""

    def __init__(self, *names: str, gateways: Gateways, settings: ClientSettings = SETTINGS) -> None:
        self.now = 1000.0
        self.service = Service()
        self.driver = Driver(Document(identity=ME), gateways, settings, Half(), self.now)
        self.sessions: dict[int, Session] = {}
        self.addresses: dict[int, Address] = {}
        self.cut_off: set[Address] = set()
        """Gateways without Kafka: they answer Pings, and nothing else."""
        self.silent: set[Address] = set()
        """Gateways that say nothing."""
        self.held: list[tuple[int, bytes]] = []
        self.dead: set[Address] = set()
        self.full: dict[Address, wire.Close] = {}
        """Gateways that answer Hello with this."""
        self.late_s: dict[Address, int] = {}
        """The ages that their CaughtUp says."""
        self.connects: list[tuple[float, Address]] = []
        self.questions: list[float] = []
        self.directory: Address | None = None
        self.told: list[str] = []
        self.errors: list[Exception] = []
        self.hellos: list[tuple[Address, wire.Hello]] = []
        self.was_connected = True
        for name in names:
            self.driver.application.register(name)
            self.driver.application.subscribe(name, 1)

    @property
    def address(self) -> str | None:
        return self.driver.status(self.now).address

    def go(self, seconds: float = 0.0) -> None:
        until = self.now + seconds
        for _ in range(100_000):
            self._settle()
            due = max(self.now, min(self.driver.deadline(), self.driver.next_call_at()))
            if due > until:
                break
            self.now = due
        else:
            raise AssertionError("it never rests")
        self.now = until

    def _settle(self) -> None:
        for _ in range(10_000):
            busy = False
            while (action := self.driver.next(self.now)) is not None and not isinstance(action, End):
                busy = True
                self._do(action)
            while (call := self.driver.next_call(self.now)) is not None:
                busy = True
                if isinstance(call, CallCallbacks):
                    assert isinstance(call.job, CallbackJob)
                    if call.job.notification.version is not None:
                        self.told.append(call.job.notification.object_id)
                    self.driver.called(call.job, {}, self.now)
                elif isinstance(call, Tell):
                    self.errors.append(call.error)
            for link in list(self.sessions):
                busy = self._hear(link) or busy
            self.was_connected = self.was_connected and self.driver.connected
            if not busy:
                return
        raise AssertionError("it never rests")

    def _do(self, action: Action) -> None:
        match action:
            case Save():
                self.driver.saved(action, self.now)
            case Connect(address, link):
                self.connects.append((self.now, address))
                if address in self.dead:
                    self.driver.link_down("nobody is there", self.now, link)
                else:
                    assert link not in self.sessions
                    self.sessions[link], self.addresses[link] = self.service.open(), address
                    self.driver.link_up(self.now, "", link)
            case AskDirectory():
                self.questions.append(self.now)
                if self.directory is None:
                    self.driver.unnamed("nobody", self.now, 20)
                else:
                    self.driver.named(self.directory, self.now)
            case SendBytes(data, link):
                self._send(data, link)
                self.driver.sent(link)
            case EndSending(link) | Close(link=link):
                self.end(link)

    def _send(self, data: bytes, link: int) -> None:
        address = self.addresses[link]
        for body in FrameBuffer(CLIENT_FRAME_BYTES_MAX).feed(data):
            frame = parse_client_frame(body)
            if frame.HasField("hello"):
                self.hellos.append((address, frame.hello))
                if address in self.full:
                    self.say(wire.GatewayFrame(close=self.full[address]), link)
                    self.end(link)
                    return
            if address not in self.cut_off:
                self.sessions[link].receive(encode(frame))
            elif frame.HasField("ping"):
                self.say(wire.GatewayFrame(pong=wire.Pong(age_s=AGE_UNKNOWN_S)), link)
            else:
                self.held.append((link, encode(frame)))

    def _hear(self, link: int) -> bool:
        session, address = self.sessions[link], self.addresses[link]
        if address in self.cut_off | self.silent:
            return False
        said = session.take()
        if said:
            if address in self.late_s:
                said = said.replace(
                    encode(wire.GatewayFrame(caught_up=wire.CaughtUp())),
                    encode(wire.GatewayFrame(caught_up=wire.CaughtUp(age_s=self.late_s[address]))),
                )
            self.driver.received(said, self.now, link)
        elif session.closed:
            self.end(link)
        return bool(said) or session.closed

    def heal(self) -> None:
        """Gateways have Kafka again: what they hold goes on."""
        self.cut_off.clear()
        for link, frame in self.held:
            if link in self.sessions:
                self.sessions[link].receive(frame)
        self.held.clear()

    def say(self, frame: wire.GatewayFrame, link: int) -> None:
        self.driver.received(encode(frame), self.now, link)

    def end(self, link: int) -> None:
        session = self.sessions.pop(link, None)
        if session is not None:
            session.drop()
        self.driver.link_down("closed", self.now, link)

    def publish(self, name: str) -> None:
        self.service.publish(ME.domain, ME.group, name, {"of": name})
        self.go()

    def of_a_and_b(self) -> tuple[Address, Address]:
        """Returns the gateway of the session, and the other one."""
        return (A, B) if self.address == str(A) else (B, A)


def at(*addresses: Address, home: Address | None = None, directory: bool = False) -> Gateways:
    return Gateways([(one, 1) for one in addresses], home, directory)


def away_from_home(*names: str) -> Unit:
    unit = Unit(*names, gateways=at(A, home=HOME))
    unit.dead.add(HOME)
    unit.go(10)
    assert unit.address == str(A)
    unit.dead.clear()
    return unit


def test_one_address_says_no_bit_and_never_tries_another() -> None:
    unit = Unit("o", gateways=at(A))
    unit.go(60)
    unit.cut_off.add(A)
    unit.go(3600)
    assert [address for _, address in unit.connects] == [A]
    assert [hello.capabilities & PLACE for _, hello in unit.hellos] == [0]


def test_it_goes_home_without_a_moment_without_a_session() -> None:
    unit = away_from_home("o", "p")
    unit.was_connected = True
    unit.go(29)
    assert unit.address == str(A)
    unit.go(1000)
    assert unit.address == str(HOME)
    assert unit.was_connected
    assert unit.errors == []
    assert unit.driver.caught_up(unit.now)
    assert unit.driver.status(unit.now).last_problem is None
    bits = [(address, hello.capabilities & PLACE) for address, hello in unit.hellos]
    assert bits == [(A, 0), (HOME, wire.CAPABILITY_MOVES | wire.CAPABILITY_AT_HOME)], "A is the last one left"
    unit.publish("o")
    assert len(unit.told) == 1
    connects = len(unit.connects)
    unit.go(10_000)
    assert len(unit.connects) == connects, "it stays at home"
    assert len(unit.service.sessions) == 1


def test_a_home_that_does_not_answer_is_tried_ever_more_seldom() -> None:
    unit = away_from_home("o")
    unit.dead.add(HOME)
    begin, before = unit.now, len(unit.connects)
    unit.was_connected = True
    unit.go(4000)
    tries = [when - begin for when, address in unit.connects[before:] if address == HOME]
    gaps = [round(later - one) for one, later in itertools.pairwise(tries)]
    assert gaps == [90, 180, 360, 600, 600, 600, 600, 600]
    assert unit.was_connected
    assert unit.address == str(A)
    unit.dead.clear()
    unit.go(700)
    assert unit.address == str(HOME)


def test_registrations_and_publishes_during_a_trial_come_after_the_move() -> None:
    unit = away_from_home("o")
    for number in range(200):
        unit.driver.application.register(f"p{number}")
        unit.driver.application.subscribe(f"p{number}", 1)
    unit.go(2)
    unit.publish("o")
    unit.go(70)
    assert unit.address == str(HOME)
    unit.publish("p199")
    assert unit.told == ["o", "p199"]
    assert unit.driver.caught_up(unit.now)


def test_an_operation_that_is_pending_during_the_trial_is_asked_for_behind_it() -> None:
    unit = Unit("o", gateways=at(A, B))
    unit.go(10)
    here, there = unit.of_a_and_b()
    unit.cut_off.add(here)
    unit.go(10)
    unit.driver.application.register("late")
    unit.driver.application.subscribe("late", 1)
    unit.service.publish(ME.domain, ME.group, "late", {"of": "late"})
    unit.go(4 * FRESH_S + 60)
    assert unit.address == str(there)
    assert unit.told == ["late"]
    assert unit.driver.caught_up(unit.now)


def test_a_stale_client_moves_after_a_while_and_hears_what_it_missed() -> None:
    unit = Unit("o", gateways=at(A, B))
    unit.go(10)
    here, before = unit.address, len(unit.connects)
    unit.cut_off.add(unit.of_a_and_b()[0])
    unit.service.publish(ME.domain, ME.group, "o", {"of": "o"})
    unit.was_connected = True
    cut_at = unit.now
    unit.go(3 * FRESH_S + 10)
    assert len(unit.connects) == before, "it is patient for 2 x fresh_s, and a random time"
    assert [type(error) for error in unit.errors] == [ServiceStale]
    unit.go(40)
    assert len(unit.connects) == before + 1
    assert unit.address != here
    assert unit.was_connected
    assert len(unit.told) == 1
    assert unit.driver.caught_up(unit.now)
    assert unit.connects[-1][0] - cut_at < 3 * FRESH_S + 60


def test_if_all_are_cut_off_it_stays_and_tries_ever_more_seldom() -> None:
    unit = Unit("o", gateways=at(A, B))
    unit.go(10)
    here, before = unit.address, len(unit.connects)
    unit.cut_off |= {A, B}
    unit.was_connected = True
    unit.go(6000)
    assert unit.address == here
    assert unit.was_connected
    tries = [when for when, _ in unit.connects[before:]]
    gaps = [round(later - one) for one, later in itertools.pairwise(tries)]
    assert all(later >= one for one, later in itertools.pairwise(gaps))
    assert len(tries) < 14
    assert 600 < gaps[-1] < 900


@pytest.mark.parametrize("close", [wire.Close(code=CloseCode.OVERLOADED, retry_after_s=100), wire.Close(code=4)])
def test_a_gateway_that_refuses_is_no_reason_to_move(close: wire.Close) -> None:
    unit = Unit("o", gateways=at(A, B))
    unit.go(10)
    here, there = unit.of_a_and_b()
    unit.cut_off.add(here)
    unit.full[there] = close
    unit.was_connected = True
    unit.go(1000)
    assert unit.address == str(here)
    assert unit.was_connected
    assert unit.driver.status(unit.now).last_problem is None


def test_it_does_not_move_to_a_gateway_that_is_as_stale() -> None:
    unit = Unit("o", gateways=at(A, B))
    unit.go(10)
    here, there = unit.of_a_and_b()
    unit.cut_off.add(here)
    unit.late_s[there] = int(FRESH_S)
    unit.go(400)
    assert {address for address, _ in unit.hellos} == {A, B}
    assert unit.address == str(here)
    unit.late_s[there] = int(FRESH_S) - 1
    unit.go(900)
    assert unit.address == str(there)


def test_if_its_session_ends_meanwhile_it_goes_where_it_has_said_hello() -> None:
    unit = Unit("o", gateways=at(A, B))
    unit.go(10)
    here, _ = unit.of_a_and_b()
    unit.cut_off |= {A, B}
    while len(unit.sessions) < 2:
        unit.go(1)
    main = next(link for link, address in unit.addresses.items() if address == here)
    unit.end(main)
    assert unit.address != str(here)
    unit.heal()
    unit.go(10)
    assert unit.driver.caught_up(unit.now)
    assert len(unit.connects) == 2


def test_stopping_ends_a_trial_too() -> None:
    unit = Unit("o", gateways=at(A, B))
    unit.go(10)
    unit.cut_off |= {A, B}
    while len(unit.sessions) < 2:
        unit.go(1)
    unit.driver.stop()
    unit.go(3)
    assert unit.sessions == {}
    assert isinstance(unit.driver.next(unit.now), End)


def test_one_that_sends_it_away_says_when_and_where() -> None:
    unit = Unit("o", gateways=at(A, B))
    unit.go(10)
    here, there = unit.of_a_and_b()
    (link,) = unit.sessions
    unit.say(wire.GatewayFrame(close=wire.Close(code=CloseCode.OVERLOADED, not_here_s=1800)), link)
    unit.end(link)
    unit.go(2)
    assert unit.address == str(there), "it is at the other one at once"
    unit.dead.add(there)
    unit.end(next(iter(unit.sessions)))
    before = len(unit.connects)
    unit.go(1700)
    assert {address for _, address in unit.connects[before:]} == {there, here}, "rather there than nowhere"


def test_the_only_gateway_is_left_alone_until_it_said_and_the_back_off_begins_anew() -> None:
    unit = Unit("o", gateways=at(A))
    unit.dead.add(A)
    unit.go(1000)
    unit.dead.clear()
    unit.full[A] = wire.Close(code=CloseCode.OVERLOADED, retry_after_s=30)
    unit.go(400)
    times = [when for when, _ in unit.connects]
    gaps = [later - one for one, later in itertools.pairwise(times)]
    assert gaps[-3:] == [30.5, 30.5, 30.5], "30 s and the first pause, which is up to a second"


def test_displaced_by_its_own_trial_it_comes_back_at_once() -> None:
    unit = Unit("o", gateways=at(A, B))
    unit.go(10)
    here, there = unit.of_a_and_b()
    unit.cut_off.add(here)
    unit.late_s[there] = 60_000
    while not any(address == there for address, _ in unit.hellos):
        unit.go(1)
    unit.heal()
    unit.late_s.clear()
    unit.go(5)
    assert unit.driver.connected, "and not after the minute of a clone"


def test_without_any_address_the_directory_is_asked() -> None:
    unit = Unit("o", gateways=at(directory=True))
    unit.go(50)
    assert len(unit.questions) == 3
    assert all(later - one >= 20 for one, later in zip(unit.questions, unit.questions[1:], strict=False))
    unit.directory = A
    unit.go(20)
    assert unit.address == str(A)
    assert unit.driver.caught_up(unit.now)
    assert [hello.capabilities & PLACE for _, hello in unit.hellos] == [wire.CAPABILITY_MOVES]


def test_the_directory_is_asked_at_most_once_a_second() -> None:
    unit = Unit("o", gateways=at(A, directory=True), settings=ClientSettings(backoff_max_s=0.1, backoff_min_s=0.1))
    unit.dead |= {A, B}
    unit.directory = B
    unit.go(30)
    gaps = [later - one for one, later in zip(unit.questions, unit.questions[1:], strict=False)]
    assert len(unit.questions) > 5
    assert min(gaps) >= 1
    unit.dead.discard(B)
    unit.go(3)
    assert unit.address == str(B)


def test_a_stale_client_asks_the_directory_where_else() -> None:
    unit = Unit("o", gateways=at(directory=True))
    unit.directory = A
    unit.go(10)
    unit.cut_off.add(A)
    unit.go(400)
    assert unit.address == str(A), "the directory names the same one"
    assert 1 < len(unit.questions) < 8
    unit.directory = B
    unit.go(900)
    assert unit.address == str(B)
    assert unit.driver.caught_up(unit.now)


def test_a_gateway_that_answers_no_ping_rests() -> None:
    unit = Unit("o", gateways=at(A, B))
    unit.go(10)
    here, _ = unit.of_a_and_b()
    unit.silent.add(here)
    silent_at = unit.now
    unit.go(20)
    assert unit.address != str(here), "within 14 s, and the pause of a second"
    assert unit.driver.caught_up(unit.now)
    assert unit.connects[-1][0] - silent_at < 1.5 * 4 + 10 + 4 + 1
