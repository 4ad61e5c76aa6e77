"""Compacts the simulated topics, long after the last stale record: spares records that are not repaired yet.

A null stays until all who read its topic have read it, which takes them far less than `delete.retention.ms`.
"""

from collections.abc import Callable, Iterable

from coldnotify_schemas.atomic_sets import SET_PREFIX
from coldnotify_schemas.decisions import DECIDED_HEADER
from coldnotify_schemas.descriptions import KEY_PREFIX
from coldnotify_schemas.matcher_state import GENERATION_KEY
from coldnotify_schemas.removals import REMOVES_HEADER
from coldnotify_schemas.topics import TopicNames

from coldnotify_simulation.arrived import HEADER
from coldnotify_simulation.kafka import PARTITIONS, Kafka, LogEntry, merged_state, state_order
from coldnotify_simulation.promises import group_partition
from coldnotify_simulation.sets import SimulatedSets, groups_of
from coldnotify_simulation.truth import UNKNOWN, TrueObjects, Version

TOPICS = TopicNames()

_CLAIMS = GENERATION_KEY.encode()
_SETS = SET_PREFIX.encode()
_DESCRIBES = KEY_PREFIX.encode()
COUNTERS = "counters-"
"""Groups whose names begin so have objects that are published with conditions alone."""
_COUNTED = f"/{COUNTERS}".encode()
UnreadFrom = Callable[[str, int], int]
"""By topic and partition: the first offset that somebody has not read who reads it."""


def compact_state(kafka: Kafka, unread_from: UnreadFrom, *, at_rest: bool) -> None:
    """The topics of state. `at_rest`: all has been repaired, and no record is spared for that."""
    for partition in range(PARTITIONS):
        for topic in (TOPICS.registrations, TOPICS.sessions, TOPICS.shares):
            log = kafka.log(topic, partition)
            if not log.entries:
                continue
            winners = merged_state(log)
            last = {entry.key: entry.value for entry in log.entries}
            unsafe = {key for key, value in last.items() if key and winners.get(key.decode(errors="replace")) != value}
            claims = [state_order(e.value) for e in log.entries if e.key == _CLAIMS and e.value is not None]
            claim = last.get(_CLAIMS)
            if claim is not None and state_order(claim) == max(claims):
                unsafe.discard(_CLAIMS)
            unread = unread_from(topic, partition)
            log.compact((lambda _key: False) if at_rest else unsafe.__contains__, _at_or_above(unread))


def compact_objects(kafka: Kafka, truth: TrueObjects, groups: SimulatedSets, epoch: int, *, at_rest: bool) -> None:
    """The objects topic, of this epoch; likewise."""
    owed = {key: thing.newest[-1][1] for key, thing in truth.things.items() if thing.newest}
    for partition in range(PARTITIONS):
        log = kafka.log(TOPICS.objects, partition)
        if at_rest:
            log.compact()
            continue
        before = list(log.entries)
        last = {entry.key: entry for entry in log.entries if entry.key is not None and entry.offset < log.stable_end}
        unsafe = {key for key, entry in last.items() if _is_unsafe(entry, partition, groups, owed, epoch)}
        # What a null removes depends on what was said of its object under both keys.
        unsafe |= {_DESCRIBES + key for key in unsafe} | {key.removeprefix(_DESCRIBES) for key in unsafe}
        end = _first_undecided(log.entries)
        log.compact(unsafe.__contains__, lambda entry: _removes(entry) or _ends_set(entry), end)
        groups.on_compaction(before, log.entries)


def _is_unsafe(entry: LogEntry, partition: int, groups: SimulatedSets, owed: dict[str, Version], epoch: int) -> bool:
    """Returns true if this record, the last of its key, is not what is in force: its owner will repair that."""
    key, value = entry.key or b"", entry.value or b""
    if key.startswith(_SETS):
        return entry.value is not None
    if key.startswith(_DESCRIBES):
        return _is_described_otherwise(groups, epoch, partition, entry)
    if _COUNTED in key:
        return b'"if_' in value  # its owner will write what it decides
    newest = owed.get(key.decode(errors="replace"), UNKNOWN)
    if newest == UNKNOWN and _removes(entry):
        return False
    if any(name == HEADER for name, _ in entry.headers) and b'"version":' not in value:
        return newest != (0, entry.timestamp_ms)
    explicit = b'"version":%d' % newest[1] in value
    return not explicit or (newest[0] > 0 and b'"incarnation":%d' % newest[0] not in value)


def _first_undecided(entries: Iterable[LogEntry]) -> int | None:
    """Returns the offset of the first set without its null, or condition that no record decides: nothing from there on
    is old enough."""
    first: dict[tuple[bytes, int], int] = {}
    for entry in entries:
        key = entry.key or b""
        if key.startswith(_SETS):
            if entry.value is None:
                first.pop((key, 0), None)
            else:
                first.setdefault((key, 0), entry.offset)
        elif _COUNTED in key:
            if b'"if_' in (entry.value or b""):
                first[key, entry.offset] = entry.offset
            for name, said in entry.headers:
                if name == DECIDED_HEADER:
                    first.pop((key, int(said.split()[0].rpartition(b"/")[2])), None)
    return min(first.values(), default=None)


def _ends_set(entry: LogEntry) -> bool:
    """Returns true for the null behind a set, which stays for a day."""
    return entry.value is None and (entry.key or b"").startswith(_SETS)


def _is_described_otherwise(groups: SimulatedSets, epoch: int, partition: int, entry: LogEntry) -> bool:
    """Returns true if another description is in force than this record's, the last of its key."""
    key = (entry.key or b"").decode(errors="replace").removeprefix(KEY_PREFIX)
    domain, group, name = key.split("/", 2)
    if group_partition(group) != partition:
        return False
    thing = groups.objects.get(f"{domain}/{group}", {}).get(name)
    in_force = None if thing is None or thing.described[0] < 0 else thing.described
    alone = groups_of([(partition, [entry])], epoch).objects.get(f"{domain}/{group}", {}).get(name)
    return in_force is not None and (alone is None or alone.described != in_force)


def _at_or_above(offset: int) -> Callable[[LogEntry], bool]:
    return lambda entry: entry.offset >= offset


def _removes(entry: LogEntry) -> bool:
    return entry.value is None and any(name == REMOVES_HEADER for name, _ in entry.headers)
