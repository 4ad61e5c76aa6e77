"""A second opinion on what happened: the history and the topics, judged by the checker that judges live systems."""

import msgspec
from coldnotify_checker import Event, judge
from coldnotify_checker.histories import Record, Topic, parse_event
from coldnotify_schemas.records import says_raw
from coldnotify_schemas.removals import REMOVES_HEADER
from coldnotify_schemas.topics import TopicNames

from coldnotify_simulation.arrived import HEADER
from coldnotify_simulation.kafka import LogEntry
from coldnotify_simulation.promises import Broken
from coldnotify_simulation.world import World

TOPICS = TopicNames()

_DUMPED = (TOPICS.objects, TOPICS.registrations, TOPICS.sessions)


def ask(world: World) -> None:
    """Once it has settled. Raises Broken."""
    events = [event for fields in world.trace.history if (event := parse_event(msgspec.json.encode(fields)))]
    violations = judge([*events, *_dump(world)]).violations
    if violations:
        raise Broken(f"the checker says: {violations[0]}")


def _dump(world: World) -> list[Event]:
    t = round(world.clock.now_s * 1_000_000)
    events: list[Event] = []
    for name in _DUMPED:
        partitions = world.kafka.topics[name].partitions
        for number, log in enumerate(partitions):
            events += (record_of(t, name, number, entry) for entry in log.entries)
        events.append(Topic(t=t, topic=name, partitions=len(partitions)))
    return events


def record_of(t: int, topic: str, partition: int, entry: LogEntry) -> Record:
    """Returns a record as a dump at `t` has it."""
    return Record(
        t=t,
        topic=topic,
        partition=partition,
        offset=entry.offset,
        timestamp=entry.timestamp_ms,
        key=None if entry.key is None else entry.key.decode(errors="replace"),
        value=_value(entry.value),
        removes=dict(entry.headers).get(REMOVES_HEADER, b"").decode(),
        raw=says_raw(entry.headers),
        arrival=next((value.decode() for name, value in entry.headers if name == HEADER), None),
    )


def _value(value: bytes | None) -> object:
    if value is None:
        return None
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value.decode(errors="replace")
