"""The threaded client's state file: what is there after a restart or a crash, damaged, in use, not to be written."""

import json
import threading

import pytest
from coldnotify import Notification, State, StateDamaged, StateError, StateInUse, StateMismatch
from coldnotify_testkit.threaded_clients import DOMAIN, GROUP, KEY, LIMIT_S
from coldnotify_testkit.waiting import wait_for


def test_the_last_delivered_version_survives_a_restart(make, service):
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
