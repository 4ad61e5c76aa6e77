"""Messages that the device publishes on its sessions. See docs/protocol.md, "Publishing on the session"."""

from collections import deque

from coldnotify_schemas import wire_pb2 as wire

from coldnotify_testkit.raw_device.application import DeviceApplication

UNANSWERED_MAX = 64


class RawPublishes:
    """Publishes in order. What is not answered is sent again in the next session, with the same id."""

    def __init__(self, application: DeviceApplication) -> None:
        self._application = application
        self._waiting: deque[wire.Publish] = deque()
        self._said: deque[wire.Publish] = deque()
        self._request = 0
        self._not_before = 0.0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._said)

    def add(self, publish: wire.Publish) -> None:
        """Queues a publish."""
        self._waiting.append(publish)

    def begin_session(self) -> None:
        """Starts a session: all unanswered publishes are sent again, and requests are counted from the beginning."""
        self._waiting.extendleft(reversed(self._said))
        self._said.clear()
        self._request = 0
        self._not_before = 0.0
        for publish in self._waiting:
            publish.request = 0

    def next(self, now: float) -> wire.Publish | None:
        """Returns the next publish to send; None if none is to be sent now."""
        if not self._waiting or len(self._said) >= UNANSWERED_MAX or now < self._not_before:
            return None
        publish = self._waiting.popleft()
        if not publish.request:
            self._request += 1
            publish.request = self._request
        self._said.append(publish)
        return publish

    def due(self) -> float | None:
        """Returns when `next` has a publish, if it only has to wait; None otherwise."""
        return self._not_before if self._waiting and len(self._said) < UNANSWERED_MAX else None

    def published(self, said: wire.Published) -> None:
        """Kafka has it."""
        publish = self._take(said.request)
        if publish is not None:
            self._application.published(publish.id, said.offset, "")

    def not_published(self, said: wire.NotPublished, now: float) -> None:
        """It has not."""
        if said.retry_after_ms:
            # Nothing behind it is taken before it is said again by the same request; all of that is refused, too.
            if self._said and self._said[0].request == said.request:
                self._waiting.extendleft(reversed(self._said))
                self._said.clear()
                self._not_before = now + said.retry_after_ms / 1000
            return
        publish = self._take(said.request)
        if publish is not None:
            self._application.published(publish.id, None, said.reason)

    def _take(self, request: int) -> wire.Publish | None:
        if self._said and self._said[0].request == request:
            return self._said.popleft()
        return None
