"""Stays connected, and prints the newest version of each object that it registered for. Ctrl-C ends it."""

import time

from coldnotify import Connection, Notification, Notify, State


def changed(told: Notification) -> None:
    """Prints it. Once this has returned, it counts as applied, and is not told again."""
    print(told.object_id, told.version, told.payload, flush=True)


notify = Notify("animal.observer", "region-1", "device-1", State("device-1.json"), Connection("127.0.0.1"))
notify.register("camera-config").subscribe(changed)
with notify:
    while True:
        time.sleep(1)
