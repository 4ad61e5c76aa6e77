"""Is told of all lamps in a room, whatever they are called. Ctrl-C ends it."""

import time
from collections.abc import Collection

from coldnotify import Connection, Notify, State


def changed(added: Collection[str], removed: Collection[str]) -> None:
    """Prints which lamps came and which went."""
    print("entered", *sorted(added), "left", *sorted(removed), flush=True)


notify = Notify("animal.observer", "region-1", "device-4", State("device-4.json"), Connection("127.0.0.1"))
lamps = notify.register_query('Kind = "lamp" AND Room = 410')
lamps.subscribe_members(changed)
lamps.subscribe(lambda told: print(told.object_id, told.version, told.payload, flush=True))
with notify:
    while True:
        time.sleep(1)
