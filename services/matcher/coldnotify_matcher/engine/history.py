"""What was published and rejected lately, as far as it is remembered: for those who look in, nothing else needs it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from coldnotify_matcher.engine.objects import Obj

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
        self._publishes_max = publishes_max
        self._order: deque[tuple[Obj, int]] = deque()
        self._of: dict[Obj, deque[Publish]] = {}
        self._rejected: deque[Rejected] = deque(maxlen=REJECTED_MAX)

    def published(self, obj: Obj, timestamp_ms: int) -> None:
        """The object has become newer, by a record with this timestamp."""
        if len(self._order) >= self._publishes_max:
            oldest, _ = self._order.popleft()
            kept = self._of[oldest]
            kept.popleft()
            if not kept:
                del self._of[oldest]
        self._order.append((obj, timestamp_ms))
        self._of.setdefault(obj, deque()).append(Publish(obj.incarnation, obj.version, obj.offset, timestamp_ms))

    def rejected(self, key: bytes | None, offset: int, timestamp_ms: int, reason: str) -> None:
        """A record was rejected."""
        text = "" if key is None else key[:1000].decode(errors="replace")
        self._rejected.append(Rejected(text, offset, timestamp_ms, reason[:_REASON_CHARS_MAX]))

    def since(self, unix_ms: int) -> Iterator[Obj]:
        """The object of each remembered publish from that time on; one that became newer twice comes twice."""
        return (obj for obj, timestamp_ms in self._order if timestamp_ms >= unix_ms)

    def publishes(self, obj: Obj) -> Sequence[Publish]:
        """What is remembered of the object's publishes, the oldest first; each is newer than the one before."""
        return self._of.get(obj, ())

    def rejections(self, key: str) -> list[Rejected]:
        """What is remembered of rejected records with this key, the oldest first."""
        return [one for one in self._rejected if one.key == key]
