"""A service to test an application against: `FakeService`, one process, no Kafka, nothing durable.

    with FakeService() as service:
        notify = Notify(..., state=State(None), connection=Connection("127.0.0.1", service.port))
        ...
        service.publish("animal.observer", "region-1", "camera-config", {"fps": 5})

It speaks `docs/protocol.md` and can misbehave: drop connections, fall silent, forget registrations, send close codes.
`Service` is the same without sockets, for tests that play time and network themselves. Programs in other languages run
it as a process: `python -m coldnotify.testing --port 0`, see `coldnotify.testing.command`.
"""

from coldnotify.testing.server import FakeService
from coldnotify.testing.service import Newest, Service, Session

__all__ = ["FakeService", "Newest", "Service", "Session"]
