"""The outputs of an engine's step: records for topics and items for gateways."""

from dataclasses import dataclass, field

from coldnotify_schemas import internal_pb2


@dataclass(frozen=True, slots=True)
class ProducedRecord:
    """One record to produce."""

    topic: str
    partition: int | None
    """None: any (the rejected topic)."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None
    """None: the producer's time."""


@dataclass(slots=True)
class Step:
    """The outputs of one step, in the order in which they must become durable: each group before the next."""

    state: list[ProducedRecord] = field(default_factory=list)
    """Registrations, sessions, repaired and moved objects, rejected records."""
    seals: list[ProducedRecord] = field(default_factory=list)
    """The session of each client with several records of registrations, and the last of these: its offset says that the
    others are durable."""
    fence: bool = False
    """True if the partition's claim is to be written again with the seals, and to be told when it is read back."""
    tombstones: list[ProducedRecord] = field(default_factory=list)
    """Tombstones of strays whose moved record is durable then, and of sessions whose registrations are gone then."""
    inboxes: list[tuple[int, internal_pb2.Inbox]] = field(default_factory=list)
    """(inbox, record): answers promise that `state` and `seals` are durable."""

    def claim_again(self) -> None:
        """Have the partition's claim written again with the seals."""
        self.fence = True

    def __bool__(self) -> bool:
        return bool(self.state or self.seals or self.fence or self.tombstones or self.inboxes)
