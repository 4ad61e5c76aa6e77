"""Publishing on the session, from outside: with threads and with asyncio, in memory and with an outbox.

Stands for: outbox_memory, session_publishing
"""

import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from coldnotify import (
    Connection,
    Newest,
    Notify,
    OutboxError,
    OutboxFull,
    OutboxInUse,
    Outcome,
    PublishRefused,
    State,
    aio,
)
from coldnotify.testing import FakeService
from coldnotify_testkit.waiting import wait_for

WAIT_S = 60

CHILD = """
import sys
from coldnotify import Connection, Notify, State
notify = Notify("d", "g", "c", State(None), Connection("127.0.0.1", 1), outbox=sys.argv[1])
notify.connect()
for number in range(int(sys.argv[2]), 1000):
    notify.send("c", number, id=str(number))
    notify.publish(f"o{number % 7}", version=number + 1)
    print(number, flush=True)
import os
os._exit(0)
"""
Make = Callable[..., Notify]


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService() as service:
        yield service


@pytest.fixture
def make(service: FakeService) -> Iterator[Make]:
    made: list[Notify] = []

    def make(client: str = "c", **more: Any) -> Notify:
        connection = Connection("127.0.0.1", service.port, backoff_min_s=0.05)
        notify = Notify("d", "g", client, State(None), connection, **more)
        made.append(notify)
        return notify

    yield make
    for notify in made:
        notify.disconnect()


def sent(service: FakeService) -> list[bytes]:
    """Payloads of the messages that a subscriber is told, in order."""
    with service.lock:
        messages = service.service.partition("d", "g").log.messages
        return list({one.id: one.data for one in messages}.values())


def test_a_publish_of_one_client_reaches_the_others(service: FakeService, make: Make):
    told: list[Any] = []
    other, notify = make("other"), make()
    other.register("o").subscribe(told.append)
    other.channel("c", since="oldest").subscribe(told.append)
    assert other.connect(WAIT_S)
    wait_for(lambda: told)  # that there is no version yet
    told.clear()
    assert notify.connect(WAIT_S)
    version = notify.publish("o", payload={"x": 1})
    assert version.wait(WAIT_S) > 0
    assert version.published
    message = notify.send("c", {"look": "north"}, to={"camera"})
    notify.send("c", b"\xff").wait(WAIT_S)
    wait_for(lambda: len(told) == 2)
    assert (told[0].version, told[0].payload) == (version.version, {"x": 1})
    assert (told[1].source, message.id is not None) == ("c", True)  # the first is for who has the attribute


def test_publishes_before_the_first_session_arrive_in_order(service: FakeService, make: Make):
    notify = make()
    made = [notify.send("c", number) for number in range(200)]
    first, second = (notify.publish("o", payload=number) for number in range(2))
    assert notify.pending().records in (201, 202)  # the first is taken out, if it was not under way
    assert (second.version or 0) > (first.version or 0)
    notify.connect(WAIT_S)
    for one in made:
        one.wait(WAIT_S)
    second.wait(WAIT_S)
    first.wait(WAIT_S)
    assert sent(service) == [str(number).encode() for number in range(200)]
    newest = service.service.newest("d", "g", "o")
    assert newest is not None
    assert newest.version == second.version


def test_broken_connections_lose_and_double_nothing(service: FakeService, make: Make):
    notify = make()
    assert notify.connect(WAIT_S)
    made = []
    for number in range(60):
        made.append(notify.send("c", number))
        if number % 20 == 10:
            service.drop_all()
    for one in made:
        one.wait(WAIT_S)
    assert sent(service) == [str(number).encode() for number in range(60)]


def test_a_refusal_for_a_while_holds_all_and_one_for_ever_none(service: FakeService, make: Make):
    errors: list[Exception] = []
    notify = make(on_error=errors.append)
    assert notify.connect(WAIT_S)
    with service.lock:
        service.service.refused_publishes = {"slow": ("too much", 20), "wrong": ("channel: may not", 0)}
    first = notify.send("slow", 1)
    wrong = notify.send("wrong", 2)
    last = notify.send("c", 3)
    with pytest.raises(TimeoutError):
        first.wait(0.1)
    assert not last.published
    with service.lock:
        del service.service.refused_publishes["slow"]
    with pytest.raises(PublishRefused, match="channel: may not"):
        wrong.wait(WAIT_S)
    assert first.wait(WAIT_S) < last.wait(WAIT_S)
    wait_for(lambda: len(errors) == 1)
    assert str(errors[0]) == "publish of 'wrong' refused: channel: may not"


def test_at_most_once_waits_for_nothing(service: FakeService, make: Make):
    notify = make()
    assert notify.send("c", 1, acknowledged=False) is None  # there is no session: it is gone
    assert notify.connect(WAIT_S)
    assert notify.send("c", 2, acknowledged=False) is None
    assert notify.publish("o", payload=3, acknowledged=False) is None
    wait_for(lambda: service.service.newest("d", "g", "o") is not None)
    assert sent(service) == [b"2"]


def test_an_outbox_carries_over_restarts(service: FakeService, make: Make, tmp_path: Path):
    notify = make(outbox=tmp_path / "out")
    made = [notify.send("c", number) for number in range(100)]
    with pytest.raises(OutboxInUse, match=r"^outbox: "):
        make("other", outbox=tmp_path / "out").send("c", 1)
    notify.disconnect()
    with pytest.raises(TimeoutError, match="later"):
        made[0].wait(WAIT_S)
    again = make(outbox=tmp_path / "out")
    assert again.connect(WAIT_S)
    wait_for(lambda: again.pending().records == 0)
    assert sent(service) == [str(number).encode() for number in range(100)]


@pytest.mark.timeout(600)
def test_killed_at_any_moment_all_that_was_accepted_arrives_once_in_order(
    service: FakeService, make: Make, tmp_path: Path
):
    """A program without a network accepts 1,000 messages and 1,000 versions, and is killed five times by SIGKILL."""
    draw = random.Random(20261123)
    done = -1
    for end in [*sorted(draw.sample(range(20, 980), 5)), None]:
        command = [sys.executable, "-c", CHILD, str(tmp_path / "out"), str(done + 1)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for line in child.stdout:
                done = int(line)
                if done == end:
                    child.send_signal(signal.SIGKILL)
            assert child.wait(WAIT_S) == (0 if end is None else -signal.SIGKILL)
    assert done == 999
    notify = make(outbox=tmp_path / "out")
    assert notify.connect(WAIT_S)
    wait_for(lambda: notify.pending().records == 0)
    assert sent(service) == [str(number).encode() for number in range(1000)]
    with service.lock:
        ids = [int(one.id) for one in service.service.partition("d", "g").log.messages]
        newest = [service.service.newest("d", "g", f"o{number}") for number in range(7)]
    # The one that a kill interrupted may have been accepted, and is said again with its own id: nobody is told twice.
    assert ids == sorted(ids)
    assert len(ids) <= 1000 + 5
    assert sorted(one.version for one in newest if one) == list(range(994, 1001))


def test_errors_name_the_wrong_argument(make: Make, tmp_path: Path):
    notify = make(outbox_max_records=1)
    with pytest.raises(ValueError, match=r"^object: "):
        notify.publish("")
    with pytest.raises(ValueError, match=r"^payload: .*fit a frame"):
        notify.send("c", bytes(40_000))
    notify.send("c", 1)
    with pytest.raises(OutboxFull, match=r"^outbox_max_records: "):
        notify.send("c", 2)
    with pytest.raises(ValueError, match=r"^outbox_max_bytes: 0 "):
        make(outbox_max_bytes=0)
    with pytest.raises(OutboxError, match=r"^outbox: "):
        make(outbox=tmp_path / "a" / "b").connect()
    one = make(outbox=tmp_path / "out")
    one.send("c", 1)
    one.disconnect()
    elsewhere = Notify("other", "g", "c", State(None), outbox=tmp_path / "out")
    with pytest.raises(OutboxError, match=r"^outbox: .*d/g"):
        elsewhere.send("c", 1)


async def test_with_asyncio_a_publication_is_awaited(service: FakeService):
    connection = Connection("127.0.0.1", service.port)
    async with aio.Notify("d", "g", "c", State(None), connection) as notify:
        made = [notify.send("c", number) for number in range(5)]
        async with asyncio.timeout(WAIT_S):
            offsets = [await one for one in made]
            await notify.publish("o", payload=1)
    assert offsets == sorted(offsets)
    assert sent(service) == [b"0", b"1", b"2", b"3", b"4"]


YEARS_MS = 10 * 365 * 86_400_000


def test_versions_numbered_by_a_wrong_clock_are_renumbered_and_replays_agree(
    service: FakeService, make: Make, tmp_path: Path
):
    service.service.now_ms = lambda: time.time_ns() // 1_000_000 - YEARS_MS
    notify = make(outbox=tmp_path / "outbox")
    first, second = (notify.publish(name, payload=1) for name in ("a", "b"))
    before = first.version or 0
    told: list[Any] = []
    other = make("other")
    other.register("a").subscribe(told.append)
    assert other.connect(WAIT_S)
    notify.connect(WAIT_S)
    assert first.wait(WAIT_S) > 0
    assert second.wait(WAIT_S) > 0
    assert abs((first.version or 0) - before + YEARS_MS) < 3_600_000
    wait_for(lambda: told and told[-1].version == first.version)
    with service.lock:
        frames = [
            frame.publish for one in service.service.sessions for frame in one.received if frame.HasField("publish")
        ]
    assert [frame.object for frame in frames] == ["a", "b", "a", "b"]
    assert frames[0].version == before

    third = notify.publish("a", payload=2)
    third.wait(WAIT_S)
    assert (third.version or 0) > (first.version or 0)
    newest = service.service.newest("d", "g", "a")
    assert newest is not None
    assert newest.version == third.version
    notify.publish("c", payload=3, acknowledged=False)
    wait_for(lambda: service.service.newest("d", "g", "c"))
    unanswered = service.service.newest("d", "g", "c")
    assert unanswered is not None
    assert abs(unanswered.version - before + YEARS_MS) < 3_600_000


def test_an_answer_that_is_lost_does_not_number_a_publish_twice(service: FakeService, make: Make, tmp_path: Path):
    service.service.now_ms = lambda: time.time_ns() // 1_000_000 - YEARS_MS
    notify = make(outbox=tmp_path / "outbox")
    made = [notify.publish(f"o{number}", payload=number) for number in range(40)]
    assert notify.connect(WAIT_S)
    for number in range(40):
        if number % 8 == 0:
            service.drop_all()
        made[number].wait(WAIT_S)
    versions = [service.service.newest("d", "g", f"o{number}") for number in range(40)]
    assert [one and one.version for one in versions] == [one.version for one in made]


def test_a_version_above_the_highest_is_refused_at_once(make: Make):
    notify = make()
    notify.publish("o", version=2**63 - 1)
    with pytest.raises(ValueError, match=r"^version: "):
        notify.publish("o")
    with pytest.raises(TypeError, match="incarnation"):
        notify.publish("o", incarnation=1)  # type: ignore[call-overload]


def test_the_outcome_of_a_publish_can_be_requested(service: FakeService, make: Make):
    notify = make()
    waiting = notify.publish("o", version=5, payload=1)
    with pytest.raises(TimeoutError):
        waiting.outcome(0.1)
    notify.connect(WAIT_S)
    assert waiting.outcome(WAIT_S) == Outcome("published", Newest(5))
    assert notify.publish("o", version=5, payload=1).outcome(WAIT_S).outcome == "repeated"
    assert notify.publish("o", version=5, payload=2).outcome(WAIT_S).outcome == "altered"
    stale = notify.publish("o", version=4)
    assert stale.outcome(WAIT_S) == Outcome("stale", Newest(5))
    assert stale.outcome(WAIT_S).in_vain
    service.drop_all()
    assert stale.outcome(WAIT_S).outcome == "stale"  # asked in the next session
    with pytest.raises(RuntimeError, match="a message has none"):
        notify.send("c", 1).outcome()
    service.service.new_epoch()
    assert "remembered" in stale.outcome(WAIT_S).reason


async def test_the_outcome_of_a_publish_can_be_awaited(service: FakeService):
    connection = Connection("127.0.0.1", service.port, backoff_min_s=0.05)
    async with aio.Notify("d", "g", "c", State(None), connection) as notify:
        first = notify.publish("o", version=5)
        assert (await first.outcome_async(WAIT_S)).outcome == "published"
        assert (await notify.publish("o", version=4).outcome_async(WAIT_S)).outcome == "stale"


def test_a_service_that_does_not_know_outcomes_leaves_them_unknown(
    service: FakeService, make: Make, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("coldnotify.testing.service_session.Session._on_ask", lambda *_: None)
    notify = make()
    notify.connect(WAIT_S)
    outcome = notify.publish("o", version=5).outcome(2)
    assert (outcome.outcome, outcome.reason) == ("unknown", "the service has not told the outcome within 2 s")


# --- descriptions


def described(service: FakeService, object_: str = "o") -> dict[str, Any]:
    with service.lock:
        found: dict[str, Any] = json.loads(service.service.partition("d", "g").descriptions[object_][0])
        return found


def test_a_device_says_what_it_is_and_a_none_removes_a_key(service: FakeService, make: Make):
    notify = make()
    notify.connect(WAIT_S)
    notify.describe("o", {"Kind": "lamp", "Room": 410}).wait(WAIT_S)
    one = notify.publish("o", {"on": True}, description={"Room": None, "on": True})
    one.wait(WAIT_S)
    assert described(service) == {"Kind": "lamp", "on": True}
    assert one.version is not None


async def test_it_does_with_asyncio_too(service: FakeService):
    connection = Connection("127.0.0.1", service.port)
    async with aio.Notify("d", "g", "c", State(None), connection) as notify:
        async with asyncio.timeout(WAIT_S):
            await notify.describe("o", {"Kind": "lamp"})
    assert described(service) == {"Kind": "lamp"}


def test_patches_that_wait_become_one_and_are_in_an_outbox(service: FakeService, make: Make, tmp_path: Path):
    before = make(outbox=tmp_path / "outbox")
    before.describe("o", {"a": 1, "b": 1})
    before.describe("o", {"b": 2})
    before.publish("o", 1, version=1, description={"c": 3})
    assert 1 <= before.pending().records <= 2, "the first one is under way, or waits as well"
    before.disconnect()
    notify = make(outbox=tmp_path / "outbox")
    notify.connect(WAIT_S)
    wait_for(lambda: not notify.pending().records, "all to be published")
    assert described(service) == {"a": 1, "b": 2, "c": 3}


def test_a_patch_that_is_refused_is_reported_and_refuses_its_version(service: FakeService, make: Make):
    notify = make()
    notify.connect(WAIT_S)
    notify.describe("o", {f"a{number}": number for number in range(60)}).wait(WAIT_S)
    with pytest.raises(PublishRefused, match="description: has 65 keys"):
        notify.publish("o", payload=1, description={f"b{number}": number for number in range(5)}).wait(WAIT_S)
    with service.lock:
        assert "o" not in service.service.partition("d", "g").objects
    with pytest.raises(ValueError, match=r"^description: "):
        notify.describe("o", {"a": [1]})  # type: ignore[dict-item]
