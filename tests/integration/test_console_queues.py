"""A work queue from the console, in a real browser: who holds what, and a dead letter that is sent again."""

import threading

import pytest
from coldnotify import LeasedMessage
from coldnotify_testkit.browser import MISSING, Browser
from coldnotify_testkit.stack import Up, notify
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

WAIT_S = 120
DOMAIN, GROUP = "animal.observer", "console-queues"
TIMELINE = "document.querySelector('#explain-timeline').innerText"
CHANNELS = "[...document.querySelectorAll('#channels button')].map((one) => one.innerText)"


def look_at(window: Browser, channel: str) -> None:
    window.wait_for(f"{CHANNELS}.includes('{channel}')", f"{channel} is listed")
    window.run("document.querySelector('#explain').close()")
    window.run(
        "[...document.querySelectorAll('#channels button')].find((one) => one.innerText == arguments[0]).click()",
        channel,
    )


def test_a_task_in_hand_is_shown_and_a_dead_letter_is_sent_again(up: Up, window: Browser) -> None:
    told: list[tuple[object, int]] = []
    rejecting, held = threading.Event(), threading.Event()
    rejecting.set()

    def work(task: LeasedMessage) -> None:
        told.append((task.payload, task.offset))
        if rejecting.is_set():
            task.reject()
        else:
            held.wait(WAIT_S)

    with notify(up, "worker", None, group=GROUP) as worker, notify(up, "sender", None, group=GROUP) as sender:
        worker.channel("jobs.north", share="work.ers", since="oldest").subscribe(work)
        assert worker.wait_caught_up(timeout_s=WAIT_S)
        sender.send("jobs.north", {"lamp": "<b>", "big": 9007199254740993}).wait(WAIT_S)
        window.open(f"{up.http_url}/#/groups/{DOMAIN}/{GROUP}")
        look_at(window, "jobs.north.work.ers.dead")
        window.wait_for(f"{TIMELINE}.includes('9007199254740993')", "the dead letter")
        rejecting.clear()
        window.run("document.querySelector('#explain-timeline button').click()")
        assert window.run("return document.querySelector('#send').channel.value") == "jobs.north"
        window.run("document.querySelector('#send button[type=submit]').click()")
        window.wait_for("document.querySelector('#confirm').open", "it is asked first")
        window.run("document.querySelector('#confirm-yes').click()")
        wait_for(lambda: len(told) == 2, "the worker has it again", WAIT_S)
        assert told[0][0] == told[1][0] == {"lamp": "<b>", "big": 9007199254740993}
        try:
            window.run("document.querySelector('#explain').close()")
            look_at(window, "jobs.north")
            window.wait_for(f"{TIMELINE}.includes('worker has offset {told[1][1]} (begun, 1 attempt')", "who holds it")
            assert "share work.ers" in window.run(f"return {TIMELINE}")
            assert "1 of 1 member there" in window.run(f"return {TIMELINE}")
        finally:
            held.set()
    assert window.log() == []
