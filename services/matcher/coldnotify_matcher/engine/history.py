"""What was published and rejected lately, as far as it is remembered: for those who look in, nothing else needs it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

PUBLISHES_MAX = 10_000
"""Of one partition: some MiB at most. What is older is known by its newest version only."""
REJECTED_MAX = 256
"""Of one partition; the topic coldnotify.rejected has them all for a week."""
_REASON_CHARS_MAX = 200


class Publish(NamedTuple):
    """One record that brought a newer version."""

    incarnation: int
    version: int
    offset: int
    timestamp_ms: int


class Rejected(NamedTuple):
    """One record of the objects topic that could not be understood."""

    key: str
    offset: int
    timestamp_ms: int
    reason: str


class History:
    """The latest publishes of a partition by object, and the latest rejected records."""

    def __init__(self, publishes_max: int = PUBLISHES_MAX) -> None:
        self._latest: deque[tuple[str, int, int, int, int]] = deque(maxlen=publishes_max)
        """Each publish, with its object's key before it. Plain tuples: one is made at each publish."""
        self._by_key: dict[str, list[Publish]] | None = None
        """The same by object. None: to be made anew when somebody looks, which costs less than keeping it."""
        self._rejected: deque[Rejected] = deque(maxlen=REJECTED_MAX)

    def published(self, key: str, incarnation: int, version: int, offset: int, timestamp_ms: int) -> None:
        """The object with this key has become newer, by a record with this timestamp."""
        self._latest.append((key, incarnation, version, offset, timestamp_ms))
        self._by_key = None

    def rejected(self, key: bytes | None, offset: int, timestamp_ms: int, reason: str) -> None:
        """A record was rejected."""
        text = "" if key is None else key[:1000].decode(errors="replace")
        self._rejected.append(Rejected(text, offset, timestamp_ms, reason[:_REASON_CHARS_MAX]))

    def since(self, unix_ms: int) -> Iterator[str]:
        """The object's key of each remembered publish from that time on; one that became newer twice comes twice."""
        return (key for key, _, _, _, timestamp_ms in self._latest if timestamp_ms >= unix_ms)

    def publishes(self, key: str) -> Sequence[Publish]:
        """What is remembered of the object's publishes, the oldest first; each is newer than the one before."""
        if self._by_key is None:
            self._by_key = {}
            for one, *publish in self._latest:
                self._by_key.setdefault(one, []).append(Publish._make(publish))
        return self._by_key.get(key, ())

    def rejections(self, key: str) -> list[Rejected]:
        """What is remembered of rejected records with this key, the oldest first."""
        return [one for one in self._rejected if one.key == key]
