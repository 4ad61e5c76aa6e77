"""A day in the life of a work queue: of three workers one is slow and one crashes, and nobody can do one of the tasks.

Each worker is a process, at one of two gateways. An operator looks at the dead letter in the console, and sends it
again once the workers can do it.
"""

import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from coldnotify.http_publisher import HttpPublisher
from coldnotify_testkit.browser import MISSING, Browser
from coldnotify_testkit.child import Child
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.stack import Stacks
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

WAIT_S = 240
DOMAIN, GROUP, CHANNEL, SHARE = "animal.observer", "region-1", "tasks", "workers"
DEAD = f"{CHANNEL}.{SHARE}.dead"
TASKS, KEYS = 40, 4
CRASHES = 3
ATTEMPTS_MAX = 10
ROWS = "[...document.querySelectorAll('#channels button')]"
TIMELINE = "document.querySelector('#explain-timeline').innerText"

WORKER = """
import os, pathlib, sys, time
from coldnotify import Connection, Notify, State
name, address, state, repaired, temper = sys.argv[1:]
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
def work(task):
    say("begins", task.payload, task.attempts)
    if task.payload == "broken" and not pathlib.Path(repaired).exists():
        raise ValueError("this lamp cannot be reached")
    if temper == "crashes":
        os._exit(7)
    time.sleep(0.5 if temper == "slow" else 0.1)
    task.done()
    say("done", task.payload)
notify = Notify("animal.observer", "region-1", name, State(state), Connection(address), retry_min_s=0, retry_max_s=0.1)
notify.channel("tasks", share="workers", since="oldest", lease_s=5).subscribe(work)
notify.connect()
time.sleep(1000)
"""


class Day:
    """The workers' outputs, over all of their lives."""

    def __init__(self, directory: Path, gateway: str) -> None:
        self._directory, self._gateway = directory, gateway
        self.repaired = directory / "repaired"

    def start(self, name: str, temper: str) -> Child:
        """Starts a worker, or starts it again with the state that it has."""
        state = self._directory / f"{name}.json"
        argv = [sys.executable, "-c", WORKER, name, self._gateway, state, self.repaired, temper]
        return Child(list(map(str, argv)), self._directory / f"{name}.log")

    def lines(self, kind: str) -> Counter[str]:
        """Returns how often each task was begun, or done."""
        found: Counter[str] = Counter()
        for log in self._directory.glob("*.log"):
            words = (line.split() for line in log.read_text().splitlines())
            found.update(said[1] for said in words if len(said) > 1 and said[0] == kind)
        return found


def look_at(window: Browser, channel: str) -> None:
    """Opens what the console shows of a channel."""
    window.wait_for(f"{ROWS}.some((one) => one.innerText == '{channel}')", f"{channel} is listed")
    window.run(f"{ROWS}.find((one) => one.innerText == '{channel}').click()")


def test_each_task_is_done_and_the_dead_letter_too_once_it_is_sent_again(
    stacks: Stacks, tmp_path: Path, window: Browser
) -> None:
    workers = tmp_path / "workers"
    workers.mkdir()
    (tmp_path / "up").mkdir()
    with stacks.running(tmp_path / "up", "--gateways=2") as up, ExitStack() as stack:
        day = Day(workers, f"127.0.0.1:{up.gateway[1]}")
        crashing = day.start("crashing", "crashes")
        stack.callback(lambda: crashing.kill())
        for name, temper in (("steady", "works"), ("slow", "slow")):
            stack.enter_context(day.start(name, temper))
        share = f"{up.http_url}/v1/domains/{DOMAIN}/groups/{GROUP}/channels/{CHANNEL}/shares/{SHARE}"
        wait_for(lambda: fetch(share).json().get("members") == 3, "all are members", WAIT_S)
        names = [f"task-{number}" for number in range(TASKS)]
        with HttpPublisher(up.http_url) as publisher:
            publisher.send(DOMAIN, GROUP, CHANNEL, "broken", key="lamp-0")
            for number, name in enumerate(names):
                publisher.send(DOMAIN, GROUP, CHANNEL, name, key=f"lamp-{1 + number % KEYS}")

        crashes = 0

        def all_done() -> bool:
            nonlocal crashing, crashes
            if not crashing.running and crashes < CRASHES:
                crashes += 1
                crashing = day.start("crashing", "crashes" if crashes < CRASHES else "works")
            return set(names) <= set(day.lines("done"))

        wait_for(all_done, "all tasks are done", WAIT_S)

        window.open(f"{up.http_url}/#/groups/{DOMAIN}/{GROUP}")
        look_at(window, DEAD)
        window.wait_for(f"{TIMELINE}.includes('broken')", "the dead letter")
        assert day.lines("begins")["broken"] == ATTEMPTS_MAX
        assert day.lines("done")["broken"] == 0
        day.repaired.touch()
        window.run("document.querySelector('#explain-timeline button').click()")
        window.run("document.querySelector('#send button[type=submit]').click()")
        window.wait_for("document.querySelector('#confirm').open", "it is asked first")
        window.run("document.querySelector('#confirm-yes').click()")
        wait_for(lambda: day.lines("done")["broken"] == 1, "it is done", WAIT_S)
        begun = day.lines("begins")
        assert crashes
        assert sum(begun[name] for name in names) <= TASKS + crashes, f"a task is repeated where a worker died: {begun}"
