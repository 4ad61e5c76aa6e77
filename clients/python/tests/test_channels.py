"""Channels through the API: threads, asyncio, Observables, against the service for tests.

Stands for: message
"""

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from coldnotify import Connection, Message, MessagesMissed, Missed, MissedReason, Notify, State, aio
from coldnotify._core import settings as numbers
from coldnotify.errors import ChannelsUnknown, RegistrationRefused
from coldnotify.testing import FakeService, Service

LIMIT_S = 60
ME = ("d", "g")


def until(condition: Callable[[], object]) -> bool:
    waiting = threading.Event()
    for _ in range(LIMIT_S * 100):
        if condition():
            return True
        waiting.wait(0.01)
    return False


def client(service: FakeService, state: State | None = None, **more: Any) -> Notify:
    connection = Connection("127.0.0.1", service.port, backoff_max_s=0.05, ack_delay_s=0.0)
    return Notify(*ME, "c", state or State(None), connection, **({"save_interval_s": 0.0} | more))


def test_every_message_in_order():
    told: list[Message] = []
    with FakeService() as service, client(service) as notify:
        tasks = notify.channel("tasks")
        tasks.subscribe(told.append)
        assert notify.wait_caught_up(LIMIT_S)
        for number in range(50):
            service.send(*ME, "tasks", {"n": number}, id=f"i{number}", source="back-end")
            service.send(*ME, "others", {"n": number})
        assert until(lambda: len(told) == 50)
    assert [message.payload["n"] for message in told] == list(range(50))
    assert [message.offset for message in told] == list(range(0, 100, 2))
    assert [message.previous for message in told] == [None, *range(0, 98, 2)]
    assert (told[3].channel, told[3].id, told[3].source) == ("tasks", "i3", "back-end")
    assert abs(told[3].published_at - datetime.now(UTC)) < timedelta(hours=1)
    assert told[3].position == "00000001.6"


def test_a_prefix_and_a_pattern_hear_channels_that_come_later():
    told: list[Message] = []
    high: list[Message] = []
    with FakeService() as service, client(service) as notify:
        service.send(*ME, "alarms/1/high", 0)
        notify.channels("alarms/", since="oldest").subscribe(told.append)
        pattern = notify.channels(pattern="^alarms/[^/]*/high$", since="oldest")
        pattern.subscribe(high.append)
        assert pattern.name == "^alarms/[^/]*/high$"
        assert notify.wait_caught_up(LIMIT_S)
        for number, name in enumerate(("alarms/new/high", "alarms/new/low", "alarmsx", "alarms/2/high"), 1):
            service.send(*ME, name, number)
        assert until(lambda: len(told) == 4 and len(high) == 3)
        notify.unregister_channels("alarms/")
        notify.unregister_channels(pattern="^alarms/[^/]*/high$")
        assert notify.wait_caught_up(LIMIT_S)
    assert [(one.channel, one.payload) for one in told] == [
        ("alarms/1/high", 0), ("alarms/new/high", 1), ("alarms/new/low", 2), ("alarms/2/high", 4),
    ]  # fmt: skip
    assert [one.channel for one in high] == ["alarms/1/high", "alarms/new/high", "alarms/2/high"]


async def test_a_prefix_in_asyncio():
    told: list[Message] = []
    with FakeService() as service:
        connection = aio.Connection("127.0.0.1", service.port, backoff_max_s=0.05, ack_delay_s=0.0)
        async with aio.Notify(*ME, "c", aio.State(None), connection, save_interval_s=0.0) as notify:
            notify.channels("alarms/").subscribe(told.append)
            assert await notify.wait_caught_up(LIMIT_S)
            service.send(*ME, "alarms/1/high", 0)
            assert await asyncio.to_thread(until, lambda: told)
    assert told[0].channel == "alarms/1/high"


def test_a_payload_is_json_or_bytes():
    told: list[Message] = []
    with FakeService() as service, client(service) as notify:
        notify.channel("tasks").subscribe(told.append)
        assert notify.wait_caught_up(LIMIT_S)
        for data in (b'{"a": 1}', b"\xff\x00", b"", b"text", b"NaN", b"1\x00", b"[" * 100_000):
            service.send(*ME, "tasks", data=data)
        assert until(lambda: len(told) == 7)
    assert [message.payload for message in told[:-1]] == [{"a": 1}, b"\xff\x00", b"", b"text", b"NaN", b"1\x00"]
    assert told[0].data == b'{"a": 1}'
    assert (told[0].id, told[0].source) == (None, None)


def test_since():
    service = Service()
    for number in range(6):
        service.send(*ME, "tasks", number, published_ms=1_000_000 * (number + 1))
    service.retain(*ME, 1)
    at = datetime.fromtimestamp(3500, UTC)
    for since, wanted in (("oldest", [1, 2, 3, 4, 5, 6]), ("newest", [5, 6]), ("now", [6]), (at, [3, 4, 5, 6])):
        told: list[int] = []
        with FakeService(service) as fake, client(fake) as notify:
            notify.channel("tasks", since=since).subscribe(lambda message, told=told: told.append(message.payload))
            assert notify.wait_caught_up(LIMIT_S)
            fake.send(*ME, "tasks", 6)
            assert until(lambda told=told: told[-1:] == [6])
            assert told == wanted, since
            notify.unregister_channel("tasks")
            assert until(lambda notify=notify: notify.status.pending == 0)
        del service.partition(*ME).log.messages[6:]


def test_a_position_of_a_message_is_where_it_goes_on():
    told: list[Message] = []
    with FakeService() as service:
        for number in range(5):
            service.send(*ME, "tasks", number)
        with client(service) as notify:
            notify.channel("tasks", since="oldest").subscribe(told.append)
            assert until(lambda: len(told) == 5)
        again: list[int] = []
        with client(service) as notify:
            notify.channel("tasks", since=told[2].position).subscribe(lambda message: again.append(message.payload))
            assert notify.wait_caught_up(LIMIT_S)
    assert again == [3, 4]


def test_a_position_of_another_log_is_said_to_be_lost():
    told: list[object] = []
    with FakeService() as service:
        for number in range(5):
            service.send(*ME, "tasks", number)
        with client(service) as notify:
            channel = notify.channel("tasks", since="00000009.3")
            channel.subscribe(lambda message: told.append(message.payload), on_missed=told.append)
            assert until(lambda: len(told) == 6)
    assert told == [Missed("tasks", None, 0, MissedReason.LOST), 0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("since", "wrong"),
    [
        ("yesterday", "since: 'yesterday' is not"),
        (5, "since: 5 is not"),
        (None, "since: None is not"),
        ("1.2", "since: '1.2' is not"),
        ("00000001.9999999999999999999", "since: .* is beyond"),
        (datetime(2026, 1, 1), "since: .* has no time zone"),
        (datetime(1969, 1, 1, tzinfo=UTC), "since: .* is before 1970"),
    ],
)
def test_a_wrong_since(since, wrong):
    with pytest.raises(ValueError, match=f"^{wrong}"):
        Notify(*ME, "c", State(None)).channel("tasks", since=since)


@pytest.mark.parametrize(
    ("name", "attributes", "wrong"),
    [
        ("", (), "channel: "),
        (5, (), "channel: "),
        ("a\x00b", (), "channel: "),
        ("tasks", "camera", "attributes: "),
        ("tasks", [1], "attributes: "),
        ("tasks", ["a b c"] * 2, "attributes: "),
        ("tasks", [f"a{n}" for n in range(17)], "attributes: are 17"),
    ],
)
def test_invalid_channels_raise(name, attributes, wrong):
    with pytest.raises(ValueError, match=f"^{wrong}"):
        Notify(*ME, "c", State(None)).channel(name, attributes=attributes)


def test_selective_delivery():
    told: list[int] = []
    with FakeService() as service, client(service) as notify:
        notify.channel("tasks", attributes={"camera", "solar"}).subscribe(lambda message: told.append(message.payload))
        assert notify.wait_caught_up(LIMIT_S)
        service.send(*ME, "tasks", 1, to={"camera"})
        service.send(*ME, "tasks", 2, to={"radio"})
        service.send(*ME, "tasks", 3)
        assert until(lambda: told == [1, 3])
        notify.channel("tasks", attributes={"radio"})
        assert until(lambda: notify.status.pending == 0)
        service.send(*ME, "tasks", 4, to={"camera"})
        service.send(*ME, "tasks", 5, to={"radio"})
        assert until(lambda: told == [1, 3, 5])


def test_a_gap_is_delivered_before_the_next_message():
    told: list[object] = []
    state = State(None)
    with FakeService() as service:
        with client(service, state) as notify:
            notify.channel("tasks").subscribe(lambda message: told.append(message.payload), on_missed=told.append)
            assert notify.wait_caught_up(LIMIT_S)
            service.send(*ME, "tasks", 0)
            assert until(lambda: told == [0])
        for number in range(1, 5):
            service.send(*ME, "tasks", number)
        service.retain(*ME, 3)
        with client(service, state) as notify:
            notify.channel("tasks").subscribe(lambda message: told.append(message.payload), on_missed=told.append)
            assert notify.wait_caught_up(LIMIT_S)
    assert told == [0, Missed("tasks", 0, 3, MissedReason.RETENTION), 3, 4]
    assert told[1].reason == "RETENTION"


def test_without_on_missed_it_is_an_error():
    told: list[object] = []
    errors: list[Exception] = []
    state = State(None)
    with FakeService() as service:
        with client(service, state) as notify:
            notify.channel("tasks").subscribe(told.append)
            assert notify.wait_caught_up(LIMIT_S)
        service.send(*ME, "tasks", 0)
        service.send(*ME, "tasks", 1)
        service.retain(*ME, 1)
        with client(service, state, on_error=errors.append) as notify:
            notify.channel("tasks").subscribe(told.append)
            assert until(lambda: told and errors)
    assert [message.payload for message in told] == [1]
    (missed,) = errors
    assert isinstance(missed, MessagesMissed)
    assert missed.missed.before == 1


def test_a_restart_tells_nothing_twice_and_leaves_nothing_out(tmp_path: Path):
    told: list[int] = []
    with FakeService(Service(page_objects=3)) as service:
        sent = 0
        for _ in range(4):
            for _ in range(10):
                service.send(*ME, "tasks", sent)
                sent += 1
            with client(service, State(tmp_path / "state.json")) as notify:
                notify.channel("tasks", since="oldest").subscribe(lambda message: told.append(message.payload))
                assert notify.wait_caught_up(LIMIT_S)
                service.drop_all()
                service.send(*ME, "tasks", sent)
                sent += 1
                assert until(partial(_has, told, sent))
    assert told == list(range(sent))


def test_a_lost_message_is_noticed_and_comes():
    told: list[int] = []
    with FakeService() as service, client(service) as notify:
        notify.channel("tasks").subscribe(lambda message: told.append(message.payload))
        assert notify.wait_caught_up(LIMIT_S)
        service.send(*ME, "tasks", 0)
        assert until(lambda: told == [0])
        with service.lock:
            (session,) = service.service.sessions
            session.feeds.loses = 1
        service.send(*ME, "tasks", 1)
        service.send(*ME, "tasks", 2)
        assert until(lambda: told == [0, 1, 2])
        assert service.accepted == 2


def test_a_slow_callback_is_asked_again_and_told_everything(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(numbers, "CHANNELS_BACKLOG_BYTES_MAX", 20_000)
    told: list[int] = []
    quick: list[int] = []
    may_go = threading.Event()

    def slow(message: Message) -> None:
        assert may_go.wait(LIMIT_S)
        told.append(message.payload["n"])

    with FakeService(Service(page_objects=20)) as service, client(service) as notify:
        notify.channel("slow").subscribe(slow)
        notify.channel("quick").subscribe(lambda message: quick.append(message.payload))
        assert notify.wait_caught_up(LIMIT_S)
        for number in range(300):
            service.send(*ME, "slow", {"n": number, "fill": "x" * 500})
        driver = notify._driver
        assert driver is not None
        channels = driver._client._channels
        assert until(lambda: channels._feeds["slow"].deaf)
        assert channels._size_bytes <= 20_000
        may_go.set()
        assert until(lambda: len(told) == 300)
        assert told == list(range(300))
        service.send(*ME, "quick", 1)
        assert until(lambda: quick == [1])


def test_a_refused_channel_and_a_service_that_knows_none():
    errors: list[Exception] = []
    with FakeService() as service, client(service, on_error=errors.append) as notify:
        service.service.refused_channels["tasks"] = "too many"
        notify.channel("tasks")
        assert until(lambda: errors)
        assert isinstance(errors[0], RegistrationRefused)
        assert (errors[0].channel, errors[0].reason) == ("tasks", "too many")
        assert "channel 'tasks'" in str(errors[0])
    errors.clear()
    told: list[int] = []
    with FakeService() as service:
        service.service.knows_channels = False
        with client(service, on_error=errors.append) as notify:
            notify.channel("tasks", since="oldest").subscribe(lambda message: told.append(message.payload))
            assert until(lambda: errors)
            assert isinstance(errors[0], ChannelsUnknown)
            service.send(*ME, "tasks", 0)
            with service.lock:
                service.service.knows_channels = True
            service.drop_all()
            assert until(lambda: told == [0])
    assert len(errors) == 1


def test_asyncio():
    async def run() -> list[object]:
        told: list[object] = []
        done = asyncio.Event()

        async def take(message: Message) -> None:
            await asyncio.sleep(0)
            told.append(message.payload)
            if message.payload == 2:
                done.set()

        with FakeService() as service:
            service.send(*ME, "tasks", 0)
            service.send(*ME, "tasks", 1)
            connection = aio.Connection("127.0.0.1", service.port)
            async with aio.Notify(*ME, "c", State(None), connection) as notify:
                channel = notify.channel("tasks", since="oldest")
                channel.subscribe(take, on_missed=told.append)
                assert await notify.wait_caught_up(LIMIT_S)
                service.send(*ME, "tasks", 2)
                async with asyncio.timeout(LIMIT_S):
                    await done.wait()
        return told

    assert asyncio.run(run()) == [0, 1, 2]


def test_an_observable():
    told: list[int] = []
    with FakeService() as service, client(service) as notify:
        subscription = notify.channel("tasks").observable().subscribe(lambda message: told.append(message.payload))
        assert notify.wait_caught_up(LIMIT_S)
        service.send(*ME, "tasks", 1)
        assert until(lambda: told == [1])
        subscription.dispose()


def test_a_subscription_that_ends_and_a_callback_that_comes_late():
    told: list[int] = []
    with FakeService() as service, client(service) as notify:
        channel = notify.channel("tasks")
        assert notify.wait_caught_up(LIMIT_S)
        service.send(*ME, "tasks", 0)
        assert until(lambda: notify.status.waiting == 1)
        with channel.subscribe(lambda message: told.append(message.payload)):
            assert until(lambda: told == [0])
            assert until(lambda: notify.status.pending == 0)
        service.send(*ME, "tasks", 1)
        assert until(lambda: notify.status.waiting == 1)
        with pytest.raises(ValueError, match=r"^on_missed: 5 cannot"):
            channel.subscribe(told.append, on_missed=5)
        channel.subscribe(lambda message: told.append(message.payload))
        assert until(lambda: told == [0, 1])
        assert repr(channel) == "Channel('tasks')"


def _has(told: list[int], count: int) -> bool:
    return len(told) >= count
