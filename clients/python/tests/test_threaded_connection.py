"""The threaded client's connection: broken, half open, refused, displaced, nowhere to be made; and at rest."""

import logging
import socket
import time

from coldnotify import ServiceRefused, State
from coldnotify._core.client import Client
from coldnotify.testing import FakeService, Service
from coldnotify_kafka.broker.free_ports import free_port
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_testkit.threaded_clients import DOMAIN, GROUP, KEY, LIMIT_S
from coldnotify_testkit.waiting import wait_for


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


def test_connect_while_it_waits_for_its_next_try_means_now(make, service):
    port = free_port()
    notify = make(address=f"127.0.0.1:{port}", backoff_min_s=600, backoff_max_s=600, address_rest_s=0.01)
    notify.connect()
    # The pause is drawn: until it is a long one.
    wait_for(lambda: (notify.status.next_connect_s or 0) > LIMIT_S or notify.connect())
    with FakeService(Service(), port=port):
        assert not notify.wait_caught_up(0)
        assert notify.connect(timeout_s=LIMIT_S)
        notify.disconnect()
