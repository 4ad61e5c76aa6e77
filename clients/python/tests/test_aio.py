"""The asyncio client from outside. What both forms share is tested in test_sync.py."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from coldnotify import CallbackFailed, ServiceRefused, StateInUse
from coldnotify._core.client import Client
from coldnotify.aio import Connection, Notification, Notify, State
from coldnotify.testing import FakeService, Service
from coldnotify_kafka.broker.free_ports import free_port
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_testkit.waiting import until

DOMAIN, GROUP, CLIENT = "animal.observer", "region-1", "observer-1"
KEY = (DOMAIN, GROUP, CLIENT)
LIMIT_S = 60
"""No promise: only how long a test waits before it fails."""


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService(Service(page_objects=3)) as service:
        yield service


@pytest.fixture
async def make(tmp_path: Path, service: FakeService) -> AsyncIterator[Callable[..., Notify]]:
    made: list[Notify] = []

    def make(*, on_error=None, tries_max=5, state=None, port=None, **how) -> Notify:
        how = {"backoff_min_s": 0.05, "ack_delay_s": 0.01} | how
        notify = Notify(
            DOMAIN,
            GROUP,
            CLIENT,
            state or State(tmp_path / "state.json"),
            Connection("127.0.0.1", port or service.port, **how),
            on_error=on_error,
            tries_max=tries_max,
            retry_min_s=0.01,
            save_interval_s=0.01,
        )
        made.append(notify)
        return notify

    yield make
    for notify in made:
        await notify.disconnect(timeout_s=0.1)


@pytest.mark.parametrize(("data", "payload"), [(b"\xff\x00", b"\xff\x00"), (b'{"a":1}', {"a": 1}), (b"{", b"{")])
async def test_bytes_are_told_and_published(make, service, data, payload):
    told: list[Notification] = []
    service.publish(DOMAIN, GROUP, "a", data, version=1)
    notify = make()
    registration = notify.register("a")
    registration.subscribe(told.append)
    assert await notify.connect(LIMIT_S)
    await until(lambda: told)
    assert (told[0].data, told[0].payload) == (data, payload)
    assert registration.current == told[0]
    async with asyncio.timeout(LIMIT_S):
        await notify.publish("b", data)
    assert service.service.partition(DOMAIN, GROUP).objects["b"].payload == data


async def test_all_callbacks_of_an_object_are_told_the_same_notification(make, service):
    first, second = [], []
    notify = make()
    registration = notify.register("a")
    registration.subscribe(first.append)
    registration.subscribe(second.append)
    service.publish(DOMAIN, GROUP, "a")
    assert await notify.connect(LIMIT_S)
    assert first[0].group == GROUP
    assert first[0] is second[0]


async def test_members_callbacks_may_be_coroutine_functions(make, service):
    told: list[object] = []

    async def changed(added: set[str], removed: set[str]) -> None:
        await asyncio.sleep(0)
        told.append((added, removed))

    service.publish(DOMAIN, GROUP, "a", 1, version=7)
    service.enter(DOMAIN, GROUP, "lamps", "a")
    notify = make()
    lamps = notify.register_query("lamps")
    lamps.subscribe_members(changed)
    lamps.subscribe(lambda n: told.append((n.object_id, n.version)))
    assert await notify.connect(LIMIT_S)
    assert told == [({"a"}, set()), ("a", 7)]
    service.leave(DOMAIN, GROUP, "lamps", "a")
    await until(lambda: told[-1] == (set(), {"a"}))
    assert lamps.members == set()


async def test_functions_and_coroutine_functions_are_told(make, service):
    told = []

    async def later(n: Notification) -> None:
        await asyncio.sleep(0.01)
        told.append(("later", n.version))

    service.publish(DOMAIN, GROUP, "a", {"fps": 5}, version=42)
    async with make() as notify:
        notify.register("a").subscribe(lambda n: told.append(("now", n.payload)))
        notify.register("a").subscribe(later)
        assert await notify.wait_caught_up(LIMIT_S)
        assert sorted(told, key=str) == [("later", 42), ("now", {"fps": 5})]
        assert notify.connected
        service.publish(DOMAIN, GROUP, "a", version=43)
        await until(lambda: ("later", 43) in told)
    assert notify.status.phase == "stopped"
    assert service.service.sessions == []


async def test_a_duty_cycled_unit(make, service):
    told = []
    for round_ in range(3):
        for i in range(10):
            service.publish(DOMAIN, GROUP, f"o{i}")
        notify = make()
        for i in range(10):
            notify.register(f"o{i}").subscribe(lambda n: told.append(n.version))
        assert await notify.connect(timeout_s=LIMIT_S)
        await notify.disconnect()
        assert told == [round_] * 10
        told.clear()


async def test_a_callback_that_waits_does_not_stop_the_pings(make, service):
    go_on = asyncio.Event()

    async def wait(_: Notification) -> None:
        await go_on.wait()

    notify = make(keepalive_s=1)
    notify.register("a").subscribe(wait)
    await notify.connect()
    await until(lambda: sum(frame.WhichOneof("frame") == "ping" for frame in service.received()) >= 2)
    assert not notify.caught_up
    go_on.set()
    assert await notify.wait_caught_up(LIMIT_S)


async def test_a_callback_that_raises_is_told_again_and_reported(make, service):
    reports, told = [], []

    async def fail_once(n: Notification) -> None:
        told.append(n)
        if len(told) == 1:
            raise RuntimeError("no")
        if len(told) == 2:
            raise asyncio.CancelledError

    async def on_error(report: Exception) -> None:
        await asyncio.sleep(0)
        reports.append(report)

    notify = make(on_error=on_error)
    notify.register("a").subscribe(fail_once)
    assert await notify.connect(timeout_s=LIMIT_S)
    assert len(told) == 3
    await until(lambda: len(reports) == 2)
    assert all(isinstance(report, CallbackFailed) for report in reports)


async def test_a_broken_connection_is_made_again(make, service):
    told = []
    notify = make()
    notify.register("a").subscribe(lambda n: told.append(n.version))
    assert await notify.connect(timeout_s=LIMIT_S)
    for version in range(3):
        service.drop_all()
        service.publish(DOMAIN, GROUP, "a", version=version)
        await until(lambda version=version: told[-1] == version)
    assert told == [None, 0, 1, 2]


async def test_a_half_open_connection_is_noticed(make, service):
    notify = make(keepalive_s=1, silence_grace_s=0)
    assert await notify.connect(timeout_s=LIMIT_S)
    service.silence(True)
    await until(lambda: "nothing heard" in (notify.status.last_problem or ""))


async def test_a_connection_that_cannot_be_made(make, service):
    service.silence(True)
    notify = make(connect_timeout_s=0.1)
    await notify.connect()
    assert not await notify.wait_caught_up(0.05)
    await notify.disconnect()
    service.stop()
    await notify.connect()
    await until(lambda: "cannot be reached" in (notify.status.last_problem or ""))


async def test_a_code_from_64_on_stops_until_connect_is_called_again(make, service):
    reports = []
    notify = make(on_error=reports.append)
    assert await notify.connect(timeout_s=LIMIT_S)
    service.close_all(CloseCode.BAD_NAME, "group: no")
    await until(lambda: reports)
    assert isinstance(reports[0], ServiceRefused)
    assert not await notify.wait_caught_up(LIMIT_S)
    assert await notify.connect(timeout_s=LIMIT_S)


async def test_a_callback_that_hangs_is_cancelled_at_disconnect_and_told_again(make, service, tmp_path):
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def hang(_: Notification) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    notify = make()
    notify.register("a").subscribe(hang)
    service.publish(DOMAIN, GROUP, "a")
    await notify.connect()
    await asyncio.wait_for(begun.wait(), LIMIT_S)
    await notify.disconnect(timeout_s=0.05)
    assert cancelled.is_set()
    assert json.loads((tmp_path / "state.json").read_text())["pending"] == {"a": "register"}


async def test_a_callback_may_disconnect(make, service):
    notify = make()

    async def once(_: Notification) -> None:
        await notify.disconnect()

    notify.register("a").subscribe(once)
    await notify.connect()
    await until(lambda: notify.status.phase == "stopped")
    assert len(asyncio.all_tasks()) == 1


async def test_other_threads_may_register(make, service):
    notify = make()
    assert await notify.connect(timeout_s=LIMIT_S)
    await asyncio.to_thread(lambda: notify.register("a"))
    assert await notify.wait_caught_up(LIMIT_S)
    assert service.service.registered[KEY] == {"a"}


async def test_a_state_in_use(make):
    await make().connect()
    with pytest.raises(StateInUse):
        await make().connect()


async def test_many_callbacks_let_the_loop_breathe(make, service):
    for i in range(300):
        service.publish(DOMAIN, GROUP, f"o{i}")
    service.service.page_objects = 100
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    told_at = []
    notify = make()
    for i in range(300):
        notify.register(f"o{i}").subscribe(lambda n: told_at.append(turns))
    counter = asyncio.create_task(count())
    assert await notify.connect(timeout_s=LIMIT_S)
    counter.cancel()
    assert len(set(told_at)) > 250


async def test_a_client_at_rest_sleeps(make, service, monkeypatch):
    notify = make(keepalive_s=1)
    notify.register("a")
    assert await notify.connect(timeout_s=LIMIT_S)
    steps = []
    tick = Client.tick
    monkeypatch.setattr(Client, "tick", lambda client, now: steps.append(now) or tick(client, now))
    await until(lambda: sum(frame.WhichOneof("frame") == "ping" for frame in service.received()) >= 2)
    assert len(steps) < 100


async def test_connect_while_it_waits_for_its_next_try_means_now(make):
    port = free_port()
    notify = make(port=port, backoff_min_s=600, backoff_max_s=600)
    await notify.connect()
    # The pause is drawn: until it is a long one.
    while (notify.status.next_connect_s or 0) <= LIMIT_S:
        await notify.connect()
        await asyncio.sleep(0.02)
    with FakeService(Service(), port=port):
        assert await notify.connect(LIMIT_S)
        await notify.disconnect()
