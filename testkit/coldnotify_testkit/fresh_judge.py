"""Judges P11 of real clients while a test goes on: what each says of its freshness, beside what was acknowledged when.

All clocks are this machine's. `acknowledged` is noted once a publish has returned, so it is never too early.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from coldnotify import Notify

_LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class FreshSample:
    """A client's words at a time."""

    at: float
    """Unix time."""
    as_of: float | None
    caught_up: bool
    told: int
    """The newest version of its object, read afterwards."""


@dataclass
class JudgedClient:
    """One client that is registered for one object, with numbered versions."""

    notify: Notify
    fresh_s: float
    told: Callable[[], int]
    """The newest version that its application was told; 0: none was."""
    acknowledged: list[tuple[float, int]]
    """The times at which publishes of its object were acknowledged (Unix time), and their versions; both rise."""
    grace_s: float = 0.0
    """Publishes that were acknowledged so long before `fresh_as_of`, or less, are not owed."""
    settled_at: float = float("inf")
    """The time from which on its registration is settled."""
    samples: list[FreshSample] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def look(self) -> None:
        """Asks the client, and judges what it says."""
        at = time.time()
        status = self.notify.status
        self.judge(FreshSample(at, status.fresh_as_of, status.caught_up, self.told()))

    def judge(self, said: FreshSample) -> None:
        """Judges a sample, and keeps it."""
        self.samples.append(said)
        if said.caught_up:
            self.settled_at = min(self.settled_at, said.at)
        if said.caught_up and (said.as_of is None or said.at - said.as_of > self.fresh_s):
            self.faults.append(f"caught up, and fresh as of {said.as_of} at {said.at}")
        if said.as_of is None or said.as_of < self.settled_at:
            return
        due = max((version for at, version in list(self.acknowledged) if at < said.as_of - self.grace_s), default=0)
        if said.told < due:
            self.faults.append(f"fresh as of {said.as_of:.3f} at {said.at:.3f}, told {said.told}, not {due}")

    @property
    def as_of(self) -> float:
        """Its `fresh_as_of` by the last sample; 0: not known."""
        return (self.samples[-1].as_of or 0.0) if self.samples else 0.0


class FreshJudge:
    """Looks at all clients again and again, in a thread, until the end of the block; then raises for what was wrong."""

    def __init__(self, *clients: JudgedClient) -> None:
        self._clients = clients
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_S):
            for client in self._clients:
                client.look()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        if kind is None:
            faults = [fault for client in self._clients for fault in client.faults]
            assert not faults, f"{len(faults)} faults: {faults[:5]}"
