"""The outlet of --plan: prints what would be published, and publishes nothing."""

import json
import threading
from collections.abc import Callable

from coldnotify_common.stop import StopFlag

from coldnotify_auto.changes import Change, PutMessage
from coldnotify_auto.outlet_turns import OutletTurns
from coldnotify_auto.settings import AutoSettings
from coldnotify_auto.source import RunStopped


class PlannedChanges:
    """Prints the lines of all sources, each in a thread, until so many are printed."""

    def __init__(self, left: int, say: Callable[[str], None]) -> None:
        self._left, self._say = left, say
        self._lock = threading.Lock()

    def line(self, words: str) -> None:
        """Prints a line. Raises RunStopped behind the last one."""
        with self._lock:
            if self._left > 0:
                self._left -= 1
                self._say(words)
            if self._left <= 0:
                raise RunStopped


class PlanOutlet(OutletTurns):
    """Prints each change in a line."""

    is_plan = True

    def __init__(self, name: str, settings: AutoSettings, stop: StopFlag, planned: PlannedChanges) -> None:
        self.while_waiting: Callable[[], None] = lambda: None
        self._name, self._settings, self._stop, self._planned = name, settings, stop, planned

    @property
    def payload_bytes_max(self) -> int:
        """Limit on payloads (bytes)."""
        return self._settings.object_payload_bytes_max

    def put(self, change: Change, at_s: float | None = None) -> None:
        """Prints the change. Raises RunStopped behind the last one."""
        if isinstance(change, PutMessage):
            words = f"send    {change.domain}/{change.group} channel {change.channel} id {change.id}"
        else:
            words = f"{'delete ' if change.deleted else 'publish'} {'/'.join(change.key)} version {change.version}"
        if change.payload:
            words += f" payload {shown(change.payload)}"
        if not isinstance(change, PutMessage) and change.description:
            words += f" description {dict(change.description)}"
        self._line(words)

    def set_aside(self, position: str, reason: str) -> None:
        """Prints what cannot be mapped."""
        self._line(f"set aside {position}: {reason}")

    def passed(self, mark: int) -> None:
        """Ignores the mark: a plan confirms nothing."""

    def confirmed(self) -> int:
        """Returns 0."""
        return 0

    def flush(self) -> None:
        """Returns at once."""

    def ready(self, reason: str | None) -> None:
        """Ignores it."""

    def retained(self, bytes_: int) -> None:
        """Ignores it."""

    def _turn(self, wait_s: float) -> None:
        self.while_waiting()
        if self._stop.wait(wait_s):
            raise RunStopped

    def _line(self, words: str) -> None:
        self._planned.line(f"{self._name}: {words}")


def shown(payload: bytes) -> str:
    """Returns a payload as a person reads it."""
    try:
        return json.dumps(json.loads(payload), ensure_ascii=False)
    except ValueError:
        return repr(payload[:80])
