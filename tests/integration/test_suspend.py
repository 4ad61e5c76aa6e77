"""A unit that slept in RAM: it does not say that it is caught up over a connection that died meanwhile, and comes back.

A test cannot suspend its machine. A child has the client, and clocks that go as the kernel's do over a sleep; its
connection is a real one, dead behind a proxy that swallows everything.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from coldnotify.publisher import Publisher
from coldnotify_kafka.broker.free_ports import free_port
from coldnotify_testkit.proxy import Network, Proxy
from coldnotify_testkit.stack import Up
from coldnotify_testkit.waiting import WAIT_S, wait_for

pytestmark = pytest.mark.kafka

SLEPT_S = 200.0
UNIT = """
import asyncio, json, sys, time
form, clocks, port, state = sys.argv[1:]
asleep_s = 0.0
gettime, wall = time.clock_gettime, time.time
if clocks == "boottime":
    time.clock_gettime = lambda which: gettime(which) + (asleep_s if which == time.CLOCK_BOOTTIME else 0.0)
else:
    del time.CLOCK_BOOTTIME
    time.time = lambda: wall() + asleep_s
import coldnotify, coldnotify.aio
told = []
kind = coldnotify.Notify if form == "sync" else coldnotify.aio.Notify
connection = coldnotify.Connection(f"127.0.0.1:{port}", keepalive_s=600, silence_grace_s=2)
notify = kind("animal.observer", "region-1", f"sleeper-{form}-{clocks}", coldnotify.State(state), connection)
name = f"suspend/{form}-{clocks}"
notify.register(name).subscribe(lambda n: told.append(n.version))

def do(words):
    global asleep_s
    match words:
        case ["sleep", seconds]:
            asleep_s += float(seconds)
        case ["connect" | "wait_caught_up" as method, seconds]:
            return getattr(notify, method)(float(seconds))
        case ["caught_up"]:
            return notify.caught_up
        case ["told"]:
            return told

async def main():
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        answer = do(line.split())
        if asyncio.iscoroutine(answer):
            answer = await answer
        print(json.dumps(answer), flush=True)

asyncio.run(main())
"""


class Sleeper:
    """The child."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, *words: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def sleeper(form: str, clocks: str, port: int, state: Path) -> Iterator[Sleeper]:
    argv = [sys.executable, "-c", UNIT, form, clocks, str(port), str(state)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Sleeper(process)
        finally:
            process.kill()


def lose(proxy: Proxy, publisher: Publisher, name: str, version: int) -> None:
    """The connection is dead from here on: it has swallowed a notification."""
    before = proxy.swallowed_bytes
    proxy.swallow()
    publisher.publish("animal.observer", "region-1", name, version=version)
    wait_for(lambda: proxy.swallowed_bytes > before, "swallowed")


@pytest.mark.parametrize("clocks", ["boottime", "two clocks"])
@pytest.mark.parametrize("form", ["sync", "aio"])
def test_a_unit_that_slept_is_not_caught_up_over_a_dead_connection(
    up: Up, tmp_path: Path, form: str, clocks: str
) -> None:
    clocks = clocks.partition(" ")[0]
    name, port = f"suspend/{form}-{clocks}", free_port("127.0.0.1")
    with (
        Network() as network,
        up.publisher(timeout_s=60) as publisher,
        sleeper(form, clocks, port, tmp_path / "state.json") as unit,
    ):
        proxy = network.proxy(("127.0.0.1", port), up.gateway)
        publisher.publish("animal.observer", "region-1", name, version=1)
        assert unit.ask("connect", WAIT_S)
        assert unit.ask("told") == [1]

        # It sleeps; nothing is lost, and nothing was.
        unit.ask("sleep", SLEPT_S)
        assert not unit.ask("caught_up")
        assert unit.ask("wait_caught_up", WAIT_S)

        # It sleeps again, and its connection does not outlive that.
        lose(proxy, publisher, name, version=2)
        unit.ask("sleep", SLEPT_S)
        proxy.heal()
        woken_s = time.monotonic()
        assert not unit.ask("wait_caught_up", 0)
        assert unit.ask("wait_caught_up", WAIT_S)
        assert unit.ask("told") == [1, 2]
        print(f"\n{form}, {clocks}: told {time.monotonic() - woken_s:.1f} s after it woke")

        # Nobody asks: it notices by itself.
        lose(proxy, publisher, name, version=3)
        unit.ask("sleep", SLEPT_S)
        proxy.heal()
        woken_s = time.monotonic()
        wait_for(lambda: unit.ask("told") == [1, 2, 3], "told")
        print(f"{form}, {clocks}: unasked, told {time.monotonic() - woken_s:.1f} s after it woke")
