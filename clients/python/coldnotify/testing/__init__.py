"""A service for an application's tests: `FakeService`, one process, no Kafka, nothing durable.

    with FakeService() as service:
        notify = Notify(..., state=State(None), connection=Connection("127.0.0.1", service.port))
        ...
        service.publish("animal.observer", "region-1", "camera-config", {"fps": 5}, wait=True)
        service.send("animal.observer", "region-1", "tasks", {"do": "zoom"})
        HttpPublisher(service.http).publish("animal.observer", "region-1", "camera-config", {"fps": 6})

`retain` removes messages from a log of channels, so that clients which lack them miss some; `new_channels_epoch` of
`Service` recreates it. It implements `docs/protocol.md`, and can misbehave:
drop connections, fall silent, forget registrations, send close codes.
`Service` is the same without sockets, for tests that play time and network themselves. Programs in other languages run
it as a process: `python -m coldnotify.testing --port 0`, see `coldnotify.testing.command`.
"""

from coldnotify.testing.server import FakeService
from coldnotify.testing.service import Service
from coldnotify.testing.service_partition import Newest
from coldnotify.testing.service_session import Session
from coldnotify.testing.service_taking import NotTaken

__all__ = ["FakeService", "Newest", "NotTaken", "Service", "Session"]
