"""The threaded client from outside: what is told, callbacks, registrations, the end. Real sockets, real files.

Stands for: threaded_notify, run
"""

import json
import logging
import threading
import time

from coldnotify import CallbackFailed, Connection, Notification, Notify, ObjectParked, State
from coldnotify_testkit.threaded_clients import CLIENT, DOMAIN, GROUP, KEY, LIMIT_S
from coldnotify_testkit.waiting import wait_for


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


def test_all_callbacks_of_an_object_are_told_the_same_notification(make, service):
    first, second = [], []
    notify = make()
    registration = notify.register("a")
    registration.subscribe(first.append)
    registration.subscribe(second.append)
    service.publish(DOMAIN, GROUP, "a")
    assert notify.connect(timeout_s=LIMIT_S)
    assert first[0].group == GROUP
    assert first[0] is second[0]


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


def test_a_version_without_subscribers_waits_for_subscribe(make, service):
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
