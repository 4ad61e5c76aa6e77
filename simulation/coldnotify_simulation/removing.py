"""Reads what nulls in the objects topic remove; and draws what retention does in a random schedule.

A separate random generator draws retention, so that schedules without it stay unchanged.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import msgspec
from coldnotify_matcher.engine.rules.retention_rules import RetentionRules
from coldnotify_schemas.descriptions import KEY_PREFIX, parse_description_record
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import InvalidRecord
from coldnotify_schemas.removals import REMOVES_HEADER, removal_of

from coldnotify_simulation.arrived import number_of
from coldnotify_simulation.kafka import PARTITIONS, LogEntry

_NOTHING = (-1, -1)
_SHARE = 0.4
"""The share of schedules that have retention."""
PERIODS_MS = (2_000, 8_000)
"""The periods to choose from: objects are published every few seconds."""


class _Value(msgspec.Struct):
    version: int | None = None
    incarnation: int | None = None
    deleted: bool = False


_values = msgspec.json.Decoder(_Value)


@dataclass(slots=True)
class _Known:
    """The state of one object by its partition."""

    version: tuple[int, int] = _NOTHING
    deleted: bool = False
    last: int = -1
    described_ms: int = -1
    described_last: int = -1


class SimulatedRemovals:
    """Follows one reading of the objects topic, and decides what a null removes."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self._known: dict[str, _Known] = {}

    def removed(self, partition: int, entry: LogEntry) -> tuple[int, int] | None:
        """Returns the highest (incarnation, version) of its key that this record removes; None if it removes nothing.

        Pass each record, in order.
        """
        key, describes = key_of(entry)
        names = key.split("/", 2)
        if len(names) < 3 or partition_of(names[0], names[1], PARTITIONS) != partition:
            return None
        known = self._known.setdefault(key, _Known())
        removed = self._removed(known, entry, describes=describes)
        if removed is not None:
            if describes:
                known.described_ms = known.described_last = -1
            else:
                known.version, known.last = _NOTHING, -1
            return removed
        if describes:
            with suppress(InvalidRecord):
                parse_description_record(entry.value)
                known.described_ms = max(known.described_ms, entry.timestamp_ms)
            if known.described_ms >= 0:
                known.described_last = entry.offset
            return None
        with suppress(ValueError, msgspec.MsgspecError):
            value = _values.decode(entry.value or b"")
            incarnation = max(known.version[0], 0) if value.incarnation is None else value.incarnation
            number = number_of(value.version, entry, known.version)
            if number is not None and (incarnation, number) >= known.version:
                known.version, known.deleted = (incarnation, number), value.deleted
        known.last = entry.offset
        return None

    def _removed(self, known: _Known, entry: LogEntry, *, describes: bool) -> tuple[int, int] | None:
        header = dict(entry.headers).get(REMOVES_HEADER)
        said = removal_of(header) if entry.value is None and header is not None else None
        if said is None:
            return None
        rank = said.incarnation, said.version
        if (rank[1] < known.described_ms) if describes else (rank < known.version):
            return None
        if said.epoch is not None:
            published = known.version != _NOTHING
            last = max(known.last if published else -1, known.described_last)
            if said.epoch != self.epoch or last > said.read_to or (describes and published and not known.deleted):
                return None
        return rank

    def forget(self) -> None:
        """The topic is another one."""
        self._known.clear()


class Removing:
    """The retention of one schedule."""

    def __init__(
        self,
        seed: int,
        *,
        key: Callable[[], str],
        highest: Callable[[str], int],
        append: Callable[[int, bytes, tuple[tuple[str, bytes], ...]], None],
    ) -> None:
        """`append`: a null, with headers, in a partition."""
        self.random = Random(seed ^ 0x0DD)
        self.on = self.random.random() < _SHARE
        self.retention = RetentionRules()
        self.goes_on = False
        """True if it continues after faults have stopped."""
        self._key, self._highest, self._append = key, highest, append
        if self.on:
            self.retention = RetentionRules({}, self.random.choice(PERIODS_MS), self.random.choice((0, *PERIODS_MS)))
            self.goes_on = self.random.random() < 0.3

    def kinds(self) -> dict[str, tuple[float, Callable[[], None]]]:
        """Returns the actions, each with its weight among all others."""
        if not self.on:
            return {}
        return {"void null": (1.5, self.write_void_null)}

    def write_void_null(self) -> None:
        """Writes a null as a former owner would, or a stranger: it removes an older version, if any."""
        key = self._key()
        domain, group, _ = key.split("/", 2)
        prefix = self.random.choice(["", "", KEY_PREFIX])
        version = self.random.choice([0, max(self._highest(key) - 1, 0)])
        header = self.random.choice([b"nonsense", b"0/%d" % version, b"0/%d@00000000/%d" % (version, 1 << 40)])
        if prefix:
            header = self.random.choice([b"nonsense", b"0/1"])
        at = partition_of(domain, group, PARTITIONS)
        self._append(at, f"{prefix}{key}".encode(), ((REMOVES_HEADER, header),))


def key_of(entry: LogEntry) -> tuple[str, bool]:
    """(an object's key, whether the record is one of its description)."""
    key = (entry.key or b"").decode(errors="replace")
    return key.removeprefix(KEY_PREFIX), key.startswith(KEY_PREFIX)
