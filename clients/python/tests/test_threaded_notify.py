"""The threaded client from outside: real sockets, real files, a service of the test's own.

Stands for: threaded_notify, run
"""

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from coldnotify import (
    CallbackFailed,
    Connection,
    Notification,
    Notify,
    ObjectParked,
    ServiceRefused,
    State,
    StateDamaged,
    StateError,
    StateInUse,
    StateMismatch,
)
from coldnotify._core.client import Client
from coldnotify.testing import FakeService, Service
from coldnotify_kafka.broker.free_ports import free_port
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_testkit.waiting import wait_for

DOMAIN, GROUP, CLIENT = "animal.observer", "region-1", "observer-1"
KEY = (DOMAIN, GROUP, CLIENT)
LIMIT_S = 60
"""No promise: only how long a test waits before it fails."""


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService(Service(page_objects=3)) as service:
        yield service


@pytest.fixture
def make(tmp_path: Path, service: FakeService) -> Iterator[Callable[..., Notify]]:
    made: list[Notify] = []

    def make(
        *,
        state: State | None = None,
        client_id: str = CLIENT,
        address: Any = None,
        on_error=None,
        tries_max=5,
        **how,
    ) -> Notify:
        how = {"backoff_min_s": 0.05, "ack_delay_s": 0.01, "address_rest_s": 0.2} | how
        connection = Connection(address or f"127.0.0.1:{service.port}", **how)
        notify = Notify(
            DOMAIN,
            GROUP,
            client_id,
            state or State(tmp_path / "state.json"),
            connection,
            on_error=on_error,
            tries_max=tries_max,
            retry_min_s=0.01,
            save_interval_s=0.01,
        )
        made.append(notify)
        return notify

    yield make
    for notify in made:
        notify.disconnect(timeout_s=0.1)


def test_the_example_of_the_readme(service, tmp_path):
    told = []
    service.publish(DOMAIN, GROUP, "camera-config", {"fps": 5}, version=42)
    notify = Notify(
        domain=DOMAIN,
        group_id=GROUP,
        client_id=CLIENT,
        state=State(filename=str(tmp_path / "registration-state.json")),
        connection=Connection(address="127.0.0.1", port=service.port, ca_cert=None, cert=None, key=None),
    )
    notify.connect()
    notify.register("camera-config").subscribe(lambda n: told.append(n))
    assert notify.wait_caught_up(LIMIT_S)
    assert told == [Notification("camera-config", 42, {"fps": 5}, deleted=False)]
    service.publish(DOMAIN, GROUP, "camera-config", {"fps": 6})
    wait_for(lambda: len(told) == 2)
    notify.unregister("camera-config")
    wait_for(lambda: not service.service.registered[KEY])
    notify.disconnect()
    assert service.service.sessions == []


def test_a_duty_cycled_unit_learns_what_it_missed_and_nothing_twice(make, service):
    told = []
    for round_ in range(3):
        for i in range(10):
            service.publish(DOMAIN, GROUP, f"o{i}", round_)
        service.publish(DOMAIN, GROUP, "o0", "again")
        notify = make()
        for i in range(10):
            notify.register(f"o{i}").subscribe(told.append)
        assert notify.connect(timeout_s=LIMIT_S)
        notify.disconnect()
        assert sorted((n.object_id, n.version) for n in told) == sorted(
            [("o0", 2 * round_ + 1), *((f"o{i}", round_) for i in range(1, 10))]
        )
        told.clear()
        wait_for(lambda: service.service.acknowledged[KEY] == service.service.partition(DOMAIN, GROUP).end)
        again = make()
        for i in range(10):
            again.register(f"o{i}").subscribe(told.append)
        assert again.connect(timeout_s=LIMIT_S)
        again.disconnect()
        assert told == []


def test_what_was_told_last_is_there_after_a_restart(make, service):
    service.publish(DOMAIN, GROUP, "camera", {"fps": 5}, version=7)
    notify = make()
    camera = notify.register("camera")
    camera.subscribe(lambda told: None)
    assert camera.current is None
    assert notify.connect(timeout_s=LIMIT_S)
    assert camera.current == Notification("camera", 7, {"fps": 5})
    notify.disconnect()
    again = make(address="127.0.0.1:1")
    camera = again.register("camera")
    again.connect()
    assert camera.current == Notification("camera", 7, {"fps": 5}), "although the network is away"
    again.unregister("camera")
    assert camera.current is None


def test_a_callback_that_blocks_does_not_stop_the_pings(make, service):
    blocked, go_on = threading.Event(), threading.Event()

    def block(_: Notification) -> None:
        blocked.set()
        go_on.wait(LIMIT_S)

    notify = make(keepalive_s=1)
    notify.register("a").subscribe(block)
    service.publish(DOMAIN, GROUP, "a")
    notify.connect()
    assert blocked.wait(LIMIT_S)
    wait_for(lambda: sum(frame.WhichOneof("frame") == "ping" for frame in service.received()) >= 2, "two pings")
    assert notify.connected
    assert not notify.caught_up
    go_on.set()
    assert notify.wait_caught_up(LIMIT_S)
    assert service.accepted == 1


def test_a_callback_that_raises_is_told_again_and_reported(make, service):
    reports, told = [], []

    def fail_twice(n: Notification) -> None:
        told.append(n.version)
        if len(told) < 3:
            raise RuntimeError("disk full")

    notify = make(on_error=reports.append)
    notify.register("a").subscribe(fail_twice)
    service.publish(DOMAIN, GROUP, "a", version=7)
    assert notify.connect(timeout_s=LIMIT_S)
    assert told == [7, 7, 7]
    wait_for(lambda: len(reports) == 2)
    assert all(isinstance(report, CallbackFailed) for report in reports)
    assert isinstance(reports[0].__cause__, RuntimeError)


def test_an_object_whose_callback_always_raises_is_parked_and_told_at_the_next_start(make, service, tmp_path):
    reports, told = [], []

    def fail(_: Notification) -> None:
        raise RuntimeError("no")

    service.publish(DOMAIN, GROUP, "a", version=7)
    service.publish(DOMAIN, GROUP, "b", version=8)
    notify = make(on_error=reports.append, tries_max=2)
    notify.register("a").subscribe(fail)
    notify.register("b").subscribe(told.append)
    assert notify.connect(timeout_s=LIMIT_S)
    assert notify.status.parked == ("a",)
    notify.disconnect()
    assert isinstance(reports[-1], ObjectParked)
    state = json.loads((tmp_path / "state.json").read_text())
    assert (state["cursor"], state["pending"], state["applied"]) == (2, {"a": "register"}, {"b": [0, 8]})
    again = make()
    again.register("a").subscribe(told.append)
    assert again.connect(timeout_s=LIMIT_S)
    assert [(n.object_id, n.version) for n in told] == [("b", 8), ("a", 7)]


def test_what_nobody_subscribed_to_waits_for_subscribe(make, service):
    service.publish(DOMAIN, GROUP, "a", version=7)
    notify = make()
    registration = notify.register("a")
    assert notify.connect(timeout_s=LIMIT_S)
    assert notify.status.waiting == 1
    told = []
    registration.subscribe(told.append)
    assert notify.wait_caught_up(LIMIT_S)
    assert [n.version for n in told] == [7]
    second = []
    subscription = registration.subscribe(second.append)
    service.publish(DOMAIN, GROUP, "a", version=8)
    wait_for(lambda: len(told) == len(second) + 1 == 2)
    subscription.dispose()
    subscription.dispose()
    service.publish(DOMAIN, GROUP, "a", version=9)
    wait_for(lambda: len(told) == 3)
    assert len(second) == 1


def test_a_broken_connection_is_made_again_and_nothing_is_missed(make, service):
    told = []
    notify = make()
    notify.register("a").subscribe(lambda n: told.append(n.version))
    assert notify.connect(timeout_s=LIMIT_S)
    for version in range(5):
        service.drop_all()
        service.publish(DOMAIN, GROUP, "a", version=version)
        wait_for(lambda version=version: told[-1] == version)
    assert told == [None, 0, 1, 2, 3, 4]


def test_killed_in_the_middle_of_a_page(make, service, tmp_path):
    """The connection and the process go at once, with part of a page told; the next process gets the rest."""
    for i in range(20):
        service.publish(DOMAIN, GROUP, f"o{i:02}")
    told, enough, never = [], threading.Event(), threading.Event()

    def callback(n: Notification) -> None:
        told.append(n.object_id)
        if len(told) == 5:
            enough.set()
            never.wait(LIMIT_S)

    notify = make()
    for i in range(20):
        notify.register(f"o{i:02}").subscribe(callback)
    notify.connect()
    assert enough.wait(LIMIT_S)
    # What the disk holds at this instant is all that the next process gets.
    wait_for(lambda: len(json.loads((tmp_path / "state.json").read_text())["applied"]) == 4)
    (tmp_path / "copy.json").write_bytes((tmp_path / "state.json").read_bytes())
    service.drop_all()
    # The dead do not come back, or they would displace the living.
    notify.disconnect(timeout_s=0)
    again = make(state=State(tmp_path / "copy.json"))
    rest = []
    for i in range(20):
        again.register(f"o{i:02}").subscribe(lambda n: rest.append(n.object_id))
    assert again.connect(timeout_s=LIMIT_S)
    assert sorted(rest) == sorted({f"o{i:02}" for i in range(20)} - set(told[:4]))
    never.set()


def test_a_half_open_connection_is_noticed(make, service):
    notify = make(keepalive_s=1, silence_grace_s=0)
    notify.register("a")
    assert notify.connect(timeout_s=LIMIT_S)
    service.silence(True)
    wait_for(lambda: "nothing heard" in (notify.status.last_problem or ""))
    service.silence(False)
    service.publish(DOMAIN, GROUP, "a", version=3)
    told = []
    notify.register("a").subscribe(told.append)
    wait_for(lambda: told)


def test_displaced_waits_before_it_comes_back(make, service, tmp_path):
    notify = make()
    notify.register("a")
    assert notify.connect(timeout_s=LIMIT_S)
    clone = make(state=State(tmp_path / "clone.json"))
    clone.register("a")
    assert clone.connect(timeout_s=LIMIT_S)
    wait_for(lambda: notify.status.phase == "waiting")
    assert 50 < notify.status.next_connect_s <= 66
    assert "DISPLACED" in notify.status.last_problem
    assert clone.connected


def test_displaced_comes_back_after_the_wait(make, service, tmp_path):
    notify = make(displaced_min_s=0.1)
    notify.register("a")
    assert notify.connect(timeout_s=LIMIT_S)
    service.close_all(CloseCode.DISPLACED)
    wait_for(lambda: service.accepted == 2)
    assert notify.wait_caught_up(LIMIT_S)


def test_a_code_from_64_on_stops_until_connect_is_called_again(make, service):
    reports = []
    notify = make(on_error=reports.append)
    notify.register("a")
    assert notify.connect(timeout_s=LIMIT_S)
    service.close_all(CloseCode.BAD_NAME, "group: no")
    wait_for(lambda: reports)
    assert isinstance(reports[0], ServiceRefused)
    assert reports[0].code == CloseCode.BAD_NAME
    assert notify.status.phase == "refused"
    assert not notify.wait_caught_up(LIMIT_S)
    assert service.accepted == 1
    assert notify.connect(timeout_s=LIMIT_S)
    assert service.accepted == 2


def test_another_address_is_tried(make, service):
    dead = free_port()
    notify = make(address=[f"127.0.0.1:{dead}", f"127.0.0.1:{service.port}", "127.0.0.1:1"])
    notify.register("a")
    assert notify.connect(timeout_s=LIMIT_S)
    assert notify.status.address == f"127.0.0.1:{service.port}"


def test_the_network_may_be_away(make, service):
    dead = free_port()
    notify = make(address=f"127.0.0.1:{dead}")
    assert notify.connect() is False
    wait_for(lambda: notify.status.last_problem)
    assert "cannot be reached" in notify.status.last_problem
    assert not notify.wait_caught_up(0.01)
    assert not notify.connected
    begun = time.monotonic()
    notify.disconnect()
    assert time.monotonic() - begun < LIMIT_S / 2


def test_that_there_is_no_connection_yet_is_said_once_for_each_outage(make, service, caplog):
    def warnings() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]

    with socket.socket() as reserved:
        # Bound, but not listening: nobody else gets the port, and Linux lets the service listen there later.
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        caplog.set_level(logging.INFO)
        notify = make(address=f"127.0.0.1:{port}", address_rest_s=0.01)
        notify.connect()
        wait_for(lambda: caplog.text.count("connecting to") >= 3)
        (first,) = warnings()
        assert first.startswith(f"not connected yet: 127.0.0.1:{port} cannot be reached")
        with FakeService(Service(), port=port) as late:
            wait_for(lambda: notify.caught_up)
            late.drop_all()
            wait_for(lambda: late.accepted >= 2 and notify.caught_up)
            assert len(warnings()) == 1, "one that breaks and is made again at once is no outage"
        wait_for(lambda: len(warnings()) == 2)
        notify.disconnect()
        assert len(warnings()) == 2


def test_a_host_that_does_not_exist(make):
    notify = make(address="no-such-host.invalid")
    notify.connect()
    wait_for(lambda: notify.status.last_problem)
    assert "cannot be found" in notify.status.last_problem


def test_connect_and_disconnect_any_number_of_times(make, service):
    notify = make()
    notify.disconnect()
    with notify:
        notify.connect()
        assert notify.wait_caught_up(LIMIT_S)
        assert service.accepted == 1
        assert threading.active_count() >= 3
    notify.disconnect()
    assert notify.status.phase == "stopped"
    wait_for(lambda: not [t for t in threading.enumerate() if t.name.endswith(f"-{CLIENT}")], "threads ended")
    with notify:
        assert notify.wait_caught_up(LIMIT_S)


def test_disconnect_waits_for_the_callback_and_acknowledges_it(make, service):
    begun = threading.Event()

    def slow(_: Notification) -> None:
        begun.set()
        time.sleep(0.2)

    notify = make(ack_delay_s=100)
    notify.register("a").subscribe(slow)
    service.publish(DOMAIN, GROUP, "a")
    notify.connect()
    assert begun.wait(LIMIT_S)
    notify.disconnect(timeout_s=LIMIT_S)
    wait_for(lambda: KEY in service.service.acknowledged)
    told = []
    notify.register("a").subscribe(told.append)
    assert notify.connect(timeout_s=LIMIT_S)
    assert told == []


def test_disconnect_does_not_wait_for_ever(make, service, caplog):
    begun, go_on = threading.Event(), threading.Event()

    def hang(_: Notification) -> None:
        begun.set()
        go_on.wait(LIMIT_S)

    notify = make()
    subscription = notify.register("a").subscribe(hang)
    service.publish(DOMAIN, GROUP, "a")
    notify.connect()
    assert begun.wait(LIMIT_S)
    with caplog.at_level(logging.WARNING, "coldnotify"):
        notify.disconnect(timeout_s=0.05)
    assert "left to itself" in caplog.text
    # The state file is free again, and what the callback was told is owed still.
    subscription.dispose()
    told = []
    notify.register("a").subscribe(told.append)
    assert notify.connect(timeout_s=LIMIT_S)
    assert len(told) == 1
    go_on.set()


def test_a_callback_may_disconnect_register_and_unregister(make, service, tmp_path):
    notify = make()

    def once(n: Notification) -> None:
        notify.register("b")
        notify.unregister("c")
        notify.disconnect()

    notify.register("c")
    notify.register("a").subscribe(once)
    service.publish(DOMAIN, GROUP, "a")
    notify.connect()
    wait_for(lambda: notify.status.phase == "stopped")
    state = json.loads((tmp_path / "state.json").read_text())
    assert state["wanted"] == ["a", "b"]
    assert state["applied"] == {"a": [0, 0]}


def test_registrations_from_many_threads(make, service):
    notify = make()
    notify.connect()

    def work(k: int) -> None:
        for i in range(50):
            notify.register(f"o{k}-{i}").subscribe(lambda n: None)
            if i % 2:
                notify.unregister(f"o{k}-{i}")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert notify.wait_caught_up(LIMIT_S)
    assert service.service.registered[KEY] == {f"o{k}-{i}" for k in range(4) for i in range(0, 50, 2)}


def test_register_only_replaces_the_wanted_set_also_while_stopped(make, service):
    notify = make()
    notify.register_only(["a", "b"])
    assert notify.connect(timeout_s=LIMIT_S)
    assert service.service.registered[KEY] == {"a", "b"}
    notify.disconnect()
    assert [r.object_id for r in notify.register_only(["c", "b"])] == ["c", "b"]
    notify.register("d")
    notify.unregister("b")
    assert notify.connect(timeout_s=LIMIT_S)
    assert service.service.registered[KEY] == {"c", "d"}
    notify.register_only([])
    wait_for(lambda: not service.service.registered[KEY])


def test_a_state_of_another_client_and_a_state_in_use(make, tmp_path):
    notify = make()
    notify.register("a")
    assert notify.connect(timeout_s=LIMIT_S)
    with pytest.raises(StateInUse, match=r"state\.json"):
        make().connect()
    notify.disconnect()
    with pytest.raises(StateMismatch, match="belongs to animal"):
        make(client_id="other").connect()
    make().connect()


def test_a_damaged_state_is_set_aside_and_everything_is_told_again(make, service, tmp_path):
    service.publish(DOMAIN, GROUP, "a", version=7)
    notify = make()
    notify.register("a").subscribe(lambda n: None)
    assert notify.connect(timeout_s=LIMIT_S)
    notify.disconnect()
    for number in (1, 2):
        (tmp_path / "state.json").write_text("{")
        reports, told = [], []
        notify = make(on_error=reports.append)
        notify.register("a").subscribe(lambda n, told=told: told.append(n.version))
        assert notify.connect(timeout_s=LIMIT_S)
        assert told == [7]
        wait_for(lambda reports=reports: reports)
        assert isinstance(reports[0], StateDamaged)
        assert (tmp_path / f"state.json.damaged-{number}").read_text() == "{"
        notify.disconnect()


def test_a_state_that_cannot_be_written_is_reported(make, service, tmp_path, monkeypatch):
    state = State(tmp_path / "state.json")
    broken = threading.Event()
    write = state.write

    def fail(data: bytes) -> None:
        if broken.is_set():
            raise StateError("state.json: cannot be written: no space left")
        write(data)

    monkeypatch.setattr(state, "write", fail)
    reports, told = [], []
    notify = make(state=state, on_error=reports.append)
    notify.register("a").subscribe(lambda n: told.append(n.version))
    assert notify.connect(timeout_s=LIMIT_S)
    broken.set()
    service.publish(DOMAIN, GROUP, "a", version=1)
    wait_for(lambda: reports and told[-1] == 1)
    assert isinstance(reports[0], StateError)
    assert service.service.acknowledged.get(KEY) is None
    broken.clear()
    wait_for(lambda: service.service.acknowledged.get(KEY) == 1)


def test_a_missing_directory_is_said_at_connect(make, tmp_path):
    with pytest.raises(StateError, match="nowhere"):
        make(state=State(tmp_path / "nowhere" / "state.json")).connect()


def test_on_error_that_raises_does_no_harm(make, service, caplog):
    def bad(_: Exception) -> None:
        raise ValueError("on_error is broken")

    told = []

    def fail_once(n: Notification) -> None:
        told.append(n)
        if len(told) == 1:
            raise RuntimeError

    notify = make(on_error=bad)
    notify.register("a").subscribe(fail_once)
    assert notify.connect(timeout_s=LIMIT_S)
    wait_for(lambda: "on_error raised" in caplog.text)


def test_frames_are_what_the_protocol_says(make, service):
    notify = make(keepalive_s=30)
    notify.register("a")
    assert notify.connect(timeout_s=LIMIT_S)
    hello = service.received()[0].hello
    assert (hello.protocol, hello.domain, hello.group, hello.client, hello.keepalive_s) == (1, *KEY, 30)
    assert isinstance(hello, wire.Hello)


def test_a_client_at_rest_sleeps(make, service, monkeypatch):
    notify = make(keepalive_s=1)
    notify.register("a")
    assert notify.connect(timeout_s=LIMIT_S)
    steps = []
    tick = Client.tick
    monkeypatch.setattr(Client, "tick", lambda client, now: steps.append(now) or tick(client, now))
    wait_for(lambda: sum(frame.WhichOneof("frame") == "ping" for frame in service.received()) >= 2)
    assert len(steps) < 100
