"""What devices say, heard in slices: in order, in turn, none of it lost, and nothing of who has to pause."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from coldnotify_gateway import hearing as module
from coldnotify_gateway.hearing import Hearing

LIMIT_S = 60.0
PIECE = module._PIECE_BYTES


class Device:
    def __init__(self, name: str) -> None:
        self.name = name
        self.reads = True

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


class Heard:
    """What was handled of each, in order; each piece costs so much as the test says."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.data: dict[str, bytes] = {}
        self.spent_s = 0.0
        self.cost_s = 0.0
        self.then: Callable[[Device], None] = lambda _device: None

    def handle(self, device: Any, data: bytes) -> None:
        self.order.append(device.name)
        self.data[device.name] = self.data.get(device.name, b"") + data
        self.spent_s += self.cost_s
        self.then(device)


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    one = Heard()
    monkeypatch.setattr(module, "_now_s", lambda: one.spent_s)
    return one


def hearing_of(heard: Heard) -> tuple[Hearing, Callable[[Device, bytes], None]]:
    hearing = Hearing(heard.handle)
    return hearing, lambda device, data: hearing.take(device, data)  # type: ignore[arg-type]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():  # noqa: ASYNC110  nobody sets an event for it
            await asyncio.sleep(0)


async def test_what_is_short_is_handled_at_once_while_others_say_much(heard: Heard) -> None:
    hearing, take = hearing_of(heard)
    much, little = Device("much"), Device("little")
    heard.cost_s = 0.0011  # a piece is all that may be at once, and two are a slice
    said = bytes(range(256)) * 40
    take(much, said)
    assert (heard.order, much.reads) == (["much"], False)
    turns: list[int] = []

    async def say_little() -> None:
        while not much.reads:
            before = len(heard.order)
            take(little, b"x")
            turns.append(heard.order[before:].count("little"))
            await asyncio.sleep(0)

    await say_little()
    assert heard.data["much"] == said
    assert (set(turns), little.reads, hearing.waiting_bytes) == ({1}, True, 0)
    run, longest = 0, 0
    for name in heard.order:
        run = run + 1 if name == "much" else 0
        longest = max(longest, run)
    assert longest <= 2, "no more than a slice between two turns of who says little"


async def test_those_who_say_much_have_turns_one_after_the_other(heard: Heard) -> None:
    _, take = hearing_of(heard)
    devices = [Device(name) for name in "abc"]
    heard.cost_s = 0.001
    for device in devices:
        take(device, b"1" * 4 * PIECE)
        take(device, b"2" * PIECE)
    await until(lambda: all(device.reads for device in devices))
    assert heard.order[3:] == ["a", "b", "c"] * 4
    assert {heard.data[name] for name in "abc"} == {b"1" * 4 * PIECE + b"2" * PIECE}


async def test_what_is_said_at_last_is_heard_if_it_is_not_much(heard: Heard) -> None:
    hearing, take = hearing_of(heard)
    device, gone = Device("a"), Device("gone")
    heard.cost_s = 0.0009
    take(device, b"1" * 3 * PIECE)
    hearing.finish(device)  # type: ignore[arg-type]
    assert heard.data["a"] == b"1" * 3 * PIECE
    heard.cost_s = 0.001
    take(gone, b"1" * 9 * PIECE)
    hearing.finish(gone)  # type: ignore[arg-type]
    assert len(heard.data["gone"]) == 2 * PIECE
    await asyncio.sleep(0)
    assert (hearing.waiting_bytes, gone.reads) == (0, True)


async def test_who_pauses_is_not_heard_and_goes_on_where_it_was(heard: Heard) -> None:
    hearing, take = hearing_of(heard)
    device = Device("a")
    heard.then = lambda one: hearing.pause(one, 0.05) if len(heard.order) == 2 else None  # type: ignore[arg-type]
    take(device, b"1" * 5 * PIECE)
    assert (len(heard.data["a"]), device.reads) == (2 * PIECE, False)
    take(device, b"2")
    assert len(heard.data["a"]) == 2 * PIECE
    await until(lambda: device.reads)
    assert heard.data["a"] == b"1" * 5 * PIECE + b"2"
    assert hearing.waiting_bytes == 0


async def test_who_is_closed_meanwhile_is_read_and_not_heard(heard: Heard) -> None:
    hearing, take = hearing_of(heard)
    device = Device("a")
    heard.then = lambda one: hearing.forget(one)  # type: ignore[arg-type]
    take(device, b"1" * 5 * PIECE)
    await asyncio.sleep(0)
    assert (len(heard.data["a"]), device.reads, hearing.waiting_bytes) == (PIECE, True, 0)
    hearing.pause(device, LIMIT_S)  # type: ignore[arg-type]
    assert not device.reads
    hearing.forget(device)  # type: ignore[arg-type]
    assert device.reads


async def test_what_waits_of_all_together_has_a_bound(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WAITING_BYTES_MAX", 8 * PIECE)
    hearing, take = hearing_of(heard)
    heard.cost_s = 0.001
    devices = [Device(str(number)) for number in range(10)]
    for device in devices:
        take(device, b"1" * 4 * PIECE)
        assert hearing.waiting_bytes <= 8 * PIECE
    await until(lambda: all(device.reads for device in devices))
    assert {len(data) for data in heard.data.values()} == {4 * PIECE}
