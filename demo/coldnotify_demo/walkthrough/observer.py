"""A device: prints what it is told, until it is stopped."""

import signal
import threading

from coldnotify import Connection, Notify, State

CERT = "certs/animal.observer.region-1.observer-1"
notify = Notify(
    domain="animal.observer",
    group_id="region-1",
    client_id="observer-1",
    state=State("observer-1.json"),
    connection=Connection("127.0.0.1", 55000, ca_cert="certs/ca.pem", cert=f"{CERT}.pem", key=f"{CERT}.key"),
)
notify.register("camera-config").subscribe(lambda n: print("told", n.object_id, n.version, n.payload, flush=True))
notify.connect()
stopped = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopped.set())
stopped.wait()
notify.disconnect()
