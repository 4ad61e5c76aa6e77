"""A publish of the service for tests that waits until connected clients' callbacks have taken it."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from coldnotify import Notification, Notify
from coldnotify.aio import Notify as AsyncNotify
from coldnotify.connection import Connection
from coldnotify.state import State
from coldnotify.testing import FakeService, NotTaken
from coldnotify_testkit.threaded_clients import CLIENT, DOMAIN, GROUP, LIMIT_S
from coldnotify_testkit.waiting import wait_for

OBJECT = "camera-config"
ABOUT = DOMAIN, GROUP, OBJECT


def publish(service: FakeService, payload: object, timeout_s: float = LIMIT_S) -> int:
    return service.publish(*ABOUT, payload, wait=True, timeout_s=timeout_s)


def test_it_returns_when_callbacks_have_returned(service: FakeService, make: Callable[..., Notify]) -> None:
    begun, told = threading.Event(), list[object]()
    go_on = threading.Event()

    def slow(notification: Notification) -> None:
        if notification.payload is not None:
            begun.set()
            assert go_on.wait(LIMIT_S)
        told.append(notification.payload)

    notify = make()
    notify.register(OBJECT).subscribe(slow)
    assert notify.connect(timeout_s=LIMIT_S)
    with pytest.raises(NotTaken, match=f"^{'/'.join(ABOUT)} version 0: 1 of 1 clients .* {CLIENT}: it has"):
        publish(service, {"fps": 5}, timeout_s=0.1)
    assert begun.wait(LIMIT_S)
    threading.Timer(0.1, go_on.set).start()
    assert publish(service, {"fps": 6}) == 1
    assert told[-1] == {"fps": 6}


def test_a_callback_that_raises_is_named(service: FakeService, make: Callable[..., Notify]) -> None:
    def raises(notification: Notification) -> None:
        if notification.payload:
            raise KeyError("fps")

    notify = make(tries_max=2)
    notify.register(OBJECT).subscribe(raises)
    assert notify.connect(timeout_s=LIMIT_S)
    publish(service, None)
    service.publish(*ABOUT, {"a": 1})
    wait_for(lambda: service.service.ledger.untaken((DOMAIN, GROUP, CLIENT), OBJECT), "it is reported")
    with pytest.raises(NotTaken, match=rf"{CLIENT}: its callbacks raised \d times: KeyError: 'fps'"):
        publish(service, {"a": 2}, timeout_s=0)


def test_nobody_connected_is_nobody_to_wait_for(service: FakeService, make: Callable[..., Notify]) -> None:
    assert publish(service, 1) == 0
    notify = make()
    notify.register("another").subscribe(print)
    assert notify.connect(timeout_s=LIMIT_S)
    assert publish(service, 2) == 1
    with pytest.raises(ValueError, match=r"^timeout_s: -1"):
        publish(service, 3, timeout_s=-1)


def test_a_broken_connection_is_waited_for_and_a_goodbye_is_not(
    service: FakeService, make: Callable[..., Notify]
) -> None:
    told = list[object]()
    notify = make()
    notify.register(OBJECT).subscribe(lambda n: told.append(n.payload))
    assert notify.connect(timeout_s=LIMIT_S)
    service.silence(True)
    service.drop_all()
    with pytest.raises(NotTaken, match=f"{CLIENT}: its connection has broken"):
        publish(service, "lost", timeout_s=0)
    waiting = threading.Thread(target=publish, args=(service, "a"))
    waiting.start()
    service.silence(False)
    waiting.join(LIMIT_S)
    assert told[-1] == "a"
    notify.disconnect()
    wait_for(lambda: not service.service.sessions, "the goodbye")
    assert publish(service, "b") >= 1


def test_members_of_a_query_are_waited_for(service: FakeService, make: Callable[..., Notify]) -> None:
    told = list[object]()
    notify = make()
    notify.register_query("Room = 410").subscribe(lambda n: told.append((n.payload, n.deleted)))
    assert notify.connect(timeout_s=LIMIT_S)
    service.enter(DOMAIN, GROUP, "Room = 410", OBJECT)
    publish(service, "a")
    assert told[-1] == ("a", False)
    service.publish(*ABOUT, deleted=True, wait=True, timeout_s=LIMIT_S)


async def test_with_asyncio_it_waits_in_a_thread(service: FakeService) -> None:
    told = list[object]()
    connection = Connection("127.0.0.1", service.port, ack_delay_s=0.01)
    notify = AsyncNotify(DOMAIN, GROUP, CLIENT, State(None), connection)
    notify.register(OBJECT).subscribe(lambda n: told.append(n.payload))
    async with notify:
        await notify.wait_caught_up(LIMIT_S)
        await asyncio.to_thread(publish, service, {"fps": 5})
        assert told[-1] == {"fps": 5}
