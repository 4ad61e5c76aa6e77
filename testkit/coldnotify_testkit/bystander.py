"""For tests: a client that has nothing to do with an attack. It is published to five times a second, and notes what it
receives.

It is in a domain of its own, which should be in a partition of its own. So if it is disturbed, the attack has affected
somebody else.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coldnotify import Connection, Message, Notification, Notify, State
from coldnotify.publisher import Publisher, PublishError

from coldnotify_testkit.waiting import wait_for

OBJECT, CHANNEL = "bystander", "news"
_EVERY_S = 0.2
_KEEPALIVE_S = 5
_BACKOFF_S_MAX = 5.0
_PUBLISH_S = 20.0
"""After this time a publish counts as failed, and the next one is tried."""


@dataclass(slots=True)
class BystanderPhase:
    """The results of one phase of the attack."""

    name: str
    acknowledged: int = 0
    failed: int = 0
    """Publishes that Kafka did not take in time."""
    took_s: list[float] = field(default_factory=list)
    """Seconds from the call of publish to the callback, for each publish that arrived."""

    @property
    def untold(self) -> int:
        """The number of publishes that were acknowledged and have not arrived."""
        return self.acknowledged - len(self.took_s)

    @property
    def words(self) -> str:
        """Returns the results as one line."""
        said = f"{self.name}: {self.acknowledged} acknowledged, {len(self.took_s)} told, {self.failed} failed"
        if not self.took_s:
            return said
        ordered = sorted(self.took_s)
        p50, p99 = (ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.99))
        return f"{said}; p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms, longest {ordered[-1] * 1000:.0f} ms"


class Bystander:
    """Versions of an object and, every fifth time, a message of a channel; a thread publishes until `stop`."""

    def __init__(self, domain: str, group: str, *, kafka: str, gateway: tuple[str, int], directory: Path) -> None:
        self._domain, self._group = domain, group
        self._publisher = Publisher(kafka=kafka, timeout_s=_PUBLISH_S)
        self.notify = Notify(
            domain=domain,
            group_id=group,
            client_id="bystander",
            state=State(filename=str(directory / "bystander.json")),
            connection=Connection(
                address=gateway[0],
                port=gateway[1],
                keepalive_s=_KEEPALIVE_S,
                request_timeout_s=_BACKOFF_S_MAX,
                backoff_max_s=_BACKOFF_S_MAX,
            ),
        )
        self._lock = threading.Lock()
        self.phases: list[BystanderPhase] = []
        self._sent: dict[tuple[str, int], tuple[BystanderPhase, float]] = {}
        """Publishes that were acknowledged and have not arrived, by kind and number: the phase, and when it was
        published.
        """
        self._told: dict[tuple[str, int], float] = {}
        """When publishes arrived whose acknowledgement has not come yet."""
        self._told_to = 0
        """The newest version."""
        self._number = 0
        self._paused = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bystander", daemon=True)

    def start(self) -> None:
        """Connects, and is published to from now on: in the phase "before"."""
        self.phase("before")
        self.notify.register(OBJECT).subscribe(self._on_version)
        self.notify.channel(CHANNEL, since="oldest").subscribe(self._on_message)
        self.notify.connect()
        self._thread.start()

    def phase(self, name: str) -> BystanderPhase:
        """Begins a phase: what is published from now on belongs to it."""
        with self._lock:
            self.phases.append(BystanderPhase(name))
            self._paused.clear()
            return self.phases[-1]

    def pause(self) -> None:
        """Nothing is published before the next phase."""
        self._paused.set()

    def wait_told(self, limit_s: float) -> bool:
        """Returns true if everything acknowledged before this call arrives within `limit_s`."""
        with self._lock:
            owed = set(self._sent)
        try:
            wait_for(lambda: not owed & self._sent.keys(), "the bystander is told", limit_s)
        except AssertionError:
            return False
        return True

    def wait_published(self, count: int, limit_s: float) -> None:
        """Until so many publishes of this phase were acknowledged, or `limit_s` is over."""
        phase, until_s = self.phases[-1], time.monotonic() + limit_s
        while phase.acknowledged < count and time.monotonic() < until_s:
            time.sleep(_EVERY_S)

    def stop(self) -> None:
        """Ends publishing, and the connection."""
        self._stop.set()
        self._thread.join(2 * _PUBLISH_S)
        self.notify.disconnect()
        self._publisher.close()

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_S):
            if self._paused.is_set():
                continue
            self._number += 1
            self._publish("version", self._number)
            if self._number % 5 == 0:
                self._publish("message", self._number)

    def _publish(self, what: str, number: int) -> None:
        phase, began_s = self.phases[-1], time.monotonic()
        try:
            if what == "version":
                self._publisher.publish(self._domain, self._group, OBJECT, version=number)
            else:
                self._publisher.send(self._domain, self._group, CHANNEL, number)
        except PublishError:
            phase.failed += 1
            return
        with self._lock:
            phase.acknowledged += 1
            told_s = self._told.pop((what, number), None)
            if told_s is None:
                self._sent[what, number] = phase, began_s
            else:
                phase.took_s.append(told_s - began_s)

    def _on_version(self, notification: Notification) -> None:
        """Marks this version and those before it as arrived: a client that was away receives the newest one only."""
        newest = notification.version or 0
        self._take([("version", number) for number in range(self._told_to + 1, newest + 1)])
        self._told_to = max(self._told_to, newest)

    def _on_message(self, message: Message) -> None:
        self._take([("message", int(message.payload))])

    def _take(self, told: Sequence[tuple[str, int]]) -> None:
        now_s = time.monotonic()
        with self._lock:
            for one in told:
                sent = self._sent.pop(one, None)
                if sent is None:
                    self._told[one] = now_s
                else:
                    sent[0].took_s.append(now_s - sent[1])
