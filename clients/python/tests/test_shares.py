"""Shares through the API: threads, asyncio, Observables, against the service for tests.

Stands for: handed_message, leased_message, service_shares
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from coldnotify import Connection, LeasedMessage, LeaseLost, Missed, Notify, State, aio
from coldnotify.errors import RegistrationRefused, SharesUnknown
from coldnotify.testing import FakeService

LIMIT_S = 60
ME = ("d", "g")


def until(condition: Callable[[], object]) -> bool:
    waiting = threading.Event()
    for _ in range(LIMIT_S * 100):
        if condition():
            return True
        waiting.wait(0.01)
    return False


def member(service: FakeService, name: str = "c", state: State | None = None, **more: Any) -> Notify:
    connection = Connection("127.0.0.1", service.port, backoff_max_s=0.05, ack_delay_s=0.0)
    return Notify(*ME, name, state or State(None), connection, **({"save_interval_s": 0.0, "retry_min_s": 0.0} | more))


def settled(service: FakeService, name: str = "workers") -> set[int]:
    share = service.service.shares_of(*ME).by_name.get(("tasks", name))
    return set() if share is None else set(share.settled)


def begun(service: FakeService) -> bool:
    share = service.service.shares_of(*ME).by_name.get(("tasks", "workers"))
    return share is not None and bool(share.members)


def is_member(service: FakeService, name: str) -> bool:
    return begun(service) and name in service.service.shares_of(*ME).by_name["tasks", "workers"].members


def is_begun(service: FakeService, offset: int) -> bool:
    return service.service.shares_of(*ME).by_name["tasks", "workers"].leases[offset].begun


def hear(told: list[int], message: LeasedMessage) -> None:
    told.append(message.offset)


def test_each_message_is_handed_to_one_of_three() -> None:
    told: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    with FakeService() as service, ExitStack() as stack:
        for name, mine in told.items():
            notify = stack.enter_context(member(service, name))
            notify.channel("tasks", share="workers").subscribe(partial(hear, mine))
            assert until(partial(is_member, service, name))
        for number in range(60):
            service.send(*ME, "tasks", number)
        assert until(lambda: settled(service) == set(range(60)))
    assert sorted(offset for mine in told.values() for offset in mine) == list(range(60))
    assert all(told.values())


def test_raising_gives_back_and_the_tenth_failure_is_a_dead_letter() -> None:
    attempts: list[int] = []
    errors: list[Exception] = []
    letters: list[Any] = []

    def fail(message: LeasedMessage) -> None:
        attempts.append(message.attempts)
        raise RuntimeError("no")

    with FakeService() as service, member(service, on_error=errors.append) as notify:
        notify.channel("tasks.workers.dead").subscribe(letters.append)
        assert notify.wait_caught_up(LIMIT_S)
        notify.channel("tasks", share="workers").subscribe(fail)
        assert until(lambda: begun(service))
        service.send(*ME, "tasks", {"n": 1})
        assert until(lambda: letters)
    assert attempts == list(range(10))
    assert letters[0].payload == {"n": 1}
    assert letters[0].id == "workers/0"
    assert len(errors) == 10


def test_a_retry_comes_again_later_and_a_reject_never() -> None:
    told: list[tuple[int, int]] = []

    def work(message: LeasedMessage) -> None:
        told.append((message.offset, message.attempts))
        if message.payload == "reject":
            message.reject()
        elif not message.attempts:
            message.retry(after_s=0.5)

    with FakeService() as service, member(service) as notify:
        notify.channel("tasks", share="workers", lease_s=3).subscribe(work)
        assert until(lambda: begun(service))
        service.send(*ME, "tasks", "retry")
        service.send(*ME, "tasks", "reject")
        assert until(lambda: settled(service) >= {0, 1})
    assert [one for one in told if one[0] == 0] == [(0, 0), (0, 1)]
    assert [one for one in told if one[0] == 1] == [(1, 0)]


def test_done_returns_once_it_is_settled() -> None:
    known: list[bool] = []
    with FakeService() as service, member(service) as notify:

        def work(message: LeasedMessage) -> None:
            message.done(LIMIT_S)
            with service.lock:
                known.append(message.offset in settled(service))
            raise RuntimeError("has no effect any more")

        notify.channel("tasks", share="workers").subscribe(work)
        assert until(lambda: begun(service))
        service.send(*ME, "tasks", 1)
        assert until(lambda: known)
    assert known == [True]


def test_a_lost_lease_is_told_beside_the_callback_and_done_raises() -> None:
    lost, raised, called = threading.Event(), threading.Event(), threading.Event()

    def work(message: LeasedMessage) -> None:
        if message.attempts:
            return
        called.set()
        lost.wait(LIMIT_S)
        with pytest.raises(LeaseLost):
            message.done(LIMIT_S)
        raised.set()

    with FakeService() as service, member(service, "a") as first, member(service, "b") as second:
        # Two messages in hand: once all leases end, each goes to the other one, which waits in nobody's way.
        tasks = first.channel("tasks", share="workers", lease_s=3)
        tasks.subscribe(work, on_lost=lambda message: lost.set() if message.is_lost else None)
        assert until(lambda: begun(service))
        service.send(*ME, "tasks", 1)
        assert called.wait(LIMIT_S)
        second.channel("tasks", share="workers", lease_s=3).subscribe(work)
        assert until(lambda: "b" in service.service.shares_of(*ME).by_name["tasks", "workers"].members)
        service.expire_leases(*ME)
        assert lost.wait(LIMIT_S)
        assert raised.wait(LIMIT_S)


def test_a_message_stays_in_hand_across_connections() -> None:
    told: list[int] = []
    going_on = threading.Event()

    def work(message: LeasedMessage) -> None:
        told.append(message.offset)
        going_on.wait(LIMIT_S)

    with FakeService() as service, member(service) as notify:
        notify.channel("tasks", share="workers").subscribe(work)
        assert until(lambda: begun(service))
        service.send(*ME, "tasks", 1)
        assert until(lambda: told)
        service.drop_all()
        assert until(lambda: notify.connected and begun(service))
        going_on.set()
        assert until(lambda: settled(service) == {0})
    assert told == [0]


def test_disconnecting_gives_back_what_waits_and_settles_what_is_done() -> None:
    began, going_on = threading.Event(), threading.Event()

    def work(_: LeasedMessage) -> None:
        began.set()
        going_on.wait(LIMIT_S)

    with FakeService() as service:
        with member(service) as notify:
            tasks = notify.channel("tasks", share="workers", prefetch=5)
            tasks.subscribe(work)
            assert until(lambda: begun(service))
            for number in range(3):
                service.send(*ME, "tasks", number)
            assert began.wait(LIMIT_S)
            share = service.service.shares_of(*ME).by_name["tasks", "workers"]
            assert until(lambda: len(share.held_by("c")) == 3)
            threading.Timer(0.2, going_on.set).start()
        assert until(lambda: settled(service) == {0})
        assert share.held_by("c") == []


def test_keys_keep_their_order_also_over_a_retry() -> None:
    told: list[int] = []

    def work(message: LeasedMessage) -> None:
        if not message.offset and not message.attempts:
            message.retry(0.2)
        else:
            told.append(message.offset)

    with FakeService() as service, member(service, "a") as first, member(service, "b") as second:
        for notify in (first, second):
            notify.channel("tasks", share="workers", lease_s=3).subscribe(work)
        assert until(lambda: begun(service))
        for number in range(4):
            second.send("tasks", number, key="lamp").wait(LIMIT_S)
        assert until(lambda: len(told) == 4)
    assert told == [0, 1, 2, 3]


def test_missing_messages_are_told_to_one_member() -> None:
    missed: list[Missed] = []
    with FakeService() as service, member(service) as notify:
        service.send(*ME, "tasks", 1)
        service.send(*ME, "tasks", 2)
        service.service.expire(*ME, 1)
        tasks = notify.channel("tasks", share="workers", since="oldest")
        tasks.subscribe(lambda _: None, on_missed=missed.append)
        assert until(lambda: settled(service) == {0, 1})
    assert [(one.channel, one.after, one.before) for one in missed] == [("tasks", 0, 2)]


def test_the_share_and_its_lease_survive_in_the_state_file(tmp_path: Path) -> None:
    told: list[int] = []
    path = tmp_path / "state.json"
    with FakeService() as service:
        with member(service, state=State(path)) as notify:
            tasks = notify.channel("tasks", share="workers", lease_s=60, prefetch=7)
            tasks.subscribe(lambda message: told.append(message.offset))
            assert until(lambda: begun(service))
        service.send(*ME, "tasks", 1)
        with notify:
            assert until(lambda: told == [0])
            share = service.service.shares_of(*ME).by_name["tasks", "workers"]
            assert (share.members["c"].lease_s, share.members["c"].prefetch) == (60, 7)
            notify.unregister_channel("tasks", share="workers")
            assert until(lambda: not share.members)
        service.send(*ME, "tasks", 2)
    assert told == [0]


def test_other_attributes_than_the_shares_are_refused() -> None:
    errors: list[Exception] = []
    with (
        FakeService() as service,
        member(service, "a") as first,
        member(service, "b", on_error=errors.append) as second,
    ):
        first.channel("tasks", share="workers").subscribe(print)
        assert until(lambda: begun(service))
        second.channel("tasks", share="workers", attributes=["lamp"]).subscribe(print)
        assert until(lambda: errors)
    (error,) = errors
    assert isinstance(error, RegistrationRefused)
    assert (error.channel, error.share) == ("tasks", "workers")


def test_an_older_service_is_reported() -> None:
    errors: list[Exception] = []
    with FakeService() as service:
        service.service.knows_shares = False
        with member(service, on_error=errors.append) as notify:
            notify.channel("tasks", share="workers").subscribe(print)
            assert until(lambda: errors)
    assert isinstance(errors[0], SharesUnknown)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"lease_s": 2}, r"lease_s: 2 is not a whole number from 3 to 43200"),
        ({"lease_s": 30.0}, r"lease_s: "),
        ({"lease_s": True}, r"lease_s: "),
        ({"prefetch": 0}, r"prefetch: 0 is not a whole number from 1 to 1000"),
        ({"prefetch": 1_001}, r"prefetch: "),
        ({"share": ""}, r"share: "),
        ({"share": "a/b"}, r"share: "),
        ({"share": "s" * 45}, r"share: has 45 characters"),
        ({"share": 7}, r"share: "),
        ({"since": "then"}, r"since: "),
        ({"attributes": "abc"}, r"attributes: "),
        ({"share": None, "lease_s": 30}, r"share: is missing"),
        ({"share": None, "prefetch": 1}, r"share: is missing"),
    ],
)
def test_impossible_parameters_are_named(more: dict[str, Any], words: str) -> None:
    notify = Notify(*ME, "c", State(None))
    with pytest.raises(ValueError, match="^" + words):
        notify.channel("tasks", **({"share": "workers"} | more))


def test_callbacks_that_cannot_be_called_are_named() -> None:
    share = Notify(*ME, "c", State(None)).channel("tasks", share="workers", attributes=["b", "a"])
    assert (share.channel, share.name, share.attributes) == ("tasks", "workers", frozenset("ab"))
    assert repr(share) == "ChannelShare('workers' of 'tasks')"
    with pytest.raises(ValueError, match=r"^on_lost: "):
        share.subscribe(print, on_lost=1)  # type: ignore[arg-type]


def test_a_line_that_costs_nothing_has_more_in_hand() -> None:
    with FakeService() as service:
        connection = Connection("127.0.0.1", service.port, profile="web")
        with Notify(*ME, "c", State(None), connection) as notify:
            notify.channel("tasks", share="workers").subscribe(print)
            assert until(lambda: begun(service))
            holds = [frame.hold for frame in service.received() if frame.HasField("hold")]
    assert [(one.lease_s, one.prefetch) for one in holds[0].shares] == [(30, 16)]


def test_coroutines_settle_and_hear_of_lost_leases() -> None:
    async def run(service: FakeService) -> list[str]:
        told: list[str] = []
        lost, over = asyncio.Event(), asyncio.Event()

        async def work(message: aio.LeasedMessage) -> None:
            if message.payload == "done":
                await message.done(LIMIT_S)
                told.append(f"done {message.offset in settled(service)}")
                return
            if message.attempts:
                told.append("again")
                over.set()
                return
            # Its begin is said before the callback is called; it counts once the service has handled that.
            assert await asyncio.to_thread(until, partial(is_begun, service, message.offset))
            service.expire_leases(*ME)
            await lost.wait()
            with pytest.raises(LeaseLost):
                await message.done(LIMIT_S)
            told.append("lost")

        async def on_lost(_: aio.LeasedMessage) -> None:
            lost.set()

        connection = Connection("127.0.0.1", service.port, ack_delay_s=0.0)
        async with aio.Notify(*ME, "c", State(None), connection) as notify:
            notify.channel("tasks", share="workers", lease_s=3).subscribe(work, on_lost=on_lost)
            assert await asyncio.to_thread(until, lambda: begun(service))
            service.send(*ME, "tasks", "done")
            service.send(*ME, "tasks", "lose")
            async with asyncio.timeout(LIMIT_S):
                await over.wait()
        return told

    with FakeService() as service:
        assert asyncio.run(run(service)) == ["done True", "lost", "again"]


def test_an_observer_that_returns_settles() -> None:
    told: list[int] = []
    with FakeService() as service, member(service) as notify:
        notify.channel("tasks", share="workers").observable().subscribe(lambda one: told.append(one.offset))
        assert until(lambda: begun(service))
        service.send(*ME, "tasks", 1)
        assert until(lambda: settled(service) == {0})
    assert told == [0]


def test_an_unanswered_settlement_times_out() -> None:
    raised: list[BaseException] = []

    def work(message: LeasedMessage) -> None:
        service.service.away = True
        try:
            message.done(0.05)
        except TimeoutError as error:
            raised.append(error)

    with FakeService() as service, member(service) as notify:
        notify.channel("tasks", share="workers").subscribe(work)
        assert until(lambda: begun(service))
        service.send(*ME, "tasks", 1)
        assert until(lambda: raised)
        with service.lock:
            service.service.come_back()
        assert until(lambda: settled(service) == {0})
