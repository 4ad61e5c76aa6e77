"""Registrations as Observables."""

import sys
import threading

import pytest
import reactivex.operators as ops
from coldnotify import Connection, Notify, State
from coldnotify.testing import FakeService

LIMIT_S = 60


def test_an_observable_is_told_like_a_callback():
    told, third = [], threading.Event()
    with FakeService() as service:
        notify = Notify("d", "g", "c", State(None), Connection("127.0.0.1", service.port))
        with notify:
            observable = notify.register("a").observable()
            subscription = observable.pipe(ops.map(lambda n: n.version), ops.filter(lambda v: v is not None)).subscribe(
                told.append
            )
            assert notify.wait_caught_up(LIMIT_S)
            for version in (1, 2):
                service.publish("d", "g", "a", version=version)
                assert _until(lambda version=version: version in told)
            subscription.dispose()
            notify.register("a").subscribe(lambda n: third.set() if n.version == 3 else None)
            service.publish("d", "g", "a", version=3)
            assert third.wait(LIMIT_S)
    assert told == [1, 2]


def test_an_observable_is_told_bytes():
    told, payloads = [], [b"\xff\x00", b"{", {"a": 1}]
    with FakeService() as service:
        notify = Notify("d", "g", "c", State(None), Connection("127.0.0.1", service.port))
        with notify:
            notify.register("a").observable().pipe(ops.filter(lambda n: n.version is not None)).subscribe(told.append)
            assert notify.wait_caught_up(LIMIT_S)
            for version, payload in enumerate(payloads, 1):
                service.publish("d", "g", "a", payload, version=version)
                assert _until(lambda version=version: len(told) == version)
    assert [one.payload for one in told] == payloads
    assert [one.data for one in told[:2]] == payloads[:2]


def test_the_versions_of_a_querys_members_are_an_observable():
    told = []
    with FakeService() as service:
        service.publish("d", "g", "a", version=5)
        service.enter("d", "g", "lamps", "a")
        notify = Notify("d", "g", "c", State(None), Connection("127.0.0.1", service.port))
        with notify:
            subscription = notify.register_query("lamps").observable().subscribe(lambda n: told.append(n.object_id))
            assert _until(lambda: told == ["a"])
            subscription.dispose()


def _until(condition):
    event = threading.Event()
    for _ in range(LIMIT_S * 100):
        if condition():
            return True
        event.wait(0.01)
    return False


def test_without_reactivex_the_error_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "coldnotify.rx", raising=False)
    monkeypatch.setitem(sys.modules, "reactivex", None)
    registration = Notify("d", "g", "c", State(None)).register("a")
    with pytest.raises(ImportError, match=r"pip install 'coldnotify\[reactivex\]'"):
        registration.observable()
