"""The order of actions, one by one: what comes before what, and what never comes."""

from collections import deque
from random import Random

from coldnotify._core.document.document import ClientIdentity, Document, decode
from coldnotify._core.driver import (
    Action,
    CallCallbacks,
    Close,
    Connect,
    Driver,
    End,
    EndSending,
    Report,
    Save,
    SendBytes,
    Tell,
)
from coldnotify._core.session.reconnect import Address
from coldnotify._core.settings import LINGER_S, ClientSettings
from coldnotify.errors import CallbackFailed, StateError
from coldnotify.testing import Service, Session
from coldnotify_schemas.close_codes import CloseCode

ME = ClientIdentity("animal.observer", "region-1", "observer-1")
DOMAIN, GROUP = ME.domain, ME.group
SETTINGS = ClientSettings(connect_timeout_s=3, keepalive_s=60)


class Bench:
    """A driver, and whatever its actions lead to, done by hand."""

    def __init__(self, *names: str) -> None:
        self.now = 1000.0
        self.service = Service()
        self.session: Session | None = None
        self.untold: deque[Exception] = deque()
        document, addresses = Document(identity=ME), [Address("gateway", 1)]
        self.driver = Driver(document, addresses, SETTINGS, Random(0), self.now, self.untold)
        for name in names:
            self.driver.application.register(name)
            self.driver.application.subscribe(name, 1)

    def next(self) -> Action | None:
        return self.driver.next(self.now)

    def do(self, action: Action) -> None:
        """What a shell does, at once."""
        match action:
            case Save():
                self.driver.saved(action, self.now)
            case Connect():
                self.session = self.service.open()
                self.driver.link_up(self.now)
            case SendBytes(data):
                assert self.session is not None
                self.session.receive(data)
                self.driver.sent()
            case EndSending() | Close():
                self.end("closed")

    def end(self, reason: str) -> None:
        if self.session is not None:
            self.session.drop()
        self.session = None
        self.driver.link_down(reason, self.now)

    def run(self) -> list[Action]:
        """Go on until there is nothing to do, and nothing to hear."""
        done: list[Action] = []
        while True:
            while (action := self.next()) is not None and not isinstance(action, End):
                done.append(action)
                self.do(action)
            said = self.session.take() if self.session is not None else b""
            if not said:
                return done
            self.driver.received(said, self.now)

    def call(self) -> CallCallbacks:
        action = self.driver.next_call(self.now)
        assert isinstance(action, CallCallbacks)
        return action

    def returns(self, call: CallCallbacks, failed: BaseException | None = None) -> None:
        self.driver.called(call.job, {} if failed is None else {1: failed}, self.now)

    def live(self) -> "Bench":
        """Caught up, and told everything."""
        self.run()
        while isinstance(call := self.driver.next_call(self.now), CallCallbacks):
            self.returns(call)
        self.run()
        self.now += SETTINGS.save_interval_s
        self.run()
        assert self.driver.caught_up(self.now)
        return self


def test_operations_are_saved_before_the_hello_that_carries_them_leaves():
    bench = Bench("a")
    save = bench.next()
    assert isinstance(save, Save)
    assert decode(save.data, ME).wanted == {"a"}
    assert isinstance(bench.next(), Connect)
    bench.driver.link_up(bench.now)
    assert bench.next() is None, "one save at a time, and no Hello without it"
    bench.driver.saved(save, bench.now)
    assert isinstance(bench.next(), SendBytes)


def test_a_save_that_failed_is_reported_and_tried_again_later():
    bench = Bench("a")
    save = bench.next()
    assert isinstance(save, Save)
    error = StateError("disk full")
    bench.driver.save_failed(save, error, bench.now)
    assert bench.next() == Report(error)
    assert bench.driver.next_call(bench.now) == Tell(error)
    assert isinstance(bench.next(), Connect)
    assert bench.next() is None
    bench.now = bench.driver.deadline()
    assert isinstance(bench.next(), Save)


def test_there_is_one_connection_at_a_time():
    bench = Bench().live()
    bench.service.close_all(CloseCode.SILENT)
    assert bench.session is not None
    bench.driver.received(bench.session.take(), bench.now)
    assert bench.next() == Close("ended")
    bench.now += 10
    assert bench.next() is None, "it is not said to be over"
    bench.end("whatever")
    assert isinstance(bench.next(), Connect)
    assert bench.next() is None


def test_a_connection_that_does_not_stand_in_time_is_given_up():
    bench = Bench()
    assert isinstance(bench.next(), Connect)
    assert bench.driver.deadline() == bench.now + 3
    bench.now += 3
    assert bench.next() == Close("no connection within 3 s")
    assert bench.driver.deadline() == float("inf")
    bench.end("cancelled")
    assert bench.driver.status(bench.now).last_problem == "no connection within 3 s"
    assert bench.now < bench.driver.deadline() <= bench.now + 1


def test_bytes_of_a_closed_connection_are_ignored():
    bench = Bench()
    assert isinstance(bench.next(), Connect)
    bench.now += 3
    assert isinstance(bench.next(), Close)
    bench.driver.link_up(bench.now)
    bench.driver.received(b"no frame", bench.now)
    assert bench.next() is None
    assert bench.driver.status(bench.now).phase == "connecting", "no session begins"


def test_one_piece_after_the_other_is_sent():
    bench = Bench(*(f"object-{i:04}" + "x" * 240 for i in range(2000)))
    bench.run()
    bench.service.registered.clear()
    bench.end("cut")
    bench.now = bench.driver.deadline()
    assert isinstance(bench.next(), Connect)
    bench.session = bench.service.open()
    bench.driver.link_up(bench.now)
    sent = 0
    while (action := bench.next()) is not None:
        assert isinstance(action, SendBytes | Save)
        if isinstance(action, SendBytes):
            assert len(action.data) < 100_000
            assert bench.next() is None, "the last one is not written"
            sent += 1
        bench.do(action)
        bench.driver.received(bench.session.take(), bench.now)
    assert sent > 5


def test_callbacks_run_one_after_the_other():
    bench = Bench("a", "b").live()
    for name in ("a", "b"):
        bench.service.publish(DOMAIN, GROUP, name)
    bench.run()
    assert bench.driver.next_call_at() == float("-inf")
    first = bench.call()
    assert bench.driver.next_call_at() == float("inf")
    assert bench.driver.next_call(bench.now) is None
    bench.returns(first)
    assert bench.call().job.notification.object_id == "b"


def test_reports_are_logged_by_whoever_comes_first_and_told_before_the_next_callback():
    bench = Bench("a", "b").live()
    for name in ("a", "b"):
        bench.service.publish(DOMAIN, GROUP, name)
    bench.run()
    bench.returns(bench.call(), failed=RuntimeError("no"))
    report = bench.driver.next_call(bench.now)
    assert isinstance(report, Report)
    assert isinstance(report.error, CallbackFailed)
    assert bench.driver.next_call(bench.now) == Tell(report.error)
    assert bench.call().job.notification.object_id == "b"
    assert not any(isinstance(action, Report) for action in bench.run()), "it is logged once"


def test_errors_that_the_last_run_did_not_report_are_reported():
    bench = Bench()
    bench.untold.append(RuntimeError("of the run before"))
    bench.driver.close()
    assert isinstance(bench.driver.next_call(bench.now), Tell)
    assert isinstance(bench.driver.next_call(bench.now), End)


def test_stopping_returns_saves_acknowledges_says_bye_and_ends_in_this_order():
    bench = Bench("a").live()
    bench.service.publish(DOMAIN, GROUP, "a")
    bench.run()
    call = bench.call()
    bench.driver.stop()
    assert bench.next() is None, "the callback runs"
    bench.returns(call)
    assert bench.driver.next_call(bench.now) is None
    save = bench.next()
    assert isinstance(save, Save)
    assert decode(save.data, ME).cursor == 1
    assert bench.next() is None
    bench.driver.saved(save, bench.now)
    send = bench.next()
    assert isinstance(send, SendBytes)
    assert bench.session is not None
    session = bench.session
    session.receive(send.data)
    assert session.said_bye
    assert bench.service.acknowledged[ME.domain, ME.group, ME.client] == 1
    assert bench.next() is None, "it is not written"
    bench.driver.sent()
    assert isinstance(bench.next(), EndSending)
    assert bench.next() is None
    bench.end("the gateway closed the connection")
    assert isinstance(bench.next(), End)


def test_a_gateway_that_does_not_close_after_bye_is_waited_for_for_a_moment():
    bench = Bench().live()
    bench.driver.stop()
    send = bench.next()
    assert isinstance(send, SendBytes)
    bench.driver.sent()
    assert isinstance(bench.next(), EndSending)
    bench.driver.received(b"what is no frame would end a session", bench.now)
    assert bench.driver.deadline() == bench.now + LINGER_S
    bench.now += LINGER_S
    assert bench.next() == Close("ended")
    bench.end("aborted")
    assert isinstance(bench.next(), End)


def test_a_request_behind_bye_is_saved_before_the_end():
    bench = Bench("a").live()
    bench.driver.stop()
    assert isinstance(bench.next(), SendBytes)
    bench.driver.sent()
    assert isinstance(bench.next(), EndSending)
    bench.driver.application.register("b")
    save = bench.next()
    assert isinstance(save, Save)
    assert decode(save.data, ME).wanted == {"a", "b"}
    bench.driver.application.unregister("a")
    bench.end("the gateway closed the connection")
    assert bench.next() is None, "it is being written"
    bench.driver.saved(save, bench.now)
    save = bench.next()
    assert isinstance(save, Save)
    assert bench.next() is None
    bench.driver.save_failed(save, StateError("disk full"), bench.now)
    assert isinstance(bench.next(), Report)
    assert isinstance(bench.next(), End), "it is not tried again"


def test_a_bye_that_cannot_be_written_is_waited_for_no_longer():
    bench = Bench().live()
    bench.driver.stop()
    assert isinstance(bench.next(), SendBytes)
    assert bench.next() is None
    bench.now += LINGER_S
    assert bench.next() == Close("ended")


def test_an_abandoned_callback_is_not_waited_for():
    bench = Bench("a").live()
    bench.service.publish(DOMAIN, GROUP, "a")
    bench.run()
    call = bench.call()
    bench.driver.stop(abandon=True)
    actions = []
    while not isinstance(action := bench.next(), End):
        assert action is not None
        actions.append(type(action))
        bench.do(action)
    assert actions == [SendBytes, Close], "a Bye, and nobody waits for what it leads to"
    bench.driver.close()
    bench.returns(call)
    assert isinstance(bench.driver.next_call(bench.now), End)


def test_stopping_while_it_connects_ends_the_attempt():
    bench = Bench()
    assert isinstance(bench.next(), Connect)
    bench.driver.stop()
    assert bench.next() == Close("stopped")
    assert bench.next() is None
    bench.end("cancelled")
    assert isinstance(bench.next(), End)


def test_a_refused_client_closes_and_does_not_reconnect():
    bench = Bench().live()
    bench.service.close_all(99, "go away")
    assert bench.session is not None
    bench.driver.received(bench.session.take(), bench.now)
    assert isinstance(bench.next(), Report)
    assert bench.next() == Close("ended")
    bench.end("closed")
    assert bench.driver.needs_new_start
    assert bench.driver.decided(bench.now)
    assert bench.driver.deadline() == float("inf")
    bench.driver.stop()
    assert isinstance(bench.next(), End)
