"""The interface between sources and what publishes for them."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from coldnotify_auto.changes import Change
from coldnotify_auto.newest_log import NewestByKey
from coldnotify_auto.yaml_sections import Section


class SourceFailed(Exception):
    """A source cannot be followed at the moment; the message says why. It is tried again after a pause."""


class SourceRefused(SourceFailed):
    """A source must be changed before it can be followed; the message says how."""


class RunStopped(Exception):
    """The run is to end: a stop was requested, or a plan is complete."""


class Outlet(Protocol):
    """Publishes for one source, in order for each object and channel. For one thread."""

    is_plan: bool
    """True if nothing is published, so that a source must not change anything, either."""
    while_waiting: Callable[[], None]
    """A source's own function, called a few times a second while the outlet waits."""

    def put(self, change: Change, at_s: float | None = None) -> None:
        """Publishes; waits while too many are not acknowledged. `at_s`: the time of the change, for the lag.

        Raises SourceFailed, RunStopped."""

    def passed(self, mark: int) -> None:
        """Marks the place behind the changes so far. Marks rise."""

    def confirmed(self) -> int:
        """Returns the highest mark whose changes Kafka has acknowledged, 0 if there is none. Raises SourceFailed."""

    def flush(self) -> None:
        """Waits until everything is acknowledged. Raises SourceFailed, RunStopped."""

    def set_aside(self, position: str, reason: str) -> None:
        """Counts and logs what cannot be mapped. Nothing stops."""

    def newest(self, domains: Collection[str]) -> NewestByKey:
        """Returns the newest versions of the domains' objects, of all domains if there are none.

        Raises SourceFailed, RunStopped."""

    def wait(self, seconds: float) -> None:
        """Waits, and serves acknowledgements. Raises SourceFailed, RunStopped."""

    def ready(self, reason: str | None) -> None:
        """Says why the source is not followed; None: it is."""

    def retained(self, bytes_: int) -> None:
        """Says how much log a database keeps for the source."""

    @property
    def payload_bytes_max(self) -> int:
        """Limit on payloads (bytes)."""


class Source(Protocol):
    """A source of changes."""

    name: str

    def run(self, outlet: Outlet) -> None:
        """Publishes what has changed, until the outlet raises RunStopped. Raises SourceFailed, SourceRefused."""

    def resync(self) -> str:
        """Has everything compared with the newest versions, and published where it differs; returns when that is.

        Raises SourceFailed, SourceRefused."""


@dataclass(frozen=True, kw_only=True)
class SourceRow:
    """A kind of sources: what its folder's row.py says of it."""

    name: str
    """The `kind` in the file; the folder's name."""
    read: Callable[[str, Section], Source]
    """Makes a source of its name and section; raises AutoFileError."""
    needs: str = ""
    """The module that it cannot run without; "": the distribution contains all its modules."""
    extra: str = ""
    """The extra that installs this module."""
