"""The latest publishes and rejections, as far as they are remembered: only those who look in need them.

For each record of the objects topic its outcome is known, and the version that was the newest then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from coldnotify_schemas.records import PublicRecord

    from coldnotify_matcher.engine.objects.objects import Obj

PUBLISHED = "published"
"""The outcome of a record that brought a newer version."""
REPEATED = "repeated"
"""The outcome of a record that repeats the newest version."""
ALTERED = "altered"
"""The outcome of a record with the newest version's number and another content: clients that have the version do not
get it."""
STALE = "stale"
"""The outcome of a record with a version below the newest: no client ever receives it."""
REJECTED = "rejected"
"""The outcome of a record that could not be understood."""
REFUSED = "refused"
"""The outcome of a conditional record that is no version, because its condition did not hold."""
UNDECIDABLE = "undecidable"
"""The outcome of a conditional record whose condition does not hold, and that may repeat one that was published."""

OUTCOMES_MAX = 10_000
"""Offsets of one partition whose outcome is remembered: publishers ask within seconds."""
SET_MEMBERS_MAX = 20_000
"""Members of sets that are remembered with their outcomes, some 300 bytes each. A refused set has two offsets, and may
have a hundred of them."""
PUBLISHES_MAX = 10_000
"""For one partition: some MiB at most. For older ones, only the newest version is known."""
REJECTED_MAX = 256
"""For one partition; the topic coldnotify.rejected has them all for a week."""
_REASON_CHARS_MAX = 200


class NewerRecord(NamedTuple):
    """One record that brought a newer version."""

    incarnation: int
    version: int
    offset: int
    timestamp_ms: int


class RejectedObject(NamedTuple):
    """One record of the objects topic that could not be understood."""

    key: str
    offset: int
    timestamp_ms: int
    reason: str


class TakenMember(NamedTuple):
    """One member of a set, and the newest version of its object once the set was taken in."""

    object: str
    incarnation: int
    version: int
    """-1: it has none, or none that is known."""
    published_ms: int
    reason: str = ""
    """The reason why the set is refused because of it; "": it is not."""


class TakenRecord(NamedTuple):
    """One record and its outcome. The first five are those of a publish, after its object's key."""

    key: str
    incarnation: int
    """With `version`: the newest of the object once the record was taken in; -1: it is not known."""
    version: int
    offset: int
    published_ms: int
    """Time at which that version was published."""
    outcome: str
    reason: str = ""
    """The reason why it was rejected."""
    members: tuple[TakenMember, ...] = ()
    """The members of a set, in order; its key and version are no object's."""
    id: str = ""
    """The id of a set, or of a record with a condition; empty: it has none."""


class History:
    """The latest publishes of a partition by object, the latest rejected records, and the outcomes by offset."""

    def __init__(self, publishes_max: int = PUBLISHES_MAX, outcomes_max: int = OUTCOMES_MAX) -> None:
        self._latest: deque[tuple[str, int, int, int, int]] = deque(maxlen=publishes_max)
        """Each publish, after its object's key. Plain tuples: one is made at each publish."""
        self._by_key: dict[str, list[NewerRecord]] | None = None
        """The same by object. None: it is built at the next look, which costs less than keeping it."""
        self._rejected: deque[RejectedObject] = deque(maxlen=REJECTED_MAX)
        self._outcomes: list[TakenRecord | tuple[str, int, int, int, int] | None] = [None] * outcomes_max
        """At the offset modulo its length; a publish has the form of `_latest`. Another thread may read it."""
        self._sets: deque[tuple[int, int]] = deque()
        """Offsets of remembered sets, with their numbers of members."""
        self._set_members = 0

    def taken(self, obj: Obj, record: PublicRecord, version: int, offset: int, *, told: bool = True) -> str:
        """Returns the outcome of a record that the object is about to merge. It is remembered unless it is a
        publish, or not `told` yet."""
        incarnation = obj.incarnation if record.incarnation is None else record.incarnation
        rank, newest = (incarnation, version), (obj.incarnation, obj.version)
        if rank > newest:
            return PUBLISHED
        outcome = STALE if rank < newest else REPEATED if _says_the_same(obj, record) else ALTERED
        if told:
            self.remember(TakenRecord(obj.key, obj.incarnation, obj.version, offset, obj.published_ms, outcome))
        return outcome

    def published(
        self, key: str, incarnation: int, version: int, offset: int, timestamp_ms: int, *, told: bool = True
    ) -> None:
        """Note that the object with this key has become newer, by a record with this timestamp. `told`: its outcome is
        known from now on."""
        publish = (key, incarnation, version, offset, timestamp_ms)
        self._latest.append(publish)
        if told:
            self._outcomes[offset % len(self._outcomes)] = publish
        self._by_key = None

    def outdone_at(self, key: str, rank: tuple[int, int]) -> int:
        """Returns the offset at which the object became newer than this (incarnation, version); -1: not remembered."""
        offset = -1
        for one, incarnation, version, came_at, _ in reversed(self._latest):
            if one == key:
                if (incarnation, version) <= rank:
                    return offset
                offset = came_at
        return -1

    def rejected(self, key: bytes | None, offset: int, timestamp_ms: int, reason: str) -> None:
        """Note that a record was rejected."""
        text = "" if key is None else key[:1000].decode(errors="replace")
        self._rejected.append(RejectedObject(text, offset, timestamp_ms, reason[:_REASON_CHARS_MAX]))
        self.remember(TakenRecord(text, 0, -1, offset, timestamp_ms, REJECTED, reason[:_REASON_CHARS_MAX]))

    def outcome(self, offset: int) -> TakenRecord | None:
        """Returns the outcome of the record at this offset; None: not read, no record, or not remembered.

        May be called from any thread, at any time.
        """
        taken = self._outcomes[offset % len(self._outcomes)]
        if taken is None or taken[3] != offset:
            return None
        return taken if isinstance(taken, TakenRecord) else TakenRecord(*taken, PUBLISHED)

    def remember(self, taken: TakenRecord) -> None:
        """Remember the outcome of a record."""
        place = taken.offset % len(self._outcomes)
        there = self._outcomes[place]
        # Records that a load reads again are older than those that are remembered.
        if there is None or there[3] <= taken.offset:
            self._outcomes[place] = taken
            if taken.members:
                self._bound_sets(taken)

    def _bound_sets(self, taken: TakenRecord) -> None:
        self._sets.append((taken.offset, len(taken.members)))
        self._set_members += len(taken.members)
        while self._set_members > SET_MEMBERS_MAX:
            offset, members = self._sets.popleft()
            self._set_members -= members
            place = offset % len(self._outcomes)
            oldest = self._outcomes[place]
            if oldest is not None and oldest[3] == offset:
                self._outcomes[place] = None

    def since(self, unix_ms: int) -> Iterator[str]:
        """Yields the object's key of each remembered publish from that time on; one that became newer twice comes
        twice."""
        return (key for key, _, _, _, timestamp_ms in self._latest if timestamp_ms >= unix_ms)

    def publishes(self, key: str) -> Sequence[NewerRecord]:
        """Returns the remembered publishes of the object, the oldest first; each is newer than the one before."""
        if self._by_key is None:
            self._by_key = {}
            for one, *publish in self._latest:
                self._by_key.setdefault(one, []).append(NewerRecord._make(publish))
        return self._by_key.get(key, ())

    def rejections(self, key: str) -> list[RejectedObject]:
        """Returns the remembered rejected records with this key, the oldest first."""
        return [one for one in self._rejected if one.key == key]


def _says_the_same(obj: Obj, record: PublicRecord) -> bool:
    """Returns true if the record equals the object's newest version, however its payload is written as JSON."""
    return obj.source == record.source and same_content(obj, record)


def same_content(obj: Obj, record: PublicRecord) -> bool:
    """Returns true if the record says what the newest version says, whoever made it."""
    said = (obj.expires_at_ms, obj.deleted, obj.raw)
    return said == (record.expires_at, record.deleted, record.is_raw) and (
        obj.payload == record.payload_bytes
        or (not obj.raw and _canonical(obj.payload) == _canonical(record.payload_bytes))
    )


def _canonical(payload: bytes) -> bytes:
    try:
        return msgspec.json.encode(msgspec.json.decode(payload), order="deterministic") if payload else b""
    except RecursionError:  # as deeply nested as a readable payload may be, but read at another depth of the stack
        return payload
