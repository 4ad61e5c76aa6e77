"""Is told every message of a channel, in order, also those that were sent while it was away. Ctrl-C ends it."""

import time

from coldnotify import Connection, Message, Missed, Notify, State


def do(message: Message) -> None:
    """Does one task. If it raises, the same task is told again."""
    print("task", message.payload, flush=True)


def look_up(missed: Missed) -> None:
    """Ask the back-end for everything: the service says where messages may be missing, and why."""
    print("missed between", missed.after, "and", missed.before, missed.reason, flush=True)


notify = Notify("animal.observer", "region-1", "device-3", State("device-3.json"), Connection("127.0.0.1"))
notify.channel("tasks", since="oldest").subscribe(do, on_missed=look_up)
with notify:
    while True:
        time.sleep(1)
