"""Wakes, catches up, and sleeps again: what a battery-powered device runs every hour."""

import sys

from coldnotify import Connection, Notify, State

notify = Notify("animal.observer", "region-1", "device-2", State("device-2.json"), Connection("127.0.0.1"))
notify.register("camera-config").subscribe(lambda told: print(told.object_id, told.version, told.payload))
with notify:
    complete = notify.wait_caught_up(timeout_s=30)
if not complete:
    sys.exit(f"not caught up: {notify.status.last_problem}")
