"""The state of a domain and group in the service for tests: its objects, their sets, its channels' log."""

from dataclasses import dataclass, field

from coldnotify.testing.channels import ServiceLog
from coldnotify.testing.members import ServiceSets


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest version of an object."""

    version: int
    offset: int
    incarnation: int = 0
    payload: bytes = b""
    deleted: bool = False
    source: str = ""
    """The client that caused it."""
    published_ms: int = 0
    expires_at: int | None = None
    """It is kept, and nothing expires."""
    raw: bool = False
    """The payload is no JSON."""


@dataclass
class ServicePartition:
    """A domain and group: its objects, and one order of all that is published."""

    objects: dict[str, Newest] = field(default_factory=dict)
    end: int = 0
    """The last offset that was given away; the first one is 1."""
    held: dict[str, int] = field(default_factory=dict)
    """Conflation: objects whose live notification waits, with the lowest offset that it covers."""
    sets: ServiceSets = field(default_factory=ServiceSets)
    descriptions: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    """By object: its description as JSON, empty if it has none any more, and the offset of the change."""
    described_ms: dict[str, int] = field(default_factory=dict)
    """By object: when it was described."""
    outcomes: dict[int, tuple[str, str, int, int]] = field(default_factory=dict)
    """By offset: the object, the outcome of the version, and incarnation and version of the newest then."""
    log: ServiceLog = field(default_factory=ServiceLog)
    """The log of its channels."""

    @property
    def complete(self) -> int:
        """Nothing at or below it is held back."""
        return min(self.held.values(), default=self.end + 1) - 1
