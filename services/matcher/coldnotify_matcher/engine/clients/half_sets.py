"""Registration sets still being received. Their total size is bounded.

If it would be exceeded, a set is dropped, as if a chunk of it were missing: its client hears so at its last chunk and
sends its set again. Sets that had no chunk for STALLED_MS are dropped first: clients that begin sets and never end them
harm no other. If many clients send large sets at once, those that are dropped make room for the others, which get
through. Nothing is searched for.
"""

from collections.abc import Sequence
from sys import getsizeof

from coldnotify_matcher.engine.clients.sessions import EngineSession

STALLED_MS = 30_000
"""A client that was not answered for so long begins its reg-sync again: the protocol's number."""
_SLOT_BYTES = 8
"""Bytes of a list for each of its items."""


Packed = str | bytes
"""An interest in a set that is still being received: a name, or another interest as bytes."""


class _HalfSet:
    """The set of one session."""

    __slots__ = ("chunks", "said", "size_bytes")

    def __init__(self) -> None:
        self.chunks = 0
        self.said: list[Packed] = []
        self.size_bytes = 0
        """Size in memory."""

    def add(self, said: Sequence[Packed]) -> None:
        """Add one more chunk."""
        self.chunks += 1
        self.said += said
        self.size_bytes += sum(map(getsizeof, said)) + _SLOT_BYTES * len(said)


class HalfSets:
    """The half sets of one partition."""

    def __init__(self) -> None:
        self.size_bytes = 0
        """Size of all of them in memory."""
        self._by_size: dict[int, dict[EngineSession, None]] = {}
        """By the number of bits of its size; ordered by the last addition."""
        self._sets: dict[EngineSession, _HalfSet] = {}
        self._added_to_ms: dict[EngineSession, int] = {}
        """Times of the last addition, in the same order."""

    def add(self, session: EngineSession, names: Sequence[Packed], bytes_max: int, now_ms: int) -> int:
        """Add one more chunk. Returns the number of sets dropped to keep within `bytes_max`; this one may be among
        them."""
        half = self._remove(session) or _HalfSet()
        half.add(names)
        self._sets[session] = half
        self._by_size.setdefault(half.size_bytes.bit_length(), {})[session] = None
        self._added_to_ms[session] = now_ms
        self.size_bytes += half.size_bytes
        dropped = 0
        while self.size_bytes > bytes_max:
            self.forget(self._next_to_drop(now_ms))
            dropped += 1
        return dropped

    def forget(self, session: EngineSession) -> list[Packed]:
        """Forget a set that is whole, or begins again, or whose session is over. Returns its contents."""
        half = self._remove(session)
        return [] if half is None else half.said

    def chunks(self, session: EngineSession) -> int:
        """Returns the number of its chunks."""
        half = self._sets.get(session)
        return 0 if half is None else half.chunks

    def said(self, session: EngineSession) -> Sequence[Packed]:
        """Returns all that its chunks contain."""
        half = self._sets.get(session)
        return () if half is None else half.said

    def _next_to_drop(self, now_ms: int) -> EngineSession:
        session, added_to_ms = next(iter(self._added_to_ms.items()))
        if now_ms - added_to_ms >= STALLED_MS:
            return session
        return next(iter(self._by_size[max(self._by_size)]))

    def _remove(self, session: EngineSession) -> _HalfSet | None:
        half = self._sets.pop(session, None)
        if half is None:
            return None
        del self._added_to_ms[session]
        size = half.size_bytes.bit_length()
        of_size = self._by_size[size]
        del of_size[session]
        if not of_size:
            del self._by_size[size]
        self.size_bytes -= half.size_bytes
        return half
