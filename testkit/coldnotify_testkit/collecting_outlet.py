"""An outlet that collects what a source of `coldnotify auto` publishes, instead of Kafka."""

import time
from collections.abc import Callable, Collection

from coldnotify_auto.changes import Change, KnownNewest, Put, description_digest, digest
from coldnotify_auto.newest_log import NewestByKey
from coldnotify_auto.source import RunStopped
from coldnotify_schemas.names import ObjectKey

from coldnotify_testkit.waiting import WAIT_S


class CollectingOutlet:
    """Collects changes until `enough` says that it has what the test waits for; then it raises RunStopped."""

    is_plan = False
    payload_bytes_max = 4096

    def __init__(
        self, enough: Callable[["CollectingOutlet"], bool], steps: Callable[[int], None] | None = None
    ) -> None:
        """`steps` is called at each wait once the source is ready, with the number of waits before: it changes what
        the source follows."""
        self.while_waiting: Callable[[], None] = lambda: None
        self.changes: list[Change] = []
        self.aside: list[tuple[str, str]] = []
        self.reason: str | None = "starting"
        self._enough, self._steps, self._waits = enough, steps, 0
        self._newest: NewestByKey = {}
        self._deadline_s = time.monotonic() + WAIT_S
        self._marks: list[int] = []

    def put(self, change: Change, at_s: float | None = None) -> None:
        """Collects it."""
        self.changes.append(change)
        if isinstance(change, Put):
            said = digest(change.payload), change.deleted, change.source, description_digest(change.description)
            self._newest[ObjectKey(*change.key)] = KnownNewest(change.incarnation or 0, change.version, *said)

    def passed(self, mark: int) -> None:
        """Everything is acknowledged at once."""
        self._marks.append(mark)

    def confirmed(self) -> int:
        """Returns the last mark."""
        return self._marks[-1] if self._marks else 0

    def flush(self) -> None:
        """Returns at once."""

    def set_aside(self, position: str, reason: str) -> None:
        """Collects it."""
        self.aside.append((position, reason))

    def newest(self, domains: Collection[str]) -> NewestByKey:
        """Returns what was collected, as the log would."""
        return {key: one for key, one in self._newest.items() if not domains or key.domain in domains}

    def wait(self, seconds: float) -> None:
        """Waits, at most some ms. Raises RunStopped once there is enough, AssertionError after WAIT_S."""
        if self.reason is None:
            if self._steps is not None:
                self._steps(self._waits)
            self._waits += 1
        self.while_waiting()
        if self._enough(self):
            raise RunStopped
        assert time.monotonic() < self._deadline_s, (self.changes, self.aside)
        time.sleep(min(seconds, 0.05))

    def again(self, enough: Callable[["CollectingOutlet"], bool]) -> "CollectingOutlet":
        """Returns an outlet for the next run, which finds what this one collected in the log."""
        outlet = CollectingOutlet(enough)
        outlet._newest.update(self._newest)
        return outlet

    def ready(self, reason: str | None) -> None:
        """Keeps it."""
        self.reason = reason

    def retained(self, bytes_: int) -> None:
        """Ignores it."""

    @property
    def told(self) -> list[tuple[str, object]]:
        """Returns name and payload of each change; None: deleted."""
        return [
            (one.key.object, None if one.deleted else one.payload)
            if isinstance(one, Put)
            else (one.channel, one.payload)
            for one in self.changes
        ]
